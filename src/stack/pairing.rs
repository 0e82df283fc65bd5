//! Finds each stack of the before among those of the after, where the code between them has changed.
//!
//! Equal keys come first. The rest differs by the effects of a change to the code: it renamed functions, moved files, put
//! frames in between. Such a change shows in frames that exist on one side only, and it is the same change in every stack
//! that it touches. So pairs that are beyond doubt, because their figures agree, teach which function became which; with
//! that known, most of the rest is equal frame by frame. Stacks that still differ then are paired by similarity, best
//! first.

mod likeness;
mod similarity;

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use rustc_hash::{FxHashMap, FxHashSet};

use super::order::{InOrder, pair_in_order};
use super::{Key, Lines, Token};

/// Figures of a group of stacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Figures {
    /// `alloc` events.
    pub allocations: u64,
    /// Blocks held at the moment that is compared.
    pub blocks: u64,
    /// Bytes held at that moment.
    pub bytes: u64,
    /// Bytes of all allocations.
    pub allocated_total: u64,
}

impl Figures {
    /// How often something was allocated: what a larger batch leaves alone.
    fn counts(self) -> (u64, u64) {
        (self.allocations, self.blocks)
    }

    /// How close two sizes are: 1 for equal ones, 0 where one is nothing.
    fn closeness(self, other: Self) -> f64 {
        let smaller = self.size().min(other.size());
        let larger = self.size().max(other.size());
        if smaller == larger {
            return 1.0;
        }
        #[allow(clippy::cast_precision_loss, reason = "only compared with one half and with each other")]
        let share = smaller as f64 / larger as f64;
        share
    }

    /// The bytes that it held, else all that it allocated.
    fn size(self) -> u64 {
        if self.bytes > 0 { self.bytes } else { self.allocated_total }
    }
}

/// A group of stacks, as far as pairing needs to know it.
#[derive(Debug, Clone)]
pub struct Group<'t> {
    /// Its identity.
    pub key: Key,
    /// The functions that tell it from others, innermost first.
    pub tokens: Vec<Token>,
    /// The one of them that is to blame, see [`super::Code::site`].
    pub site: usize,
    /// The lines of those functions in one of its stacks; 0 where unknown.
    pub lines: Vec<u32>,
    /// The operators in that stack.
    pub operators: Vec<&'t str>,
    /// Its figures.
    pub figures: Figures,
}

impl Group<'_> {
    /// The functions inside of the one to blame.
    fn inside(&self) -> &[Token] {
        &self.tokens[..self.site.min(self.tokens.len())]
    }
}

/// One side of the comparison.
struct Side<'g> {
    groups: &'g [Group<'g>],
    /// Those that are not paired yet.
    free: BTreeSet<usize>,
    /// All functions, with the lines on which they call or allocate.
    lines: Lines,
}

/// Deep recursion is cut: the innermost frames tell.
const DEEPEST: usize = 256;

/// A group is compared with at most this many candidates of one kind, which keeps the time near linear.
const MOST_CANDIDATES: usize = 8;

/// Rounds of learning, each of which builds on the one before. A change to a code base takes two or three.
const MOST_ROUNDS: usize = 8;

/// From here on two functions that exist on one side each are taken for the same one.
const SAME_FUNCTION: f64 = 0.5;

/// Pairs the groups of two sides, each by its index; one without a partner is in no pair. With the groups come
/// all functions of their snapshot, see [`super::Code::lines`]. `ratio` is how similar, from 0 to 1, stacks must
/// be whose keys differ.
#[must_use]
pub fn pair(before: (&[Group<'_>], Lines), after: (&[Group<'_>], Lines), ratio: f64) -> Vec<(usize, usize)> {
    let mut pairing = Pairing::new(Side::new(before), Side::new(after));
    pairing.unmoved();
    pairing.equal_frames();
    for _ in 0..MOST_ROUNDS {
        if pairing.is_done() || !pairing.learn() {
            break;
        }
        pairing.equal_frames();
    }
    pairing.equal_keys(|_, _| true);
    pairing.by_similarity(ratio);
    pairing.pairs.sort_unstable();
    pairing.pairs
}

/// The distances that functions of a file have moved, in lines.
#[derive(Debug, Clone, Copy)]
struct Shift {
    /// The distance of most of them.
    common: i64,
    least: i64,
    most: i64,
}

impl Shift {
    /// From distances, with the number of functions that moved by each.
    fn of(votes: &BTreeMap<i64, usize>) -> Option<Self> {
        let (&common, _) = votes.iter().max_by_key(|&(shift, count)| (count, Reverse(shift)))?;
        Some(Self { common, least: *votes.first_key_value()?.0, most: *votes.last_key_value()?.0 })
    }
}

/// Groups of both sides by their functions.
type Buckets<'g> = foldhash::HashMap<Cow<'g, [Token]>, (Vec<usize>, Vec<usize>)>;

/// Changes that pairs beyond doubt show, with the number of times that they do.
#[derive(Default)]
struct Votes {
    /// Functions of the before that became functions of the after.
    became: BTreeMap<(Token, Token), usize>,
    /// Functions that stand on one side alone.
    inserted: BTreeMap<Token, usize>,
}

impl Votes {
    /// The renames, the most frequent first: those that are seen at least as often as the function stands there alone.
    fn renames(&self) -> impl Iterator<Item = (usize, Token, Token)> {
        let mut renames: Vec<_> = self.became.iter().map(|(&(old, new), &count)| (Reverse(count), old, new)).collect();
        renames.sort_unstable();
        let renames = renames.into_iter().map(|(Reverse(count), old, new)| (count, old, new));
        renames.filter(|(count, old, new)| self.times_inserted(old) <= *count && self.times_inserted(new) <= *count)
    }

    fn times_inserted(&self, token: &Token) -> usize {
        self.inserted.get(token).copied().unwrap_or(0)
    }
}

struct Pairing<'g> {
    before: Side<'g>,
    after: Side<'g>,
    pairs: Vec<(usize, usize)>,
    /// Functions of the before by their new name in the after.
    renamed: FxHashMap<Token, Token>,
    /// Files of the before by their new place in the after.
    moved: FxHashMap<u64, u64>,
    /// Functions that the change put in between, or took away.
    dropped: FxHashSet<Token>,
    /// Functions that both sides know.
    kept: FxHashSet<Token>,
    /// The distances that the lines of a file of the after have moved.
    shifts: FxHashMap<u64, Shift>,
    /// Names of functions that exist in several files.
    common_names: FxHashSet<u64>,
}

impl<'g> Side<'g> {
    fn new((groups, mut lines): (&'g [Group<'g>], Lines)) -> Self {
        // Operations stand in for functions where there are none in Python.
        for token in groups.iter().flat_map(|group| &group.tokens) {
            lines.entry(*token).or_default();
        }
        Self { groups, free: (0..groups.len()).collect(), lines }
    }

    fn free(&self) -> impl Iterator<Item = (usize, &'g Group<'g>)> + '_ {
        self.free.iter().map(|&index| (index, &self.groups[index]))
    }

    /// The lines of some groups.
    fn lines_of(&self, groups: &[usize]) -> impl Iterator<Item = &'g [u32]> {
        groups.iter().map(|&index| &*self.groups[index].lines)
    }

    /// Some groups, which are in the order of their lines, as the pairing of lines sees them.
    fn in_order(&self, groups: &[usize]) -> Vec<InOrder<'g, Figures>> {
        let groups = groups.iter().map(|&index| &self.groups[index]);
        groups
            .map(|group| InOrder {
                lines: group.lines.clone(),
                operators: group.operators.clone(),
                counts: group.figures.counts(),
                figures: group.figures,
            })
            .collect()
    }
}

impl<'g> Pairing<'g> {
    fn new(before: Side<'g>, after: Side<'g>) -> Self {
        let kept: FxHashSet<Token> =
            before.lines.keys().filter(|token| after.lines.contains_key(token)).copied().collect();
        let mut files_by_name: FxHashMap<u64, BTreeSet<u64>> = FxHashMap::default();
        for token in before.lines.keys().chain(after.lines.keys()) {
            files_by_name.entry(token.function).or_default().insert(token.file);
        }
        // A file that was moved shows up as two.
        let common = files_by_name.into_iter().filter(|(_, files)| files.len() > 2).map(|(name, _)| name);
        let mut pairing = Self {
            pairs: Vec::new(),
            renamed: FxHashMap::default(),
            moved: FxHashMap::default(),
            dropped: FxHashSet::default(),
            shifts: FxHashMap::default(),
            common_names: common.collect(),
            kept,
            before,
            after,
        };
        pairing.measure_shifts();
        pairing
    }

    /// For every file of the after the distances that its functions have moved.
    fn measure_shifts(&mut self) {
        let mut votes: BTreeMap<u64, BTreeMap<i64, usize>> = BTreeMap::new();
        for (token, lines) in &self.before.lines {
            let token = self.renamed.get(token).copied().unwrap_or(*token);
            if let Some(shift) = self.after.lines.get(&token).and_then(|after| shape_shift(lines, after)) {
                *votes.entry(token.file).or_default().entry(shift).or_default() += 1;
            }
        }
        self.shifts = votes.into_iter().filter_map(|(file, votes)| Some((file, Shift::of(&votes)?))).collect();
    }

    fn is_done(&self) -> bool {
        self.before.free.is_empty() || self.after.free.is_empty()
    }

    fn take(&mut self, before: usize, after: usize) -> bool {
        let free = self.before.free.contains(&before) && self.after.free.contains(&after);
        if free {
            self.before.free.remove(&before);
            self.after.free.remove(&after);
            self.pairs.push((before, after));
        }
        free
    }

    /// Pairs equal keys of the same functions. Keys may hold lines, and then mean little once lines have moved.
    fn unmoved(&mut self) {
        for (before, after) in self.same_frames().into_values() {
            if !self.before.lines_of(&before).eq(self.after.lines_of(&after)) {
                self.take_in_order(&before, &after);
            }
        }
        self.equal_keys(|before, after| before.tokens == after.tokens);
    }

    /// Pairs equal keys, where the groups are `fit` for it.
    fn equal_keys(&mut self, fit: impl Fn(&Group<'_>, &Group<'_>) -> bool) {
        let by_key: HashMap<&Key, usize> = self.after.free().map(|(index, group)| (&group.key, index)).collect();
        let equal = self.before.free().filter_map(|(index, group)| Some((index, *by_key.get(&group.key)?)));
        for (before, after) in equal.collect::<Vec<_>>() {
            if fit(&self.before.groups[before], &self.after.groups[after]) {
                self.take(before, after);
            }
        }
    }

    /// Pairs groups of the same functions, which differ in their lines.
    fn take_in_order(&mut self, before: &[usize], after: &[usize]) {
        if let ([before], [after]) = (before, after) {
            self.take(*before, *after);
            return;
        }
        for (old, new) in pair_in_order(&self.before.in_order(before), &self.after.in_order(after)) {
            self.take(before[old], after[new]);
        }
    }

    /// The free groups by their functions, with the changes that are known, and in the order of their lines. Every group
    /// is in one bucket, so the order of buckets does not matter.
    fn same_frames(&self) -> Buckets<'g> {
        let mut buckets = Buckets::default();
        for (index, group) in self.before.free() {
            buckets.entry(self.translated(group)).or_default().0.push(index);
        }
        for (index, group) in self.after.free() {
            if let Some((_, after)) = buckets.get_mut(&self.reduced(group)) {
                after.push(index);
            }
        }
        buckets.retain(|tokens, (_, after)| !tokens.is_empty() && !after.is_empty());
        for (before, after) in buckets.values_mut() {
            before.sort_by_key(|&index| (&self.before.groups[index].lines, index));
            after.sort_by_key(|&index| (&self.after.groups[index].lines, index));
        }
        buckets
    }

    /// The functions of a group of the before as the after calls them.
    fn translated<'t>(&self, group: &'t Group<'_>) -> Cow<'t, [Token]> {
        if self.renamed.is_empty() {
            return self.reduced(group);
        }
        let kept = group.tokens.iter().take(DEEPEST).filter(|token| !self.dropped.contains(token));
        kept.map(|token| self.renamed.get(token).copied().unwrap_or(*token)).collect()
    }

    /// The functions of a group of the after without those that were put in between.
    fn reduced<'t>(&self, group: &'t Group<'_>) -> Cow<'t, [Token]> {
        let tokens = &group.tokens[..group.tokens.len().min(DEEPEST)];
        if self.dropped.is_empty() {
            return Cow::Borrowed(tokens);
        }
        tokens.iter().filter(|token| !self.dropped.contains(token)).copied().collect()
    }

    /// Pairs groups that are equal frame by frame, given the changes that are known.
    fn equal_frames(&mut self) {
        for (before, after) in self.same_frames().into_values() {
            self.take_in_order(&before, &after);
        }
    }

    /// Learns which function became which from pairs beyond doubt: alike, with the same figures. Returns whether it learnt
    /// something.
    fn learn(&mut self) -> bool {
        let mut by_counts: BTreeMap<(u64, u64), Vec<usize>> = BTreeMap::new();
        for (index, group) in self.after.free() {
            by_counts.entry(group.figures.counts()).or_default().push(index);
        }
        for list in by_counts.values_mut() {
            list.sort_by_key(|&index| (self.after.groups[index].figures, index));
        }
        let mut candidates = Vec::new();
        for (before, group) in self.before.free() {
            let list = by_counts.get(&group.figures.counts()).map(Vec::as_slice).unwrap_or_default();
            candidates.extend(self.nearest(list, group).iter().map(|&after| (before, after)));
        }
        let confident = self.best_first(candidates, SAME_FUNCTION, |score| score.same_figures || score.ratio > 0.8);
        let mut votes = Votes::default();
        for (before, after) in confident {
            let old = self.translated(&self.before.groups[before]);
            let new = self.reduced(&self.after.groups[after]);
            for hunk in self.hunks(&old, &new) {
                for pair in &hunk.pairs {
                    *votes.became.entry((pair.old, pair.new)).or_default() += 1;
                }
                for &token in hunk.old_only.iter().chain(&hunk.new_only).filter(|token| !self.kept.contains(token)) {
                    *votes.inserted.entry(token).or_default() += 1;
                }
            }
        }
        self.adopt(&votes)
    }

    /// Takes over the changes that most pairs show. Returns whether some are new.
    fn adopt(&mut self, votes: &Votes) -> bool {
        let known = self.renamed.len() + self.dropped.len();
        let mut taken: FxHashSet<Token> = self.renamed.values().copied().collect();
        let mut files: BTreeMap<(u64, u64), usize> = BTreeMap::new();
        for (count, old, new) in votes.renames() {
            if !self.renamed.contains_key(&old) && !taken.contains(&new) {
                self.renamed.insert(old, new);
                taken.insert(new);
                if old.file != new.file {
                    *files.entry((old.file, new.file)).or_default() += count;
                }
            }
        }
        // A file moves with all that is in it.
        let mut files: Vec<_> = files.into_iter().map(|(files, count)| (Reverse(count), files)).collect();
        files.sort_unstable();
        files.retain(|&(_, (old, new))| *self.moved.entry(old).or_insert(new) == new);
        if !files.is_empty() {
            self.move_files(files.into_iter().map(|(_, files)| files), &mut taken);
        }
        for token in votes.inserted.keys() {
            if !self.renamed.contains_key(token) && !taken.contains(token) {
                self.dropped.insert(*token);
            }
        }
        self.kept.extend(self.renamed.values());
        self.measure_shifts();
        self.renamed.len() + self.dropped.len() > known
    }

    /// Takes the functions of moved files, old and new, for the same where they have the same name.
    fn move_files(&mut self, files: impl Iterator<Item = (u64, u64)>, taken: &mut FxHashSet<Token>) {
        let gone = self.one_sided(&self.before);
        let there = self.one_sided(&self.after).into_values().flatten();
        let there: FxHashMap<(u64, u64), Token> = there.map(|token| ((token.file, token.function), token)).collect();
        for (old_file, new_file) in files {
            for &old in gone.get(&old_file).into_iter().flatten() {
                let Some(&new) = there.get(&(new_file, old.function)) else { continue };
                if !taken.contains(&new) && !self.renamed.contains_key(&old) {
                    self.renamed.insert(old, new);
                    taken.insert(new);
                }
            }
        }
    }

    /// The functions of a side that the other one does not know, by their files.
    fn one_sided(&self, side: &Side<'_>) -> FxHashMap<u64, Vec<Token>> {
        let mut files: FxHashMap<u64, Vec<Token>> = FxHashMap::default();
        for token in side.lines.keys().filter(|token| !self.kept.contains(token)) {
            files.entry(token.file).or_default().push(*token);
        }
        files
    }
}

/// The distance between two sets of lines that are otherwise the same.
fn shape_shift(old: &BTreeSet<u32>, new: &BTreeSet<u32>) -> Option<i64> {
    let shift = i64::from(*new.first()?) - i64::from(*old.first()?);
    let moved = old.iter().map(|&line| i64::from(line) + shift);
    (old.len() == new.len() && moved.eq(new.iter().map(|&line| i64::from(line)))).then_some(shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Functions as letters: a small one before a large one of the same file, `a` `A`.
    fn token(letter: char) -> Token {
        let file = u64::from(u32::from(letter.to_ascii_lowercase()));
        Token { file: file / 4, base: file / 4, function: u64::from(u32::from(letter)) }
    }

    fn group(frames: &str, line: u32, figures: u64) -> Group<'static> {
        let tokens: Vec<Token> = frames.chars().map(token).collect();
        let lines = vec![line; tokens.len()];
        let figures = Figures { allocations: figures, blocks: figures, bytes: figures << 20, allocated_total: 0 };
        Group { key: Key(frames.to_owned()), tokens, site: 0, lines, operators: Vec::new(), figures }
    }

    fn pairs(before: &[(&str, u64)], after: &[(&str, u64)]) -> Vec<(usize, usize)> {
        pair((&groups(before), Lines::default()), (&groups(after), Lines::default()), 0.75)
    }

    fn groups(side: &[(&str, u64)]) -> Vec<Group<'static>> {
        side.iter().map(|(frames, figures)| group(frames, 1, *figures)).collect()
    }

    fn function(file: u64, name: char) -> Token {
        Token { file, base: file, function: u64::from(u32::from(name)) }
    }

    fn group_of(key: &str, tokens: &[Token], figures: u64) -> Group<'static> {
        Group { key: Key(key.to_owned()), tokens: tokens.to_vec(), ..group("x", 1, figures) }
    }

    #[test]
    fn equal_keys_come_first() {
        assert_eq!(pairs(&[("abm", 1), ("acm", 2)], &[("acm", 1), ("abm", 2)]), [(0, 1), (1, 0)]);
    }

    #[test]
    fn a_rename_is_learnt_and_holds_everywhere() {
        // `b` became `x`: beyond doubt in the first two, and so also in the one that grew.
        let before = [("cbm", 1), ("dbm", 2), ("bm", 3)];
        let after = [("xm", 90), ("cxm", 1), ("dxm", 2)];
        assert_eq!(pairs(&before, &after), [(0, 1), (1, 2), (2, 0)]);
    }

    #[test]
    fn wrappers_are_learnt() {
        let before = [("am", 1), ("bm", 2), ("cm", 3)];
        let after = [("awm", 1), ("bwm", 2), ("cwm", 70)];
        assert_eq!(pairs(&before, &after), [(0, 0), (1, 1), (2, 2)]);
    }

    #[test]
    fn no_function_becomes_one_that_is_there_already() {
        // `a` and `b` exist on both sides: one stack is gone, another one is new.
        let before = [("anopqrstm", 5), ("am", 1), ("bm", 2)];
        let after = [("bnopqrstm", 5), ("am", 1), ("bm", 2)];
        assert_eq!(pairs(&before, &after), [(1, 1), (2, 2)]);
    }

    #[test]
    fn functions_of_one_name_may_go_to_two_files() {
        let main = function(9, 'm');
        // `f` of file 1 calls itself under three names of classes, and goes to the files 2 and 3; less is held as well.
        let [whole, caller, callee] = [1, 2, 3].map(|file| function(file, 'f'));
        let before =
            [group_of("a", &[whole, whole, whole, main], 8), group_of("b", &[function(8, 'g'), whole, whole, main], 3)];
        let after = [
            group_of("c", &[callee, caller, caller, main], 2),
            group_of("d", &[function(8, 'g'), caller, caller, main], 3),
        ];
        assert_eq!(pair((&before, Lines::default()), (&after, Lines::default()), 0.75), [(0, 0), (1, 1)]);
    }

    #[test]
    fn what_has_nothing_in_common_is_not_paired() {
        assert_eq!(pairs(&[("abm", 1)], &[("xyz", 9)]), []);
        assert_eq!(pairs(&[], &[("xyz", 9)]), []);
    }

    #[test]
    fn another_way_to_the_same_function_is_similar() {
        let before = [("abcdefm", 1), ("nm", 7)];
        assert_eq!(pairs(&before, &[("abcdefgm", 4), ("nm", 7), ("gnm", 9)]), [(0, 0), (1, 1)]);
        // Not with most of it different.
        assert_eq!(pairs(&[("abcdm", 1), ("hijkm", 2)], &[("ahijkm", 4), ("bcdm", 3)]), []);
    }

    fn group_at(line: u32, figures: u64) -> Group<'static> {
        Group { key: Key(line.to_string()), ..group("am", line, figures) }
    }

    #[test]
    fn moved_lines_are_paired_in_their_order() {
        let before = [(7, 1), (10, 2)].map(|(line, figures)| group_at(line, figures));
        let after = [(10, 1), (13, 9)].map(|(line, figures)| group_at(line, figures));
        assert_eq!(pair((&before, Lines::default()), (&after, Lines::default()), 0.75), [(0, 0), (1, 1)]);
    }
}

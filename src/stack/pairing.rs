//! Which stack of the after is which stack of the before, where the code between them has changed.
//!
//! Equal keys come first. What is left differs by what a change to the code did: it renamed functions, moved
//! files, put frames in between. Such a change shows in frames that exist on one side only, and it is the same
//! change in every stack that it touches. So pairs that are beyond doubt, because their figures agree, teach
//! what became what; with that known, most of the rest is equal frame by frame. What then still differs is
//! paired by similarity, best first.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;

use rustc_hash::{FxHashMap, FxHashSet};
use similar::DiffOp;

use super::order::{InOrder, diff, pair_in_order};
use super::{Key, Lines, Token};

/// What is measured of a group of stacks.
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
        let size = |figures: Self| if figures.bytes > 0 { figures.bytes } else { figures.allocated_total };
        let (a, b) = (size(self), size(other));
        if a == b {
            return 1.0;
        }
        #[allow(clippy::cast_precision_loss, reason = "only compared with one half and with each other")]
        let share = a.min(b) as f64 / a.max(b) as f64;
        share
    }
}

/// A group of stacks, as far as pairing needs to know it.
#[derive(Debug, Clone)]
pub struct Group<'t> {
    /// What it is compared by.
    pub key: Key,
    /// The functions that tell it from others, innermost first.
    pub tokens: Vec<Token>,
    /// Which of them is to blame, see [`super::Code::site`].
    pub site: usize,
    /// The lines of those functions in one of its stacks; 0 where unknown.
    pub lines: Vec<u32>,
    /// The operators in that stack.
    pub operators: Vec<&'t str>,
    /// What is measured of it.
    pub figures: Figures,
}

/// One side of the comparison.
struct Side<'g> {
    groups: &'g [Group<'g>],
    /// Which are not paired yet.
    free: BTreeSet<usize>,
    /// All functions, with the lines on which they call or allocate.
    lines: Lines,
}

/// Deep recursion is cut: the innermost frames tell.
const DEEPEST: usize = 256;

/// How many candidates of one kind a group is compared with; what keeps the time near linear.
const MOST_CANDIDATES: usize = 8;

/// How often what was learnt is built on. A change to a code base takes two or three rounds.
const MOST_ROUNDS: usize = 8;

/// What a frame weighs that exists on one side only, against 1 for one that exists on both: it is what a change
/// to the code makes.
const ONE_SIDED: f64 = 0.25;

/// What a frame weighs that both sides know and where the other stack has another such frame: no change
/// renames a function to one that is there already.
const CONTRADICTS: f64 = 3.0;

/// From here on two functions that exist on one side each are taken for the same one.
const SAME_FUNCTION: f64 = 0.5;

/// Pairs the groups of two sides, each by its index; what finds no partner is in no pair. With the groups come
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

/// By how much functions of a file have moved, in lines.
#[derive(Debug, Clone, Copy)]
struct Shift {
    /// The distance of most of them.
    common: i64,
    least: i64,
    most: i64,
}

/// Groups of both sides by their functions.
type Buckets<'g> = foldhash::HashMap<Cow<'g, [Token]>, (Vec<usize>, Vec<usize>)>;

struct Pairing<'g> {
    before: Side<'g>,
    after: Side<'g>,
    pairs: Vec<(usize, usize)>,
    /// What functions of the before are called in the after.
    renamed: FxHashMap<Token, Token>,
    /// Where files of the before lie in the after.
    moved: FxHashMap<u64, u64>,
    /// Functions that the change put in between, or took away.
    dropped: FxHashSet<Token>,
    /// Functions that both sides know.
    kept: FxHashSet<Token>,
    /// By how much the lines of a file of the after have moved.
    shifts: FxHashMap<u64, Shift>,
    /// Names of functions that exist in several files.
    common_names: FxHashSet<u64>,
}

impl<'g> Side<'g> {
    fn new((groups, mut lines): (&'g [Group<'g>], Lines)) -> Self {
        // What stands in for functions where there are none in Python.
        for token in groups.iter().flat_map(|group| &group.tokens) {
            lines.entry(*token).or_default();
        }
        Self { groups, free: (0..groups.len()).collect(), lines }
    }

    fn free(&self) -> impl Iterator<Item = (usize, &'g Group<'g>)> + '_ {
        self.free.iter().map(|&index| (index, &self.groups[index]))
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
        let shift = |votes: BTreeMap<i64, usize>| {
            let (least, most) = (*votes.first_key_value()?.0, *votes.last_key_value()?.0);
            let common = votes.into_iter().max_by_key(|&(shift, count)| (count, Reverse(shift)))?.0;
            Some(Shift { common, least, most })
        };
        self.shifts = votes.into_iter().filter_map(|(file, votes)| Some((file, shift(votes)?))).collect();
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
        let lines = |side: &Side<'g>, list: &[usize]| -> Vec<&'g [u32]> {
            list.iter().map(|&index| &*side.groups[index].lines).collect()
        };
        for (before, after) in self.same_frames().into_values() {
            if lines(&self.before, &before) != lines(&self.after, &after) {
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
        let in_order = |side: &Side<'g>, list: &[usize]| -> Vec<InOrder<'g, Figures>> {
            let groups = list.iter().map(|&index| &side.groups[index]);
            let item = |group: &'g Group<'g>| InOrder {
                lines: group.lines.clone(),
                operators: group.operators.clone(),
                counts: group.figures.counts(),
                figures: group.figures,
            };
            groups.map(item).collect()
        };
        for (old, new) in pair_in_order(&in_order(&self.before, before), &in_order(&self.after, after)) {
            self.take(before[old], after[new]);
        }
    }

    /// What is free, by its functions with what is known of their changes, and in the order of its lines. Every group is
    /// in one bucket, so their order does not matter.
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

    /// Pairs what is equal frame by frame, as far as it is known what became what.
    fn equal_frames(&mut self) {
        for (before, after) in self.same_frames().into_values() {
            self.take_in_order(&before, &after);
        }
    }

    /// Learns what became what from pairs beyond doubt: alike, with the same figures. Returns whether it learnt
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
            for &after in nearest(list, |index| self.after.groups[index].figures.cmp(&group.figures)) {
                candidates.push((before, after));
            }
        }
        let confident = self.best_first(candidates, SAME_FUNCTION, |score| score.same_figures || score.ratio > 0.8);
        let (mut became, mut inserted) = (BTreeMap::<(Token, Token), usize>::new(), BTreeMap::<Token, usize>::new());
        for (before, after) in confident {
            let (old, new) = (self.translated(&self.before.groups[before]), self.reduced(&self.after.groups[after]));
            for hunk in self.hunks(&old, &new) {
                for &(old, new, _) in &hunk.pairs {
                    *became.entry((old, new)).or_default() += 1;
                }
                for &token in hunk.old_only.iter().chain(&hunk.new_only).filter(|token| !self.kept.contains(token)) {
                    *inserted.entry(token).or_default() += 1;
                }
            }
        }
        self.adopt(&became, &inserted)
    }

    /// Takes over what most pairs say.
    fn adopt(&mut self, became: &BTreeMap<(Token, Token), usize>, inserted: &BTreeMap<Token, usize>) -> bool {
        let mut votes: Vec<_> = became.iter().map(|(&(old, new), &count)| (Reverse(count), old, new)).collect();
        votes.sort_unstable();
        let known = self.renamed.len() + self.dropped.len();
        let mut taken: FxHashSet<Token> = self.renamed.values().copied().collect();
        let rarely = |token: &Token, count: usize| inserted.get(token).copied().unwrap_or(0) <= count;
        let mut files: BTreeMap<(u64, u64), usize> = BTreeMap::new();
        for &(Reverse(count), old, new) in &votes {
            if !self.renamed.contains_key(&old) && !taken.contains(&new) && rarely(&old, count) && rarely(&new, count) {
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
        let gone = if files.is_empty() { FxHashMap::default() } else { self.one_sided(&self.before) };
        let there: FxHashMap<(u64, u64), Token> = match files.is_empty() {
            true => FxHashMap::default(),
            false => self.one_sided(&self.after).into_values().flatten().map(|t| ((t.file, t.function), t)).collect(),
        };
        for (_, (old_file, new_file)) in files {
            for &old in gone.get(&old_file).into_iter().flatten() {
                let Some(&new) = there.get(&(new_file, old.function)) else { continue };
                if !taken.contains(&new) && !self.renamed.contains_key(&old) {
                    self.renamed.insert(old, new);
                    taken.insert(new);
                }
            }
        }
        for token in inserted.keys() {
            if !self.renamed.contains_key(token) && !taken.contains(token) {
                self.dropped.insert(*token);
            }
        }
        self.kept.extend(self.renamed.values());
        self.measure_shifts();
        self.renamed.len() + self.dropped.len() > known
    }

    /// The functions of a side that the other one does not know, by their files.
    fn one_sided(&self, side: &Side<'_>) -> FxHashMap<u64, Vec<Token>> {
        let mut files: FxHashMap<u64, Vec<Token>> = FxHashMap::default();
        for token in side.lines.keys().filter(|token| !self.kept.contains(token)) {
            files.entry(token.file).or_default().push(*token);
        }
        files
    }

    /// Pairs what is left by similarity, best first.
    fn by_similarity(&mut self, ratio: f64) {
        if self.is_done() {
            return;
        }
        // Candidates have something telling in common.
        let aspects = |group: &Group<'_>, tokens: &[Token], site: Option<Token>| {
            let skeleton: Vec<Token> = tokens.iter().filter(|token| self.kept.contains(token)).copied().collect();
            let caller = skeleton.iter().find(|token| Some(**token) != site).copied();
            let (allocations, blocks) = group.figures.counts();
            let counts = Aspect::Counts(allocations, blocks);
            let mut outline = skeleton.clone();
            outline.dedup();
            [
                site.map(Aspect::Site),
                caller.map(Aspect::Caller),
                Some(Aspect::Skeleton(skeleton)),
                Some(Aspect::Outline(outline)),
                Some(counts),
            ]
        };
        let mut buckets: BTreeMap<Aspect, Vec<usize>> = BTreeMap::new();
        for (index, group) in self.after.free() {
            for aspect in aspects(group, &self.reduced(group), Self::new_site(group)).into_iter().flatten() {
                buckets.entry(aspect).or_default().push(index);
            }
        }
        for list in buckets.values_mut() {
            list.sort_by_key(|&index| (self.after.groups[index].figures, index));
        }
        let mut candidates = BTreeSet::new();
        for (before, group) in self.before.free() {
            for aspect in aspects(group, &self.translated(group), self.old_site(group)).into_iter().flatten() {
                let list = buckets.get(&aspect).map(Vec::as_slice).unwrap_or_default();
                for &after in nearest(list, |index| self.after.groups[index].figures.cmp(&group.figures)) {
                    candidates.insert((before, after));
                }
            }
        }
        for (before, after) in self.best_first(candidates.into_iter().collect(), ratio, |_| true) {
            self.take(before, after);
        }
    }

    /// The function to blame in a group of the before, as the after calls it.
    fn old_site(&self, group: &Group<'_>) -> Option<Token> {
        let token = group.tokens.get(group.site)?;
        Some(self.renamed.get(token).copied().unwrap_or(*token))
    }

    fn new_site(group: &Group<'_>) -> Option<Token> {
        group.tokens.get(group.site).copied()
    }

    /// The candidates that are at least as similar as `ratio`, the best first and each group once.
    fn best_first(
        &self,
        candidates: Vec<(usize, usize)>,
        ratio: f64,
        accept: impl Fn(&Score) -> bool,
    ) -> Vec<(usize, usize)> {
        let mut scored: Vec<(Score, usize, usize)> = candidates
            .into_iter()
            .filter_map(|(before, after)| Some((self.score(before, after)?, before, after)))
            .filter(|(score, ..)| score.ratio >= ratio && accept(score))
            .collect();
        scored.sort_by(|(a, a_before, a_after), (b, b_before, b_after)| {
            let ratio = b.ratio.total_cmp(&a.ratio);
            let figures = b.same_figures.cmp(&a.same_figures);
            let size = b.closeness.total_cmp(&a.closeness);
            ratio.then(figures).then(size).then_with(|| (a_before, a_after).cmp(&(b_before, b_after)))
        });
        let (mut used_before, mut used_after) = (FxHashSet::default(), FxHashSet::default());
        let mut chosen = Vec::new();
        for (_, before, after) in scored {
            if !used_before.contains(&before) && !used_after.contains(&after) {
                used_before.insert(before);
                used_after.insert(after);
                chosen.push((before, after));
            }
        }
        chosen
    }

    /// How similar two groups are, or `None` where they cannot be the same.
    fn score(&self, before: usize, after: usize) -> Option<Score> {
        let (before, after) = (&self.before.groups[before], &self.after.groups[after]);
        let (old, new) = (self.translated(before), self.reduced(after));
        let same_figures = before.figures == after.figures;
        if !same_figures && !old.iter().any(|token| new.contains(token)) {
            // Nothing in common.
            return None;
        }
        let closeness = before.figures.closeness(after.figures);
        let (mut matched, mut lost) = (0.0, 0.0);
        let mut sites = None;
        let (old_site, new_site) = (self.old_site(before)?, Self::new_site(after)?);
        for hunk in self.hunks(&old, &new) {
            matched += hunk.equal.iter().map(|token| self.weight(token)).sum::<f64>();
            for &(old, new, alike) in &hunk.pairs {
                matched += ONE_SIDED * alike;
                // Less than for two that have nothing in common: a rename is the smaller change.
                lost += ONE_SIDED / 2.0 * (1.0 - alike);
                if old == old_site && new == new_site {
                    sites = Some(alike + does_the_same(before, after));
                }
            }
            let has_kept = |tokens: &[Token]| tokens.iter().any(|token| self.kept.contains(token));
            let factor = if has_kept(&hunk.old_only) && has_kept(&hunk.new_only) { CONTRADICTS } else { 1.0 };
            lost += factor * hunk.old_only.iter().chain(&hunk.new_only).map(|token| self.weight(token)).sum::<f64>();
        }
        let agree = if old_site == new_site {
            true
        } else if let Some(alike) = sites {
            alike >= SAME_FUNCTION || same_figures
        } else if self.is_split_off(before, after) {
            true
        } else {
            // One of them put a function in between: the next one that both know must be the same.
            let innermost = |tokens: &[Token]| tokens.iter().find(|token| self.kept.contains(token)).copied();
            let one_sided = !self.kept.contains(&old_site) || !self.kept.contains(&new_site);
            let next = innermost(&old);
            one_sided && next.is_some() && next == innermost(&new) && closeness >= 0.5
        };
        let total = 2.0 * matched + lost;
        (agree && total > 0.0).then(|| Score { ratio: 2.0 * matched / total, same_figures, closeness })
    }

    /// Whether the function to blame went to another file, under its name. Where a file becomes two, functions of one name
    /// (`forward` of several classes) are one in the before and two in the after.
    fn is_split_off(&self, before: &Group<'_>, after: &Group<'_>) -> bool {
        let (Some(old), Some(new)) = (before.tokens.get(before.site), after.tokens.get(after.site)) else {
            return false;
        };
        old.function == new.function && !self.after.lines.contains_key(old) && !self.before.lines.contains_key(new)
    }

    fn weight(&self, token: &Token) -> f64 {
        if self.kept.contains(token) { 1.0 } else { ONE_SIDED }
    }

    /// What two stacks have in common, and what differs between that.
    fn hunks(&self, old: &[Token], new: &[Token]) -> Vec<Hunk> {
        let hunk = |op: DiffOp| match op {
            DiffOp::Equal { old_index, len, .. } => {
                Hunk { equal: old[old_index..old_index + len].to_vec(), ..Hunk::default() }
            }
            op => {
                let (_, old_range, new_range) = op.as_tag_tuple();
                self.align((old, old_range), (new, new_range))
            }
        };
        diff(old, new).into_iter().map(hunk).collect()
    }

    /// Pairs the functions that vanished with those that appeared in their place, in order, so that they are as
    /// alike as can be.
    fn align(&self, (all_old, old): (&[Token], Range<usize>), (all_new, new): (&[Token], Range<usize>)) -> Hunk {
        const MOST: usize = 32;
        let mut hunk = Hunk::default();
        let (old, new) = (&all_old[old], &all_new[new]);
        let count = |all: &[Token], token: Token| all.iter().filter(|other| **other == token).count();
        let candidates = |list: &[Token]| -> Vec<usize> {
            (0..list.len()).filter(|&i| !self.kept.contains(&list[i])).take(MOST).collect()
        };
        let (old_free, new_free) = (candidates(old), candidates(new));
        // The longest common subsequence with weights; the tables are small.
        let columns = new_free.len() + 1;
        let mut best = vec![0.0_f64; (old_free.len() + 1) * columns];
        let alike = |i: usize, j: usize| {
            let (old, new) = (old[old_free[i]], new[new_free[j]]);
            // A little for any pair: what stands in the same place is more likely the same. But a wrapper that
            // stands there again and again is no new name of what stood there once.
            let same_place = if count(all_old, old) == count(all_new, new) { 0.01 } else { 0.0 };
            (self.alike(old, new), same_place)
        };
        let alikes: Vec<(f64, f64)> = (0..old_free.len())
            .flat_map(|i| (0..new_free.len()).map(move |j| (i, j)))
            .map(|(i, j)| alike(i, j))
            .collect();
        let value = |i: usize, j: usize| {
            let (alike, same_place) = alikes[i * new_free.len() + j];
            alike + same_place
        };
        for i in (0..old_free.len()).rev() {
            for j in (0..new_free.len()).rev() {
                let both = value(i, j) + best[(i + 1) * columns + j + 1];
                best[i * columns + j] = both.max(best[(i + 1) * columns + j]).max(best[i * columns + j + 1]);
            }
        }
        let (mut i, mut j) = (0, 0);
        let (mut used_old, mut used_new) = (BTreeSet::new(), BTreeSet::new());
        while i < old_free.len() && j < new_free.len() {
            let here = best[i * columns + j];
            // Where it makes no difference the inner one: wrappers stand outside.
            if value(i, j) > 0.0 && here <= value(i, j) + best[(i + 1) * columns + j + 1] {
                hunk.pairs.push((old[old_free[i]], new[new_free[j]], alikes[i * new_free.len() + j].0));
                used_old.insert(old_free[i]);
                used_new.insert(new_free[j]);
                (i, j) = (i + 1, j + 1);
            } else if here <= best[(i + 1) * columns + j] {
                i += 1;
            } else {
                j += 1;
            }
        }
        hunk.old_only = (0..old.len()).filter(|i| !used_old.contains(i)).map(|i| old[i]).collect();
        hunk.new_only = (0..new.len()).filter(|i| !used_new.contains(i)).map(|i| new[i]).collect();
        hunk
    }

    /// How much speaks for a function that vanished being one that appeared, from 0 to 1.
    fn alike(&self, old: Token, new: Token) -> f64 {
        let name = match old.function == new.function {
            true if self.common_names.contains(&old.function) => 0.3,
            true => 0.6,
            false => 0.0,
        };
        let file = match self.moved.get(&old.file).copied().unwrap_or(old.file) == new.file {
            true => 0.3,
            false if old.base == new.base => 0.2,
            false => 0.0,
        };
        let lines = match (self.before.lines.get(&old), self.after.lines.get(&new)) {
            (Some(old_lines), Some(new_lines)) => self.same_lines(new.file, old_lines, new_lines),
            _ => 0.0,
        };
        (name + file + lines).clamp(0.0, 1.0)
    }

    /// What the lines of two functions say: whether one stands where the other would after the move of its file.
    fn same_lines(&self, file: u64, old: &BTreeSet<u32>, new: &BTreeSet<u32>) -> f64 {
        /// Functions further apart than that are others.
        const APART: i64 = 20;
        let Some(moved) = shape_shift(old, new) else { return 0.0 };
        match self.shifts.get(&file) {
            _ if old.len() > 1 => 0.4,
            Some(shift) if moved == shift.common => 0.4,
            Some(shift) if moved < shift.least - APART || moved > shift.most + APART => -0.2,
            None if moved == 0 => 0.4,
            _ => 0.0,
        }
    }
}

/// What speaks for two functions being the same that they get their memory in the same way.
fn does_the_same(before: &Group<'_>, after: &Group<'_>) -> f64 {
    let inside = |group: &Group| group.tokens[..group.site.min(group.tokens.len())].to_vec();
    let (old, new) = (inside(before), inside(after));
    let told = !old.is_empty() || !before.operators.is_empty();
    if told && old == new && before.operators == after.operators { 0.25 } else { 0.0 }
}

/// The distance between two sets of lines that are otherwise the same.
fn shape_shift(old: &BTreeSet<u32>, new: &BTreeSet<u32>) -> Option<i64> {
    let shift = i64::from(*new.first()?) - i64::from(*old.first()?);
    let moved = old.iter().map(|&line| i64::from(line) + shift);
    (old.len() == new.len() && moved.eq(new.iter().map(|&line| i64::from(line)))).then_some(shift)
}

/// How similar two groups are.
#[derive(Debug, Clone, Copy)]
struct Score {
    ratio: f64,
    same_figures: bool,
    closeness: f64,
}

/// What groups that may be the same have in common.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Aspect {
    Site(Token),
    Caller(Token),
    Skeleton(Vec<Token>),
    /// The skeleton with runs of one function put together: functions of one name in one file may move to several.
    Outline(Vec<Token>),
    Counts(u64, u64),
}

/// A part of the difference between two stacks.
#[derive(Debug, Default)]
struct Hunk {
    equal: Vec<Token>,
    /// What became what, and how alike they are.
    pairs: Vec<(Token, Token, f64)>,
    old_only: Vec<Token>,
    new_only: Vec<Token>,
}

/// The part of a sorted list around where `order` turns.
fn nearest(list: &[usize], order: impl Fn(usize) -> std::cmp::Ordering) -> &[usize] {
    let at = list.partition_point(|&index| order(index).is_lt());
    let end = (at + MOST_CANDIDATES / 2).max(MOST_CANDIDATES).min(list.len());
    &list[end.saturating_sub(MOST_CANDIDATES)..end]
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
        let groups = |side: &[(&str, u64)]| side.iter().map(|(frames, n)| group(frames, 1, *n)).collect::<Vec<_>>();
        let (before, after) = (groups(before), groups(after));
        pair((&before, Lines::default()), (&after, Lines::default()), 0.75)
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
        let function = |file: u64, function: char| Token { file, base: file, function: u64::from(u32::from(function)) };
        let group_of = |tokens: &[Token], figures: u64| Group { tokens: tokens.to_vec(), ..group("x", 1, figures) };
        let main = function(9, 'm');
        // `f` of file 1 calls itself under three names of classes, and goes to the files 2 and 3; less is held as well.
        let [whole, caller, callee] = [1, 2, 3].map(|file| function(file, 'f'));
        let before = [
            Group { key: Key("a".to_owned()), ..group_of(&[whole, whole, whole, main], 8) },
            Group { key: Key("b".to_owned()), ..group_of(&[function(8, 'g'), whole, whole, main], 3) },
        ];
        let after = [
            Group { key: Key("c".to_owned()), ..group_of(&[callee, caller, caller, main], 2) },
            Group { key: Key("d".to_owned()), ..group_of(&[function(8, 'g'), caller, caller, main], 3) },
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

    #[test]
    fn moved_lines_are_paired_in_their_order() {
        let groups = |lines: &[(u32, u64)]| -> Vec<Group<'static>> {
            let group =
                |&(line, figures): &(u32, u64)| Group { key: Key(line.to_string()), ..group("am", line, figures) };
            lines.iter().map(group).collect()
        };
        let (before, after) = (groups(&[(7, 1), (10, 2)]), groups(&[(10, 1), (13, 9)]));
        assert_eq!(pair((&before, Lines::default()), (&after, Lines::default()), 0.75), [(0, 0), (1, 1)]);
    }
}

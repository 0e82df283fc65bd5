//! Finds each stack of the before among those of the after, where the code between them has changed.
//!
//! Equal keys come first. The rest differs by the effects of a change to the code: it renamed functions, moved files,
//! put frames in between. Such a change shows in frames that exist on one side only, and it is the same change in every
//! stack that it touches. So pairs that are beyond doubt, because their figures agree, teach which function became
//! which; with that known, most of the rest is equal frame by frame. Stacks that still differ then are paired by
//! similarity, best first.

mod functions;
mod group;
mod joined;
mod learning;
mod likeness;
mod similarity;

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};

use rustc_hash::{FxHashMap, FxHashSet};

use super::order::{InOrder, pair_in_order};
use super::{Key, Token};
use functions::tokens_of;
use ptmem_base::sides::{Side, Sides};

pub use functions::ComparedFunctions;
pub use group::{GroupFigures, StackGroup};

/// Deep recursion is cut: the innermost frames are sufficient.
const DEEPEST: usize = 256;

/// A group is compared with at most this many candidates of one kind, which keeps the time near linear.
const MOST_CANDIDATES: usize = 8;

/// Rounds of learning, each of which builds on the one before. A change to a code base takes two or three.
const MOST_ROUNDS: usize = 8;

/// From here on two functions that exist on one side each are taken for the same one. Needed for
/// `changes/moved-and-larger`.
const SAME_FUNCTION: f64 = 0.5;

/// One side of the comparison.
struct PairingSide<'g> {
    groups: &'g [StackGroup<'g>],
    /// Those that are not paired yet.
    free: BTreeSet<usize>,
}

impl<'g> PairingSide<'g> {
    fn new(groups: &'g [StackGroup<'g>]) -> Self {
        Self { groups, free: (0..groups.len()).collect() }
    }

    fn free(&self) -> impl Iterator<Item = (usize, &'g StackGroup<'g>)> + '_ {
        self.free.iter().map(|&index| (index, &self.groups[index]))
    }

    /// The lines of some groups.
    fn lines_of(&self, groups: &[usize]) -> impl Iterator<Item = &'g [u32]> {
        groups.iter().map(|&index| &*self.groups[index].lines)
    }

    /// Some groups, which are in the order of their lines, as the pairing of lines sees them.
    fn in_order(&self, groups: &[usize]) -> Vec<InOrder<'g>> {
        let groups = groups.iter().map(|&index| &self.groups[index]);
        groups.map(|group| InOrder { operators: &group.operators, figures: group.figures }).collect()
    }
}

/// The groups of two sides that are the same ones, each by its index.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Paired {
    /// Those of the before with those of the after; a group is in one pair at most.
    pub pairs: Vec<(usize, usize)>,
    /// Groups that are another part of one in `pairs`, with that one: a change to the code took it apart or put it
    /// together.
    pub parts: Vec<(usize, usize)>,
    /// Groups without a partner that allocate where one on the other side does, with that one, apart from functions that only one
    /// side has. They need not hold the same.
    pub callers: Vec<(usize, usize)>,
    /// Groups of one autograd node, where a change to the code moved some of its allocations into or out of checkpoints with re-entry.
    pub nodes: Vec<Sides<Vec<usize>>>,
}

/// Pairs the groups of two sides; one without a partner is in no pair. `functions` are those of the files that the groups
/// come from. `ratio` is how similar, from 0 to 1, stacks must be whose keys differ.
pub fn pair(groups: Sides<&[StackGroup<'_>]>, functions: &ComparedFunctions, ratio: f64) -> Paired {
    let mut pairing = Pairing::new(groups, functions);
    pairing.unmoved();
    pairing.equal_frames();
    for _ in 0..MOST_ROUNDS {
        if pairing.is_done() || !pairing.learn(ratio) {
            break;
        }
        pairing.equal_frames();
    }
    pairing.equal_keys(|_, _| true);
    pairing.by_similarity(ratio);
    pairing.join_parts();
    pairing.find_callers();
    pairing.find_nodes();
    pairing.found.pairs.sort_unstable();
    pairing.found
}

/// Groups of both sides by their functions.
type Buckets<'g> = foldhash::HashMap<Cow<'g, [Token]>, (Vec<usize>, Vec<usize>)>;

struct Pairing<'g> {
    before: PairingSide<'g>,
    after: PairingSide<'g>,
    functions: &'g ComparedFunctions,
    /// The functions of the groups. Operations replace functions if there are none in Python.
    tokens: Sides<FxHashSet<Token>>,
    found: Paired,
    /// Functions of the before by their new name in the after.
    renamed: FxHashMap<Token, Token>,
    /// Files of the before by their new place in the after.
    moved: FxHashMap<u64, u64>,
    /// Functions that the change put in between, or took away.
    dropped: FxHashSet<Token>,
    /// Functions of the groups that both sides know.
    kept: FxHashSet<Token>,
    /// The distance in lines that most functions of a file of the after have moved, where renames change it.
    renamed_shifts: FxHashMap<u64, i64>,
    /// Names of functions that exist in several files.
    common_names: FxHashSet<u64>,
}

impl<'g> Pairing<'g> {
    fn new(groups: Sides<&'g [StackGroup<'g>]>, functions: &'g ComparedFunctions) -> Self {
        let tokens = groups.map(|groups| tokens_of(groups));
        let common_names = functions.common_among(&tokens);
        let mut pairing = Self {
            before: PairingSide::new(groups.before),
            after: PairingSide::new(groups.after),
            functions,
            tokens,
            found: Paired::default(),
            renamed: FxHashMap::default(),
            moved: FxHashMap::default(),
            dropped: FxHashSet::default(),
            kept: FxHashSet::default(),
            renamed_shifts: FxHashMap::default(),
            common_names,
        };
        let all = pairing.tokens.before.iter().chain(&pairing.tokens.after);
        pairing.kept = all.filter(|token| Side::BOTH.iter().all(|&side| pairing.has(side, token))).copied().collect();
        pairing
    }

    /// True if a side has a function, on this device or another.
    fn has(&self, side: Side, token: &Token) -> bool {
        self.functions.shapes.of(side).contains_key(token) || self.tokens.of(side).contains(token)
    }

    fn is_done(&self) -> bool {
        self.before.free.is_empty() || self.after.free.is_empty()
    }

    fn take(&mut self, before: usize, after: usize) -> bool {
        let free = self.before.free.contains(&before) && self.after.free.contains(&after);
        if free {
            self.before.free.remove(&before);
            self.after.free.remove(&after);
            self.found.pairs.push((before, after));
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
    fn equal_keys(&mut self, fit: impl Fn(&StackGroup<'_>, &StackGroup<'_>) -> bool) {
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

    /// The free groups by their functions, with the changes that are known, and in the order of their lines. Every
    /// group is in one bucket, so the order of buckets does not matter.
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
    fn translated<'t>(&self, group: &'t StackGroup<'_>) -> Cow<'t, [Token]> {
        if self.renamed.is_empty() {
            return self.reduced(group);
        }
        let kept = group.tokens.iter().take(DEEPEST).filter(|token| !self.dropped.contains(token));
        kept.map(|token| self.renamed.get(token).copied().unwrap_or(*token)).collect()
    }

    /// The functions of a group of the after without those that were put in between.
    fn reduced<'t>(&self, group: &'t StackGroup<'_>) -> Cow<'t, [Token]> {
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
}

#[cfg(test)]
mod tests;

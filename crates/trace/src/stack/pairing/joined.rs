//! Groups that a change to the code split or joined. Functions of one name in one file, such as `forward` of several
//! classes, are one function in a stack; once their classes are in several files they are several. A function that was extracted
//! takes a part of its caller with it.

use std::collections::{BTreeMap, HashSet};

use ptmem_base::sides::{Side, Sides};

use super::{Pairing, StackGroup, Token};

/// Groups of both sides whose functions have the same names, whatever their files.
type Namesakes = Sides<Vec<usize>>;

impl Pairing<'_> {
    /// Finds groups without a partner that are a part of one on the other side: under the same names of functions, both
    /// sides allocate equally often, and no function replaces another one while both sides have both.
    pub(super) fn join_parts(&mut self) {
        for pair in self.parts_of_wholes(false) {
            // The whole has one partner; the other parts go with it.
            if !self.take(pair.0, pair.1) {
                self.found.parts.push(pair);
            }
        }
        self.found.parts.sort_unstable();
    }

    /// Finds the same where the functions that one side lacks do not count: one may have been extracted or inlined. What two
    /// programs have in common may be no more than the function that calls all others, so that one of the two must have a partner.
    pub(super) fn find_callers(&mut self) {
        for (before, after) in self.parts_of_wholes(true) {
            if self.before.free.contains(&before) != self.after.free.contains(&after) {
                self.found.callers.push((before, after));
            }
        }
        self.found.callers.sort_unstable();
    }

    /// Finds the groups of each node that another part of its allocations is in, within checkpoints, than on the other side. A
    /// checkpoint runs the same nodes in the same order as autograd itself would. Groups with a partner that allocates as often
    /// stay apart.
    pub(super) fn find_nodes(&mut self) {
        let settled = self.settled(|_, _| false);
        let sides =
            [(Side::Before, self.before.groups, settled.before), (Side::After, self.after.groups, settled.after)];
        let mut nodes: BTreeMap<&[Token], NodeGroups> = BTreeMap::new();
        for (side, groups, settled) in sides {
            let others = groups.iter().enumerate().filter(|(at, of)| of.node > 0 && !settled.contains(at));
            others.for_each(|(at, of)| nodes.entry(&of.tokens[..of.node]).or_default().add(side, at, of));
        }
        self.found.nodes = nodes.into_values().filter(NodeGroups::moved).map(|node| node.groups).collect();
    }

    /// The groups of one side that are parts of one on the other, with that one, but for pairs.
    fn parts_of_wholes(&self, without_unknown: bool) -> Vec<(usize, usize)> {
        let mut found = Vec::new();
        if self.before.free.is_empty() && self.after.free.is_empty() {
            return found;
        }
        let paired: HashSet<(usize, usize)> = self.found.pairs.iter().copied().collect();
        for (names, namesakes) in self.namesakes(without_unknown) {
            let mut parts = parts_of_whole(&namesakes);
            parts.retain(|&(old, new)| !self.are_others(old, new));
            if !names.is_empty() && self.allocate_equally_often(&parts) {
                found.extend(parts.into_iter().filter(|pair| !paired.contains(pair)));
            }
        }
        found
    }

    /// The groups by the names of their functions, without those that are settled: their partner has other names, or
    /// allocates as often.
    fn namesakes(&self, without_unknown: bool) -> BTreeMap<Vec<u64>, Namesakes> {
        let mut names = self.names();
        if without_unknown {
            let known = names.map(|names| names.iter().flatten().copied().collect::<HashSet<u64>>());
            names.before.iter_mut().for_each(|names| names.retain(|name| known.after.contains(name)));
            names.after.iter_mut().for_each(|names| names.retain(|name| known.before.contains(name)));
        }
        let Sides { before, after } = names;
        let settled = self.settled(|old, new| before[old] != after[new]);
        let mut namesakes: BTreeMap<Vec<u64>, Namesakes> = BTreeMap::new();
        for (index, names) in before.into_iter().enumerate().filter(|(index, _)| !settled.before.contains(index)) {
            namesakes.entry(names).or_default().before.push(index);
        }
        for (index, names) in after.into_iter().enumerate().filter(|(index, _)| !settled.after.contains(index)) {
            if let Some(found) = namesakes.get_mut(&names) {
                found.after.push(index);
            }
        }
        namesakes
    }

    /// The groups whose partner allocates as often, or is another one in some way.
    fn settled(&self, are_others: impl Fn(usize, usize) -> bool) -> Sides<HashSet<usize>> {
        let pairs = self.found.pairs.iter().copied().filter(|&(old, new)| {
            let [before, after] = [self.before.groups[old].figures, self.after.groups[new].figures];
            before.allocations == after.allocations || are_others(old, new)
        });
        let (before, after) = pairs.unzip();
        Sides { before, after }
    }

    /// The functions of each group, those of the before as the after names them.
    fn names(&self) -> Sides<Vec<Vec<u64>>> {
        // A function that went to another file may look like one that was put in between: here all of them count.
        let renamed = |token: &Token| self.renamed.get(token).unwrap_or(token).name;
        let before = self.before.groups.iter().map(|group| group.tokens.iter().map(renamed).collect());
        let after = self.after.groups.iter().map(|group| group.tokens.iter().map(|token| token.name).collect());
        Sides { before: before.collect(), after: after.collect() }
    }

    /// Whether the groups of both sides in some pairs, each once, allocate equally often.
    fn allocate_equally_often(&self, pairs: &[(usize, usize)]) -> bool {
        let (before, after): (HashSet<usize>, HashSet<usize>) = pairs.iter().copied().unzip();
        let before = before.iter().map(|&index| u128::from(self.before.groups[index].figures.allocations));
        let after = after.iter().map(|&index| u128::from(self.after.groups[index].figures.allocations));
        before.sum::<u128>() == after.sum::<u128>()
    }
}

/// The groups of an autograd node.
#[derive(Default)]
struct NodeGroups {
    groups: Sides<Vec<usize>>,
    /// The number of their allocations that autograd itself makes.
    plain: Sides<u128>,
    /// The number of those within checkpoints.
    checkpointed: Sides<u128>,
}

impl NodeGroups {
    fn add(&mut self, side: Side, at: usize, group: &StackGroup<'_>) {
        self.groups.of_mut(side).push(at);
        let is_plain = group.tokens.len() == group.node;
        let count = if is_plain { &mut self.plain } else { &mut self.checkpointed };
        *count.of_mut(side) += u128::from(group.figures.allocations);
    }

    /// Whether the part of its allocations within checkpoints differs.
    fn moved(&self) -> bool {
        let [now, earlier] =
            [(self.checkpointed.after, self.plain.before), (self.checkpointed.before, self.plain.after)]
                .map(|(checkpointed, plain)| checkpointed.saturating_mul(plain));
        now != earlier
    }
}

/// The groups of one side with the only one on the other.
fn parts_of_whole(namesakes: &Namesakes) -> Vec<(usize, usize)> {
    match (&namesakes.before[..], &namesakes.after[..]) {
        ([whole], parts) => parts.iter().map(|&part| (*whole, part)).collect(),
        (parts, [whole]) => parts.iter().map(|&part| (part, *whole)).collect(),
        _ => Vec::new(),
    }
}

//! Stacks that a change to the code moved from one group to another, with all of their memory.
//!
//! Groups are paired as a whole. But a change splits and joins groups: without its decorator, the `forward` of one
//! class calls like that of another; attention that moves to a file of its own takes a part of a group with it. Equally
//! many bytes in equally many blocks on both sides are neither growth nor shrinkage.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, HashSet};

use ptmem_base::sides::{Side, Sides};
use ptmem_trace::profile::{DeviceProfile, ExactStack, GroupMember, StackTotal};
use ptmem_trace::stack::{GroupBy, Grouper, Paired, SnapshotCode, Token};

use super::converted::converted;
use super::exchanged::{OperatorStacks, exchanged};
use super::extracted::{ExtractedStacks, extracted};
use super::likeness::Likeness;
use super::stacks::matched;
use super::unpaired::{Alike, SameCode, SideFunctions, UnpairedStack, summed, without, without_partner};

/// The most stacks of one kind that are compared with each other: the time grows with their square.
pub(super) const MOST_ALIKE: usize = 64;

/// The groups of both sides of a device as they are compared, and which of them are the same ones.
pub(super) struct Compared<'t> {
    pub(super) stacks: Sides<Cow<'t, [StackTotal]>>,
    pub(super) pairs: Vec<(usize, usize)>,
}

/// Whether stacks of this grouping are followed where code moved. By frames, a stack is what was recorded, to the last frame of
/// C++, of which a saved profile keeps no more than a digest.
fn is_followed(by: GroupBy) -> bool {
    by.is_place() && by != GroupBy::Frames
}

/// Puts groups together that a change to the code took apart, and what moved between groups of the before into those of the
/// after.
pub(super) fn follow<'t>(
    devices: Sides<Option<&'t DeviceProfile>>,
    groupers: Sides<&Grouper<'_>>,
    Paired { mut pairs, parts, .. }: Paired,
) -> Compared<'t> {
    let mut stacks = devices.map(|device| Cow::Borrowed(device.map(|device| &*device.stacks).unwrap_or_default()));
    let Some(devices) = devices.both().filter(|devices| {
        let is_known = devices.each().iter().all(|(_, device)| device.knows_stacks());
        is_known && groupers.each().iter().all(|(_, grouper)| is_followed(grouper.by()))
    }) else {
        return Compared { stacks, pairs };
    };
    let mut group_of = joined(&stacks, &pairs, &parts);
    for (side, moved) in group_of.each().into_iter().filter(|(_, moved)| !moved.is_empty()) {
        *stacks.of_mut(side) = Cow::Owned(devices.of(side).regrouped(groupers.of(side), &[], moved));
    }
    let mut rows = Rows::new(stacks.map(|stacks| &**stacks), &pairs);
    let moves = rows.moves(devices, groupers);
    if !moves.is_empty() {
        let mut new = Vec::new();
        for moved in &moves {
            let row = &mut rows.all[moved.to];
            for stack in moved.elsewhere(Side::Before) {
                let group = *row.groups.before.get_or_insert_with(|| {
                    new.push(stack.member.stack);
                    let group = stacks.before.len() + new.len() - 1;
                    pairs.extend(row.groups.after.map(|after| (group, after)));
                    group
                });
                let all = of_code(&rows.same_code.before, stack).into_iter();
                group_of.before.extend(all.map(|exact| (exact, group)));
            }
            let after = moved.elsewhere(Side::After).flat_map(|stack| of_code(&rows.same_code.after, stack));
            group_of.after.extend(after.zip(row.groups.after.into_iter().cycle()));
        }
        stacks.before = Cow::Owned(devices.before.regrouped(groupers.before, &new, &group_of.before));
        if moves.iter().any(|moved| moved.elsewhere(Side::After).next().is_some()) {
            stacks.after = Cow::Owned(devices.after.regrouped(groupers.after, &[], &group_of.after));
        }
    }
    Compared { stacks, pairs }
}

/// The groups that stacks of groups go to which are a part of another one.
fn joined(
    stacks: &Sides<Cow<'_, [StackTotal]>>,
    pairs: &[(usize, usize)],
    parts: &[(usize, usize)],
) -> Sides<HashMap<ExactStack, usize>> {
    let after_of: HashMap<usize, usize> = pairs.iter().copied().collect();
    let before_of: HashMap<usize, usize> = pairs.iter().map(|&(before, after)| (after, before)).collect();
    let mut group_of = Sides::<HashMap<ExactStack, usize>>::default();
    for (before, after) in parts {
        let (side, part, whole) = match (before_of.get(after), after_of.get(before)) {
            (Some(&whole), None) => (Side::Before, *before, whole),
            (None, Some(&whole)) => (Side::After, *after, whole),
            _ => continue,
        };
        let members = stacks.of(side)[part].members.iter();
        group_of.of_mut(side).extend(members.map(|member| (member.exact(), whole)));
    }
    group_of
}

/// Groups that are compared with each other, by their positions.
struct ComparedGroups {
    groups: Sides<Option<usize>>,
    /// Bytes gained.
    gained: i128,
}

/// Stacks of both sides that are the same code, and the row that they go to.
struct StackMove {
    stacks: Sides<Vec<UnpairedStack>>,
    to: usize,
}

impl StackMove {
    /// The stacks that are in other rows.
    fn elsewhere(&self, side: Side) -> impl Iterator<Item = &UnpairedStack> {
        self.stacks.of(side).iter().filter(|stack| stack.row != self.to)
    }
}

struct Rows<'t> {
    stacks: Sides<&'t [StackTotal]>,
    all: Vec<ComparedGroups>,
    same_code: Sides<SameCode>,
}

/// The stacks that one stands for.
fn of_code(same_code: &SameCode, stack: &UnpairedStack) -> Vec<ExactStack> {
    let exact = stack.member.exact();
    same_code.get(&exact).cloned().unwrap_or_else(|| vec![exact])
}

/// Bytes of a group at the compared moment; `None` if the group does not exist.
fn held(stacks: &[StackTotal], group: Option<usize>) -> i128 {
    group.map_or(0, |group| i128::from(stacks[group].at.bytes))
}

impl<'t> Rows<'t> {
    fn new(stacks: Sides<&'t [StackTotal]>, pairs: &[(usize, usize)]) -> Self {
        let mut all = Vec::new();
        for groups in matched(stacks.map(|stacks| stacks.len()), pairs) {
            let Sides { before, after } = groups;
            all.push(ComparedGroups { groups, gained: held(stacks.after, after) - held(stacks.before, before) });
        }
        Self { stacks, all, same_code: Sides::default() }
    }

    /// The stacks that are in other rows on the other side.
    fn moves(&mut self, devices: Sides<&DeviceProfile>, groupers: Sides<&Grouper<'_>>) -> Vec<StackMove> {
        let codes = groupers.map(|grouper| grouper.code());
        let changed = (0..self.all.len()).filter(|&row| self.all[row].gained != 0);
        let changed: Vec<_> = changed.flat_map(|row| self.stacks_of_row(row, codes)).collect();
        let exchanged = exchanged(&changed, devices, codes).into_iter();
        let mut moves: Vec<_> = exchanged.filter_map(|same| self.takes(same)).collect();
        let mut left = Sides::<Vec<UnpairedStack>>::default();
        for of in changed {
            let Sides { before, after } = without_partner(of.held);
            left.before.extend(before);
            left.after.extend(after);
        }
        let left = without(&left, &taken(&moves));
        if left.before.is_empty() || left.after.is_empty() {
            return moves;
        }
        let functions =
            Sides::BOTH.map(|&side| SideFunctions::new(self.stacks.of(side), left.of(side), codes.of(side)));
        // Sizes that are equal by chance do not count where the order of lines says which is which.
        let by_lines = extracted(&left, codes, &functions).into_iter().filter(ExtractedStacks::are_certain);
        moves.extend(by_lines.filter_map(|same| self.takes(same.stacks)));
        let left = without(&left, &taken(&moves));
        moves.extend(self.pair_alike(&left, codes, &functions));
        let left = without(&left, &taken(&moves));
        let left = Sides {
            before: summed(&left.before, codes.before, &mut self.same_code.before),
            after: summed(&left.after, codes.after, &mut self.same_code.after),
        };
        moves.extend(self.pair_alike(&left, codes, &functions));
        let left = without(&left, &taken(&moves));
        for same in extracted(&left, codes, &functions) {
            // Only rows of stacks name the lines that they sum.
            if same.is_pair() || groupers.after.by() == GroupBy::Stack {
                moves.extend(self.takes(same.stacks));
            }
        }
        let mut unheld = HashMap::new();
        for Sides { before, after } in converted(&without(&left, &taken(&moves)), codes) {
            let UnpairedStack { row, member, is_backward } = before;
            let of_row = unheld.entry(row).or_insert_with(|| self.unheld(row, codes.after));
            let of_code = of_row.remove(functions.before.of(member.stack)).unwrap_or_default();
            let of_code = of_code.into_iter().map(|member| UnpairedStack { row, member, is_backward });
            let after = [after].into_iter().chain(of_code).collect();
            moves.extend(self.takes(Sides { before: vec![before], after }));
        }
        moves
    }

    /// The stacks of a row that hold nothing in the after at the compared moment, by their functions. They belong to the same row as
    /// a converted one of this code, whose highest is the most that all of them held.
    fn unheld(&self, row: usize, after: &SnapshotCode<'_>) -> HashMap<Vec<Token>, Vec<GroupMember>> {
        let mut by_code = HashMap::<_, Vec<GroupMember>>::new();
        let group = self.all[row].groups.after.map(|group| &self.stacks.after[group]);
        for member in group.into_iter().flat_map(|group| &group.members).filter(|member| member.at.bytes == 0) {
            by_code.entry(after.tokens(member.stack)).or_default().push(*member);
        }
        by_code
    }

    /// Pairs stacks of equal sizes, counts and passes.
    fn pair_alike(
        &mut self,
        left: &Sides<Vec<UnpairedStack>>,
        codes: Sides<&SnapshotCode<'_>>,
        functions: &Sides<SideFunctions>,
    ) -> Vec<StackMove> {
        let mut alike = Alike::new();
        for (side, stacks) in left.each() {
            stacks.iter().for_each(|&stack| alike.entry(stack.kind()).or_default().of_mut(side).push(stack));
        }
        let of_both = alike.into_values().filter(|Sides { before, after }| !before.is_empty() && !after.is_empty());
        of_both.flat_map(|alike| self.pair(&alike, codes, functions)).collect()
    }

    /// The stacks of a row on both sides, by the pass and the operator that allocated.
    fn stacks_of_row(&self, row: usize, codes: Sides<&SnapshotCode<'_>>) -> Vec<OperatorStacks> {
        let mut alike = BTreeMap::<_, OperatorStacks>::new();
        for (side, group) in self.all[row].groups.each() {
            let code = codes.of(side);
            let members = group.map(|group| &*self.stacks.of(side)[group].members).unwrap_or_default();
            for &member in members {
                let is_backward = code.is_backward(member.stack);
                let of = alike.entry((is_backward, code.allocating_operator(member.stack))).or_default();
                if member.at.bytes > 0 {
                    of.held.of_mut(side).push(UnpairedStack { row, member, is_backward });
                } else {
                    of.freed.of_mut(side).push(member.stack);
                }
            }
        }
        alike.into_values().collect()
    }

    /// Pairs stacks of one kind where both rows change less for it: those of one operator first, and those with most frames in
    /// common.
    fn pair(
        &mut self,
        alike: &Sides<Vec<UnpairedStack>>,
        codes: Sides<&SnapshotCode<'_>>,
        functions: &Sides<SideFunctions>,
    ) -> Vec<StackMove> {
        let [before, after] = alike.each().map(|(_, left)| &left[..left.len().min(MOST_ALIKE)]);
        let old = before.iter().map(|left| Likeness::new(codes, Side::Before, left.member.stack, functions));
        let new = after.iter().map(|left| Likeness::new(codes, Side::After, left.member.stack, functions));
        let new: Vec<_> = new.collect();
        let mut scored = Vec::new();
        for (i, old) in old.enumerate() {
            scored.extend(new.iter().enumerate().filter_map(|(j, new)| Some((old.score(new)?, i, j))));
        }
        scored.sort_by(|a, b| b.0.0.cmp(&a.0.0).then(b.0.1.total_cmp(&a.0.1)).then((a.1, a.2).cmp(&(b.1, b.2))));
        let mut taken = Sides { before: vec![false; before.len()], after: vec![false; after.len()] };
        let mut moves = Vec::new();
        for (_, i, j) in scored {
            let is_free = !taken.before[i] && !taken.after[j];
            let same = Sides { before: vec![before[i]], after: vec![after[j]] };
            if let Some(moved) = is_free.then(|| self.takes(same)).flatten() {
                taken.before[i] = true;
                taken.after[j] = true;
                moves.push(moved);
            }
        }
        moves
    }

    /// Moves stacks that are the same code to one row, if all rows together change less for it.
    fn takes(&mut self, same: Sides<Vec<UnpairedStack>>) -> Option<StackMove> {
        let to = same.after.iter().max_by_key(|stack| stack.member.at.bytes)?.row;
        let moved = StackMove { stacks: same, to };
        let mut gained = BTreeMap::from([(to, self.all[to].gained)]);
        for (side, sign) in [(Side::Before, 1), (Side::After, -1)] {
            for stack in moved.elsewhere(side) {
                let bytes = sign * i128::from(stack.member.at.bytes);
                *gained.entry(stack.row).or_insert(self.all[stack.row].gained) += bytes;
                *gained.entry(to).or_default() -= bytes;
            }
        }
        let was: i128 = gained.keys().map(|&row| self.all[row].gained.abs()).sum();
        let is_less = gained.values().map(|gained| gained.abs()).sum::<i128>() < was;
        if is_less {
            gained.into_iter().for_each(|(row, gained)| self.all[row].gained = gained);
        }
        is_less.then_some(moved)
    }
}

/// The stacks that moved.
fn taken(moves: &[StackMove]) -> HashSet<(usize, ExactStack)> {
    moves.iter().flat_map(|moved| moved.stacks.each()).flat_map(|(_, stacks)| stacks).map(UnpairedStack::id).collect()
}

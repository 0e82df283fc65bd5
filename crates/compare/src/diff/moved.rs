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
use super::unpaired::{SameCode, SideFunctions, UnpairedStack, by_kind, summed, without_partner};

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
    let totals = stacks.map(|stacks| &**stacks);
    let mut group_of = joined(totals, &pairs, &parts);
    let mut rows = Rows::new(totals, &pairs, &group_of, groupers);
    rows.find_moves(devices);
    let mut new = Vec::new();
    for moved in std::mem::take(&mut rows.moves) {
        let groups = &mut rows.all[moved.to].groups;
        for stack in moved.elsewhere(Side::Before) {
            let group = *groups.before.get_or_insert_with(|| {
                new.push(stack.member.stack);
                let group = totals.before.len() + new.len() - 1;
                pairs.extend(groups.after.map(|after| (group, after)));
                group
            });
            group_of.before.extend(rows.same_code.before.all(stack).map(|exact| (exact, group)));
        }
        let after = moved.elsewhere(Side::After).flat_map(|stack| rows.same_code.after.all(stack));
        group_of.after.extend(after.zip(groups.after.into_iter().cycle()));
    }
    let new = Sides { before: new, after: Vec::new() };
    for (side, moved) in group_of.each().into_iter().filter(|(_, moved)| !moved.is_empty()) {
        *stacks.of_mut(side) = Cow::Owned(devices.of(side).regrouped(groupers.of(side), new.of(side), moved));
    }
    Compared { stacks, pairs }
}

/// The groups that stacks of groups go to which are a part of another one.
fn joined(stacks: Sides<&[StackTotal]>, pairs: &[(usize, usize)], parts: &[(usize, usize)]) -> Sides<GroupOfStack> {
    let after_of: HashMap<usize, usize> = pairs.iter().copied().collect();
    let before_of: HashMap<usize, usize> = pairs.iter().map(|&(before, after)| (after, before)).collect();
    let mut group_of = Sides::<GroupOfStack>::default();
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

/// The groups of stacks that went to another one.
type GroupOfStack = HashMap<ExactStack, usize>;

/// Groups that are compared with each other, by their positions.
struct ComparedGroups {
    groups: Sides<Option<usize>>,
    members: Sides<Vec<GroupMember>>,
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

/// When stacks that seem to be the same code move to one row.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Condition {
    /// If all rows together change less.
    LessChange,
    /// If they change no more, and the code shows that they are the same: the row that lost them has gained as much by something else,
    /// or more. Not if the most that a row gains would fall below a limit.
    SameChange,
}

/// The rows of a comparison, and what moves between them.
struct Rows<'t> {
    codes: Sides<&'t SnapshotCode<'t>>,
    by: GroupBy,
    all: Vec<ComparedGroups>,
    /// The stacks that their row lacks on the other side.
    left: Sides<Vec<UnpairedStack>>,
    /// The functions of all stacks.
    functions: Sides<SideFunctions>,
    same_code: Sides<SameCode>,
    moves: Vec<StackMove>,
    /// The stacks that moved.
    taken: HashSet<(usize, ExactStack)>,
}

impl<'t> Rows<'t> {
    fn new(
        stacks: Sides<&[StackTotal]>,
        pairs: &[(usize, usize)],
        group_of: &Sides<GroupOfStack>,
        groupers: Sides<&'t Grouper<'t>>,
    ) -> Self {
        let members = Sides::BOTH.map(|&side| members(stacks.of(side), group_of.of(side)));
        let all = matched(stacks.map(|stacks| stacks.len()), pairs).into_iter();
        let all = all.map(|groups| ComparedGroups::new(groups, &members));
        Self {
            codes: groupers.map(|grouper| grouper.code()),
            by: groupers.after.by(),
            all: all.collect(),
            left: Sides::default(),
            functions: Sides::default(),
            same_code: Sides::default(),
            moves: Vec::new(),
            taken: HashSet::new(),
        }
    }

    /// Finds the stacks that are in other rows on the other side.
    fn find_moves(&mut self, devices: Sides<&DeviceProfile>) {
        let codes = self.codes;
        let stacks = Sides::BOTH.map(|&side| {
            let members = self.all.iter().flat_map(|row| row.members.of(side));
            members.map(|member| member.stack).collect()
        });
        self.functions = SideFunctions::of_both(&stacks, codes);
        let changed = (0..self.all.len()).filter(|&row| self.all[row].gained != 0).collect();
        self.find_alike(changed, devices, Condition::LessChange);
        self.left = self.left();
        for (side, code) in codes.each() {
            let left = summed(self.left.of(side), code, self.same_code.of_mut(side));
            *self.left.of_mut(side) = left;
        }
        self.pair_alike(Condition::LessChange);
        for same in extracted(&self.left(), codes, &self.functions) {
            // Only rows of stacks name the lines that they sum.
            if same.is_pair() || self.by == GroupBy::Stack {
                self.takes(same.stacks, Condition::LessChange);
            }
        }
        let mut unheld = HashMap::new();
        for Sides { before, after } in converted(&self.left(), codes) {
            let UnpairedStack { row, member, is_backward } = before;
            let of_row = unheld.entry(row).or_insert_with(|| self.unheld(row));
            let of_code = of_row.remove(&codes.before.tokens(member.stack)).unwrap_or_default();
            let of_code = of_code.into_iter().map(|member| UnpairedStack { row, member, is_backward });
            let after = [after].into_iter().chain(of_code).collect();
            self.takes(Sides { before: vec![before], after }, Condition::LessChange);
        }
        // Last: stacks elsewhere may have lost by chance what such a row gains.
        self.find_alike((0..self.all.len()).collect(), devices, Condition::SameChange);
    }

    /// Finds the stacks of some rows that are in other rows on the other side.
    fn find_alike(&mut self, rows: Vec<usize>, devices: Sides<&DeviceProfile>, condition: Condition) {
        let codes = self.codes;
        let all: Vec<_> = rows.into_iter().flat_map(|row| self.stacks_of_row(row)).collect();
        exchanged(&all, devices, codes).into_iter().for_each(|same| self.takes(same, condition));
        self.left = Sides::default();
        for of in all {
            let Sides { before, after } = without_partner(&of.held);
            self.left.before.extend(before);
            self.left.after.extend(after);
        }
        self.left = self.left();
        // Sizes that are equal by chance do not count where the order of lines says which is which.
        for same in extracted(&self.left, codes, &self.functions).into_iter().filter(ExtractedStacks::are_certain) {
            self.takes(same.stacks, condition);
        }
        self.pair_alike(condition);
    }

    /// The stacks without a partner that did not move.
    fn left(&self) -> Sides<Vec<UnpairedStack>> {
        self.left.map(|stacks| stacks.iter().copied().filter(|stack| !self.taken.contains(&stack.id())).collect())
    }

    /// The stacks of a row that hold nothing in the after at the compared moment, by their functions. They belong to the same row as
    /// a converted one of this code, whose highest is the most that all of them held.
    fn unheld(&self, row: usize) -> HashMap<Vec<Token>, Vec<GroupMember>> {
        let mut by_code = HashMap::<_, Vec<GroupMember>>::new();
        for member in self.all[row].members.after.iter().filter(|member| member.at.bytes == 0) {
            by_code.entry(self.codes.after.tokens(member.stack)).or_default().push(*member);
        }
        by_code
    }

    /// The stacks of a row on both sides, by the pass and the operator that allocated.
    fn stacks_of_row(&self, row: usize) -> Vec<OperatorStacks> {
        let mut alike = BTreeMap::<_, OperatorStacks>::new();
        for (side, members) in self.all[row].members.each() {
            let code = self.codes.of(side);
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

    /// Pairs stacks of equal sizes, counts and passes where both rows change less for it: those of one operator first, and those
    /// with most frames in common.
    fn pair_alike(&mut self, condition: Condition) {
        for alike in by_kind(&self.left()) {
            let [olds, news] = alike.each().map(|(side, left)| {
                let first = left[..left.len().min(MOST_ALIKE)].iter();
                let code = self.codes.of(side);
                let functions = self.functions.of(side.other());
                first.map(|stack| Likeness::new(code, stack.member.stack, functions)).collect::<Vec<_>>()
            });
            let mut scored = Vec::new();
            for (i, old) in olds.iter().enumerate() {
                scored.extend(news.iter().enumerate().filter_map(|(j, new)| Some((old.score(new)?, i, j))));
            }
            scored.sort_by(|a, b| b.0.0.cmp(&a.0.0).then(b.0.1.total_cmp(&a.0.1)).then((a.1, a.2).cmp(&(b.1, b.2))));
            for (_, i, j) in scored {
                let (before, after) = (alike.before[i], alike.after[j]);
                // An operator in place of one that takes as much may also have come beside another use of that.
                let has_grown = self.all[before.row].gained > 0;
                if condition == Condition::LessChange || has_grown && olds[i].is_certain(&news[j]) {
                    self.takes(Sides { before: vec![before], after: vec![after] }, condition);
                }
            }
        }
    }

    /// Moves stacks that are the same code to one row, unless one of them moved already.
    fn takes(&mut self, same: Sides<Vec<UnpairedStack>>, condition: Condition) {
        let Some(to) = same.after.iter().max_by_key(|stack| stack.member.at.bytes).map(|stack| stack.row) else {
            return;
        };
        if same.each().into_iter().flat_map(|(_, stacks)| stacks).any(|stack| self.taken.contains(&stack.id())) {
            return;
        }
        let moved = StackMove { stacks: same, to };
        let mut gained = BTreeMap::from([(to, self.all[to].gained)]);
        for (side, sign) in [(Side::Before, 1), (Side::After, -1)] {
            for stack in moved.elsewhere(side) {
                let bytes = sign * i128::from(stack.member.at.bytes);
                *gained.entry(stack.row).or_insert(self.all[stack.row].gained) += bytes;
                *gained.entry(to).or_default() -= bytes;
            }
        }
        let was = gained.keys().map(|&row| self.all[row].gained);
        let (change, most) = (was.clone().map(i128::abs).sum::<i128>(), was.max());
        let less = change - gained.values().map(|gained| gained.abs()).sum::<i128>();
        let is_met = match condition {
            Condition::LessChange => less > 0,
            Condition::SameChange => less >= 0 && self.all[to].gained > 0 && gained.values().max() >= most.as_ref(),
        };
        if is_met {
            gained.into_iter().for_each(|(row, gained)| self.all[row].gained = gained);
            for (side, stacks) in moved.stacks.each() {
                let all =
                    stacks.iter().flat_map(|stack| self.same_code.of(side).all(stack).map(|exact| (stack.row, exact)));
                self.taken.extend(all);
            }
            self.moves.push(moved);
        }
    }
}

/// The stacks of each group of a side, those that are a part of another group in that one.
fn members(groups: &[StackTotal], group_of: &GroupOfStack) -> Vec<Vec<GroupMember>> {
    let mut members = vec![Vec::new(); groups.len()];
    for (at, total) in groups.iter().enumerate() {
        for member in &total.members {
            members[group_of.get(&member.exact()).copied().unwrap_or(at)].push(*member);
        }
    }
    members
}

impl ComparedGroups {
    fn new(groups: Sides<Option<usize>>, members: &Sides<Vec<Vec<GroupMember>>>) -> Self {
        let members =
            Sides::BOTH.map(|&side| groups.of(side).map(|at| members.of(side)[at].clone()).unwrap_or_default());
        let held = members.map(|members| members.iter().map(|member| i128::from(member.at.bytes)).sum::<i128>());
        Self { groups, gained: held.after - held.before, members }
    }
}

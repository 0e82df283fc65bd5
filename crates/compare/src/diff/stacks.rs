//! Pairs the stacks of both sides, and computes the change of each.

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashSet};

use ptmem_base::sides::Side;
use ptmem_snapshot::snapshot::StackId;
use ptmem_trace::profile::{DeviceProfile, ErrorBound, GroupMember, Held, StackTotal, lines_of};
use ptmem_trace::replay::Position;
use ptmem_trace::stack::{
    ComparedFunctions, GroupBy, GroupFigures, Grouper, InOrder, Key, Label, Paired, SnapshotCode, StackGroup, pair,
    pair_in_order, tell_apart,
};

use super::checkpoints::joint_changes;
use super::row::{largest_first, line_of};
use super::{ChangeKind, DiffOptions, Row, RowKind, RowLine, RowLines};
use ptmem_base::sides::Sides;

/// Compares the stacks of both sides.
pub(super) fn rows(
    stacks: Sides<&[StackTotal]>,
    devices: Sides<Option<&DeviceProfile>>,
    groupers: &Sides<Grouper<'_>>,
    pairs: &[(usize, usize)],
    peaks: Sides<Option<Position>>,
) -> Vec<Row> {
    let groups = matched(stacks.map(|stacks| stacks.len()), pairs).into_iter();
    // All of a group may have moved to others.
    let totals = groups.map(|at| stacks.zip(at).map(|(of, at)| at.map(|at| &of[at]).filter(|total| is_left(total))));
    let totals: Vec<_> = totals.collect();
    let joint = joint_changes(&totals, devices, groupers);
    let mut rows = Vec::new();
    for (at, totals) in totals.into_iter().enumerate() {
        rows.extend(row(totals, groupers, peaks).map(|row| Row { joint: joint.get(&at).copied(), ..row }));
    }
    let shared: Vec<String> = rows.iter().map(|row| row.label.clone()).collect();
    tell_apart(&mut rows, |row| &mut row.label, |row| naming_stack(row, groupers));
    for (row, shared) in rows.iter_mut().zip(shared).filter(|(row, shared)| row.label != *shared) {
        row.aliases.retain(|alias| *alias != row.label);
        row.aliases.push(shared);
    }
    rows.sort_by(largest_change_first);
    rows
}

/// Whether a group still has something after what moved went elsewhere.
fn is_left(total: &StackTotal) -> bool {
    total.bucket.is_some() || !total.members.is_empty()
}

/// Every group of both sides once, by its position: those of pairs together, the others alone.
pub(super) fn matched(counts: Sides<usize>, pairs: &[(usize, usize)]) -> Vec<Sides<Option<usize>>> {
    let mut is_alone = counts.map(|count| vec![true; *count]);
    let mut all = Vec::new();
    for &(before, after) in pairs {
        is_alone.before[before] = false;
        is_alone.after[after] = false;
        all.push(Sides { before: Some(before), after: Some(after) });
    }
    for (side, is_alone) in is_alone.each() {
        for at in (0..is_alone.len()).filter(|&at| is_alone[at]) {
            let mut alone = Sides::default();
            *alone.of_mut(side) = Some(at);
            all.push(alone);
        }
    }
    all
}

/// Among rows of equal size, growth comes first; then an order that is always the same.
fn largest_change_first(a: &Row, b: &Row) -> Ordering {
    let size = b.delta().unsigned_abs().cmp(&a.delta().unsigned_abs());
    size.then_with(|| b.delta().cmp(&a.delta()))
        .then_with(|| b.held.after.bytes.cmp(&a.held.after.bytes))
        .then_with(|| a.label.cmp(&b.label))
        .then_with(|| a.key.cmp(&b.key))
}

/// The key and the stack that name a row: those of the after, if it is there.
fn naming_stack<'g>(row: &Row, groupers: &'g Sides<Grouper<'g>>) -> Option<(Key, &'g Grouper<'g>, StackId)> {
    let side = if row.is_gone { Side::Before } else { Side::After };
    let stack = row.stack.of(side).filter(|_| row.kind == RowKind::Stack)?;
    Some((Key(row.key.clone()), groupers.of(side), stack))
}

/// The stacks of two profiles that are the same ones, by their positions on both sides: equal by what they are compared
/// by, or similar where the code has changed; with parts of stacks that a change to the code took apart or put together.
pub(crate) fn paired(
    stacks: Sides<&[StackTotal]>,
    groupers: Sides<&Grouper<'_>>,
    functions: &ComparedFunctions,
    options: DiffOptions,
) -> Paired {
    let sides = stacks.zip(groupers).map_at_once(|&(totals, grouper)| groups(totals, grouper));
    pair(sides.map(|groups| &**groups), functions, options.match_ratio)
}

/// The groups of a side in the form that pairing needs. Groups that are not places in the code are paired by key only.
fn groups<'g>(totals: &[StackTotal], grouper: &'g Grouper<'_>) -> Vec<StackGroup<'g>> {
    let mut groups = Vec::with_capacity(totals.len());
    for total in totals {
        let figures = GroupFigures {
            allocations: total.allocations,
            blocks: total.at.blocks,
            bytes: total.at.bytes,
            allocated_total: total.allocated_total,
        };
        let key = total.key.clone();
        groups.push(match total.stack().filter(|_| grouper.by().is_place()) {
            Some(stack) => grouper.group(key, stack, figures),
            None => StackGroup { key, figures, ..StackGroup::default() },
        });
    }
    groups
}

/// The kind of change of a stack, if the peaks of the two sides may be at different places.
fn change(held: &Sides<Held>, totals: Sides<Option<&StackTotal>>, peaks: Sides<Option<Position>>) -> ChangeKind {
    let kind = ChangeKind::of(held);
    let empty = match kind {
        ChangeKind::Added => Side::Before,
        ChangeKind::Removed => Side::After,
        _ => return kind,
    };
    let highest = totals.of(empty).and_then(|total| total.highest).filter(|highest| highest.bytes > 0);
    let Some((highest, peak)) = highest.zip(*peaks.of(empty)) else { return kind };
    let other = held.of(empty.other());
    match kind {
        _ if highest.bytes >= other.bytes && highest.at < peak => ChangeKind::HeldEarlier,
        _ if highest.bytes >= other.bytes => ChangeKind::HeldLater,
        ChangeKind::Added => ChangeKind::Grew,
        _ => ChangeKind::Shrank,
    }
}

fn row(
    totals: Sides<Option<&StackTotal>>,
    groupers: &Sides<Grouper<'_>>,
    peaks: Sides<Option<Position>>,
) -> Option<Row> {
    let Sides { before, after } = totals;
    let named = after.or(before)?;
    let held = totals.map(|total| total.map(|total| total.at).unwrap_or_default());
    let change = change(&held, totals, peaks);
    let requested = totals.map(|total| total.map_or(0, |total| total.requested));
    let highest = totals.map(|total| total.map_or(Some(0), |total| total.highest.map(|highest| highest.bytes)));
    // A stack that holds nothing on one side did not move.
    let moved = before.zip(after).is_some_and(|(before, after)| before.key != after.key)
        && held.before.bytes > 0
        && held.after.bytes > 0;
    let members = Members::new(totals, groupers);
    let most = totals.both().and_then(|_| members.changed_most(&held));
    // Of the lines that a stack sums, one that went names it: any that is left is another one.
    let sums_lines = groupers.after.by() == GroupBy::Stack;
    let is_gone = after.is_none() || sums_lines && most.is_some_and(|pair| pair.after.is_none());
    let first = totals.map(|total| total.and_then(StackTotal::stack));
    let stack = most.unwrap_or_default().zip(first).map(|(member, first)| member.map(|member| member.stack).or(*first));
    let explained_by = members.explaining(stack, moved, held.delta());
    let is_resized = members.are_resized();
    let lines = match groupers.after.by() {
        GroupBy::Stack if members.pairs.len() > 1 => members.lines(),
        GroupBy::Module => RowLines { more: named.more_modules(), ..RowLines::default() },
        _ => RowLines::default(),
    };
    let side = if is_gone { Side::Before } else { Side::After };
    let naming = stack.of(side).filter(|_| groupers.of(side).by().is_place());
    let label = naming.map_or_else(|| named.label.clone(), |stack| groupers.of(side).label(stack));
    Some(Row {
        kind: named.bucket.map_or(RowKind::Stack, RowKind::Bucket),
        change,
        moved,
        aliases: aliases(&label, totals, stack, groupers),
        label,
        is_gone,
        key: named.key.0.clone(),
        requested,
        held,
        highest,
        held_errors: errors(totals.map(|total| total.map(|total| total.at_bound).unwrap_or_default())),
        highest_errors: errors(totals.map(|total| total.map(|total| total.highest_bound).unwrap_or_default())),
        supposed: totals.map(|total| total.map(|total| total.supposed.clone()).unwrap_or_default()),
        stack,
        explained_by,
        is_resized,
        members: members.pairs,
        lines,
        shapes: shapes(totals),
        ..Row::default()
    })
}

/// The names of a row beside its label.
fn aliases(
    label: &str,
    totals: Sides<Option<&StackTotal>>,
    stack: Sides<Option<StackId>>,
    groupers: &Sides<Grouper<'_>>,
) -> Vec<String> {
    let mut aliases: Vec<String> =
        [totals.after, totals.before].into_iter().flatten().map(|total| total.label.clone()).collect();
    aliases.extend(stack.before.filter(|_| groupers.before.by().is_place()).map(|stack| groupers.before.label(stack)));
    aliases.sort();
    aliases.dedup();
    aliases.retain(|alias| alias != label);
    aliases
}

/// How far figures may be from the truth, for their difference: bounds that the same blocks make cancel.
pub(super) fn errors(bounds: Sides<ErrorBound>) -> Sides<u64> {
    if ErrorBound::is_shared(bounds) { Sides::default() } else { bounds.map(|bound| bound.bytes) }
}

/// The exact stacks of a row, paired across the change by their order.
struct Members<'g> {
    pairs: Vec<Sides<Option<GroupMember>>>,
    groupers: &'g Sides<Grouper<'g>>,
}

impl<'g> Members<'g> {
    fn new(totals: Sides<Option<&StackTotal>>, groupers: &'g Sides<Grouper<'g>>) -> Self {
        let members = totals.map(|total| total.map_or(&[][..], |total| &total.members));
        if members.before.len() <= 1 && members.after.len() <= 1 {
            return Self { pairs: vec![members.map(|members| members.first().copied())], groupers };
        }
        let codes = groupers.map(Grouper::code);
        let stacks = members.zip(codes).map(|(members, code)| SummedStack::in_order(members, code));
        Self { pairs: SummedStack::pairs(stacks.map(|stacks| &**stacks)), groupers }
    }

    /// Whether all have a partner with the same operators and as many blocks, larger or smaller by one ratio.
    fn are_resized(&self) -> bool {
        let mut ratio = None;
        self.pairs.iter().filter(|pair| pair.each().iter().any(|(_, member)| held(**member).bytes > 0)).all(|pair| {
            let Some(pair) = pair.both() else { return false };
            let own = super::row::resized(pair.map(|member| member.at.bytes));
            let Sides { before, after } =
                pair.zip(self.groupers.map(Grouper::code)).map(|(member, code)| code.operator_names(member.stack));
            let is_one_to_one = pair.before.at.blocks == pair.after.at.blocks && before == after;
            is_one_to_one && own.is_some() && *ratio.get_or_insert_with(|| own.clone()) == own
        })
    }

    /// The one that changed most in the direction of the row, which gives it its name: a group may hold several lines
    /// of one function.
    fn changed_most(&self, of_row: &Sides<Held>) -> Option<Sides<Option<GroupMember>>> {
        let sign = if of_row.delta() < 0 { -1 } else { 1 };
        let gains = self.pairs.iter().map(|pair| (*pair, sign * pair.map(|member| held(*member)).delta()));
        // The first of the largest.
        let most = gains.rev().max_by_key(|(_, gained)| *gained).filter(|(_, gained)| *gained > 0);
        most.map(|(pair, _)| pair)
    }

    /// The stacks whose frames explain a row of which `stack` changed most.
    fn explaining(&self, stack: Sides<Option<StackId>>, moved: bool, delta: i128) -> Sides<Option<StackId>> {
        let mut pairs = self.pairs.iter().map(|pair| pair.map(|member| member.map(|of| of.stack)));
        let is_pair = pairs.clone().any(|pair| pair == stack);
        if is_pair && (stack.missing().is_some() || self.is_known(stack)) {
            return stack;
        }
        // Of many stacks, one is asked: each takes a look at all.
        let first = pairs.find(|pair| moved && pair.missing().is_none());
        first.filter(|pair| self.is_known(*pair)).unwrap_or(match delta {
            ..0 => Sides { after: None, ..stack },
            0.. => Sides { before: None, ..stack },
        })
    }

    /// Whether a pair is known to be the same call: all stacks with its operators have a partner, and kept their order. Where one of
    /// them came, went or changed places, any of them may have.
    fn is_known(&self, pair: Sides<Option<StackId>>) -> bool {
        let codes = self.groupers.map(Grouper::code);
        let operators = pair.zip(codes).map(|(stack, code)| stack.map(|stack| code.operator_names(stack)));
        let alike = self.pairs.iter().filter(|pair| {
            let own = pair.zip(codes).map(|(member, code)| member.map(|member| code.operator_names(member.stack)));
            Side::BOTH.iter().any(|&side| own.of(side).is_some() && own.of(side) == operators.of(side))
        });
        let lines: Option<Vec<Vec<_>>> =
            alike.map(|pair| Some(lines_of_stack(pair.both()?.after, codes.after))).collect();
        lines.is_some_and(|lines| lines.is_sorted())
    }

    /// The lines that hold something on either side, each under the name it has in the after, if it is there.
    fn lines(&self) -> RowLines {
        let mut by_label: BTreeMap<Label, Sides<Held>> = BTreeMap::new();
        let holding = self.pairs.iter().filter(|pair| pair.each().iter().any(|(_, member)| held(**member).bytes > 0));
        for pair in holding {
            let Some(label) = line_of(*pair, self.groupers) else { continue };
            let sum = by_label.entry(label).or_default();
            *sum = sum.plus(pair.map(|member| held(*member)));
        }
        RowLines::new(by_label, largest_first)
    }
}

/// The types and shapes of the tensors of a row, the largest change first.
fn shapes(totals: Sides<Option<&StackTotal>>) -> Vec<RowLine> {
    let mut by_shape: BTreeMap<&str, Sides<Held>> = BTreeMap::new();
    for (side, total) in totals.each() {
        for line in total.map_or(&[][..], |total| &total.shapes) {
            *by_shape.entry(&line.label).or_default().of_mut(side) = line.held;
        }
    }
    lines_of(by_shape, largest_first)
}

/// The memory of a stack, where it is there.
fn held(member: Option<GroupMember>) -> Held {
    member.map(|member| member.at).unwrap_or_default()
}

/// The lines of its frames, innermost first.
fn lines_of_stack(member: GroupMember, code: &SnapshotCode<'_>) -> Vec<u32> {
    code.python(member.stack).map(|frame| code.line(frame).unwrap_or(0)).collect()
}

/// An exact stack of a group.
struct SummedStack<'g> {
    /// The lines of its frames, innermost first.
    lines: Vec<u32>,
    operators: Vec<&'g str>,
    member: GroupMember,
}

impl<'g> SummedStack<'g> {
    fn new(member: GroupMember, code: &'g SnapshotCode<'_>) -> Self {
        Self { lines: lines_of_stack(member, code), operators: code.operator_names(member.stack), member }
    }

    /// The stacks of a group in the order of their lines, the larger of equal ones first.
    fn in_order(members: &[GroupMember], code: &'g SnapshotCode<'_>) -> Vec<Self> {
        let mut all: Vec<Self> = members.iter().map(|member| Self::new(*member, code)).collect();
        all.sort_by(|a, b| {
            let place = (&a.lines, &a.operators).cmp(&(&b.lines, &b.operators));
            place.then(b.member.at.cmp(&a.member.at))
        });
        // Stacks that differ only in the text of their C++ frames are the same.
        all.dedup_by(|other, kept| {
            let same = other.lines == kept.lines && other.operators == kept.operators;
            if same {
                kept.member.at += other.member.at;
                kept.member.requested = kept.member.requested.saturating_add(other.member.requested);
            }
            same
        });
        all
    }

    /// The stacks of both sides, paired, and those without a partner.
    fn pairs(stacks: Sides<&[Self]>) -> Vec<Sides<Option<GroupMember>>> {
        let in_order = Self::pairs_in_order(stacks).into_iter();
        let (mut paired, others): (Vec<_>, Vec<_>) =
            in_order.partition(|&(old, new)| stacks.before[old].operators == stacks.after[new].operators);
        paired.extend(Self::pairs_in_another_order(stacks, &paired));
        let (old, new): (HashSet<usize>, HashSet<usize>) = paired.iter().copied().unzip();
        // Lines that do something else now.
        paired.extend(others.into_iter().filter(|(before, after)| !old.contains(before) && !new.contains(after)));
        paired.sort_unstable();
        let all = matched(stacks.map(|stacks| stacks.len()), &paired).into_iter();
        all.map(|at| stacks.zip(at).map(|(stacks, at)| at.map(|at| stacks[at].member))).collect()
    }

    /// Pairs by index. The same lines on both sides are most likely the same code, whatever they hold; others keep their order.
    fn pairs_in_order(stacks: Sides<&[Self]>) -> Vec<(usize, usize)> {
        let by_lines = stacks.map(|stacks| stacks.chunk_by(|a, b| a.lines == b.lines).collect::<Vec<_>>());
        let [old, new] = [&by_lines.before, &by_lines.after].map(|parts| parts.iter().map(|part| &part[0].lines));
        let parts = if old.eq(new) { by_lines } else { stacks.map(|stacks| vec![*stacks]) };
        let mut pairs = Vec::new();
        let mut first = Sides { before: 0, after: 0 };
        for (before, after) in parts.before.into_iter().zip(parts.after) {
            let [old, new] = [before, after].map(|part| part.iter().map(Self::as_paired).collect::<Vec<_>>());
            let paired = pair_in_order(&old, &new).into_iter();
            pairs.extend(paired.map(|(old, new)| (first.before + old, first.after + new)));
            first = first.plus(Sides { before: before.len(), after: after.len() });
        }
        pairs
    }

    /// Pairs of the stacks that are in none of these, by index: both sides have equally many of one operator, which changed places
    /// with others.
    fn pairs_in_another_order(stacks: Sides<&[Self]>, paired: &[(usize, usize)]) -> Vec<(usize, usize)> {
        let (old, new): (HashSet<usize>, HashSet<usize>) = paired.iter().copied().unzip();
        let taken = Sides { before: old, after: new };
        let mut by_operators = BTreeMap::<&[&str], Sides<Vec<usize>>>::new();
        for (side, stacks) in stacks.each() {
            for (at, stack) in stacks.iter().enumerate().filter(|(at, _)| !taken.of(side).contains(at)) {
                by_operators.entry(&stack.operators).or_default().of_mut(side).push(at);
            }
        }
        let known = by_operators.into_iter().filter(|(operators, _)| !operators.is_empty());
        let equally_many = known.filter(|(_, Sides { before, after })| before.len() == after.len());
        equally_many.flat_map(|(_, Sides { before, after })| before.into_iter().zip(after)).collect()
    }

    fn as_paired(&self) -> InOrder<'_> {
        let Held { bytes, blocks } = self.member.at;
        InOrder { operators: &self.operators, figures: GroupFigures { bytes, blocks, ..GroupFigures::default() } }
    }
}

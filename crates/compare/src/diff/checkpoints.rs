//! Memory that moves into or out of checkpoints, as a change lets them compute more code again, or less.
//!
//! A checkpoint frees what its code allocates in the forward pass, and allocates it again in the backward pass, where it has another
//! row. A change that adds the checkpoint makes this row new and the other one smaller. Both are the memory of the same code: what
//! one of them gains is growth only as far as the other one does not lose it.
//!
//! Code is the functions inside the call of a checkpoint, or an autograd node, which a checkpoint with re-entry runs. Rows of the
//! same run do not make up for each other: the same code may be called from several places. If the share of allocations that
//! checkpoints make again is the same on both sides, nothing moved, and all rows are judged alone.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use ptmem_base::sides::{Side, Sides};
use ptmem_trace::profile::{DeviceProfile, ErrorBound, ExactStack, StackTotal};
use ptmem_trace::stack::{GroupBy, Grouper, SnapshotCode, Token};
use ptmem_trace::trace::Highest;

use super::row::JointChange;
use super::stacks::errors;

/// The groups of a row.
pub(super) type Totals<'t> = Sides<Option<&'t StackTotal>>;

/// Rows of the same code, by their positions.
#[derive(Default)]
struct CodeRows {
    /// Those of the forward pass, or of autograd itself.
    first: BTreeSet<usize>,
    /// Those that a checkpoint allocates in the backward pass, by side: of an autograd node, that may be one of them.
    again: Sides<BTreeSet<usize>>,
}

/// The changes of rows together with those of the same code, where memory moved between them, by the positions of the rows. Other
/// groupings have one row for both, or compare what was recorded.
pub(super) fn joint_changes(
    rows: &[Totals<'_>],
    devices: Sides<Option<&DeviceProfile>>,
    groupers: &Sides<Grouper<'_>>,
) -> HashMap<usize, JointChange> {
    let has_checkpoints = groupers.each().into_iter().any(|(_, grouper)| grouper.code().has_checkpoints());
    if groupers.after.by() != GroupBy::Stack || !has_checkpoints {
        return HashMap::new();
    }
    let mut moved = of_same_code(rows, groupers);
    moved.retain(|code| code.moved(rows) != Ordering::Equal);
    if moved.is_empty() {
        return HashMap::new();
    }
    let highest = Sides::BOTH.map(|&side| highest(&moved, rows, side, *devices.of(side), groupers.of(side).code()));
    let of_highest = (0..moved.len()).map(|at| highest.map(|of| of.as_ref().map(|of| of[at])));
    let of_highest = of_highest.map(JointChange::of_highest);
    moved.iter().zip(of_highest).flat_map(|(code, of_highest)| code.changes(rows, of_highest)).collect()
}

/// The most that all rows of each code held at once on a side, and how far that may be from the truth, where it is known.
fn highest(
    all: &[CodeRows],
    rows: &[Totals<'_>],
    side: Side,
    device: Option<&DeviceProfile>,
    code: &SnapshotCode<'_>,
) -> Option<Vec<(Highest, ErrorBound)>> {
    let device = device.filter(|device| device.knows_stacks())?;
    let mut code_of: HashMap<ExactStack, usize> = HashMap::new();
    for (at, code) in all.iter().enumerate() {
        let totals = code.all().into_iter().filter_map(|row| *rows[row].of(side));
        code_of.extend(totals.flat_map(|total| &total.members).map(|member| (member.exact(), at)));
    }
    let classes = device.trace.classes.iter();
    let codes = classes.map(|class| class.origin.stack().and_then(|stack| code_of.get(&(stack, class.cpp))));
    // All others come last.
    let codes = codes.map(|code| u32::try_from(code.copied().unwrap_or(all.len())).unwrap_or(u32::MAX));
    let codes: Vec<u32> = codes.collect();
    let bounds = device.bounds_of_groups(&codes, all.len() + 1, code);
    Some(device.trace.highest(&codes, all.len() + 1).into_iter().zip(bounds).collect())
}

/// The rows of code that is in a checkpoint on either side.
fn of_same_code(rows: &[Totals<'_>], groupers: &Sides<Grouper<'_>>) -> Vec<CodeRows> {
    let mut by_functions: BTreeMap<Vec<Token>, CodeRows> = BTreeMap::new();
    for (at, totals) in rows.iter().enumerate() {
        for (side, total) in totals.each() {
            let members = total.map(|total| &*total.members).unwrap_or_default();
            for found in members.iter().flat_map(|of| groupers.of(side).code().checkpointed_code(of.stack)) {
                let CodeRows { first, again } = by_functions.entry(found.functions).or_default();
                let of_code = if found.is_again { again.of_mut(side) } else { first };
                of_code.insert(at);
            }
        }
    }
    join(by_functions.into_values().filter(CodeRows::is_recomputed).collect())
}

/// Puts code together that shares a row: checkpoints within each other both run the same code again.
fn join(all: Vec<CodeRows>) -> Vec<CodeRows> {
    let mut code_of_row: HashMap<usize, usize> = HashMap::new();
    let mut parents: Vec<usize> = (0..all.len()).collect();
    for (at, code) in all.iter().enumerate() {
        for row in code.all() {
            let other = root(&mut parents, *code_of_row.entry(row).or_insert(at));
            let own = root(&mut parents, at);
            parents[own] = other;
        }
    }
    let mut joined: BTreeMap<usize, CodeRows> = BTreeMap::new();
    for (at, code) in all.into_iter().enumerate() {
        let of_root = joined.entry(root(&mut parents, at)).or_default();
        of_root.first.extend(code.first);
        of_root.again.before.extend(code.again.before);
        of_root.again.after.extend(code.again.after);
    }
    joined.into_values().collect()
}

/// The representative of all code that is joined with this. Shortens the path to it.
fn root(parents: &mut [usize], mut at: usize) -> usize {
    while parents[at] != at {
        parents[at] = parents[parents[at]];
        at = parents[at];
    }
    at
}

impl CodeRows {
    fn is_recomputed(&self) -> bool {
        !self.again.before.is_empty() || !self.again.after.is_empty()
    }

    fn all_again(&self) -> BTreeSet<usize> {
        self.again.before.union(&self.again.after).copied().collect()
    }

    fn all(&self) -> BTreeSet<usize> {
        self.all_again().union(&self.first).copied().collect()
    }

    /// The number of allocations on a side in the first run, and of those that checkpoints make again.
    fn allocations(&self, rows: &[Totals<'_>], side: Side) -> [u128; 2] {
        let again = self.again.of(side);
        let first = self.first.difference(again);
        [sum(rows, side, first), sum(rows, side, again.iter())]
    }

    /// Whether checkpoints make a larger or a smaller part of its allocations again than before.
    fn moved(&self, rows: &[Totals<'_>]) -> Ordering {
        let [of_before, of_after] = Side::BOTH.map(|side| self.allocations(rows, side));
        let now = of_after[1].saturating_mul(of_before[0]);
        now.cmp(&of_before[1].saturating_mul(of_after[0]))
    }

    /// The changes of its rows: of those that memory moved from or to, of all of these together. `of_highest` is that of the most
    /// that all of its rows held at once.
    fn changes(&self, rows: &[Totals<'_>], of_highest: JointChange) -> Vec<(usize, JointChange)> {
        let again = self.all_again();
        let (gaining, losing) =
            if self.moved(rows) == Ordering::Greater { (&again, &self.first) } else { (&self.first, &again) };
        let gained = gaining.iter().filter(|at| delta(&rows[**at]) > 0);
        let moving: BTreeSet<usize> =
            gained.chain(losing.iter().filter(|at| delta(&rows[**at]) < 0)).copied().collect();
        let moved = of_highest.of_rows(rows, &moving);
        let all = self.all().into_iter().map(|at| (at, BTreeSet::from([at])));
        all.map(|(at, own)| (at, if moving.contains(&at) { moved } else { of_highest.of_rows(rows, &own) })).collect()
    }
}

impl JointChange {
    /// That of the most that code held at once on both sides.
    fn of_highest(code: Sides<Option<(Highest, ErrorBound)>>) -> Self {
        let bounds = code.map(|of| of.map(|(_, bound)| bound).unwrap_or_default());
        let highest = code.map(|of| of.map(|(highest, _)| highest.bytes));
        Self { highest, highest_errors: errors(bounds), ..Self::default() }
    }

    /// The same with what some rows hold together.
    fn of_rows(self, rows: &[Totals<'_>], together: &BTreeSet<usize>) -> Self {
        together.iter().map(|&at| &rows[at]).fold(self, |sum, totals| Self {
            before: sum.before.saturating_add(held(totals).before),
            delta: sum.delta + held(totals).delta(),
            error: sum.error.saturating_add(error(totals)),
            ..sum
        })
    }
}

/// The number of allocations of some rows on a side.
fn sum<'a>(rows: &[Totals<'_>], side: Side, of: impl Iterator<Item = &'a usize>) -> u128 {
    of.map(|&at| rows[at].of(side).map_or(0, |total| u128::from(total.allocations))).sum()
}

fn held(totals: &Totals<'_>) -> Sides<u64> {
    totals.map(|total| total.map_or(0, |total| total.at.bytes))
}

fn delta(totals: &Totals<'_>) -> i128 {
    held(totals).delta()
}

/// How far that may be from the truth.
fn error(totals: &Totals<'_>) -> u64 {
    let Sides { before, after } = errors(totals.map(|total| total.map(|total| total.at_bound).unwrap_or_default()));
    before.saturating_add(after)
}

//! Stacks that a change to the code moved from one group to another, with all that they hold.
//!
//! Groups are paired as a whole. But a change takes groups apart and puts them together: without its decorator, the
//! `forward` of one class calls like that of another; attention that goes to a file of its own takes a part of a group
//! with it. What holds as much in as many blocks on both sides is no growth there and no gain here.

use std::collections::{BTreeMap, HashMap};

use similar::DiffOp;

use super::Sides;
use crate::profile::{DeviceProfile, Held, Member, StackTotal};
use crate::snapshot::StackId;
use crate::stack::{Code, GroupBy, Grouper, Paired};

/// The part of their frames that two stacks share which are the same one at another place.
const SAME_STACK: f64 = 0.5;

/// The same where another operator allocates: a result that was kept is copied now.
const SAME_PLACE: f64 = 0.75;

/// The most stacks of one size and count that are compared with each other.
const MOST_ALIKE: usize = 64;

/// The stacks of the before in the groups that they went to.
pub(super) struct Followed {
    pub(super) before: Vec<StackTotal>,
    pub(super) paired: Paired,
}

/// Whether stacks of this grouping are followed where code moved. By frames, a stack is what was recorded, to the last frame of
/// C++, of which a saved profile keeps no more than a digest.
fn is_followed(by: GroupBy) -> bool {
    by.is_place() && by != GroupBy::Frames
}

/// Finds what moved between groups, and puts it into the groups of the after. `None` where nothing did, or where groups
/// are no places in the code.
pub(super) fn follow(
    devices: Sides<&DeviceProfile>,
    groupers: Sides<&Grouper<'_>>,
    paired: &Paired,
) -> Option<Followed> {
    let is_known = devices.each().iter().all(|(_, device)| device.knows_stacks());
    if !is_known || groupers.each().iter().any(|(_, grouper)| !is_followed(grouper.by())) {
        return None;
    }
    let stacks = devices.map(|device| &*device.stacks);
    let mut rows = Rows::new(stacks, paired);
    let moves = rows.moves(groupers.map(|grouper| grouper.code()));
    if moves.is_empty() {
        return None;
    }
    let mut paired = Paired { pairs: paired.pairs.clone(), parts: paired.parts.clone() };
    let mut group_of: HashMap<StackId, usize> = HashMap::new();
    let mut new = Vec::new();
    for (stack, to) in moves {
        let row = &mut rows.all[to];
        if row.before.is_empty() {
            let group = stacks.before.len() + new.len();
            new.push(stack);
            row.before.push(group);
            paired.pairs.extend(row.after.iter().map(|&after| (group, after)));
        }
        group_of.insert(stack, row.before[0]);
    }
    let before = devices.before.regrouped(groupers.before, &new, &group_of);
    paired.pairs.retain(|&(group, _)| is_left(&before[group]));
    paired.parts.retain(|&(group, _)| is_left(&before[group]));
    Some(Followed { before, paired })
}

/// Whether a group still has something after what moved went elsewhere.
fn is_left(total: &StackTotal) -> bool {
    total.bucket.is_some() || !total.members.is_empty()
}

/// Groups that are compared with each other, by their positions.
struct Row {
    before: Vec<usize>,
    after: Vec<usize>,
    /// Bytes gained.
    gained: i128,
}

/// A stack that has no equal in its row.
#[derive(Clone, Copy)]
struct Left {
    row: usize,
    stack: StackId,
    held: Held,
    /// Bytes that were asked for: blocks may be larger, by what was free.
    requested: u64,
}

struct Rows<'t> {
    stacks: Sides<&'t [StackTotal]>,
    all: Vec<Row>,
}

/// Stacks of both sides that may be the same ones: of one size, count, pass and operator, or of one size, count and pass.
type Alike = BTreeMap<(u64, u64, String), Sides<Vec<Left>>>;

impl<'t> Rows<'t> {
    fn new(stacks: Sides<&'t [StackTotal]>, paired: &Paired) -> Self {
        let pairs = paired.pairs.iter().map(|&(before, after)| (vec![before], vec![after]));
        let mut rows: Vec<(Vec<usize>, Vec<usize>)> = pairs.collect();
        let with_before: HashMap<usize, usize> = rows.iter().enumerate().map(|(row, of)| (of.0[0], row)).collect();
        let with_after: HashMap<usize, usize> = rows.iter().enumerate().map(|(row, of)| (of.1[0], row)).collect();
        let mut is_part = Sides { before: vec![false; stacks.before.len()], after: vec![false; stacks.after.len()] };
        for &(before, after) in &paired.parts {
            match (with_before.get(&before), with_after.get(&after)) {
                (Some(&row), None) => {
                    rows[row].1.push(after);
                    is_part.after[after] = true;
                }
                (None, Some(&row)) => {
                    rows[row].0.push(before);
                    is_part.before[before] = true;
                }
                _ => {}
            }
        }
        let alone = (0..stacks.before.len()).filter(|at| !with_before.contains_key(at) && !is_part.before[*at]);
        rows.extend(alone.map(|before| (vec![before], Vec::new())));
        let alone = (0..stacks.after.len()).filter(|at| !with_after.contains_key(at) && !is_part.after[*at]);
        rows.extend(alone.map(|after| (Vec::new(), vec![after])));
        let all = rows.into_iter().map(|(before, after)| {
            let gained = bytes(stacks.after, &after) - bytes(stacks.before, &before);
            Row { before, after, gained }
        });
        Self { stacks, all: all.collect() }
    }

    /// The stacks of the before that are in another row of the after, with that row.
    fn moves(&mut self, codes: Sides<&Code<'_>>) -> Vec<(StackId, usize)> {
        let mut left = Sides::<Vec<Left>>::default();
        for row in (0..self.all.len()).filter(|&row| self.all[row].gained != 0) {
            self.add_left(row, codes, &mut left);
        }
        let mut moves = self.pair_alike(&mut left, codes, SAME_STACK, operator);
        moves.extend(self.pair_alike(&mut left, codes, SAME_PLACE, pass));
        moves
    }

    /// Adds the stacks of a row that have no equal in it.
    fn add_left(&self, row: usize, codes: Sides<&Code<'_>>, left: &mut Sides<Vec<Left>>) {
        let Row { before, after, .. } = &self.all[row];
        let all =
            Sides { before: holding(self.stacks.before, before, row), after: holding(self.stacks.after, after, row) };
        for Sides { mut before, mut after } in alike(&all, codes, operator).into_values() {
            let equal = before.len().min(after.len());
            left.before.extend(before.drain(equal..));
            left.after.extend(after.drain(equal..));
        }
    }

    /// Pairs what is left by its size, its count and what `operator` says of it, and takes it out.
    fn pair_alike(
        &mut self,
        left: &mut Sides<Vec<Left>>,
        codes: Sides<&Code<'_>>,
        least: f64,
        operator: fn(&Code<'_>, StackId) -> String,
    ) -> Vec<(StackId, usize)> {
        let mut moves = Vec::new();
        for Sides { before, after } in alike(left, codes, operator).into_values() {
            for (old, new) in self.pair(&before, &after, codes, least) {
                left.before.retain(|left| left.stack != old.stack);
                left.after.retain(|left| left.stack != new.stack);
                moves.push((old.stack, new.row));
            }
        }
        moves
    }

    /// Pairs stacks of one kind, those with most frames in common first, where both rows change less for it.
    fn pair(&mut self, before: &[Left], after: &[Left], codes: Sides<&Code<'_>>, least: f64) -> Vec<(Left, Left)> {
        let before = &before[..before.len().min(MOST_ALIKE)];
        let after = &after[..after.len().min(MOST_ALIKE)];
        let old: Vec<Vec<u64>> = before.iter().map(|left| codes.before.plain_names(left.stack)).collect();
        let new: Vec<Vec<u64>> = after.iter().map(|left| codes.after.plain_names(left.stack)).collect();
        let mut scored = Vec::new();
        for (i, old) in old.iter().enumerate() {
            scored.extend(new.iter().enumerate().map(|(j, new)| (shared(old, new), i, j)));
        }
        scored.retain(|(shared, ..)| *shared >= least);
        scored.sort_by(|a, b| b.0.total_cmp(&a.0).then((a.1, a.2).cmp(&(b.1, b.2))));
        let mut taken = Sides { before: vec![false; before.len()], after: vec![false; after.len()] };
        let mut pairs = Vec::new();
        for (_, i, j) in scored {
            if !taken.before[i] && !taken.after[j] && self.takes(before[i].row, after[j].row, before[i].held) {
                taken.before[i] = true;
                taken.after[j] = true;
                pairs.push((before[i], after[j]));
            }
        }
        pairs
    }

    /// Moves what a stack held before from one row to another, if both together change less for it.
    fn takes(&mut self, from: usize, to: usize, held: Held) -> bool {
        let moved = i128::from(held.bytes);
        let old = self.all[from].gained;
        let new = self.all[to].gained;
        let is_less = from != to && (old + moved).abs() + (new - moved).abs() < old.abs() + new.abs();
        if is_less {
            self.all[from].gained += moved;
            self.all[to].gained -= moved;
        }
        is_less
    }
}

fn bytes(stacks: &[StackTotal], groups: &[usize]) -> i128 {
    groups.iter().map(|&group| i128::from(stacks[group].at.bytes)).sum()
}

/// The exact stacks of the groups of a row that hold something, each once: it may stand there again with other frames in
/// C++.
fn holding(stacks: &[StackTotal], groups: &[usize], row: usize) -> Vec<Left> {
    // In the order of the members: numbers of stacks differ between a snapshot and its saved profile.
    let mut all: Vec<Left> = Vec::new();
    let mut known: HashMap<StackId, usize> = HashMap::new();
    for &Member { stack, at, requested, .. } in groups.iter().flat_map(|&group| &stacks[group].members) {
        if at.bytes > 0 {
            let index = *known.entry(stack).or_insert(all.len());
            if index == all.len() {
                all.push(Left { row, stack, held: Held::default(), requested: 0 });
            }
            all[index].held = all[index].held.plus(at);
            all[index].requested = all[index].requested.saturating_add(requested);
        }
    }
    all
}

/// Stacks of both sides by their size, their count and what `operator` says of them.
fn alike(left: &Sides<Vec<Left>>, codes: Sides<&Code<'_>>, operator: fn(&Code<'_>, StackId) -> String) -> Alike {
    let mut alike = Alike::new();
    for one in &left.before {
        let key = (one.requested, one.held.blocks, operator(codes.before, one.stack));
        alike.entry(key).or_default().before.push(*one);
    }
    for one in &left.after {
        let key = (one.requested, one.held.blocks, operator(codes.after, one.stack));
        alike.entry(key).or_default().after.push(*one);
    }
    alike
}

/// The pass, and the operator that allocated, where one is known.
fn operator(code: &Code<'_>, stack: StackId) -> String {
    pass(code, stack) + code.allocating_operator(stack).unwrap_or_default()
}

/// The pass: nothing moves from one to the other.
fn pass(code: &Code<'_>, stack: StackId) -> String {
    if code.is_backward(stack) { "backward " } else { "forward " }.to_owned()
}

/// The part of two sequences that is the same in both, from 0 to 1.
fn shared(old: &[u64], new: &[u64]) -> f64 {
    let same: usize = crate::stack::differences(old, new)
        .into_iter()
        .map(|op| if let DiffOp::Equal { len, .. } = op { len } else { 0 })
        .sum();
    let all = old.len() + new.len();
    #[allow(clippy::cast_precision_loss, reason = "numbers of frames")]
    let part = 2.0 * same as f64 / all.max(1) as f64;
    part
}

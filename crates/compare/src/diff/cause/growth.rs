//! How rows grew, from the traces of both sides.

use ptmem_base::sides::{Side, Sides};
use ptmem_base::units::approximate;
use ptmem_snapshot::snapshot::StackId;
use ptmem_trace::phase::PhaseSource;
use ptmem_trace::profile::{DeviceProfile, Held, Profile};
use ptmem_trace::trace::{Life, Position, Window};
use rustc_hash::{FxHashMap, FxHashSet};

use super::figure::Holding;
use super::share::{Figure, RowGrowth};
use crate::diff::differences::devices;
use crate::diff::{ChangeKind, DeviceDiff, Row};

/// Blocks of both sides by the rows of a device.
pub(super) struct Lives<'d> {
    pub(super) devices: Sides<&'d DeviceProfile>,
    /// Whether the places that are compared do.
    corresponds: bool,
    of: Sides<Vec<Vec<Life>>>,
    /// The sizes of those of the before.
    sizes: Vec<FxHashSet<u64>>,
    /// The stacks of the after that allocate neither more nor larger blocks than the before: what they hold more is kept for longer.
    pub(super) kept: FxHashSet<StackId>,
    /// When each block came, and its stack.
    pub(super) born: Vec<(Position, Option<StackId>)>,
}

impl<'d> Lives<'d> {
    pub(super) fn new(device: &DeviceDiff, profiles: &'d Sides<Profile>) -> Option<Self> {
        let devices = devices(profiles, device.index).both()?;
        let of = Sides::BOTH.map(|&side| {
            let trace = &devices.of(side).trace;
            let mut rows: FxHashMap<StackId, usize> = FxHashMap::default();
            for (index, row) in device.rows.iter().enumerate() {
                let members = row.members.iter().filter_map(|pair| *pair.of(side));
                rows.extend(members.map(|member| (member.stack, index)));
            }
            let mut by_row: Vec<Vec<Life>> = vec![Vec::new(); device.rows.len()];
            for life in trace.lives() {
                let stack = trace.classes[life.class as usize].origin.stack();
                if let Some(&row) = stack.and_then(|stack| rows.get(&stack)) {
                    by_row[row].push(life);
                }
            }
            by_row
        });
        let trace = &devices.before.trace;
        let born =
            trace.begun().into_iter().map(|(at, class)| (at, trace.classes[class as usize].origin.stack())).collect();
        let corresponds = device.places.as_ref().is_some_and(|places| places.reason.is_none());
        let size = |life: &Life| devices.before.trace.classes[life.class as usize].bytes;
        let sizes = of.before.iter().map(|lives| lives.iter().map(size).collect()).collect();
        let kept = kept_stacks(device, devices, &of);
        Some(Self { devices, corresponds, of, sizes, kept, born })
    }

    /// How a row grew at corresponding places.
    pub(super) fn growth(&self, figure: Figure, holding: &Holding, row: &Row, at: Sides<Position>) -> RowGrowth {
        let of = self.of.map(|rows| &rows[holding.row]);
        // Between corresponding places of both sides, what the before held earlier is kept for longer now.
        let corresponds = figure == Figure::End || figure == Figure::Peak && self.corresponds;
        if figure == Figure::Peak && row.change == ChangeKind::HeldLater {
            return RowGrowth::MovedPeak;
        }
        if of.before.is_empty() {
            return RowGrowth::New;
        }
        if holding.is_resized {
            return RowGrowth::Larger;
        }
        let held: Vec<&Life> = of.after.iter().filter(|life| life.is_held_at(at.after)).collect();
        let sizes = &self.sizes[holding.row];
        let size = |life: &Life| self.devices.after.trace.classes[life.class as usize].bytes;
        let is_as_large = held.iter().all(|life| sizes.contains(&size(life)));
        if is_as_large && of.before.len() >= of.after.len() {
            if !corresponds && row.highest.after <= row.highest.before {
                return RowGrowth::MovedPeak;
            }
            // Each block is that of the same number before: others of the row may be freed elsewhere on both sides.
            let pairs = of.before.iter().zip(of.after).filter(|(before, after)| {
                of.before.len() == of.after.len() && before.freed <= at.before && after.is_held_at(at.after)
            });
            let freed = pairs.map(|(before, _)| before.freed).max();
            let kept = held.iter().map(|life| life.freed).max().filter(|_| freed.is_some());
            return RowGrowth::Kept(Sides {
                before: freed.and_then(|at| pass(self.devices.before, at)),
                after: kept.and_then(|at| match at {
                    Position::NEVER => Some("the end of the recording".to_owned()),
                    at => pass(self.devices.after, at),
                }),
            });
        }
        let Sides { before, after } = holding.held;
        let is_larger = match before.blocks {
            0 => of.before.len() == of.after.len() && sizes.iter().all(|size| *size < after.mean()),
            blocks => after.mean() > before.mean() && after.blocks <= blocks,
        };
        if is_larger { RowGrowth::Larger } else { RowGrowth::More }
    }

    /// How many times as large the blocks of a row are, as they were requested: each of those that differ, and all together. Where
    /// there are more, how many times as many of each size; empty where the sizes differ as well.
    pub(super) fn ratios(&self, row: usize, places: Sides<Position>) -> Vec<Vec<f64>> {
        let mut sizes: Sides<Vec<u64>> = Sides::default();
        for side in Side::BOTH {
            let at = *places.of(side);
            let held = self.of.of(side)[row].iter().filter(|life| life.is_held_at(at));
            let classes = &self.devices.of(side).trace.classes;
            sizes.of_mut(side).extend(held.map(|life| classes[life.class as usize].request()));
            sizes.of_mut(side).sort_unstable();
        }
        ratios(&sizes)
    }

    /// The stacks of a row that hold more than before at a place in blocks which outlast the backward pass that follows.
    pub(super) fn outlasting(&self, index: usize, row: &Row, places: Sides<Position>) -> FxHashSet<StackId> {
        let held = Sides::BOTH.map(|&side| {
            let device = self.devices.of(side);
            let windows = backward(device);
            let mut held: FxHashMap<StackId, u64> = FxHashMap::default();
            for life in self.of.of(side)[index].iter().filter(|life| life.is_held_at(*places.of(side))) {
                let class = &device.trace.classes[life.class as usize];
                let next = windows.get(windows.partition_point(|window| window.from < life.born));
                if next.is_some_and(|window| window.to < life.freed) {
                    class.origin.stack().into_iter().for_each(|stack| *held.entry(stack).or_default() += class.bytes);
                }
            }
            held
        });
        let bytes = |side: Side, stack: StackId| held.of(side).get(&stack).copied().unwrap_or_default();
        let more = row.members.iter().filter_map(|pair| {
            let after = pair.after?.stack;
            let before = pair.before.map_or(0, |before| bytes(Side::Before, before.stack));
            (bytes(Side::After, after) > before).then_some(after)
        });
        more.collect()
    }

    /// The blocks of a row that the before freed.
    fn freed(&self, index: usize) -> Vec<&Life> {
        self.of.before[index].iter().filter(|life| life.freed < Position::NEVER).collect()
    }

    /// Those of the stacks that grew, where the before has any.
    pub(super) fn freed_of_grown(&self, row: &Row, holding: &Holding) -> Vec<&Life> {
        let grown: FxHashSet<StackId> = holding.members.iter().map(|(stack, _)| *stack).collect();
        let pairs = row.members.iter().filter(|pair| pair.after.is_some_and(|after| grown.contains(&after.stack)));
        let partners: FxHashSet<StackId> = pairs.filter_map(|pair| Some(pair.before?.stack)).collect();
        let stack = |life: &Life| self.devices.before.trace.classes[life.class as usize].origin.stack();
        let is_partner = |life: &Life| stack(life).is_some_and(|stack| partners.contains(&stack));
        let freed = self.freed(holding.row);
        let of_partners: Vec<&Life> = freed.iter().copied().filter(|life| is_partner(life)).collect();
        if of_partners.is_empty() { freed } else { of_partners }
    }
}

/// The stacks of the after that allocate no more blocks and no more bytes than those that they are compared with.
fn kept_stacks(
    device: &DeviceDiff,
    devices: Sides<&DeviceProfile>,
    lives: &Sides<Vec<Vec<Life>>>,
) -> FxHashSet<StackId> {
    let allocated = Sides::BOTH.map(|&side| {
        let mut allocated: FxHashMap<StackId, Held> = FxHashMap::default();
        for life in lives.of(side).iter().flatten() {
            let class = &devices.of(side).trace.classes[life.class as usize];
            let block = Held { bytes: class.request(), blocks: 1 };
            class.origin.stack().into_iter().for_each(|stack| *allocated.entry(stack).or_default() += block);
        }
        allocated
    });
    let pairs = device.rows.iter().flat_map(|row| &row.members).filter_map(|pair| pair.both());
    let kept = pairs.filter(|pair| {
        let of = Sides::BOTH.map(|&side| allocated.of(side).get(&pair.of(side).stack).copied().unwrap_or_default());
        of.after.blocks <= of.before.blocks && of.after.bytes <= of.before.bytes
    });
    kept.map(|pair| pair.after.stack).collect()
}

/// How many times as large sorted sizes are: each of those that differ, and all together; or how many times as many of each.
fn ratios(sizes: &Sides<Vec<u64>>) -> Vec<Vec<f64>> {
    if sizes.before.len() != sizes.after.len() {
        return times_as_many(sizes).into_iter().collect();
    }
    let whole = sizes.map(|sizes| sizes.iter().fold(0, |all: u64, size| all.saturating_add(*size)));
    let differing = differing(sizes);
    let each = differing.before.iter().zip(&differing.after).map(|(before, after)| ratio(*before, *after));
    vec![each.collect(), vec![ratio(whole.before, whole.after)]]
}

/// How many times as many there are of each of sorted sizes, if they are the same sizes, and there were several blocks of one: a
/// single further block is not evidence of a ratio.
fn times_as_many(sizes: &Sides<Vec<u64>>) -> Option<Vec<f64>> {
    let of_size = sizes.map(|sizes| sizes.chunk_by(|a, b| a == b).collect::<Vec<_>>());
    let pairs = of_size.before.iter().zip(&of_size.after);
    let are_same = of_size.before.len() == of_size.after.len() && pairs.clone().all(|(old, new)| old[0] == new[0]);
    let are_several = of_size.before.iter().any(|old| old.len() > 1);
    (are_same && are_several).then(|| pairs.map(|(old, new)| ratio(old.len() as u64, new.len() as u64)).collect())
}

/// How many times as large a size is.
fn ratio(before: u64, after: u64) -> f64 {
    approximate(after) / approximate(before.max(1))
}

/// The members of two sorted lists that the other one lacks.
fn differing(sizes: &Sides<Vec<u64>>) -> Sides<Vec<u64>> {
    let mut only: Sides<Vec<u64>> = Sides::default();
    let mut left = sizes.after.iter().peekable();
    for size in &sizes.before {
        only.after.extend(std::iter::from_fn(|| left.next_if(|other| *other < size)));
        if left.next_if_eq(&size).is_none() {
            only.before.push(*size);
        }
    }
    only.after.extend(left);
    only
}

/// The backward passes of a device, in order.
fn backward(device: &DeviceProfile) -> Vec<Window> {
    let passes = device.phases.all.iter().filter(|phase| phase.source == PhaseSource::Pass);
    let mut windows: Vec<Window> = passes.filter(|pass| &*pass.name == "backward").map(|pass| pass.window).collect();
    windows.sort_unstable_by_key(|window| window.from);
    windows
}

/// The pass or phase of the program at a place.
fn pass(device: &DeviceProfile, at: Position) -> Option<String> {
    let open = device.phases.all.iter().filter(|phase| phase.window.from < at && at <= phase.window.to);
    let inner = open.filter(|phase| phase.source == PhaseSource::Pass && &*phase.name != "step");
    inner.max_by_key(|phase| phase.depth).map(|phase| phase.name.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_of_any_number_and_size_have_ratios() {
        let of = |before: &[u64], after: &[u64]| ratios(&Sides { before: before.to_vec(), after: after.to_vec() });
        assert_eq!(of(&[1, 4], &[2, 4]), [vec![2.0], vec![1.2]]);
        assert_eq!(of(&[1, 2], &[2, 4]), [vec![4.0], vec![2.0]]);
        assert_eq!(of(&[], &[]), [vec![], vec![0.0]]);
        assert_eq!(of(&[1, 1, 4], &[1, 1, 1, 4]), [[1.5, 1.0]]);
        assert_eq!(of(&[1, 4], &[1, 1, 4, 4]), [[0.0; 0]; 0]);
        assert_eq!(of(&[1], &[1, 2]), [[0.0; 0]; 0]);
        // A damaged file states any sizes.
        assert_eq!(of(&[1 << 63; 2], &[u64::MAX; 2])[0], [2.0; 2]);
    }
}

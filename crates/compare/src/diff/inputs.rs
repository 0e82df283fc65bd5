//! Inputs that have other sizes, although there are equally many.

use ptmem_base::diagnostic::{Code, Diagnostic};
use ptmem_base::sides::Sides;
use ptmem_base::text::count;
use ptmem_base::units::{Delta, Size, approximate};
use ptmem_snapshot::snapshot::StackId;
use ptmem_trace::phase::{self, Made};
use ptmem_trace::profile::{DeviceProfile, Profile, StackTotal};
use ptmem_trace::stack::Grouper;
use rustc_hash::FxHashMap;

use super::DeviceDiff;
use super::differences::devices;

/// The inputs of a row.
#[derive(Debug, Clone, Copy)]
struct Inputs {
    /// All of them.
    made: Made,
    /// The stack that made the most bytes.
    largest: StackId,
    /// The number of further stacks.
    others: u64,
}

/// Tells of the largest input that has another size, as often as it is made on both sides.
pub(super) fn compare(
    sides: Sides<&DeviceProfile>,
    pairs: &[(usize, usize)],
    groupers: Sides<&Grouper<'_>>,
) -> Option<Diagnostic> {
    // Rows of tags share stacks.
    if groupers.after.by().is_tag() {
        return None;
    }
    let before = phase::inputs(&sides.before.trace, groupers.before.code());
    let after = phase::inputs(&sides.after.trace, groupers.after.code());
    let mut differing: Vec<Sides<Inputs>> = Vec::new();
    for &(old, new) in pairs {
        let old = of_row(members(&sides.before.stacks[old]), &before);
        let new = of_row(members(&sides.after.stacks[new]), &after);
        let both = old.zip(new).map(|(before, after)| Sides { before, after });
        differing.extend(both.filter(|inputs| differ(inputs.map(|inputs| inputs.made))));
    }
    differing.sort_by_key(|sides| std::cmp::Reverse(sides.after.made.bytes));
    let first = differing.first()?;
    let others = match differing.len() - 1 {
        0 => String::new(),
        more => format!("; {more} more differ"),
    };
    let same_row = match first.after.others {
        0 => String::new(),
        more => format!(" with {}", count(more, "other stack of its row", "other stacks of its row")),
    };
    let bytes = size(first.map(|inputs| inputs.made));
    let Sides { before, after } = bytes.map(|bytes| Size(*bytes).to_string());
    // A few elements of many.
    let by = if before == after { format!(" ({})", Delta(bytes.delta())) } else { String::new() };
    let message = format!(
        "{}{same_row}, probably an input, differs in size: {before} before and {after} after{by}, in {} ahead of the forward \
         pass{others}",
        groupers.after.code().label(first.after.largest),
        count(first.after.made.allocations, "allocation", "allocations"),
    );
    Some(Diagnostic::new(Code::InputsDiffer, Some(sides.after.device), message))
}

/// How many times as large the inputs of each row are that differ in size.
pub(super) fn ratios(device: &DeviceDiff, profiles: &Sides<Profile>) -> Vec<f64> {
    let Some(sides) = devices(profiles, device.index).both() else { return Vec::new() };
    let inputs = Sides::BOTH.map(|&side| phase::inputs(&sides.of(side).trace, &profiles.of(side).code()));
    let made = device.rows.iter().filter_map(|row| {
        let of_row = Sides::BOTH.map(|&side| {
            let stacks = row.members.iter().filter_map(|pair| Some(pair.of(side).as_ref()?.stack));
            of_row(stacks, inputs.of(side)).map(|inputs| inputs.made)
        });
        of_row.both().filter(|made| differ(*made)).map(size)
    });
    made.map(|bytes| approximate(bytes.after) / approximate(bytes.before.max(1))).collect()
}

fn differ(made: Sides<Made>) -> bool {
    let size = size(made);
    made.before.allocations == made.after.allocations && size.before != size.after
}

/// The requested bytes: a block may be larger, by the free memory behind it. Where a side does not know them, the bytes
/// of the blocks on both sides.
fn size(made: Sides<Made>) -> Sides<u64> {
    let is_known = made.before.requested > 0 && made.after.requested > 0;
    made.map(|made| if is_known { made.requested } else { made.bytes })
}

fn members(row: &StackTotal) -> impl Iterator<Item = StackId> {
    row.members.iter().map(|member| member.stack)
}

/// The inputs among the stacks of a row. A row contains everything that its functions allocate.
fn of_row(members: impl Iterator<Item = StackId>, inputs: &FxHashMap<StackId, Made>) -> Option<Inputs> {
    let mut sum = Made::default();
    let mut largest: Option<(u64, StackId)> = None;
    let mut stacks = 0;
    for stack in members {
        let Some(made) = inputs.get(&stack) else { continue };
        stacks += 1;
        sum.allocations += made.allocations;
        sum.bytes = sum.bytes.saturating_add(made.bytes);
        sum.requested = sum.requested.saturating_add(made.requested);
        if largest.is_none_or(|(bytes, _)| made.bytes > bytes) {
            largest = Some((made.bytes, stack));
        }
    }
    largest.map(|(_, largest)| Inputs { made: sum, largest, others: stacks - 1 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_the_requested_ones_where_both_sides_know_them() {
        let made = |bytes, requested| Made { allocations: 8, bytes, requested };
        assert!(!differ(Sides { before: made(11, 10), after: made(14, 10) }));
        let larger = Sides { before: made(11, 10), after: made(14, 12) };
        assert!(differ(larger));
        assert_eq!(size(larger), Sides { before: 10, after: 12 });
        // A saved profile may not say.
        assert!(differ(Sides { before: made(11, 0), after: made(14, 10) }));
    }
}

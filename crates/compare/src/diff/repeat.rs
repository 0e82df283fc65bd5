//! Two runs of one program that differ: then the program is not repeatable, and no change of the code explains a figure.

use ptmem_base::diagnostic::{Code, Diagnostic};
use ptmem_base::sides::Sides;
use ptmem_base::text::count;
use ptmem_base::units::Size;
use ptmem_trace::profile::{DeviceProfile, Position, Profile};
use ptmem_trace::trace::Trace;

use super::differences::devices;
use super::{DeviceDiff, Diff};

/// Tells of the first device whose figures differ although both sides ran the same program.
pub(super) fn tell(profiles: &Sides<Profile>, found: &[DeviceDiff]) -> Option<Diagnostic> {
    let device = differing(profiles, found)?;
    let sides = devices(profiles, device.index).both();
    let first = sides.and_then(|sides| first_difference(profiles, sides));
    let first = first.or_else(|| sides.and_then(collected).map(words_of_collector));
    let first = first.map(|words| format!(": {words}")).unwrap_or_default();
    let message = format!(
        "both sides ran the same code and opened the same files of the repository from Python, with the same arguments, \
         environment and versions, and their figures differ{first}"
    );
    Some(Diagnostic::new(Code::NotRepeatable, device.id(), message))
}

fn differs(device: &DeviceDiff) -> bool {
    device.metrics.iter().any(|(_, change)| change.before != change.after)
}

/// The first device with a figure that differs, where both sides are known to have run the same program.
fn differing<'d>(profiles: &Sides<Profile>, found: &'d [DeviceDiff]) -> Option<&'d DeviceDiff> {
    let (before, after) = profiles.before.run.as_ref().zip(profiles.after.run.as_ref())?;
    found.iter().find(|device| differs(device)).filter(|_| before.ran_same_program(after))
}

/// A free by Python's garbage collector before the dump.
#[derive(PartialEq)]
struct CollectedBlock {
    bytes: u64,
    /// The number of the block's allocation.
    allocation: usize,
    /// The number of allocations before the free.
    freed: usize,
}

/// Bytes that Python's garbage collector freed, if it did so at other moments of the same allocations.
fn collected(sides: Sides<&DeviceProfile>) -> Option<Sides<u64>> {
    let blocks = sides.map(|device| collected_blocks(device));
    let bytes = blocks.map(|blocks| blocks.iter().map(|block| block.bytes).fold(0, u64::saturating_add));
    (blocks.before != blocks.after).then_some(bytes)
}

fn collected_blocks(device: &DeviceProfile) -> Vec<CollectedBlock> {
    let Some(collected) = device.collected.as_deref().filter(|collected| !collected.is_empty()) else {
        return Vec::new();
    };
    let lives = device.trace.lives();
    let mut born: Vec<Position> = lives.iter().map(|life| life.born).collect();
    born.sort_unstable();
    let freed =
        lives.iter().filter(|life| life.freed != Position::NEVER && collected.binary_search(&life.born).is_ok());
    let blocks = freed.map(|life| CollectedBlock {
        bytes: device.trace.classes[life.class as usize].bytes,
        allocation: born.partition_point(|&other| other < life.born),
        freed: born.partition_point(|&other| other < life.freed),
    });
    blocks.collect()
}

fn words_of_collector(bytes: Sides<u64>) -> String {
    let Sides { before, after } = bytes.map(|bytes| Size(*bytes));
    format!(
        "the allocations are the same, and Python's garbage collector, which freed {before} before and {after} after, ran at \
         other moments"
    )
}

impl Diff {
    /// True if the sides made the same allocations on a device, of which Python's garbage collector freed some at other moments.
    pub fn is_by_collector(&self) -> bool {
        let mut differing =
            self.devices.iter().filter(|device| differs(device)).filter_map(|device| self.sides_of(device).both());
        differing.any(|sides| collected(sides).is_some() && first_difference(&self.profiles, sides).is_none())
    }

    /// True if both sides ran the same program and their figures differ.
    pub fn is_not_repeatable(&self) -> bool {
        differing(&self.profiles, &self.devices).is_some()
    }
}

/// The first allocation that differs, in words; `None` where a side does not have its history.
fn first_difference(profiles: &Sides<Profile>, sides: Sides<&DeviceProfile>) -> Option<String> {
    let traces = sides.map(|device| &device.trace);
    let labels = traces.zip(profiles.map(Profile::code)).map(|(trace, code)| {
        trace.classes.iter().map(|class| class.origin.label(|stack| code.label(stack))).collect::<Vec<String>>()
    });
    let mut numbered = allocations(traces.before).zip(allocations(traces.after)).zip(1_u64..);
    let differs = numbered.find_map(|((before, after), number)| {
        let bytes = Sides { before: traces.before.classes[before].bytes, after: traces.after.classes[after].bytes };
        let labels = Sides { before: &*labels.before[before], after: &labels.after[after] };
        let is_same = bytes.before == bytes.after && labels.before == labels.after;
        (!is_same).then(|| words(number, bytes, labels))
    });
    let counts = traces.map(|trace| allocations(trace).count() as u64);
    differs.or_else(|| {
        (counts.before != counts.after).then(|| {
            let [before, after] =
                [counts.before, counts.after].map(|number| count(number, "allocation", "allocations"));
            format!("{before} before and {after} after, and the shorter history is the beginning of the longer one")
        })
    })
}

fn words(number: u64, bytes: Sides<u64>, labels: Sides<&str>) -> String {
    let Sides { before, after } = bytes.map(|bytes| Size(*bytes));
    if labels.before == labels.after {
        return format!(
            "the first difference is allocation {number}: {before} before and {after} after, in {}",
            labels.after
        );
    }
    format!(
        "the first difference is allocation {number}: {before} in {} before and {after} in {} after",
        labels.before, labels.after
    )
}

/// The classes of all allocations, in order.
fn allocations(trace: &Trace) -> impl Iterator<Item = usize> {
    let begun = trace.symbols.iter().filter_map(|&symbol| trace.moves[symbol as usize].begins());
    begun.map(|block| block.class as usize)
}

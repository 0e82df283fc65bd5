//! Memory that only reference cycles hold, until Python's garbage collector happens to run.

use ptmem_base::diagnostic::{Code, Diagnostic};
use ptmem_base::units::Size;
use ptmem_trace::profile::{DeviceProfile, Position};
use ptmem_trace::trace::Life;

use super::DeviceSteps;
use crate::leak::found::cycles_unknown;
use crate::leak::options::WORTH_TELLING;
use crate::leak::{DeviceLeaks, LeakMetric, Mode};

impl DeviceSteps<'_> {
    /// Bytes that steps left behind until the garbage collector freed them.
    pub(super) fn in_cycles(&self) -> u64 {
        let left = self.collected().filter(|life| self.outlives_its_step(life));
        left.map(|life| self.device.trace.classes[life.class as usize].bytes).fold(0, u64::saturating_add)
    }

    /// Bytes at the end of each step that the garbage collector freed later.
    pub(super) fn collected_later(&self) -> Vec<u64> {
        let borders = self.steps.borders().into_iter().skip(1);
        let ends: Vec<Position> = borders.chain([self.device.trace.end()]).collect();
        // A block that is there at the dump never ends.
        let mut held = vec![0_i128; ends.len() + 1];
        for life in self.collected() {
            let bytes = i128::from(self.device.trace.classes[life.class as usize].bytes);
            held[ends.partition_point(|&end| end < life.born)] += bytes;
            held[ends.partition_point(|&end| end < life.freed)] -= bytes;
        }
        for at in 1..held.len() {
            held[at] += held[at - 1];
        }
        held.into_iter().map(|bytes| u64::try_from(bytes).unwrap_or_default()).take(ends.len()).collect()
    }

    /// The number of blocks of each class at a place, without those that the garbage collector freed later.
    pub(super) fn uncollected_at(&self, place: Position) -> Vec<u64> {
        let mut blocks = self.device.trace.blocks_at(place);
        for life in self.collected().filter(|life| life.born <= place && place < life.freed) {
            blocks[life.class as usize] = blocks[life.class as usize].saturating_sub(1);
        }
        blocks
    }

    /// The blocks that the garbage collector freed.
    fn collected(&self) -> impl Iterator<Item = &Life> {
        let collected = self.device.collected.as_deref().unwrap_or_default();
        self.lives.iter().filter(|life| collected.binary_search(&life.born).is_ok())
    }

    fn outlives_its_step(&self, life: &Life) -> bool {
        let born = self.steps.at(life.born);
        born.is_some() && self.steps.at(life.freed) > born
    }
}

/// A remark where the recording does not say whether cycles hold what leaks, or where they held memory that did not grow
/// from step to step.
pub(super) fn remark(device: &DeviceProfile, found: &DeviceLeaks) -> Option<Diagnostic> {
    if device.collected.is_none() {
        let leaks = found.leaks_of(LeakMetric::Allocated).next().is_some();
        return leaks.then(|| cycles_unknown(device.device, Mode::Steps));
    }
    let has_grown = found.leaks_of(LeakMetric::Cycles).next().is_some();
    let message = format!(
        "{} that steps left behind were freed only when Python's garbage collector ran: reference cycles held them",
        Size(found.in_cycles)
    );
    (found.in_cycles >= WORTH_TELLING && !has_grown)
        .then(|| Diagnostic::new(Code::ReferenceCycles, device.device, message))
}

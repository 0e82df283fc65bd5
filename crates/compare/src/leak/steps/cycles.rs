//! Memory that only reference cycles hold, until Python's garbage collector happens to run.

use ptmem_base::diagnostic::{Code, Diagnostic};
use ptmem_base::units::Size;
use ptmem_trace::profile::DeviceProfile;
use ptmem_trace::trace::Life;

use super::DeviceSteps;
use crate::leak::found::cycles_unknown;
use crate::leak::options::WORTH_TELLING;
use crate::leak::{DeviceLeaks, LeakMetric, Mode};

impl DeviceSteps<'_> {
    /// Bytes that steps left behind until the garbage collector freed them.
    pub(super) fn in_cycles(&self) -> u64 {
        let collected = self.device.collected.as_deref().unwrap_or_default();
        let lives = self.lives.iter().filter(|life| collected.binary_search(&life.born).is_ok());
        let left = lives.filter(|life| self.outlives_its_step(life));
        left.map(|life| self.device.trace.classes[life.class as usize].bytes).fold(0, u64::saturating_add)
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

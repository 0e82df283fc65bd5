//! Doubt about a search that found no leak.

use super::{DeviceLeaks, Search};
use crate::diagnostic::Code;

impl Search {
    /// True if allocated bytes of a device grow from step to step, though no leak is found that explains it.
    #[must_use]
    pub fn grows_unexplained(&self, device: &DeviceLeaks) -> bool {
        self.says(device, Code::AllocatedGrows)
    }

    /// True if allocated bytes of a device rose in the latest snapshots of a series, too few to tell.
    #[must_use]
    pub fn rose_lately(&self, device: &DeviceLeaks) -> bool {
        self.says(device, Code::GrowthTooRecent)
    }

    fn says(&self, device: &DeviceLeaks, code: Code) -> bool {
        self.diagnostics.iter().any(|found| found.device == Some(device.device) && found.code == code)
    }
}

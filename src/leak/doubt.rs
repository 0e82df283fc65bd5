//! Doubt about a search that found no leak.

use super::{DeviceLeaks, Search};
use crate::diagnostic::Code;

impl Search {
    /// True if allocated bytes of a device grow, or rose lately, though no leak is found that explains it.
    #[must_use]
    pub fn grows_unexplained(&self, device: &DeviceLeaks) -> bool {
        let of_device = self.diagnostics.iter().filter(|found| found.device == Some(device.device));
        of_device.map(|found| found.code).any(|code| matches!(code, Code::AllocatedGrows | Code::GrowthTooRecent))
    }
}

//! All limits of a gate, as they are set at one place or several.

use ptmem_base::pattern::Pattern;
use ptmem_base::units::Size;
use ptmem_compare::budget::DeviceMemory;

use super::{GrowthLimit, Headroom, Maximum, Thresholds};

/// The reason why nothing can be judged by a minimum headroom.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HeadroomError {
    /// The memory of the device is not given.
    #[error("a minimum headroom needs the memory of the device")]
    UnknownMemory,
    /// No program can leave that much.
    #[error(
        "a minimum headroom of {} cannot be left on a device with {}{}", Size(*least), Size(*memory), less(*overhead)
    )]
    TooLarge {
        /// Bytes that must be left free.
        least: u64,
        /// Bytes of the device.
        memory: u64,
        /// Bytes of it that PyTorch cannot have.
        overhead: u64,
    },
}

/// The overhead of a device, in words.
fn less(overhead: u64) -> String {
    if overhead > 0 { format!(", of which {} are overhead", Size(overhead)) } else { String::new() }
}

/// The limits of a gate, each only where it was set.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Limits {
    /// Limits on growth.
    pub growth: Vec<GrowthLimit>,
    /// Absolute limits.
    pub maximum: Vec<Maximum>,
    /// Stacks that changed by fewer bytes are neither listed nor gated.
    pub min_delta: Option<u64>,
    /// An untrustworthy comparison is inconclusive.
    pub strict: Option<bool>,
    /// Recordings are compared although one lacks a part of the other.
    pub allow_partial: Option<bool>,
    /// Memory may run out.
    pub allow_oom: Option<bool>,
    /// Limits on growth of the peak and the end also apply to the memory beside workspaces of cuBLAS.
    pub beside_workspaces: Option<bool>,
    /// Bytes of the device.
    pub device_memory: Option<u64>,
    /// Bytes of the device that PyTorch's allocator cannot have; `None` leaves them to the recording.
    pub device_overhead: Option<u64>,
    /// Bytes of the device that must be left free.
    pub min_headroom: Option<u64>,
    /// Phases whose allocations do not count.
    pub ignore: Option<Vec<Pattern>>,
}

impl Limits {
    /// Limits on figures, and patterns.
    pub(crate) fn count(&self) -> usize {
        self.growth.len() + self.maximum.len() + self.ignore.as_ref().map_or(0, Vec::len)
    }

    /// These limits, and those of `base` on figures that have none here.
    #[must_use]
    pub fn over(self, base: &Self) -> Self {
        let mut limits = self;
        let growth = base.growth.iter().filter(|of| !limits.growth.iter().any(|own| own.replaces(of)));
        let growth: Vec<_> = growth.cloned().collect();
        limits.growth.extend(growth);
        let maximum = base.maximum.iter().filter(|of| !limits.maximum.iter().any(|own| own.target == of.target));
        let maximum: Vec<_> = maximum.cloned().collect();
        limits.maximum.extend(maximum);
        limits.min_delta = limits.min_delta.or(base.min_delta);
        limits.strict = limits.strict.or(base.strict);
        limits.allow_partial = limits.allow_partial.or(base.allow_partial);
        limits.allow_oom = limits.allow_oom.or(base.allow_oom);
        limits.beside_workspaces = limits.beside_workspaces.or(base.beside_workspaces);
        limits.device_memory = limits.device_memory.or(base.device_memory);
        limits.device_overhead = limits.device_overhead.or(base.device_overhead);
        limits.min_headroom = limits.min_headroom.or(base.min_headroom);
        limits.ignore = limits.ignore.or_else(|| base.ignore.clone());
        limits
    }

    /// The memory of the device, where it is given.
    pub fn memory(&self) -> Option<DeviceMemory> {
        Some(DeviceMemory { bytes: self.device_memory?, overhead: self.device_overhead })
    }

    fn headroom(&self, least: u64) -> Result<Headroom, HeadroomError> {
        let memory = self.memory().ok_or(HeadroomError::UnknownMemory)?;
        let overhead = memory.overhead.unwrap_or(0);
        if least >= memory.bytes.saturating_sub(overhead) {
            return Err(HeadroomError::TooLarge { least, memory: memory.bytes, overhead });
        }
        Ok(Headroom { memory, least })
    }

    /// The thresholds by which one comparison or snapshot is judged.
    ///
    /// # Errors
    /// If memory must be left free, and the memory of the device is not known, or not larger.
    pub fn thresholds(&self) -> Result<Thresholds, HeadroomError> {
        let headroom = self.min_headroom.map(|least| self.headroom(least)).transpose()?;
        let defaults = Thresholds::default();
        Ok(Thresholds {
            growth: self.growth.clone(),
            maximum: self.maximum.clone(),
            min_delta: self.min_delta.unwrap_or(defaults.min_delta),
            strict: self.strict.unwrap_or_default(),
            allow_partial: self.allow_partial.unwrap_or_default(),
            allow_oom: self.allow_oom.unwrap_or_default(),
            beside_workspaces: self.beside_workspaces.unwrap_or_default(),
            headroom,
            ignore: self.ignore.clone().unwrap_or_default(),
            ..defaults
        })
    }
}

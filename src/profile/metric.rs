//! The figures of a device that can be limited.

use super::DeviceProfile;

/// A figure of a device that can be limited. A new one is a new arm in each method here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Metric {
    /// Peak of allocated bytes: `max_memory_allocated()`.
    Peak,
    /// Allocated bytes before the first event.
    Baseline,
    /// Allocated bytes at the dump.
    End,
    /// Peak of active bytes.
    Active,
    /// Peak of requested bytes.
    Requested,
    /// Peak of reserved bytes: `max_memory_reserved()`.
    Reserved,
}

impl Metric {
    /// All of them, in the order of reports.
    pub const ALL: [Self; 6] = [Self::Peak, Self::Baseline, Self::End, Self::Active, Self::Requested, Self::Reserved];

    /// Its name on the command line and in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Peak => "peak",
            Self::Baseline => "baseline",
            Self::End => "end",
            Self::Active => "active",
            Self::Requested => "requested",
            Self::Reserved => "reserved",
        }
    }

    /// One line that says which bytes it counts.
    #[must_use]
    pub fn description(self) -> &'static str {
        match self {
            Self::Peak => "highest allocated bytes within the recording",
            Self::Baseline => "allocated bytes when the recording began",
            Self::End => "allocated bytes at the dump",
            Self::Active => "highest active bytes within the recording",
            Self::Requested => "highest requested bytes within the recording",
            Self::Reserved => "highest reserved bytes within the recording",
        }
    }

    /// The value on a device, in bytes; `None` where it cannot be known.
    #[must_use]
    pub fn value(self, device: &DeviceProfile) -> Option<u64> {
        match self {
            Self::Peak => device.figures.allocated.peak,
            Self::Baseline => device.figures.allocated.baseline,
            Self::End => Some(device.figures.allocated.end),
            Self::Active => device.figures.active.peak,
            Self::Requested => device.figures.requested.peak,
            Self::Reserved => device.figures.reserved.peak,
        }
    }

    /// How far the value may be from the truth; 0 where it is exact, `None` where that is unknown.
    #[must_use]
    pub fn max_error(self, device: &DeviceProfile) -> Option<u64> {
        match self {
            Self::Peak => device.figures.allocated.peak_error,
            Self::Baseline => device.figures.allocated.baseline_error,
            // Read from the final state.
            Self::End => Some(0),
            Self::Active => device.figures.active.peak_error,
            Self::Requested => device.figures.requested.peak_error,
            Self::Reserved => device.figures.reserved.peak_error,
        }
    }

    /// Whether the figure needs a recorded history, rather than the state at the dump alone.
    #[must_use]
    pub fn needs_history(self) -> bool {
        match self {
            Self::Peak | Self::Baseline | Self::Active | Self::Requested | Self::Reserved => true,
            Self::End => false,
        }
    }
}

//! The limits of one comparison or snapshot, with all defaults.

use ptmem_base::pattern::Pattern;
use ptmem_compare::budget::DeviceMemory;
use ptmem_trace::profile::DeviceProfile;

use super::accepted::{Accepted, Day};
use super::target::{GrowthLimit, Level, Maximum, ParseThresholdError};

/// Stacks that changed by fewer bytes are neither listed nor gated, unless another size is given. Needed for
/// `changes/batch-doubled`.
pub const DEFAULT_MIN_DELTA: u64 = 1 << 20;

/// Memory of a device that must be left free.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Headroom {
    /// The memory of the device.
    pub memory: DeviceMemory,
    /// Bytes of it that must be left beside the reserved peak and what PyTorch's allocator cannot have.
    pub least: u64,
}

/// A before that is not there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoBefore {
    /// Why it is not there.
    pub reason: String,
    /// Why the change is not to blame for it.
    pub excuse: Option<Excuse>,
}

/// Why growth need not be judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Excuse {
    /// The gate is new, so there cannot be a before yet.
    First,
    /// The base fails by what its own workflows run.
    BrokenBase,
}

/// The limits of one comparison or snapshot, and how strictly they are applied.
#[derive(Debug, Clone)]
pub struct Thresholds {
    /// Limits on growth.
    pub growth: Vec<GrowthLimit>,
    /// Absolute limits.
    pub maximum: Vec<Maximum>,
    /// Stacks that changed by fewer bytes are not gated.
    pub min_delta: u64,
    /// An untrustworthy comparison is inconclusive.
    pub strict: bool,
    /// Recordings are compared although one lacks a part of the other.
    pub allow_partial: bool,
    /// Growth beyond the limits that was agreed to.
    pub accepted: Vec<Accepted>,
    /// The day on which it has to be valid.
    pub today: Day,
    /// Memory may run out: the program probes for the most that fits.
    pub allow_oom: bool,
    /// Limits on growth of the peak and the end also apply to the memory beside workspaces of cuBLAS.
    pub beside_workspaces: bool,
    /// Memory that must be left free.
    pub headroom: Option<Headroom>,
    /// Growth is gated but the before is missing, so growth is not judged.
    pub no_before: Option<NoBefore>,
    /// Phases whose allocations do not count: by these the profiles are read.
    pub ignore: Vec<Pattern>,
    /// Whether this is one rank of several: what concerns all of them is then checked once, for all.
    pub one_of_ranks: bool,
}

/// No limits, and otherwise the defaults of the command line.
impl Default for Thresholds {
    fn default() -> Self {
        Self {
            growth: Vec::new(),
            maximum: Vec::new(),
            min_delta: DEFAULT_MIN_DELTA,
            strict: false,
            allow_partial: false,
            accepted: Vec::new(),
            today: Day::default(),
            allow_oom: false,
            beside_workspaces: false,
            headroom: None,
            no_before: None,
            ignore: Vec::new(),
            one_of_ranks: false,
        }
    }
}

impl Thresholds {
    /// Adds a limit as on the command line, such as `5%` or `reserved=200MiB`; more growth is a regression.
    ///
    /// # Errors
    /// If the text is not a limit.
    pub fn max_growth(mut self, limit: &str) -> Result<Self, ParseThresholdError> {
        self.growth.push(GrowthLimit::parse(limit, Level::Fail)?);
        Ok(self)
    }

    /// Adds a limit as on the command line; more growth is a warning.
    ///
    /// # Errors
    /// If the text is not a limit.
    pub fn warn_growth(mut self, limit: &str) -> Result<Self, ParseThresholdError> {
        self.growth.push(GrowthLimit::parse(limit, Level::Warn)?);
        Ok(self)
    }

    /// Adds an absolute limit as on the command line, such as `reserved=75GiB`.
    ///
    /// # Errors
    /// If the text is not a limit.
    pub fn max(mut self, limit: &str) -> Result<Self, ParseThresholdError> {
        self.maximum.push(limit.parse()?);
        Ok(self)
    }

    /// Whether memory is judged: not a device that held nothing, where the requests that failed on it may fail.
    pub(super) fn concern(&self, device: &DeviceProfile) -> bool {
        let held_nothing = device.device.is_device() && !device.held_memory();
        !(self.allow_oom && held_nothing)
    }

    /// Whether there is any limit.
    pub fn limits_anything(&self) -> bool {
        !self.growth.is_empty() || !self.maximum.is_empty() || self.headroom.is_some()
    }
}

//! How to compute a profile.

use ptmem_base::device::DeviceId;
use ptmem_base::pattern::Pattern;
use ptmem_snapshot::snapshot::AllocatorSettings;

use super::every::Every;
use super::moment::Moment;
use crate::stack::{GroupBy, Rules};

/// How to compute a profile.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ReadOptions {
    /// The grouping of stacks.
    pub group_by: GroupBy,
    /// Number of levels of layers that keep their numbers in the paths of modules.
    pub unfold: u32,
    /// The moment of [`super::Sums::at`].
    pub at: Moment,
    /// Rules of the user about the code.
    pub rules: Rules,
    /// Length of the parts in [`super::DeviceProfile::intervals`]; `None` for no parts.
    pub every: Option<Every>,
    /// The most that a compressed input may expand to, in bytes; where nothing is set,
    /// [`MOST_EXPANSION`](ptmem_snapshot::input::MOST_EXPANSION) times its size, at least
    /// [`SMALLEST_LIMIT`](ptmem_snapshot::input::SMALLEST_LIMIT).
    pub max_input: Option<u64>,
    /// The allocator settings of the run, for snapshots of releases before 2.3, which do not state them.
    pub allocator_settings: Option<AllocatorSettings>,
    /// The only device to read; if absent, all of them.
    pub device: Option<DeviceId>,
    /// Keeps the addresses of blocks and segments, for pictures.
    pub layout: bool,
    /// Phases whose allocations do not count if they are freed within them.
    pub ignore: Vec<Pattern>,
    /// Keeps the source files that a recorder added to the snapshot.
    pub sources: bool,
    /// The case to read, where the input holds the figures of several.
    pub case: Option<String>,
}

impl ReadOptions {
    /// The patterns of phases to ignore, as they are written.
    pub(crate) fn ignored(&self) -> Vec<String> {
        self.ignore.iter().map(|pattern| pattern.as_str().to_owned()).collect()
    }
}

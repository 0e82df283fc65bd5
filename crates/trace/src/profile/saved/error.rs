//! Why a file cannot be read as a saved profile.

use ptmem_base::text::count;
use ptmem_base::units::Size;
use ptmem_snapshot::input::JsonDocument;

use crate::profile::Moment;

const EXPECTED: &str = "expected a pickle from torch.cuda.memory._dump_snapshot(), or a saved profile";

/// Why a file cannot be read as a saved profile.
#[derive(Debug, thiserror::Error)]
pub enum SavedError {
    /// Invalid JSON, or of another shape.
    #[error("this looks like JSON, but cannot be read as a saved profile: {0}; {EXPECTED}")]
    Json(String),
    /// JSON of another kind.
    #[error("this looks like JSON, but is not a saved profile: {0}; {EXPECTED}")]
    NotAProfile(JsonDocument),
    /// A profile that contradicts itself.
    #[error("{0}; the file was changed by hand, merged or damaged, or another version saved it. Write it again")]
    Damaged(String),
    /// The numbers of layers, which are folded in the file.
    #[error(
        "a saved profile keeps the paths of modules without the numbers of layers; give the snapshot itself to unfold them"
    )]
    Unfold,
    /// A moment by its time.
    #[error(
        "a saved profile keeps the times of few events, so that '{0}' is not known; give the snapshot itself, or event:N"
    )]
    Times(Moment),
    /// More events than a file of its size may stand for.
    #[error(
        "it stands for {} and blocks, which count as {}; {} are allowed for a file of its size",
        count(*.moves, "event", "events"), Size(.moves.saturating_mul(MOVE_BYTES)), Size(*.max_bytes)
    )]
    TooLong {
        /// Number of its events and of blocks at their beginning, of all devices.
        moves: u64,
        /// The bound in bytes.
        max_bytes: u64,
    },
}

/// What each event and each block counts that a few bytes of a file stand for. A history is repetitive, and so is what an attacker
/// writes: `max-input` bounds what both expand to, as that of a compressed file. A small file may stand for 1.4 million: a recording of
/// a million events, with the blocks that are there before.
const MOVE_BYTES: u64 = 48;

/// Refuses more events and blocks than a file may stand for.
pub(super) fn require_room(moves: u64, max_bytes: u64) -> Result<(), SavedError> {
    if moves > max_bytes / MOVE_BYTES { Err(SavedError::TooLong { moves, max_bytes }) } else { Ok(()) }
}

impl From<serde_json::Error> for SavedError {
    fn from(error: serde_json::Error) -> Self {
        Self::Json(error.to_string())
    }
}

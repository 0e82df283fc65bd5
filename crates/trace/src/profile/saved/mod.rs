//! A profile as a file: deterministic text, with a line for each stack, class, move and frame.
//!
//! Part of the contract `ptmem.profile/3`. C++ frames that say nothing about the operation are left out; of all of them a
//! digest is kept, which `--group-by frames` compares.

mod format;
mod layout;
mod phases;
mod read;
mod trace;
mod write;

use ptmem_base::device::DeviceId;
use ptmem_snapshot::input::Document;
pub use ptmem_snapshot::input::PROFILE_SCHEMA as SCHEMA;
use sha1::{Digest, Sha1};

pub(super) use read::read;
pub use write::text_of;

use super::Moment;
use crate::stack::GroupBy;
use trace::MOST_MOVES;

const EXPECTED: &str = "expected a pickle from torch.cuda.memory._dump_snapshot(), or a saved profile";

/// Why a file cannot be read as a saved profile.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Invalid JSON, or of another shape.
    #[error("this looks like JSON, but cannot be read as a saved profile: {0}; {EXPECTED}")]
    Json(String),
    /// JSON of another kind.
    #[error("this looks like JSON, but is not a saved profile: {0}; {EXPECTED}")]
    NotAProfile(Document),
    /// A profile that contradicts itself.
    #[error("{0}; the file was changed by hand, merged or damaged. Write it again")]
    Damaged(String),
    /// A grouping that no profile knows.
    #[error(
        "a saved profile does not keep which {0} an allocation belongs to; give the snapshot itself to group by {0}"
    )]
    Grouping(GroupBy),
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
    /// More events than a file can represent.
    #[error("{device} has {events} events, and a saved profile can have {MOST_MOVES}; record fewer")]
    TooLong {
        /// Device ordinal.
        device: DeviceId,
        /// Number of its events.
        events: u64,
    },
}

impl From<serde_json::Error> for Error {
    fn from(error: serde_json::Error) -> Self {
        Self::Json(error.to_string())
    }
}

/// The beginning of the last line but one.
const DIGEST: &str = "  \"sha1\": \"";

/// A digest of the text, whatever its line ends: version control may change those.
fn digest(text: &str) -> String {
    let mut hash = Sha1::new();
    text.split('\r').for_each(|part| hash.update(part));
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

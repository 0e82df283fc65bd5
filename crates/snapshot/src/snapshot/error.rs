//! The error of reading a snapshot.

use std::fmt;

use crate::input::InputFormat;
use crate::pickle;

/// Why something cannot be read as a snapshot.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// Recognised from its first bytes, and not a pickle.
    #[error("{}", not_a_pickle(*.0))]
    NotAPickle(InputFormat),
    /// A pickle that cannot be read.
    #[error(transparent)]
    Pickle(#[from] pickle::PickleError<Damage>),
    /// A pickle of something else.
    #[error(
        "the file is a pickle, but not a CUDA memory snapshot: {found}. Expected the dictionary that \
         torch.cuda.memory._dump_snapshot() writes, with the keys 'segments' and 'device_traces', or the list of \
         torch.cuda.memory_snapshot()"
    )]
    NotASnapshot {
        /// The contents of the pickle.
        found: String,
    },
    /// A snapshot in which something required is missing or of the wrong kind.
    #[error("{place}: {problem}")]
    Invalid {
        /// Where, as Python would write it: `device_traces[0][17]`.
        place: String,
        /// The problem there.
        problem: String,
    },
}

impl SnapshotError {
    /// The same, within a place.
    pub(super) fn within(self, around: impl fmt::Display) -> Self {
        match self {
            Self::Invalid { place, problem } => Self::Invalid { place: format!("{around}{place}"), problem },
            other => other,
        }
    }
}

/// A structure that the pickle format allows and no snapshot has.
#[derive(Debug, thiserror::Error)]
pub enum Damage {
    /// A `frames` list that grows after something refers to it.
    #[error("a list of frames changes after it was used; the file is damaged")]
    FramesChange,
    /// A frame that changes after a list of frames contains it.
    #[error("a frame changes after it was used; the file is damaged")]
    FrameChanges,
    /// Tuples within tuples, deeper than any snapshot has them.
    #[error("tuples are nested more than {0} deep; the file is damaged")]
    Deep(u8),
    /// More lists and dictionaries that are neither stacks nor records than any snapshot has.
    #[error("more than 2,097,152 lists and dictionaries that no snapshot has; the file is damaged")]
    Parts,
    /// More distinct values than can be numbered.
    #[error("more than 268,435,440 {0}; the file is larger than this version can read")]
    TooMany(&'static str),
}

const EXPECTED: &str = "expected a pickle from torch.cuda.memory._dump_snapshot()";

fn not_a_pickle(format: InputFormat) -> String {
    let name = format.name().unwrap_or_default();
    match format {
        InputFormat::Empty => format!(
            "the file is empty; {EXPECTED}. A dump that fails half-way leaves an empty file: look at the log of the \
             process that wrote it"
        ),
        InputFormat::Gzip | InputFormat::Zstandard | InputFormat::Zip | InputFormat::SplitZip => {
            format!("this looks like {name}; {EXPECTED}. Unpack it first")
        }
        InputFormat::Html => {
            format!(
                "this looks like {name}, such as a report of ptmem or a page of torch.cuda._memory_viz; {EXPECTED}, \
                 from which such pages are made"
            )
        }
        InputFormat::LfsPointer => {
            format!("this looks like {name}; fetch the file with 'git lfs pull' (with actions/checkout set lfs: true)")
        }
        InputFormat::Unknown { first } => format!("not a pickle (it begins with the byte 0x{first:02x}); {EXPECTED}"),
        InputFormat::JsonObject
        | InputFormat::JsonArray
        | InputFormat::Sqlite
        | InputFormat::Text
        | InputFormat::Pickle => {
            format!("this looks like {name}; {EXPECTED}")
        }
    }
}

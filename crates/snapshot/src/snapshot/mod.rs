//! PyTorch's model of a CUDA memory snapshot, and reading it.
//!
//! The shape of the data and the names are PyTorch's own (`torch.cuda.memory._snapshot`), of release 1.13 and later.
//! Strings, frames and stacks are interned behind small handles: a snapshot repeats the same few hundred stacks tens of
//! thousands of times.

mod build;
mod contents;
mod copy;
mod error;
mod event;
mod field;
mod forward;
mod run;
mod run_devices;
mod segment;
mod settings;
mod tables;
mod times;
mod value;

use std::io::Read;

pub use contents::{Annotation, Device, DictKind, Snapshot};
pub use copy::Copier;
pub use error::{Damage, SnapshotError};
pub use event::{Action, Event};
pub use run::{Ending, EndingKind, Followed, FunctionsOfFile, Guess, OwnPackage, RecordedSteps, RunFacts};
pub use run_devices::{CardFacts, CollectedBlocks, DeviceCounters, DeviceModules, OutermostCalls, StatedCounters};
pub use segment::{Block, BlockState, BlockSums, Segment};
pub use settings::{AllocatorSettings, ParseSettingsError};
pub use tables::{Frame, FrameId, StackId, StringId, Tables, Tags, TagsId};
pub use times::EventTimes;

use crate::input::{Input, InputFormat};
use crate::pickle;

/// Reads a snapshot from the bytes of a file.
///
/// # Errors
/// If the input is not a snapshot (with the format that it appears to be), or is damaged.
pub fn read(mut input: impl Read) -> Result<Snapshot, SnapshotError> {
    let input = Input::new(&mut input).map_err(|error| pickle::PickleError { offset: 0, kind: error.into() })?;
    decode(input, false)
}

/// Reads a snapshot from an input of which the format is known, with the source files that the recorder added if `keeps_sources`.
///
/// # Errors
/// As [`read`].
pub fn decode(input: Input<'_>, keeps_sources: bool) -> Result<Snapshot, SnapshotError> {
    if input.format != InputFormat::Pickle {
        return Err(SnapshotError::NotAPickle(input.format));
    }
    let mut builder = build::SnapshotBuilder::new(keeps_sources);
    let root = pickle::read(input, &mut builder)?;
    builder.finish(root)
}

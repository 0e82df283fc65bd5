//! The error of reading an input and computing its profile.

use std::io;

use ptmem_base::device::{self, DeviceId};
use ptmem_snapshot::input::TooLarge;
use ptmem_snapshot::pickle::{self, ErrorKind};
use ptmem_snapshot::snapshot;

use super::every::{Every, Lack, MOST_INTERVALS};
use super::numbers::NumbersError;
use super::saved::SavedError;
use crate::replay;

/// Why an input gives no profile.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProfileError {
    /// It cannot be read at all, or its compression or archive is damaged.
    #[error(transparent)]
    Input(#[from] io::Error),
    /// It cannot be read as a snapshot.
    #[error(transparent)]
    Snapshot(#[from] snapshot::SnapshotError),
    /// Its history cannot be replayed.
    #[error(transparent)]
    Replay(#[from] replay::ReplayError),
    /// It looks like a saved profile and cannot be read as one.
    #[error(transparent)]
    Saved(#[from] SavedError),
    /// Figures that cannot be read.
    #[error(transparent)]
    Numbers(#[from] NumbersError),
    /// A history in more parts than anybody could read.
    #[error("{device}: the history has more than {MOST_INTERVALS} parts of {every}; take longer ones")]
    TooManyIntervals {
        /// Device ordinal.
        device: DeviceId,
        /// The requested length.
        every: Box<Every>,
    },
    /// A history without the times or steps that it was to be divided by.
    #[error("{device}: {lack}, so the history cannot be divided into parts of {every}")]
    Undivided {
        /// Device ordinal.
        device: DeviceId,
        /// The requested length.
        every: Box<Every>,
        /// The thing that is missing.
        lack: Lack,
    },
    /// The requested device is not there.
    #[error("there is no {device} in it; it has {}", device::listed(known))]
    NoDevice {
        /// Device ordinal.
        device: DeviceId,
        /// Those that are there.
        known: Vec<DeviceId>,
    },
}

impl ProfileError {
    /// The limit that the input exceeds once it is unpacked, where that is why it cannot be read.
    pub fn too_large(&self) -> Option<TooLarge> {
        match self {
            Self::Input(error) => TooLarge::of(error),
            Self::Snapshot(snapshot::SnapshotError::Pickle(pickle::PickleError {
                kind: ErrorKind::Io(error), ..
            })) => TooLarge::of(error),
            Self::Saved(SavedError::TooLong { max_bytes, .. }) => Some(TooLarge { max_bytes: *max_bytes }),
            _ => None,
        }
    }
}

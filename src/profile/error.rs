//! The error of reading an input and computing its profile.

use std::io;

use super::every::{Every, MOST_INTERVALS};
use super::saved;
use crate::{replay, snapshot};

/// Why an input gives no profile.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// It cannot be read at all, or what it is wrapped in is damaged.
    #[error(transparent)]
    Input(#[from] io::Error),
    /// It cannot be read as a snapshot.
    #[error(transparent)]
    Snapshot(#[from] snapshot::Error),
    /// Its history cannot be replayed.
    #[error(transparent)]
    Replay(#[from] replay::Error),
    /// It looks like a saved profile and cannot be read as one.
    #[error(transparent)]
    Saved(#[from] saved::Error),
    /// A history in so many parts that nobody could read them.
    #[error(
        "device {device}: --every {every} makes {parts} parts of the history, and at most {MOST_INTERVALS} are shown; try \
         --every {better}"
    )]
    TooManyIntervals {
        /// Device ordinal.
        device: u32,
        /// The length that was asked for.
        every: Box<Every>,
        /// How many parts that would be.
        parts: u64,
        /// A length that would do.
        better: Box<Every>,
    },
    /// A history without times, which releases before 2.2 write.
    #[error(
        "device {device}: the events have no times (PyTorch before 2.2), which --every {every} needs; try --every 1000events"
    )]
    NoTimes {
        /// Device ordinal.
        device: u32,
        /// The length that was asked for.
        every: Box<Every>,
    },
    /// A history without the steps that were asked for.
    #[error(
        "device {device}: {}, which --every {every} needs; name them with --step PATTERN, or try --every 1000events",
        pattern.as_ref().map_or("no steps are found".to_owned(), |pattern| format!("no step is named '{pattern}'"))
    )]
    NoSteps {
        /// Device ordinal.
        device: u32,
        /// The length that was asked for.
        every: Box<Every>,
        /// How they were to be named, where that was said.
        pattern: Option<String>,
    },
    /// The device that was asked for is not there.
    #[error("there is no device {device} (--device) in it; it has {}", list_devices(known))]
    NoDevice {
        /// Device ordinal.
        device: u32,
        /// Those that are there.
        known: Vec<u32>,
    },
    /// A saved profile where a history is needed.
    #[error("a saved profile has no history that --every {every} could divide; give the snapshot itself")]
    NoHistory {
        /// The length that was asked for.
        every: Box<Every>,
    },
}

fn list_devices(known: &[u32]) -> String {
    match known {
        [] => "none".to_owned(),
        [only] => format!("device {only}"),
        [first @ .., last] => {
            let first: Vec<String> = first.iter().map(ToString::to_string).collect();
            format!("devices {} and {last}", first.join(", "))
        }
    }
}

//! Where a profile came from, and why a stored one was raised.

use serde::{Deserialize, Serialize};

/// The kind of input that a profile was computed from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, strum::IntoStaticStr, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum InputKind {
    /// A snapshot.
    #[default]
    Snapshot,
    /// A list of segments without a history.
    Segments,
    /// A saved profile.
    Profile,
    /// Only figures, such as those of `torch.cuda.memory_stats()`.
    Numbers,
}

ptmem_base::named!(InputKind);

/// Where a profile came from.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Source {
    /// Path as the user gave it.
    pub path: String,
    /// Size of the input.
    pub bytes: u64,
    /// Its kind.
    pub kind: InputKind,
}

/// The reason for which the figures of a stored before were raised.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Raise {
    /// The reason that the user gave.
    pub reason: String,
    /// The figures, each with its change.
    pub changes: Vec<String>,
}

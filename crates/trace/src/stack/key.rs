//! The identity of groups of stacks.

use super::token::{Digest, sha1};

/// The identity of a group of stacks: a SHA-1 in hexadecimal, the same on every machine.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(pub String);

impl Key {
    pub(super) fn of(digest: Digest) -> Self {
        Self(digest.iter().map(|byte| format!("{byte:02x}")).collect())
    }

    /// The key of a name of some kind.
    pub(super) fn of_name(kind: &str, name: &str) -> Self {
        Self::of(sha1(&[kind.as_bytes(), b"\0", name.as_bytes()]))
    }
}

//! Functions: what identifies them, and the part of their names that is shown.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use ptmem_base::text::cut;
use rustc_hash::FxHashMap;
use sha1::{Digest as _, Sha1};

/// A SHA-1: the same on every machine and in every release.
pub type Digest = [u8; 20];

pub(super) fn sha1(parts: &[&[u8]]) -> Digest {
    let mut hash = Sha1::new();
    for part in parts {
        hash.update(part);
    }
    hash.finalize().into()
}

pub(super) fn head(digest: &Digest) -> u64 {
    u64::from_le_bytes([digest[0], digest[1], digest[2], digest[3], digest[4], digest[5], digest[6], digest[7]])
}

/// Names of functions without a name of their own.
pub(super) const UNNAMED: [&str; 5] = ["<lambda>", "<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>"];

/// Their digests.
static UNNAMED_DIGESTS: LazyLock<[u64; 5]> = LazyLock::new(|| UNNAMED.map(|name| head(&sha1(&[name.as_bytes()]))));

/// A function, independent of the folder of its file and of its line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Token {
    /// The file in its normal form, as a digest.
    pub(super) file: u64,
    /// The last part of its path, as a digest.
    pub(super) base: u64,
    /// The name of the function, as a digest: the qualified one, where it is known.
    pub(super) function: u64,
    /// The last part of that name, as a digest.
    pub(super) name: u64,
}

impl Token {
    /// From the digests of the file, of its name, and of the function.
    pub(super) fn new(file: &Digest, base: &Digest, function: &Digest) -> Self {
        Self { file: head(file), base: head(base), function: head(function), name: head(function) }
    }

    /// The name of the function without its class and file, as a digest.
    pub fn plain_name(&self) -> u64 {
        self.name
    }

    /// True for a lambda or a comprehension: all of a file or function are one.
    pub fn is_unnamed(&self) -> bool {
        UNNAMED_DIGESTS.contains(&self.name)
    }

    /// The same where the function has a name within its class or its function.
    pub(super) fn qualified(self, function: &Digest) -> Self {
        Self { function: head(function), ..self }
    }
}

/// Functions with the lines on which they call or allocate.
pub type Lines = FxHashMap<Token, BTreeSet<u32>>;

/// The part of a name that is shown.
pub(super) fn legible(name: &str) -> &str {
    cut(name, 256)
}

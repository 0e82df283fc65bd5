//! Stacks with all of their frames and lines.

use std::sync::OnceLock;

use sha1::{Digest as _, Sha1};

use super::classify;
use super::code::{Digest, head, sha1};
use crate::snapshot::{Frame, FrameId, StackId, StringId, Tables};

/// True for a frame in Python, as far as its own names tell.
#[must_use]
pub fn is_python(tables: &Tables, frame: FrameId) -> bool {
    let frame = tables.frame(frame);
    classify::is_python(tables.string(frame.name), tables.string(frame.filename))
}

/// A digest of the C++ frames of a stack.
pub type CppDigest = u64;

/// Digests of stacks with all of their frames and lines: of those in Python, and of those in C++, of which a saved
/// profile keeps nothing else.
#[derive(Debug)]
pub struct ExactKeys<'t> {
    tables: &'t Tables,
    /// By frame; made when they are first asked for.
    frames: Vec<OnceLock<ExactFrame>>,
    /// Digests of strings, likewise.
    strings: Vec<OnceLock<Digest>>,
}

/// A frame with its line.
#[derive(Debug, Clone, Copy)]
struct ExactFrame {
    digest: Digest,
    is_cpp: bool,
}

impl<'t> ExactKeys<'t> {
    /// For the stacks of a snapshot.
    #[must_use]
    pub fn new(tables: &'t Tables) -> Self {
        let frames = tables.frames().iter().map(|_| OnceLock::new());
        let strings = (0..tables.string_count()).map(|_| OnceLock::new());
        Self { tables, frames: frames.collect(), strings: strings.collect() }
    }

    fn string(&self, id: StringId) -> &Digest {
        self.strings[id.index()].get_or_init(|| sha1(&[self.tables.string(id).as_bytes()]))
    }

    fn frame(&self, id: FrameId) -> ExactFrame {
        *self.frames[id.index()].get_or_init(|| {
            let Frame { name, filename, line, .. } = self.tables.frame(id);
            let digest = sha1(&[self.string(*name), self.string(*filename), &line.to_le_bytes()]);
            ExactFrame { digest, is_cpp: !is_python(self.tables, id) }
        })
    }

    fn part(&self, stack: StackId, in_cpp: bool) -> Digest {
        let mut hash = Sha1::new();
        let frames = self.tables.stack(stack).iter().map(|&frame| self.frame(frame));
        frames.filter(|frame| frame.is_cpp == in_cpp).for_each(|frame| hash.update(frame.digest));
        hash.finalize().into()
    }

    /// The digest of the C++ frames of a stack.
    #[must_use]
    pub fn cpp(&self, stack: StackId) -> CppDigest {
        head(&self.part(stack, true))
    }

    /// The digest of a stack, without the frames of its forward pass. Its C++ frames are those of `cpp`, if that is
    /// given.
    #[must_use]
    pub fn of(&self, stack: StackId, cpp: Option<CppDigest>) -> Digest {
        let cpp = cpp.unwrap_or_else(|| self.cpp(stack));
        sha1(&[&self.part(stack, false), &cpp.to_le_bytes()])
    }
}

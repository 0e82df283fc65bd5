//! Stacks with all of their frames and lines.

use std::sync::Arc;

use ptmem_snapshot::snapshot::{Frame, FrameId, StackId, Tables};
use sha1::{Digest as _, Sha1};

use super::SnapshotCode;
use super::classify;
use super::token::{Digest, head, sha1};

/// True for a Python frame, judged by its own names.
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
    /// By frame.
    frames: Arc<[ExactFrame]>,
}

/// A frame with its line.
#[derive(Debug, Clone, Copy)]
pub(super) struct ExactFrame {
    digest: Digest,
    is_cpp: bool,
}

impl ExactFrame {
    /// All frames of a snapshot.
    fn all(tables: &Tables) -> Arc<[Self]> {
        let strings: Vec<Digest> = tables.strings().map(|text| sha1(&[text.as_bytes()])).collect();
        let mut frames = Vec::with_capacity(tables.frames().len());
        for Frame { name, filename, line, .. } in tables.frames() {
            let digest = sha1(&[&strings[name.index()], &strings[filename.index()], &line.to_le_bytes()]);
            let is_cpp = !classify::is_python(tables.string(*name), tables.string(*filename));
            frames.push(Self { digest, is_cpp });
        }
        frames.into()
    }
}

impl<'t> ExactKeys<'t> {
    /// For the stacks of a snapshot.
    pub fn new(code: &SnapshotCode<'t>) -> Self {
        let frames = code.facts.exact.get_or_init(|| ExactFrame::all(code.tables));
        Self { tables: code.tables, frames: Arc::clone(frames) }
    }

    #[cfg(test)]
    pub(super) fn shares_frames(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.frames, &other.frames)
    }

    fn part(&self, stack: StackId, in_cpp: bool) -> Digest {
        let mut hash = Sha1::new();
        let frames = self.tables.stack(stack).iter().map(|&frame| self.frames[frame.index()]);
        frames.filter(|frame| frame.is_cpp == in_cpp).for_each(|frame| hash.update(frame.digest));
        hash.finalize().into()
    }

    /// The digest of the C++ frames of a stack.
    pub fn cpp(&self, stack: StackId) -> CppDigest {
        head(&self.part(stack, true))
    }

    /// The digest of a stack, without the frames of its forward pass. Its C++ frames are those of `cpp`, if that is
    /// given.
    pub fn of(&self, stack: StackId, cpp: Option<CppDigest>) -> Digest {
        let cpp = cpp.unwrap_or_else(|| self.cpp(stack));
        sha1(&[&self.part(stack, false), &cpp.to_le_bytes()])
    }
}

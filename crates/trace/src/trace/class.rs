//! Classes of allocations that count as one, and whom they belong to.

use ptmem_snapshot::snapshot::{StackId, StringId};
use serde::{Deserialize, Serialize};

use super::{Measure, Uncertainty};
use crate::stack::{CppDigest, GroupBy};

/// Memory whose stack is not known, or rows that stand for several stacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, strum::IntoStaticStr, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum Bucket {
    /// Alive at the end, never allocated in the history, and without frames.
    BeforeRecording,
    /// Freed in the history, never allocated in it.
    #[serde(rename = "allocation-not-recorded")]
    #[strum(serialize = "allocation-not-recorded")]
    NotRecorded,
    /// Allocated in the history without frames.
    NoFrames,
    /// Stacks that are not listed. No file has it.
    #[serde(skip)]
    Others,
}

impl Bucket {
    /// Identifier in machine-readable output.
    pub fn code(self) -> &'static str {
        self.into()
    }

    /// The name of its row.
    pub fn label(self) -> &'static str {
        match self {
            Self::BeforeRecording => "<before recording>",
            Self::NotRecorded => "<allocation not recorded>",
            Self::NoFrames => "<no frames>",
            Self::Others => "<others>",
        }
    }
}

/// To whom the bytes of an allocation belong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Origin {
    /// A known call stack.
    Stack(StackId),
    /// The bucket in place of an unknown stack.
    Bucket(Bucket),
}

impl Origin {
    /// The stack, where it is known.
    pub fn stack(self) -> Option<StackId> {
        match self {
            Self::Stack(stack) => Some(stack),
            Self::Bucket(_) => None,
        }
    }

    /// The bucket, where the stack is not known.
    pub fn bucket(self) -> Option<Bucket> {
        match self {
            Self::Stack(_) => None,
            Self::Bucket(bucket) => Some(bucket),
        }
    }

    /// The label of the bucket, or what `of_stack` calls the stack.
    pub fn label(self, of_stack: impl FnOnce(StackId) -> String) -> String {
        match self {
            Self::Stack(stack) => of_stack(stack),
            Self::Bucket(bucket) => bucket.label().to_owned(),
        }
    }
}

/// The tags of allocations that groupings read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(bound(deserialize = "T: Deserialize<'de>"))]
pub struct ClassTags<T = StringId> {
    /// `user_metadata` at the allocation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<T>,
    /// `compile_context` at the allocation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compile_context: Option<T>,
    /// The module that allocated, or to which the memory belongs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub module: Option<T>,
    /// The purpose of the memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub purpose: Option<T>,
    /// Type and shape of the tensor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shape: Option<T>,
    /// The function that supposed a size from which that of the memory follows, on a simulated GPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub supposed: Option<T>,
}

impl<T> Default for ClassTags<T> {
    fn default() -> Self {
        Self { metadata: None, compile_context: None, module: None, purpose: None, shape: None, supposed: None }
    }
}

impl<T> ClassTags<T> {
    /// The same tags under other names.
    pub fn map<U>(&self, mut name: impl FnMut(&T) -> U) -> ClassTags<U> {
        let Self { metadata, compile_context, module, purpose, shape, supposed } = self;
        let [metadata, compile_context, module, purpose, shape, supposed] =
            [metadata, compile_context, module, purpose, shape, supposed].map(|tag| tag.as_ref().map(&mut name));
        ClassTags { metadata, compile_context, module, purpose, shape, supposed }
    }
}

impl ClassTags {
    /// The tag that a grouping goes by.
    pub fn of(self, by: GroupBy) -> Option<StringId> {
        match by {
            GroupBy::Metadata => self.metadata,
            GroupBy::CompileContext => self.compile_context,
            GroupBy::Module => self.module,
            GroupBy::Purpose => self.purpose,
            GroupBy::Shape => self.shape,
            GroupBy::Frames | GroupBy::Stack | GroupBy::Line | GroupBy::Function | GroupBy::Category => None,
        }
    }
}

/// Allocations that count as one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Class {
    /// To whom they belong.
    pub origin: Origin,
    /// Bytes of each block.
    pub bytes: u64,
    /// Requested bytes.
    pub requested: u64,
    /// How far `bytes` may be from the truth.
    pub spread: Uncertainty,
    /// True if the free of the block may have been requested unrecorded: it may not have been allocated any more.
    pub maybe_pending: bool,
    /// Their tags.
    pub tags: ClassTags,
    /// The digest of all C++ frames of the stack, where some of them were dropped.
    pub cpp: Option<CppDigest>,
}

impl Class {
    /// The same with blocks as small as they may be.
    #[must_use]
    pub(super) fn smallest(&self) -> Self {
        Self { bytes: self.bytes.saturating_sub(self.spread_in(Measure::Allocated).below), ..*self }
    }

    /// The same with blocks as large as they may be.
    #[must_use]
    pub(super) fn largest(&self) -> Self {
        Self { bytes: self.bytes.saturating_add(self.spread_in(Measure::Allocated).above), ..*self }
    }

    /// How far the bytes that one of its blocks counts as allocated may be from the truth.
    #[must_use]
    pub fn error(&self) -> u64 {
        let Uncertainty { below, above } = self.spread_in(Measure::Allocated);
        below.max(above)
    }
}

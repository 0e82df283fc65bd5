//! The events of a history.

use ptmem_base::text::cut;

use super::tables::{StackId, Tables, TagsId};

/// One entry of a device trace without its time, in 24 bytes because a snapshot holds millions.
#[derive(Debug, Clone, Copy)]
pub struct Event {
    /// Address; for [`Action::Oom`] the free bytes of the device instead (`device_free`).
    pub addr: u64,
    /// Bytes; the meaning depends on the action.
    pub size: u64,
    /// The captured stack; `None` where there is no `frames` key.
    pub stack: Option<StackId>,
    /// Tags, which rarely change from one event to the next.
    pub tags: TagsId,
    /// The action.
    pub action: Action,
}

impl Event {
    /// One of which no key was read.
    pub(super) fn empty(tags: TagsId) -> Self {
        Self { addr: 0, size: 0, stack: None, tags, action: Action::Snapshot }
    }

    /// The name of the action in the file, at most 64 bytes of it.
    #[must_use]
    pub fn action_name<'t>(&self, tables: &'t Tables) -> &'t str {
        match self.action {
            Action::Other => tables.tags(self.tags).action.map_or("", |name| cut(tables.string(name), 64)),
            known => known.into(),
        }
    }
}

/// The action of an [`Event`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, strum::EnumIter, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum Action {
    /// A block was handed out; size: bytes requested.
    Alloc,
    /// A tensor gave its block back.
    FreeRequested,
    /// The block became reusable.
    FreeCompleted,
    /// `cudaMalloc`.
    SegmentAlloc,
    /// `cudaFree`.
    SegmentFree,
    /// Part of an expandable segment was mapped.
    SegmentMap,
    /// Part of an expandable segment was unmapped, possibly of an earlier map.
    SegmentUnmap,
    /// A snapshot was taken; size: active bytes at that moment.
    Snapshot,
    /// An allocation failed; size: bytes that it would have occupied.
    Oom,
    /// Anything else; skipped. Its name is in [`super::Tags::action`].
    #[strum(disabled)]
    Other,
}

impl Action {
    /// The number of actions.
    pub const COUNT: usize = Self::Other as usize + 1;

    /// True if a segment, or a part of one, comes or goes.
    #[inline]
    #[must_use]
    pub fn is_of_segment(self) -> bool {
        self.adds_segment() || matches!(self, Self::SegmentFree | Self::SegmentUnmap)
    }

    /// True if a segment, or a part of one, comes.
    #[inline]
    #[must_use]
    pub fn adds_segment(self) -> bool {
        matches!(self, Self::SegmentAlloc | Self::SegmentMap)
    }
}

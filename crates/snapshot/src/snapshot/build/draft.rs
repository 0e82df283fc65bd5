//! Records of which keys may be missing, while their dictionaries are read.

use super::super::value::Value;
use super::super::{BlockState, StackId, StringId};

/// A [`Block`] of which keys may be missing.
#[derive(Clone, Copy, Default)]
pub(super) struct BlockDraft {
    pub(super) address: Option<u64>,
    pub(super) size: Option<u64>,
    pub(super) requested_size: Option<u64>,
    pub(super) state: Option<BlockState>,
    pub(super) stack: Option<StackId>,
    pub(super) history: Option<Value>,
}

/// A [`Segment`] of which keys may be missing.
#[derive(Clone, Copy, Default)]
pub(super) struct SegmentDraft {
    pub(super) device: Option<u64>,
    pub(super) address: Option<u64>,
    pub(super) total_size: Option<u64>,
    pub(super) allocated_size: Option<u64>,
    pub(super) active_size: Option<u64>,
    pub(super) small_pool: Option<bool>,
    pub(super) stream: Option<i128>,
    pub(super) pool_id: Option<(u64, u64)>,
    pub(super) is_expandable: bool,
    pub(super) stack: Option<StackId>,
    pub(super) blocks: Option<Value>,
}

#[derive(Clone, Copy, Default)]
pub(super) struct Occupant {
    pub(super) real_size: Option<u64>,
    pub(super) stack: Option<StackId>,
}

#[derive(Clone, Copy, Default)]
pub(super) struct AnnotationDraft {
    pub(super) starts: Option<bool>,
    pub(super) name: Option<StringId>,
    pub(super) device: Option<u64>,
    pub(super) time_us: Option<u64>,
}

/// The required keys that an event has, with well-formed values.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Present(u8);

impl Present {
    pub(super) const ACTION: Self = Self(1);
    pub(super) const ADDR: Self = Self(2);
    pub(super) const SIZE: Self = Self(4);
    pub(super) const ALL: Self = Self(7);

    pub(super) fn set(&mut self, bit: Self) {
        self.0 |= bit.0;
    }

    pub(super) fn has(self, bit: Self) -> bool {
        self.0 & bit.0 != 0
    }
}

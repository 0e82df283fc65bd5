//! The free blocks that allocations were served from.

use super::super::rounding::Pool;

/// The free block that an allocation was served from.
#[derive(Debug, Clone, Copy)]
pub(super) struct Room {
    pub(super) bytes: u64,
    pub(super) pool: Pool,
    /// True if the size of the allocation is known, and not only the one that the rules give.
    pub(super) is_known: bool,
    /// True if it ends where the allocation does. The rounded request of one that is older than the history counts even
    /// so.
    pub(super) is_filled: bool,
}

/// A room without its bytes.
#[derive(Debug, Clone, Copy)]
struct Kind {
    pool: Pool,
    is_known: bool,
    is_filled: bool,
}

/// The room of every allocation. Sizes and kinds are apart, because together they would take half as much again.
#[derive(Debug)]
pub(super) struct Rooms {
    bytes: Vec<u64>,
    kinds: Vec<Kind>,
}

impl Rooms {
    pub(super) fn new(allocations: usize) -> Self {
        let kind = Kind { pool: Pool::Small, is_known: true, is_filled: false };
        Self { bytes: vec![0; allocations], kinds: vec![kind; allocations] }
    }

    #[inline]
    pub(super) fn get(&self, allocation: u32) -> Room {
        let Kind { pool, is_known, is_filled } = self.kinds[allocation as usize];
        Room { bytes: self.bytes[allocation as usize], pool, is_known, is_filled }
    }

    #[inline]
    pub(super) fn set(&mut self, allocation: u32, room: Room) {
        let Room { bytes, pool, is_known, is_filled } = room;
        self.bytes[allocation as usize] = bytes;
        self.kinds[allocation as usize] = Kind { pool, is_known, is_filled };
    }
}

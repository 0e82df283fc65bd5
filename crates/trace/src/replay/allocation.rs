//! The use of a block, from its allocation to its free.

use ptmem_snapshot::snapshot::{Snapshot, StackId};

use crate::trace::{Bucket, Origin, Position};

/// One use of a block, from `alloc` to `free_completed`.
#[derive(Debug, Clone, Copy)]
pub struct Allocation {
    /// Bytes that the block occupies.
    pub bytes: u64,
    /// Requested bytes.
    pub requested: u64,
    /// Where it was allocated, if that was captured (a captured stack without frames does not count
    /// as known, see [`Allocation::origin`]).
    pub stack: Option<StackId>,
    /// `alloc`; the start for what was there before.
    pub born: Position,
    /// `free_requested`: from here on no longer allocated.
    pub freed: Position,
    /// `free_completed`: from here on no longer active.
    pub completed: Position,
    /// The index of its address among all block addresses; once the trace is built, its class there. (Long histories
    /// have so many that each field counts.)
    pub(super) place: u32,
    /// Where `bytes` comes from.
    pub(super) basis: Basis,
}

/// The source of the size of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Basis {
    /// The final state says it.
    FinalState,
    /// It follows from the free block that was taken.
    Rule,
    /// The rounded request; it may be larger.
    Request,
}

impl Allocation {
    pub(super) fn new(place: u32, requested: u64) -> Self {
        Self {
            bytes: 0,
            requested,
            stack: None,
            born: Position::START,
            freed: Position::NEVER,
            completed: Position::NEVER,
            place,
            basis: Basis::Request,
        }
    }

    pub(super) fn end(&mut self, now: Position) {
        self.freed = self.freed.min(now);
        self.completed = now;
    }

    /// True if it counts as allocated until the completion of its free.
    pub(super) fn is_freed_by_completion(&self) -> bool {
        self.completed != Position::NEVER && self.freed == self.completed
    }

    /// True if it counts as allocated at that moment.
    pub fn allocated_at(&self, moment: Position) -> bool {
        self.born <= moment && moment < self.freed
    }

    /// To whom its bytes belong.
    pub fn origin(&self, snapshot: &Snapshot) -> Origin {
        match self.stack {
            Some(stack) if snapshot.tables.has_frames(stack) => Origin::Stack(stack),
            _ if self.born != Position::START => Origin::Bucket(Bucket::NoFrames),
            _ if self.basis == Basis::FinalState => Origin::Bucket(Bucket::BeforeRecording),
            _ => Origin::Bucket(Bucket::NotRecorded),
        }
    }
}

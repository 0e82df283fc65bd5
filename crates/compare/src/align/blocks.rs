//! The blocks that are allocated at a place of a history, whoever holds them.

use ptmem_trace::trace::{Position, Trace};
use rustc_hash::FxHashMap;

use super::End;

/// Allocated blocks by their size.
#[derive(PartialEq)]
pub(super) struct BlocksBySize(FxHashMap<u64, u64>);

impl BlocksBySize {
    /// The blocks at a place: at one end those freed within the recording, at the other those allocated within it.
    pub(super) fn at(trace: &Trace, at: Position, only: Option<End>) -> Self {
        let mut blocks = FxHashMap::default();
        for life in trace.lives().iter().filter(|life| life.born <= at && at < life.freed) {
            let counts = match only {
                None => true,
                Some(End::Head) => life.freed != Position::NEVER,
                Some(End::Tail) => life.born != Position::START && life.born != trace.dump(),
            };
            if counts {
                *blocks.entry(trace.classes[life.class as usize].requested).or_default() += 1;
            }
        }
        Self(blocks)
    }

    pub(super) fn at_end(trace: &Trace, end: End, only: Option<End>) -> Self {
        Self::at(trace, if end == End::Head { Position::START } else { trace.dump() }, only)
    }

    /// Those that another place does not hold.
    pub(super) fn minus(&self, other: &Self) -> Self {
        let left = self.0.iter().map(|(bytes, count)| {
            let held = other.0.get(bytes).copied().unwrap_or(0);
            (*bytes, count.saturating_sub(held))
        });
        Self(left.collect())
    }

    /// The bytes of those that are in both.
    pub(super) fn overlap(&self, other: &Self) -> u64 {
        self.bytes() - self.minus(other).bytes()
    }

    pub(super) fn bytes(&self) -> u64 {
        self.0.iter().fold(0, |sum, (&bytes, &count)| sum.saturating_add(bytes.saturating_mul(count)))
    }
}

//! Memory that release 2.0 may have held unseen: it does not record the free of a block that is older than the recording.

use std::collections::BTreeMap;

use super::{Allocation, Position};

/// Parts of segments that blocks may occupy of which neither the history nor the final state tells.
///
/// A part is known to be free as soon as an allocation is served from it.
#[derive(Debug, Default)]
pub(super) struct Unrecorded {
    /// End by start.
    parts: BTreeMap<u64, u64>,
    bytes: i128,
}

impl Unrecorded {
    /// Everything in the segments before the first event that no block of the final state occupies then.
    pub(super) fn at_start(segments: &[(u64, u64)], allocations: &[Allocation]) -> Self {
        let mut unrecorded = Self::default();
        for &(start, end) in segments.iter().filter(|(start, end)| start < end) {
            unrecorded.parts.insert(start, end);
            unrecorded.bytes += i128::from(end - start);
        }
        for allocation in allocations.iter().filter(|allocation| allocation.born == Position::START) {
            unrecorded.take(allocation.addr, allocation.bytes);
        }
        unrecorded
    }

    /// Bytes that may be held unseen.
    pub(super) fn bytes(&self) -> i128 {
        self.bytes
    }

    /// Notes that an allocation is served from `address` on: nothing else is there.
    pub(super) fn take(&mut self, address: u64, bytes: u64) {
        let end = address.saturating_add(bytes);
        let before = self.parts.range(..=address).next_back().map(|(&start, _)| start);
        let hit: Vec<(u64, u64)> =
            self.parts.range(before.unwrap_or(address)..end.max(address)).map(|(&from, &to)| (from, to)).collect();
        for (from, to) in hit.into_iter().filter(|&(_, to)| to > address) {
            self.parts.remove(&from);
            self.bytes -= i128::from(to.min(end) - from.max(address));
            if from < address {
                self.parts.insert(from, address);
            }
            if to > end {
                self.parts.insert(end, to);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_was_free() {
        let mut unrecorded = Unrecorded { parts: BTreeMap::from([(0, 100), (200, 300)]), bytes: 200 };
        unrecorded.take(10, 20);
        assert_eq!(unrecorded.bytes(), 180);
        unrecorded.take(0, 50);
        assert_eq!(unrecorded.bytes(), 150);
        unrecorded.take(90, 120);
        assert_eq!(unrecorded.bytes(), 130);
        assert_eq!(unrecorded.parts, BTreeMap::from([(50, 90), (210, 300)]));
        unrecorded.take(1000, 5);
        assert_eq!(unrecorded.bytes(), 130);
    }
}

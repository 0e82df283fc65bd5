//! Which addresses are backed by memory, and by which pool.

use std::collections::BTreeMap;

use super::rounding::Pool;

/// Address ranges that the allocator holds. Two `cudaMalloc` segments stay apart even when they are
/// neighbours; mapped ranges of expandable segments that touch are one.
#[derive(Debug, Default)]
pub(super) struct SegmentMap {
    ranges: BTreeMap<u64, Range>,
}

#[derive(Debug, Clone, Copy)]
struct Range {
    end: u64,
    pool: Pool,
}

impl SegmentMap {
    pub(super) fn add(&mut self, start: u64, size: u64, pool: Pool) {
        let (mut start, mut end) = (start, start.saturating_add(size));
        if pool == Pool::Expandable {
            if let Some((&before, range)) = self.ranges.range(..=start).next_back()
                && range.end == start
                && range.pool == pool
            {
                start = before;
            }
            if let Some(after) = self.ranges.get(&end).filter(|after| after.pool == pool).copied() {
                self.ranges.remove(&end);
                end = after.end;
            }
        }
        self.ranges.insert(start, Range { end, pool });
    }

    /// Takes a range away, also out of the middle of a larger one. Returns whether any of it was there.
    pub(super) fn remove(&mut self, start: u64, size: u64) -> bool {
        if size == 0 {
            return false;
        }
        let end = start.saturating_add(size);
        let first = self.find(start).map_or(start, |(from, _, _)| from);
        let hit: Vec<_> = self.ranges.range(first..end.max(first)).map(|(&from, &range)| (from, range)).collect();
        for &(from, range) in &hit {
            self.ranges.remove(&from);
            if from < start {
                self.ranges.insert(from, Range { end: start, ..range });
            }
            if range.end > end {
                self.ranges.insert(end, range);
            }
        }
        !hit.is_empty()
    }

    /// The range that holds `address`: start, end, pool.
    pub(super) fn find(&self, address: u64) -> Option<(u64, u64, Pool)> {
        let (&start, range) = self.ranges.range(..=address).next_back()?;
        (address < range.end).then_some((start, range.end, range.pool))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_of_cudamalloc_stay_apart_and_mapped_ones_join() {
        let mut map = SegmentMap::default();
        map.add(0, 100, Pool::Large);
        map.add(100, 100, Pool::Large);
        assert_eq!(map.find(99), Some((0, 100, Pool::Large)));
        assert_eq!(map.find(100), Some((100, 200, Pool::Large)));
        map.add(200, 100, Pool::Expandable);
        map.add(400, 100, Pool::Expandable);
        map.add(300, 100, Pool::Expandable);
        assert_eq!(map.find(350), Some((200, 500, Pool::Expandable)));
        assert!(map.remove(250, 100));
        assert_eq!(map.find(249), Some((200, 250, Pool::Expandable)));
        assert_eq!(map.find(250), None);
        assert_eq!(map.find(350), Some((350, 500, Pool::Expandable)));
        assert!(!map.remove(260, 20));
        assert!(map.remove(100, 100));
        assert_eq!(map.find(150), None);
    }
}

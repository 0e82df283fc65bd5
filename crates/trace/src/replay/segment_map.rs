//! Which addresses are backed by memory, and by which pool.

use std::collections::BTreeMap;

use super::rounding::{SHARED_POOL, SplitRule};

/// Address ranges that the allocator holds. Two `cudaMalloc` segments stay apart even when they are
/// neighbours; mapped ranges of expandable segments that touch are one, unless they are known to be of two segments.
#[derive(Debug, Default)]
pub(super) struct SegmentMap {
    ranges: BTreeMap<u64, Range>,
    /// How often ranges came or went.
    pub(super) changes: u32,
}

/// A range, by its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Range {
    pub(super) end: u64,
    pub(super) pool: SplitRule,
    pub(super) home: Home,
}

/// The requests that a range serves, as far as the file states.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Home {
    /// Those up to 1 MiB, or larger ones.
    pub small: Option<bool>,
    /// Those on this stream.
    pub stream: Option<i128>,
    /// Those for this pool.
    pub pool_id: Option<(u64, u64)>,
}

impl Home {
    /// The knowledge of both.
    pub(super) fn or(self, other: Self) -> Self {
        Self {
            small: self.small.or(other.small),
            stream: self.stream.or(other.stream),
            pool_id: self.pool_id.or(other.pool_id),
        }
    }

    /// The private pool, such as that of a CUDA graph; `None` for the default pool, or if unknown.
    pub fn private_pool(self) -> Option<(u64, u64)> {
        self.pool_id.filter(|&pool| pool != SHARED_POOL)
    }

    /// True if nothing that is known of one is known otherwise of the other.
    fn agrees(&self, other: &Self) -> bool {
        fn agree<T: PartialEq>(a: Option<T>, b: Option<T>) -> bool {
            a.zip(b).is_none_or(|(a, b)| a == b)
        }
        agree(self.small, other.small) && agree(self.stream, other.stream) && agree(self.pool_id, other.pool_id)
    }
}

impl SegmentMap {
    pub(super) fn add(&mut self, start: u64, size: u64, pool: SplitRule, home: Home) {
        self.changes += 1;
        let mut start = start;
        let mut end = start.saturating_add(size);
        let mut home = home;
        if pool == SplitRule::Expandable {
            if let Some((&before, range)) = self.ranges.range(..=start).next_back()
                && range.end == start
                && range.pool == pool
                && range.home.agrees(&home)
            {
                home = home.or(range.home);
                start = before;
            }
            if let Some(&after) = self.ranges.get(&end)
                && after.pool == pool
                && after.home.agrees(&home)
            {
                self.ranges.remove(&end);
                end = after.end;
                home = home.or(after.home);
            }
        }
        self.ranges.insert(start, Range { end, pool, home });
    }

    /// Takes a range away, also out of the middle of a larger one. Returns whether any of it was there.
    pub(super) fn remove(&mut self, start: u64, size: u64) -> bool {
        if size == 0 {
            return false;
        }
        self.changes += 1;
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

    /// The home of the first range that `size` bytes from `start` on have a part in.
    pub(super) fn home(&self, start: u64, size: u64) -> Option<Home> {
        let first = self.find(start).map_or(start, |(from, _, _)| from);
        let end = start.saturating_add(size).max(first);
        self.ranges.range(first..end).next().map(|(_, range)| range.home)
    }

    /// All ranges by their starts. Each ends where the next starts, also where a damaged file has them overlap.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, Range)> {
        let next = self.ranges.keys().skip(1).copied().chain([u64::MAX]);
        self.ranges
            .iter()
            .zip(next)
            .map(|((&start, range), next)| (start, Range { end: range.end.min(next), ..*range }))
    }

    /// The range that holds `address`: start, end, pool.
    pub(super) fn find(&self, address: u64) -> Option<(u64, u64, SplitRule)> {
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
        map.add(0, 100, SplitRule::Large, Home::default());
        map.add(100, 100, SplitRule::Large, Home::default());
        assert_eq!(map.find(99), Some((0, 100, SplitRule::Large)));
        assert_eq!(map.find(100), Some((100, 200, SplitRule::Large)));
        map.add(200, 100, SplitRule::Expandable, Home::default());
        map.add(400, 100, SplitRule::Expandable, Home::default());
        map.add(300, 100, SplitRule::Expandable, Home::default());
        assert_eq!(map.find(350), Some((200, 500, SplitRule::Expandable)));
        assert!(map.remove(250, 100));
        assert_eq!(map.find(249), Some((200, 250, SplitRule::Expandable)));
        assert_eq!(map.find(250), None);
        assert_eq!(map.find(350), Some((350, 500, SplitRule::Expandable)));
        assert!(!map.remove(260, 20));
        assert!(map.remove(100, 100));
        assert_eq!(map.find(150), None);
    }

    fn on(stream: i128) -> Home {
        Home { stream: Some(stream), ..Home::default() }
    }

    #[test]
    fn what_touches_in_an_expandable_segment_knows_the_same() {
        let mut map = SegmentMap::default();
        map.add(0, 100, SplitRule::Expandable, Home { small: Some(true), ..on(7) });
        map.add(100, 100, SplitRule::Expandable, on(7));
        let home = Home { small: Some(true), ..on(7) };
        assert_eq!(map.iter().collect::<Vec<_>>(), [(0, Range { end: 200, pool: SplitRule::Expandable, home })]);
        assert!(map.remove(50, 100));
        assert_eq!(map.home(0, 1), map.home(150, 50));
        assert_eq!(map.home(50, 100), None);
        assert_eq!(map.home(40, 200), map.home(0, 50));
        map.add(200, 100, SplitRule::Expandable, on(8));
        assert_eq!(map.find(250), Some((200, 300, SplitRule::Expandable)));
        map.add(300, 100, SplitRule::Expandable, Home::default());
        assert_eq!(map.home(350, 1), Some(on(8)));
    }
}

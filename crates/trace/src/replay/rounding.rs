//! The rules by which PyTorch's caching allocator sizes blocks (`CUDACachingAllocator.cpp`).

use ptmem_snapshot::snapshot::AllocatorSettings;

/// `kMinBlockSize`: every block is a multiple of this many bytes.
pub(super) const MIN_BLOCK: u64 = 512;
/// `kSmallSize`: the small pool serves requests up to this; the large pool does not split off less.
pub(super) const SMALL_SIZE: u64 = 1 << 20;
/// `kSmallBuffer`: the size of a segment of the small pool, and of no other.
pub(super) const SMALL_SEGMENT: u64 = 2 << 20;
/// `kLargeBuffer`: the least that `max_split_size_mb` can be, and, unless `max_non_split_rounding_mb` says more, what a
/// block that must not be split stays below beyond its request.
pub(super) const LARGE_BUFFER: u64 = 20 << 20;
/// The pool that everybody allocates from.
pub(super) const SHARED_POOL: (u64, u64) = (0, 0);

/// `round_size`: the least that a request of `size` bytes occupies. `None` past 2^64.
pub(super) fn round_size(size: u64, settings: &AllocatorSettings) -> Option<u64> {
    if size < MIN_BLOCK {
        return Some(MIN_BLOCK);
    }
    let divisions = divisions(size, settings);
    if divisions > 1 && divisions.checked_mul(MIN_BLOCK).is_some_and(|least| size > least) {
        return round_to_division(size, divisions);
    }
    size.checked_next_multiple_of(MIN_BLOCK)
}

/// The least that a request of `size` bytes occupies without `roundup_power2_divisions`. `None` past 2^64.
pub(super) fn round_to_unit(size: u64) -> Option<u64> {
    size.max(1).checked_next_multiple_of(MIN_BLOCK)
}

/// The kinds of rounding that a block is checked against: to the unit, and to 2, 4, … 64 divisions. The steps of more
/// divisions are so small that sizes hardly ever fall between them.
pub(super) const ROUNDINGS: usize = 8;
/// The kind of rounding that leaves sizes as they are: releases before 2.9 may do so where a list of
/// `roundup_power2_divisions` says 1.
pub(super) const UNROUNDED: usize = 7;

/// A request of `size` bytes, rounded by a kind of rounding: 0 is the unit, and others are the power of two that is
/// set as `roundup_power2_divisions`. `None` past 2^64.
pub(super) fn round_by(size: u64, kind: usize) -> Option<u64> {
    if kind == UNROUNDED {
        return Some(size.max(MIN_BLOCK));
    }
    let divisions = 1_u64 << kind;
    if kind > 0 && size > divisions * MIN_BLOCK { round_to_division(size, divisions) } else { round_to_unit(size) }
}

/// Everything that a request of `size` bytes rounds to under any `roundup_power2_divisions` that rounds it.
pub(super) fn roundings(size: u64) -> impl Iterator<Item = u64> {
    (0..UNROUNDED).filter_map(move |kind| round_by(size, kind))
}

/// `roundup_power2_divisions(size)`: the setting for the power of two at or below `size`, for sizes of 1 MiB and more.
fn divisions(size: u64, settings: &AllocatorSettings) -> u64 {
    let all = &settings.roundup_power2_divisions;
    let interval = size.ilog2().saturating_sub(SMALL_SIZE.ilog2()) as usize;
    all[interval.min(all.len() - 1)]
}

/// `roundup_power2_next_division`: up to the next of `divisions` equal steps between two powers of two.
fn round_to_division(size: u64, divisions: u64) -> Option<u64> {
    if size.is_power_of_two() {
        return Some(size);
    }
    let floor = 1_u64 << size.ilog2();
    match floor >> divisions.ilog2() {
        0 => floor.checked_mul(2),
        step => size.checked_next_multiple_of(step),
    }
}

/// Which rule decides whether a free block is split.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SplitRule {
    /// Requests up to 1 MiB, in segments of 2 MiB.
    Small,
    /// Larger requests.
    Large,
    /// A mapped range of an expandable segment.
    Expandable,
}

impl SplitRule {
    /// The pool that serves a request, where no segment says so.
    pub(super) fn of_request(requested: u64) -> Self {
        if requested <= SMALL_SIZE { Self::Small } else { Self::Large }
    }
}

/// `should_split`: whether the `rest` that a block of `size` bytes leaves of a free block is split off.
pub(super) fn should_split(pool: SplitRule, size: u64, rest: u64, settings: &AllocatorSettings) -> bool {
    // The allocator asks the setting, not the segment: with expandable segments switched on it also splits the ordinary
    // segments that private pools still use, and switched off again it no longer splits expandable ones as finely.
    if pool == SplitRule::Small || size <= SMALL_SIZE || settings.expandable_segments {
        rest >= MIN_BLOCK
    } else {
        rest > SMALL_SIZE && settings.max_split_size.is_none_or(|limit| size < limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(divisions: u64) -> AllocatorSettings {
        AllocatorSettings { roundup_power2_divisions: [divisions; 16], ..AllocatorSettings::default() }
    }

    #[test]
    fn sizes_round_to_512() {
        for (size, rounded) in [(0, 512), (1, 512), (512, 512), (513, 1024), (1_000_000, 1_000_448)] {
            assert_eq!(round_size(size, &settings(0)), Some(rounded));
        }
        assert_eq!(round_size(u64::MAX, &settings(0)), None);
    }

    #[test]
    fn sizes_round_to_divisions_of_powers_of_two() {
        // The example of PyTorch's documentation: 1200 with 4 divisions gives 1280, with the unit
        // large enough for the rule to apply.
        for (size, divisions, rounded) in [
            (1200 << 10, 4, 1280 << 10),
            (1280 << 10, 4, 1280 << 10),
            (1 << 20, 4, 1 << 20),
            (2048, 4, 2048),
            (2049, 4, 2560),
            (1 << 40, 8, 1 << 40),
            ((1 << 40) + 1, 8, (1 << 40) + (1 << 37)),
        ] {
            assert_eq!(round_size(size, &settings(divisions)), Some(rounded), "{size} / {divisions}");
        }
        assert_eq!(round_size(u64::MAX - 5, &settings(2)), None);
    }

    #[test]
    fn the_setting_decides_about_splitting_not_the_segment() {
        let plain = AllocatorSettings::default();
        let limited = AllocatorSettings { max_split_size: Some(32 << 20), ..AllocatorSettings::default() };
        let expandable = AllocatorSettings { expandable_segments: true, ..AllocatorSettings::default() };
        assert!(should_split(SplitRule::Small, 512, 512, &plain));
        assert!(!should_split(SplitRule::Large, 2 << 20, 1 << 20, &plain));
        assert!(!should_split(SplitRule::Expandable, 2 << 20, 1 << 20, &plain));
        assert!(should_split(SplitRule::Expandable, 1 << 20, 512, &plain));
        assert!(should_split(SplitRule::Large, 2 << 20, (1 << 20) + 512, &plain));
        assert!(!should_split(SplitRule::Large, 32 << 20, 64 << 20, &limited));
        assert!(should_split(SplitRule::Large, 2 << 20, 512, &expandable));
    }
}

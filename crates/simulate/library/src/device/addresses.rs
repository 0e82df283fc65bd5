//! Where device memory lies: ranges of addresses at which nothing else is mapped.

use alloc::collections::BTreeMap;

use super::MOST_DEVICES;
use crate::settings::Addresses;

/// Unit in which devices hand out memory.
pub(crate) const GRAIN: u64 = 2 << 20;

const DEVICES: u64 = 0x1000_0000_0000;
/// Addresses of one device: the largest memory that can be simulated.
pub(crate) const DEVICE_SPAN: u64 = 512 << 30;
const VIRTUAL: u64 = DEVICES + DEVICE_SPAN * MOST_DEVICES as u64;
const VIRTUAL_SPAN: u64 = 0x2000_0000_0000;

/// True if an address is that of device memory.
pub(crate) fn is_device(address: u64) -> bool {
    (DEVICES..VIRTUAL + VIRTUAL_SPAN).contains(&address)
}

/// Device whose own range contains an address. `None` for reserved virtual addresses, which any device can back.
pub(crate) fn device_at(address: u64) -> Option<usize> {
    let offset = address.checked_sub(DEVICES)?;
    (address < VIRTUAL).then_some((offset / DEVICE_SPAN) as usize)
}

/// First address after those of a device.
pub(crate) fn end_of_device(device: usize) -> u64 {
    DEVICES + DEVICE_SPAN * (device as u64 + 1)
}

/// Rounds a size up to whole grains.
pub(crate) fn whole_grains(size: u64) -> Option<u64> {
    size.checked_next_multiple_of(GRAIN)
}

/// Unit in which CUDA reserves addresses.
const RESERVATION: u64 = 32 << 20;

/// Ranges in use within a span of addresses.
///
/// Which of several free blocks PyTorch takes depends on the order of their addresses. Recordings show two orders,
/// depending on the driver: up from the lowest, or down as Linux maps memory. There CUDA reserves units of 32 MiB below
/// those that it has, and first fills what is free in them from the lowest up.
pub(crate) struct Ranges {
    start: u64,
    end: u64,
    /// First address that is reserved: all are, where they are given out upwards.
    reserved: u64,
    sizes: BTreeMap<u64, u64>,
}

impl Ranges {
    /// The range that belongs to a device.
    pub(crate) fn of_device(device: usize, order: Addresses) -> Self {
        let start = DEVICES + DEVICE_SPAN * device as u64;
        let end = start + DEVICE_SPAN;
        let reserved = match order {
            Addresses::Up => start,
            Addresses::Down => end,
        };
        Self { start, end, reserved, sizes: BTreeMap::new() }
    }

    /// The range for reservations.
    pub(crate) const fn of_virtual_memory() -> Self {
        Self { start: VIRTUAL, end: VIRTUAL + VIRTUAL_SPAN, reserved: VIRTUAL, sizes: BTreeMap::new() }
    }

    /// Takes addresses.
    pub(crate) fn take(&mut self, size: u64) -> Option<u64> {
        let at = self.free_from(self.reserved, size).or_else(|| self.reserve(size))?;
        self.sizes.insert(at, size);
        Some(at)
    }

    /// Reserves addresses below the others, or any free range if there are none left.
    fn reserve(&mut self, size: u64) -> Option<u64> {
        let unit = size.checked_next_multiple_of(RESERVATION)?;
        match self.reserved.checked_sub(unit).filter(|&at| at >= self.start) {
            Some(at) => {
                self.reserved = at;
                Some(at)
            }
            None => self.free_from(self.start, size),
        }
    }

    /// The first free addresses that fit.
    fn free_from(&self, start: u64, size: u64) -> Option<u64> {
        let mut at = start;
        for (&used, &used_size) in &self.sizes {
            // A large range may begin below the start, where reserved addresses did not suffice.
            if used >= at && used - at >= size {
                break;
            }
            at = at.max(used + used_size);
        }
        (self.end - at >= size).then_some(at)
    }

    /// Gives a range back by its first address; its size.
    pub(crate) fn give_back(&mut self, at: u64) -> Option<u64> {
        self.sizes.remove(&at)
    }

    /// Start and size of the range that holds an address.
    pub(crate) fn find(&self, address: u64) -> Option<(u64, u64)> {
        let (&at, &size) = self.sizes.range(..=address).next_back()?;
        (address - at < size).then_some((at, size))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_gap_that_fits_is_taken() {
        let mut ranges = Ranges::of_device(1, Addresses::Up);
        let first = ranges.take(GRAIN).unwrap();
        let second = ranges.take(4 * GRAIN).unwrap();
        let third = ranges.take(GRAIN).unwrap();
        assert_eq!((second - first, third - second), (GRAIN, 4 * GRAIN));
        assert_eq!(ranges.give_back(second), Some(4 * GRAIN));
        assert_eq!(ranges.take(5 * GRAIN), Some(third + GRAIN));
        assert_eq!(ranges.take(3 * GRAIN), Some(second));
        assert_eq!(ranges.find(second + GRAIN), Some((second, 3 * GRAIN)));
        assert_eq!(ranges.find(second + 3 * GRAIN), None);
        assert_eq!(device_at(second), Some(1));
        assert_eq!(ranges.take(DEVICE_SPAN), None);
    }

    #[test]
    fn no_range_lies_within_another() {
        const GIB: u64 = 1 << 30;
        let mut ranges = Ranges::of_device(0, Addresses::Down);
        for at in [150, 110].map(|size| ranges.take(size * GIB).unwrap()) {
            ranges.give_back(at);
        }
        let large = ranges.take(265 * GIB).unwrap();
        let small = ranges.take(GIB).unwrap();
        assert!(small + GIB <= large || small >= large + 265 * GIB, "{small:#x} {large:#x}");
    }

    /// Sizes and addresses as PyTorch 2.1 recorded them on a GPU, one after the other.
    #[test]
    fn addresses_are_reserved_downwards_and_holes_are_filled_from_the_lowest() {
        const MIB: u64 = 1 << 20;
        let mut ranges = Ranges::of_device(0, Addresses::Down);
        let top = ranges.take(64 * MIB).unwrap();
        let taken = [44, 44, 44, 20, 16, 20].map(|size| top - ranges.take(size * MIB).unwrap());
        assert_eq!(taken, [64, 128, 192, 148, 84, 20].map(|distance| distance * MIB));
    }

    #[test]
    fn freed_addresses_are_found_when_nothing_is_left_to_reserve() {
        let mut ranges = Ranges::of_device(0, Addresses::Down);
        let half = DEVICE_SPAN / 2;
        let first = ranges.take(half).unwrap();
        let second = ranges.take(half).unwrap();
        ranges.give_back(first).unwrap();
        ranges.give_back(second).unwrap();
        assert!(ranges.take(half + GRAIN).is_some());
    }
}

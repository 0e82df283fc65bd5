//! Which addresses blocks in use begin at.

use super::index_set::IndexSet;
use super::{Allocation, Position};

/// The blocks in use at a moment, by address.
///
/// Where a block can begin is known before, so an address goes by its place among all of them: that is an index into a
/// table, and its neighbours are found without comparing addresses.
#[derive(Debug)]
pub(super) struct Occupied<'a> {
    /// Every address at which a block ever begins, in order.
    addresses: &'a [u64],
    indices: IndexSet,
    /// The allocation at each address, where its place is among `indices`.
    occupants: Vec<u32>,
}

impl<'a> Occupied<'a> {
    /// The blocks in use before the first event: `older` are indices into `allocations`.
    pub(super) fn at_start(addresses: &'a [u64], older: &[u32], allocations: &[Allocation]) -> Self {
        let indices = IndexSet::new(addresses.len());
        let mut occupied = Self { addresses, indices, occupants: vec![0; addresses.len()] };
        for &index in older {
            occupied.insert(allocations[index as usize].place, index);
        }
        occupied
    }

    /// Goes over an event that begins an allocation, or ends a part of it.
    pub(super) fn follow(&mut self, index: u32, allocation: &Allocation, now: Position) {
        if allocation.born == now {
            self.insert(allocation.place, index);
        } else if allocation.completed == now {
            self.indices.remove(allocation.place as usize);
        }
    }

    /// An allocation begins at that place, instead of any other.
    pub(super) fn insert(&mut self, place: u32, allocation: u32) {
        self.indices.insert(place as usize);
        self.occupants[place as usize] = allocation;
    }

    /// The address of an allocation.
    pub(super) fn address(&self, allocation: &Allocation) -> u64 {
        self.addresses[allocation.place as usize]
    }

    /// The allocation at the highest occupied address before a place.
    pub(super) fn before(&self, place: u32) -> Option<u32> {
        self.indices.before(place as usize).map(|before| self.occupants[before])
    }

    /// The lowest occupied address after a place.
    pub(super) fn after(&self, place: u32) -> Option<u64> {
        self.indices.from(place as usize + 1).map(|after| self.addresses[after])
    }

    /// The allocations at addresses from `start` to before `end`, in order.
    pub(super) fn range(&self, start: u64, end: u64) -> impl Iterator<Item = u32> {
        let first = self.addresses.partition_point(|&address| address < start);
        let first = self.indices.from(first);
        let indices = std::iter::successors(first, |&place| self.indices.from(place + 1));
        indices.take_while(move |&place| self.addresses[place] < end).map(|place| self.occupants[place])
    }
}

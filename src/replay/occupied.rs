//! Which addresses blocks in use begin at.

use super::index_set::IndexSet;
use super::{Allocation, Position};

/// The blocks in use at a moment, by address.
///
/// Where a block can begin is known before, so an address goes by its address_index among all of them: that is a place
/// in a table, and its neighbours are found without comparing addresses.
#[derive(Debug)]
pub(super) struct Occupied<'a> {
    /// Every address at which a block ever begins, in order.
    addresses: &'a [u64],
    indices: IndexSet,
    /// The allocation at each address, where its address_index is among `indices`.
    occupants: Vec<u32>,
}

impl<'a> Occupied<'a> {
    /// The blocks in use before the first event: `older` are indices into `allocations`.
    pub(super) fn at_start(addresses: &'a [u64], older: &[u32], allocations: &[Allocation]) -> Self {
        let indices = IndexSet::new(addresses.len());
        let mut occupied = Self { addresses, indices, occupants: vec![0; addresses.len()] };
        for &index in older {
            occupied.insert(allocations[index as usize].address_index, index);
        }
        occupied
    }

    /// Goes over an event that begins an allocation, or ends a part of it.
    pub(super) fn follow(&mut self, index: u32, allocation: &Allocation, now: Position) {
        if allocation.born == now {
            self.insert(allocation.address_index, index);
        } else if allocation.completed == now {
            self.remove(allocation.address_index);
        }
    }

    /// An allocation begins at the address of that address_index, in place of any other.
    pub(super) fn insert(&mut self, address_index: u32, allocation: u32) {
        self.indices.insert(address_index as usize);
        self.occupants[address_index as usize] = allocation;
    }

    fn remove(&mut self, address_index: u32) {
        self.indices.remove(address_index as usize);
    }

    /// The allocation at the highest occupied address before that of a address_index.
    pub(super) fn before(&self, address_index: u32) -> Option<u32> {
        self.indices.before(address_index as usize).map(|before| self.occupants[before])
    }

    /// The lowest occupied address after that of a address_index.
    pub(super) fn after(&self, address_index: u32) -> Option<u64> {
        self.indices.from(address_index as usize + 1).map(|after| self.addresses[after])
    }

    /// The allocations at addresses from `start` to before `end`, in order.
    pub(super) fn range(&self, start: u64, end: u64) -> impl Iterator<Item = u32> {
        let first = self.addresses.partition_point(|&address| address < start);
        let first = self.indices.from(first);
        let indices = std::iter::successors(first, |&address_index| self.indices.from(address_index + 1));
        indices
            .take_while(move |&address_index| self.addresses[address_index] < end)
            .map(|address_index| self.occupants[address_index])
    }
}

//! Which addresses blocks in use begin at.

use super::rank_set::RankSet;
use super::{Allocation, Position};

/// The blocks in use at a moment, by address.
///
/// Where a block can begin is known before, so an address goes by its rank among all of them: that is a place in a
/// table, and its neighbours are found without comparing addresses.
#[derive(Debug)]
pub(super) struct Occupied<'a> {
    /// Every address at which a block ever begins, in order.
    addresses: &'a [u64],
    ranks: RankSet,
    /// The allocation at each address, where its rank is among `ranks`.
    occupants: Vec<u32>,
}

impl<'a> Occupied<'a> {
    /// What is in use before the first event: `older` are indices into `allocations`.
    pub(super) fn at_start(addresses: &'a [u64], older: &[u32], allocations: &[Allocation]) -> Self {
        let (ranks, occupants) = (RankSet::new(addresses.len()), vec![0; addresses.len()]);
        let mut occupied = Self { addresses, ranks, occupants };
        for &index in older {
            occupied.insert(allocations[index as usize].rank, index);
        }
        occupied
    }

    /// Goes over an event that begins an allocation, or ends a part of it.
    pub(super) fn follow(&mut self, index: u32, allocation: &Allocation, now: Position) {
        if allocation.born == now {
            self.insert(allocation.rank, index);
        } else if allocation.completed == now {
            self.remove(allocation.rank);
        }
    }

    /// An allocation begins at the address of that rank, in place of any other.
    pub(super) fn insert(&mut self, rank: u32, allocation: u32) {
        self.ranks.insert(rank as usize);
        self.occupants[rank as usize] = allocation;
    }

    fn remove(&mut self, rank: u32) {
        self.ranks.remove(rank as usize);
    }

    /// The allocation at the highest occupied address before that of a rank.
    pub(super) fn before(&self, rank: u32) -> Option<u32> {
        self.ranks.before(rank as usize).map(|before| self.occupants[before])
    }

    /// The lowest occupied address after that of a rank.
    pub(super) fn after(&self, rank: u32) -> Option<u64> {
        self.ranks.from(rank as usize + 1).map(|after| self.addresses[after])
    }

    /// The allocations at addresses from `start` to before `end`, in order.
    pub(super) fn range(&self, start: u64, end: u64) -> impl Iterator<Item = u32> {
        let first = self.addresses.partition_point(|&address| address < start);
        let next = |&rank: &usize| self.ranks.from(rank + 1);
        let ranks = std::iter::successors(self.ranks.from(first), next);
        ranks.take_while(move |&rank| self.addresses[rank] < end).map(|rank| self.occupants[rank])
    }
}

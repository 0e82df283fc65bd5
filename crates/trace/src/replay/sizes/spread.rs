//! How far sizes that only the rules give may be off.

use rustc_hash::FxHashMap;

use super::super::Position;
use super::super::allocation::{Allocation, Basis};
use super::rules::{Confirmed, Decision};
use super::{Finder, ServingBlock};
use crate::trace::Uncertainty;

impl Finder<'_> {
    /// The sizes that stay uncertain, once everything is learnt.
    pub(super) fn settle(&mut self, allocations: &mut [Allocation]) -> FxHashMap<u32, Uncertainty> {
        let mut spreads = FxHashMap::default();
        // Blocks that are older than the history come where they are freed or survive, after those that were made
        // within it.
        let at_start = Confirmed::at_start(&self.found.rules);
        let mut confirmed = Confirmed::at_start(&self.found.rules);
        let can_learn = Confirmed::can_learn(&self.found.rules);
        for (index, allocation) in (0..).zip(allocations) {
            let spread = if self.rooms[index as usize].is_known {
                if can_learn && allocation.born != Position::START {
                    self.confirm(index, allocation, &mut confirmed);
                }
                self.unexplained.get(&index).map(|&size| Uncertainty {
                    below: allocation.bytes.saturating_sub(size),
                    above: size.saturating_sub(allocation.bytes),
                })
            } else {
                let is_older = allocation.born == Position::START;
                self.spread(index, allocation, if is_older { &at_start } else { &confirmed })
            };
            let mut spread = spread.unwrap_or_default();
            if let Some(&reaches) = self.overlapping.get(&index) {
                spread.below = spread.below.max(reaches).min(allocation.bytes);
            }
            if spread != Uncertainty::default() {
                spreads.insert(index, spread);
            }
        }
        spreads
    }

    /// The decision by which an allocation got its block. `None` where its size leaves 64 bits.
    fn decision(&self, index: u32, allocation: &Allocation) -> Option<Decision> {
        let ServingBlock { bytes: room, pool, .. } = self.rooms[index as usize];
        let least = self.found.rules.least(allocation.requested)?;
        Some(Decision { requested: allocation.requested, least, room, pool })
    }

    /// Notes the settings that an allocation of known size confirms.
    fn confirm(&self, index: u32, allocation: &Allocation, confirmed: &mut Confirmed) {
        let Some(decision) = self.decision(index, allocation) else { return };
        if allocation.bytes == self.found.rules.size(decision) && self.pools.has_split(index) == Some(true) {
            confirmed.note(&self.found.rules, decision, allocation.bytes, allocation.born);
        }
    }

    /// How far a size that only the rules give may be off.
    fn spread(&mut self, index: u32, allocation: &mut Allocation, confirmed: &Confirmed) -> Option<Uncertainty> {
        let decision = self.decision(index, allocation)?;
        if self.rooms[index as usize].is_filled {
            let below = allocation.bytes.saturating_sub(decision.room);
            return Some(Uncertainty { below, above: decision.room.saturating_sub(allocation.bytes) });
        }
        let splits = self.pools.has_split(index);
        if splits == Some(false) && allocation.basis == Basis::Rule {
            allocation.bytes = decision.room;
            return None;
        }
        let size = allocation.bytes;
        let is_older = allocation.basis != Basis::Rule;
        let mut extent = confirmed.extent(&self.found.rules, decision, size, allocation.born, is_older);
        if splits != Some(true) && decision.room > extent.most {
            extent.most = decision.room;
            self.found.pools_uncertain = true;
        }
        Some(Uncertainty { below: size.saturating_sub(extent.least), above: extent.most.saturating_sub(size) })
    }
}

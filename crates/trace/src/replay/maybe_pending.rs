//! Blocks whose free may have been requested before the history: at its start they are pending, or still allocated.

use rustc_hash::FxHashSet;

use super::lifetimes::Lifetimes;
use super::{Allocation, Basis, Position};

/// Blocks that count as allocated until the completion of their free although the request may have come before the
/// history.
///
/// Where the history has requests, that concerns its first event alone, whose request is nearly always the event just
/// before. Where it has none, they may all have come before, unless blocks that it allocated itself were freed without
/// one: then requests were not recorded (`skip_actions`).
#[derive(Debug, Default)]
pub(super) struct MaybePending {
    allocations: FxHashSet<u32>,
}

impl MaybePending {
    /// The blocks of a history in which `requests` frees were requested.
    pub(super) fn at_start(lifetimes: &Lifetimes, requests: u64) -> Self {
        let mut inside = lifetimes.allocations.iter().filter(|a| a.born != Position::START);
        let skips_requests = requests == 0 && inside.any(is_freed_by_completion);
        let mut found = Self::default();
        for &index in &lifetimes.older {
            let allocation = &lifetimes.allocations[index as usize];
            let is_first = allocation.completed == Position::after(0);
            let is_in_doubt = is_first || (requests == 0 && !skips_requests);
            if is_in_doubt && allocation.basis != Basis::FinalState && is_freed_by_completion(allocation) {
                found.allocations.insert(index);
            }
        }
        found
    }

    pub(super) fn contains(&self, index: u32) -> bool {
        self.allocations.contains(&index)
    }
}

/// True if an allocation counts as allocated until the completion of its free.
fn is_freed_by_completion(allocation: &Allocation) -> bool {
    allocation.completed != Position::NEVER && allocation.freed == allocation.completed
}

//! The allocations of a sequence that was folded, written out.

use crate::profile::course::{Entry, Folded};

/// An allocation of a sequence that was folded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Written {
    pub(super) symbol: u32,
    /// Its place among all allocations.
    pub(super) place: u64,
}

/// The allocations of the symbols that are kept, loop by loop.
pub(super) fn written(folded: &Folded, is_kept: impl Fn(u32) -> bool) -> Vec<Written> {
    let lengths = folded.lengths();
    let mut bodies: Vec<Vec<Written>> = Vec::with_capacity(folded.bodies.len());
    for body in &folded.bodies {
        let written = of_entries(body, &bodies, &lengths, &is_kept);
        bodies.push(written);
    }
    of_entries(&folded.entries, &bodies, &lengths, &is_kept)
}

fn of_entries(
    entries: &[Entry],
    bodies: &[Vec<Written>],
    lengths: &[u64],
    is_kept: &impl Fn(u32) -> bool,
) -> Vec<Written> {
    let mut written = Vec::new();
    let mut place = 0_u64;
    for entry in entries {
        match *entry {
            Entry::One(symbol) => {
                written.extend(is_kept(symbol).then_some(Written { symbol, place }));
                place = place.saturating_add(1);
            }
            Entry::Loop { body, count } => {
                let length = lengths[body as usize];
                let body = &bodies[body as usize];
                // A loop of which nothing is kept may have any number of rounds.
                for round in 0..if body.is_empty() { 0 } else { count } {
                    let start = place.saturating_add(length.saturating_mul(round));
                    written.extend(body.iter().map(|one| Written { place: start.saturating_add(one.place), ..*one }));
                }
                place = place.saturating_add(length.saturating_mul(count));
            }
        }
    }
    written
}

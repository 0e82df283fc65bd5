//! Places in a sequence that may begin a repetition.

use rustc_hash::FxHashMap;

use super::Item;

/// The last of equal items.
#[derive(Debug, Default)]
pub(super) struct Last {
    /// By symbol: these are numbered without gaps.
    symbols: Vec<Option<u32>>,
    loops: FxHashMap<(u32, u64), u32>,
}

impl Last {
    /// Notes the last item that is equal to this one, if there is any left. Returns the one that was noted before.
    pub(super) fn set(&mut self, item: Item, at: Option<u32>) -> Option<u32> {
        match (item, at) {
            (Item::One(symbol), at) => {
                let symbol = symbol as usize;
                if self.symbols.len() <= symbol {
                    self.symbols.resize(symbol + 1, None);
                }
                std::mem::replace(&mut self.symbols[symbol], at)
            }
            (Item::Loop { body, count }, Some(at)) => self.loops.insert((body, count), at),
            (Item::Loop { body, count }, None) => self.loops.remove(&(body, count)),
        }
    }
}

/// Loops by the length that the sequence has when one more round of them is complete. Of several with one length, the
/// latest comes first.
#[derive(Debug, Default)]
pub(super) struct Due {
    /// The latest loop by that length.
    latest: Vec<u32>,
    /// The loop of the same length before each, by their places.
    before: Vec<u32>,
}

impl Due {
    /// No loop.
    const NONE: u32 = u32::MAX;

    /// Adds a loop, which is the last item so far.
    pub(super) fn push(&mut self, length: usize, at: u32) {
        if self.latest.len() <= length {
            self.latest.resize(length + 1, Self::NONE);
        }
        if self.before.len() <= at as usize {
            self.before.resize(at as usize + 1, Self::NONE);
        }
        self.before[at as usize] = std::mem::replace(&mut self.latest[length], at);
    }

    /// Takes away the loop that was added last with that length.
    pub(super) fn pop(&mut self, length: usize) {
        if let Some(latest) = self.latest.get_mut(length) {
            *latest = self.before.get(*latest as usize).copied().unwrap_or(Self::NONE);
        }
    }

    /// The places of the loops with that length.
    pub(super) fn at(&self, length: usize) -> impl Iterator<Item = usize> {
        let latest = self.latest.get(length).copied();
        let places = std::iter::successors(latest, |&at| self.before.get(at as usize).copied());
        places.take_while(|&at| at != Self::NONE).map(|at| at as usize)
    }
}

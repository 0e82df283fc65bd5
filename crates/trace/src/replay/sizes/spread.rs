//! Sizes that are not certain.

use rustc_hash::FxHashMap;

use crate::trace::Spread;

/// The sizes that are not certain, by allocation.
#[derive(Debug, Default)]
pub(in crate::replay) struct Spreads {
    /// A bit for every allocation up to the last one that has a spread: most have none, also where some do.
    marks: Vec<u64>,
    all: FxHashMap<u32, Spread>,
}

impl Spreads {
    pub(in crate::replay) fn len(&self) -> usize {
        self.all.len()
    }

    /// How far the size of an allocation may be off, where it is not certain.
    #[inline]
    pub(in crate::replay) fn get(&self, allocation: u32) -> Option<Spread> {
        let word = self.marks.get(allocation as usize / 64)?;
        if word >> (allocation % 64) & 1 == 0 { None } else { self.all.get(&allocation).copied() }
    }

    /// Changes the spread of an allocation that has one.
    pub(in crate::replay) fn set(&mut self, allocation: u32, spread: Spread) {
        if spread == Spread::default() {
            self.all.remove(&allocation);
            self.marks[allocation as usize / 64] &= !(1 << (allocation % 64));
        } else {
            self.all.insert(allocation, spread);
        }
    }

    pub(super) fn insert(&mut self, allocation: u32, spread: Spread) {
        let word = allocation as usize / 64;
        if self.marks.len() <= word {
            self.marks.resize(word + 1, 0);
        }
        self.marks[word] |= 1 << (allocation % 64);
        self.all.insert(allocation, spread);
    }
}

//! The course of a history that few stacks make: the sizes that they ask for, in order. The stacks alone would tell
//! nothing.

use super::{Folded, MOST_ENTRIES};
use crate::interner::Interner;

/// The most stacks, before they are grouped, of a history whose sizes are kept.
const MOST_STACKS: usize = 64;

/// Allocations of one size by the same stack, or by the same group of stacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SizeClass {
    /// Which of the stacks or groups.
    pub symbol: u32,
    /// Bytes that were asked for.
    pub bytes: u64,
}

/// Which sizes were asked for, in which order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BySize {
    /// The classes of allocations.
    pub classes: Vec<SizeClass>,
    /// Their allocations in order: indices into `classes`.
    pub sequence: Folded,
}

impl BySize {
    /// The course of `stacks` stacks by size; `None` where they are many, or where it repeats too little to be kept.
    pub(super) fn new(stacks: usize, allocations: impl Iterator<Item = SizeClass>) -> Option<Self> {
        if stacks > MOST_STACKS {
            return None;
        }
        let mut classes = Interner::default();
        let sequence = Folded::new(allocations.map(|class| classes.number(&class)), MOST_ENTRIES)?;
        Some(Self { classes: classes.into_items(), sequence })
    }

    /// The same with other numbers of stacks, of which several may become one.
    #[must_use]
    pub(super) fn renumbered(&self, numbers: &[u32]) -> Self {
        let mut classes = Interner::default();
        let renumbered =
            self.classes.iter().map(|class| SizeClass { symbol: numbers[class.symbol as usize], ..*class });
        let places: Vec<u32> = renumbered.map(|class| classes.number(&class)).collect();
        Self { sequence: self.sequence.renamed(|class| places[class as usize]), classes: classes.into_items() }
    }
}

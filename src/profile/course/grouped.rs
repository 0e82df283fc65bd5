//! A course by groups of stacks.

use super::{BySize, Course, Folded, Symbol};
use crate::interner::Interner;
use crate::profile::Bucket;
use crate::stack::{GroupBy, Grouper};

/// A course by groups of stacks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grouped {
    /// The key of every symbol; for [`Symbol::Unlisted`] its beginning.
    pub keys: Vec<String>,
    /// Which of them allocate.
    pub sequence: Folded,
    /// The same by the sizes of allocations as well, where the stacks are few.
    pub by_size: Option<BySize>,
    /// The one that made the peak.
    pub peak: Option<u32>,
}

impl Course {
    /// The same course where the stacks of a group are one symbol. `grouper` groups by [`GroupBy::Stack`].
    #[must_use]
    pub fn grouped(&self, grouper: &Grouper<'_>) -> Grouped {
        debug_assert_eq!(grouper.by(), GroupBy::Stack);
        let mut keys = Interner::default();
        let numbers: Vec<u32> = self.symbols.iter().map(|symbol| keys.number(&symbol.key(grouper))).collect();
        let sequence = self.sequence.renamed(|symbol| numbers[symbol as usize]);
        let peak = self.peak.map(|peak| numbers[peak.symbol as usize]);
        let by_size = self.by_size.as_ref().map(|by_size| by_size.renumbered(&numbers));
        Grouped { keys: keys.into_items(), sequence, by_size, peak }
    }
}

impl Symbol {
    /// The key of its group; for [`Symbol::Unlisted`] the beginning of it.
    fn key(&self, grouper: &Grouper<'_>) -> String {
        match self {
            Self::Stack(stack) => grouper.key(*stack).0,
            Self::Unlisted(name) => name.clone(),
            Self::NoFrames => Bucket::NoFrames.label().to_owned(),
        }
    }
}

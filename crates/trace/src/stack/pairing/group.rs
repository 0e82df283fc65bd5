//! Groups of stacks as pairing sees them, and the sides that they are on.

use std::collections::BTreeSet;

use crate::stack::order::InOrder;
use crate::stack::{Key, Lines, Token};

/// Figures of a group of stacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Figures {
    /// `alloc` events.
    pub allocations: u64,
    /// Blocks held at the moment that is compared.
    pub blocks: u64,
    /// Bytes held at that moment.
    pub bytes: u64,
    /// Bytes of all allocations.
    pub allocated_total: u64,
}

impl Figures {
    /// How often something was allocated: what a larger batch leaves alone.
    pub(crate) fn counts(self) -> Self {
        Self { allocations: self.allocations, blocks: self.blocks, ..Self::default() }
    }

    /// Nothing of them.
    pub(crate) fn none(self) -> Self {
        Self::default()
    }

    /// How close two sizes are, from 0 to 1: what both hold, else all that they allocated.
    pub(super) fn closeness(self, other: Self) -> f64 {
        let both_hold = self.bytes > 0 && other.bytes > 0;
        let [one, another] = [self, other].map(|side| if both_hold { side.bytes } else { side.allocated_total });
        let smaller = one.min(another);
        let larger = one.max(another);
        if smaller == larger {
            return 1.0;
        }
        #[allow(clippy::cast_precision_loss, reason = "only compared with one half and with each other")]
        let share = smaller as f64 / larger as f64;
        share
    }
}

/// A group of stacks, as far as pairing needs to know it.
#[derive(Debug, Clone, Default)]
pub struct Group<'t> {
    /// Its identity.
    pub key: Key,
    /// The functions that tell it from others, innermost first.
    pub tokens: Vec<Token>,
    /// The one of them that is to blame, see [`crate::stack::Code::site`].
    pub site: usize,
    /// The lines of those functions in one of its stacks; 0 where unknown.
    pub lines: Vec<u32>,
    /// The operators in that stack.
    pub operators: Vec<&'t str>,
    /// Its figures.
    pub figures: Figures,
}

impl Group<'_> {
    /// The functions inside of the one to blame.
    pub(super) fn inside(&self) -> &[Token] {
        &self.tokens[..self.site.min(self.tokens.len())]
    }
}

/// One side of the comparison.
pub(super) struct Side<'g> {
    pub(super) groups: &'g [Group<'g>],
    /// Those that are not paired yet.
    pub(super) free: BTreeSet<usize>,
    /// All functions, with the lines on which they call or allocate.
    pub(super) lines: Lines,
}

impl<'g> Side<'g> {
    pub(super) fn new((groups, mut lines): (&'g [Group<'g>], Lines)) -> Self {
        // Operations stand in for functions where there are none in Python.
        for token in groups.iter().flat_map(|group| &group.tokens) {
            lines.entry(*token).or_default();
        }
        Self { groups, free: (0..groups.len()).collect(), lines }
    }

    pub(super) fn free(&self) -> impl Iterator<Item = (usize, &'g Group<'g>)> + '_ {
        self.free.iter().map(|&index| (index, &self.groups[index]))
    }

    /// The lines of some groups.
    pub(super) fn lines_of(&self, groups: &[usize]) -> impl Iterator<Item = &'g [u32]> {
        groups.iter().map(|&index| &*self.groups[index].lines)
    }

    /// Some groups, which are in the order of their lines, as the pairing of lines sees them.
    pub(super) fn in_order(&self, groups: &[usize]) -> Vec<InOrder<'g>> {
        let groups = groups.iter().map(|&index| &self.groups[index]);
        groups.map(|group| InOrder { operators: &group.operators, figures: group.figures }).collect()
    }
}

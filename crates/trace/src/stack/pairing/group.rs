//! Groups of stacks, as far as pairing needs to know them.

use super::super::key::Key;
use super::super::token::Token;

/// Figures of a group of stacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct GroupFigures {
    /// `alloc` events.
    pub allocations: u64,
    /// Blocks held at the moment that is compared.
    pub blocks: u64,
    /// Bytes held at that moment.
    pub bytes: u64,
    /// Bytes of all allocations.
    pub allocated_total: u64,
}

impl GroupFigures {
    /// The number of allocations, which a larger batch does not change.
    pub(crate) fn counts(self) -> Self {
        Self { allocations: self.allocations, blocks: self.blocks, ..Self::default() }
    }

    /// Nothing of them.
    pub(crate) fn none(self) -> Self {
        Self::default()
    }

    /// How close two sizes are, from 0 to 1: of the bytes that both hold, otherwise of the bytes that they allocated.
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
pub struct StackGroup<'t> {
    /// Its identity.
    pub key: Key,
    /// The functions that distinguish it from others, innermost first.
    pub tokens: Vec<Token>,
    /// The one of them that is to blame, see [`crate::stack::SnapshotCode::site`].
    pub site: usize,
    /// The number of tokens, from the first, that stand for an autograd node without Python frames of its own, which a checkpoint
    /// with re-entry may run; 0 for other stacks.
    pub node: usize,
    /// The lines of those functions in one of its stacks; 0 where unknown.
    pub lines: Vec<u32>,
    /// The operators in that stack.
    pub operators: Vec<&'t str>,
    /// Its figures.
    pub figures: GroupFigures,
}

impl StackGroup<'_> {
    /// The functions inside of the one to blame.
    pub(super) fn inside(&self) -> &[Token] {
        &self.tokens[..self.site.min(self.tokens.len())]
    }
}

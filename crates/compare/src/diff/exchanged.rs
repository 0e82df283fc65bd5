//! Memory that the same code gets by another operator: with `inplace=True`, the result of an activation is the memory of what it is
//! computed from, which was freed before.

use std::collections::BTreeMap;

use ptmem_base::sides::{Side, Sides};
use ptmem_trace::stack::{SnapshotCode, Token};

use super::converted::calling_functions;
use super::unpaired::UnpairedStack;

/// The stacks of a row in which one operator allocates, in one pass.
pub(super) struct OperatorStacks<'c> {
    pub(super) row: usize,
    pub(super) is_backward: bool,
    pub(super) operator: Option<&'c str>,
    /// Those that hold something.
    pub(super) held: Sides<Vec<UnpairedStack>>,
}

impl OperatorStacks<'_> {
    /// Requested bytes and blocks of a side.
    fn held(&self, side: Side) -> [u64; 2] {
        self.held.of(side).iter().fold([0, 0], |[bytes, blocks], UnpairedStack { member, .. }| {
            [bytes.saturating_add(member.requested), blocks.saturating_add(member.at.blocks)]
        })
    }

    /// The side that holds more bytes in more blocks, and how many.
    fn change(&self) -> Option<(Side, [u64; 2])> {
        let [before, after] = [Side::Before, Side::After].map(|side| self.held(side));
        let larger = if after > before { Side::After } else { Side::Before };
        let [more, less] = if larger == Side::After { [after, before] } else { [before, after] };
        let change = [more[0] - less[0], more[1].checked_sub(less[1])?];
        (!change.contains(&0)).then_some((larger, change))
    }

    /// The functions of the user and of libraries.
    fn calling_functions(&self, side: Side, code: &SnapshotCode<'_>) -> Vec<Token> {
        let first = self.held.of(side).first();
        first.map(|stack| calling_functions(stack.member.stack, code)).unwrap_or_default()
    }
}

/// What one operator lost and another one that the same code calls gained: equal bytes in as many blocks.
pub(super) fn exchanged<'o, 'c>(
    all: &'o [OperatorStacks<'c>],
    codes: Sides<&SnapshotCode<'_>>,
) -> Vec<Sides<&'o OperatorStacks<'c>>> {
    let mut alike = BTreeMap::<(bool, [u64; 2], Vec<Token>), Sides<Vec<&OperatorStacks<'c>>>>::new();
    for of in all {
        if let Some((side, change)) = of.change() {
            let functions = of.calling_functions(side, codes.of(side));
            if !functions.is_empty() {
                alike.entry((of.is_backward, change, functions)).or_default().of_mut(side).push(of);
            }
        }
    }
    let pairs = alike.into_values().flat_map(|Sides { before, after }| before.into_iter().zip(after));
    pairs.map(|(before, after)| Sides { before, after }).collect()
}

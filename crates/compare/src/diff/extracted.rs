//! Functions that a change to the code extracted or inlined, and that hold more or less than before.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use ptmem_base::sides::{Side, Sides};
use ptmem_base::units::approximate;
use ptmem_trace::stack::{SnapshotCode, Token};

use super::likeness::SAME_STACK;
use super::moved::MOST_ALIKE;
use super::unpaired::{SideFunctions, UnpairedStack};

/// Equally many blocks are taken for the same ones if they are at most this many times as large. Needed for functions that were extracted
/// together in tests/program/moved_code.rs.
const ABOUT_AS_LARGE: u64 = 2;

/// What stacks have in common if one of them runs all functions of the other, and beside them some that the other side lacks.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct CommonCode<'c> {
    /// Whether the before has these functions.
    is_inlined: bool,
    is_backward: bool,
    operators: Vec<&'c str>,
    /// The functions that both sides know.
    functions: Vec<Token>,
}

/// A stack with its place in the source.
struct PlacedStack {
    stack: UnpairedStack,
    /// The lines of the functions that both sides know, innermost first, and then those of all functions.
    lines: [Vec<u32>; 2],
}

/// Stacks of both sides that are one apart from extracted or inlined functions: a pair, or where it is ambiguous which of several
/// is which, all of them together.
pub(super) struct ExtractedStacks {
    pub(super) stacks: Sides<Vec<UnpairedStack>>,
    /// Whether all stacks of this code were compared.
    is_complete: bool,
}

impl ExtractedStacks {
    pub(super) fn is_pair(&self) -> bool {
        self.stacks.before.len() == 1 && self.stacks.after.len() == 1
    }

    /// Whether the order of lines says which of the stacks is which.
    pub(super) fn are_certain(&self) -> bool {
        self.is_complete && self.is_pair()
    }
}

/// Finds stacks of both sides that are one apart from extracted or inlined functions. `functions` are those of each side.
pub(super) fn extracted(
    left: &Sides<Vec<UnpairedStack>>,
    codes: Sides<&SnapshotCode<'_>>,
    functions: &Sides<SideFunctions>,
) -> Vec<ExtractedStacks> {
    let mut by_code = BTreeMap::<CommonCode<'_>, Sides<Vec<PlacedStack>>>::new();
    for (side, stacks) in left.each() {
        for &stack in stacks {
            if let Some((common, placed)) = common_code(stack, side, codes.of(side), functions.of(side.other())) {
                by_code.entry(common).or_default().of_mut(side).push(placed);
            }
        }
    }
    let mut found = Vec::new();
    for mut candidates in by_code.into_values() {
        let is_complete = candidates.before.len().max(candidates.after.len()) <= MOST_ALIKE;
        candidates.before.truncate(MOST_ALIKE);
        candidates.after.truncate(MOST_ALIKE);
        let same = similar(candidates).into_iter().flat_map(paired);
        found.extend(same.map(|stacks| ExtractedStacks { stacks, is_complete }));
    }
    found
}

/// What a stack has in common with one that was extracted or inlined; `None` if that is less than half of the functions. `others`
/// are the functions of the other side.
fn common_code<'c>(
    stack: UnpairedStack,
    side: Side,
    code: &'c SnapshotCode<'_>,
    others: &SideFunctions,
) -> Option<(CommonCode<'c>, PlacedStack)> {
    let id = stack.member.stack;
    let own = code.tokens(id);
    let functions: Vec<Token> = own.iter().copied().filter(|function| others.has(function)).collect();
    let all = own.len();
    let common = functions.len();
    let part = 2.0 * approximate(common as u64) / approximate((common + all).max(1) as u64);
    let has_own = common < all;
    let frames = code.identifying_frames(id);
    let known = frames.iter().filter(|&&frame| others.has(&code.token(frame)));
    let lines = [known.copied().collect(), frames.clone()]
        .map(|frames: Vec<_>| frames.iter().map(|&frame| code.line(frame).unwrap_or(0)).collect());
    let is_inlined = has_own == (side == Side::Before);
    let operators = code.operator_names(id);
    let common = CommonCode { is_inlined, is_backward: stack.is_backward, operators, functions };
    (part >= SAME_STACK).then_some((common, PlacedStack { stack, lines }))
}

impl PlacedStack {
    /// By place; on one line, the smaller one first.
    fn order(&self, other: &Self) -> Ordering {
        let size = self.stack.member.requested.cmp(&other.stack.member.requested);
        self.lines.cmp(&other.lines).then(size)
    }

    /// Whether it holds as many blocks as another one, of about that size, or blocks of that size.
    fn may_be(&self, other: &Self) -> bool {
        let [old, new] = [self.stack.member, other.stack.member];
        let has_equal_blocks = u128::from(old.requested) * u128::from(new.at.blocks)
            == u128::from(new.requested) * u128::from(old.at.blocks);
        let smaller = old.requested.min(new.requested);
        let is_about_as_large = old.requested.max(new.requested) <= smaller.saturating_mul(ABOUT_AS_LARGE);
        has_equal_blocks || old.at.blocks == new.at.blocks && is_about_as_large
    }
}

/// The stacks that may be the same ones, apart from those that cannot be any of them.
fn similar(mut left: Sides<Vec<PlacedStack>>) -> Vec<Sides<Vec<PlacedStack>>> {
    let mut found = Vec::new();
    while let Some(first) = left.before.pop() {
        let mut same = Sides { before: vec![first], after: Vec::new() };
        let mut known = 0;
        while same.before.len() + same.after.len() > known {
            known = same.before.len() + same.after.len();
            same.after.extend(left.after.extract_if(.., |new| same.before.iter().any(|old| old.may_be(new))));
            same.before.extend(left.before.extract_if(.., |old| same.after.iter().any(|new| old.may_be(new))));
        }
        found.push(same);
    }
    found.retain(|same| !same.after.is_empty());
    found
}

/// One stack of each side in the order of their lines, unless the order of their sizes contradicts it or a side has more of them:
/// then all are the same code only together.
fn paired(mut same: Sides<Vec<PlacedStack>>) -> Vec<Sides<Vec<UnpairedStack>>> {
    same.before.sort_by(PlacedStack::order);
    same.after.sort_by(PlacedStack::order);
    let Sides { before, after } = same.map(|side| side.iter().map(|placed| placed.stack).collect::<Vec<_>>());
    if before.len() != after.len() || are_exchanged(&before, &after) {
        return vec![Sides { before, after }];
    }
    let pairs = before.into_iter().zip(after);
    pairs.map(|(before, after)| Sides { before: vec![before], after: vec![after] }).collect()
}

/// Whether one of two stacks is larger on one side, and the other one on the other side.
fn are_exchanged(before: &[UnpairedStack], after: &[UnpairedStack]) -> bool {
    let mut pairs = (0..before.len()).flat_map(|j| (0..j).map(move |i| (i, j)));
    pairs.any(|(i, j)| {
        let [old, new] = [before, after].map(|stacks| stacks[i].member.requested.cmp(&stacks[j].member.requested));
        old != Ordering::Equal && old == new.reverse()
    })
}

//! Memory that the same code gets through other functions of PyTorch: weights that a change converts after `.cuda()`.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use ptmem_base::sides::Sides;
use ptmem_snapshot::snapshot::StackId;
use ptmem_trace::stack::{Owner, SnapshotCode, Token};

use super::unpaired::UnpairedStack;

/// What such stacks have in common.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct CallingCode<'c> {
    is_backward: bool,
    operator: &'c str,
    blocks: u64,
    /// The functions of the user and of libraries.
    functions: Vec<Token>,
}

/// Finds a stack of the before for stacks of the after that hold equally many blocks, and no more bytes. What holds more is growth.
pub(super) fn converted(
    left: &Sides<Vec<UnpairedStack>>,
    codes: Sides<&SnapshotCode<'_>>,
) -> Vec<Sides<UnpairedStack>> {
    let mut alike = BTreeMap::<CallingCode<'_>, Sides<Vec<UnpairedStack>>>::new();
    for (side, stacks) in left.each() {
        for &stack in stacks {
            if let Some(calling) = calling_code(stack, codes.of(side)) {
                alike.entry(calling).or_default().of_mut(side).push(stack);
            }
        }
    }
    let mut found = Vec::new();
    for Sides { mut before, mut after } in alike.into_values() {
        before.sort_by_key(|stack| Reverse(stack.member.requested));
        after.sort_by_key(|stack| Reverse(stack.member.requested));
        let mut before = before.into_iter();
        // The largest of the before may take any of them.
        let mut next = before.next();
        for after in after {
            if let Some(old) = next.filter(|old| old.member.requested >= after.member.requested) {
                found.push(Sides { before: old, after });
                next = before.next();
            }
        }
    }
    found
}

/// What a stack has in common with one that calls other functions of PyTorch.
fn calling_code<'c>(stack: UnpairedStack, code: &'c SnapshotCode<'_>) -> Option<CallingCode<'c>> {
    let UnpairedStack { member, is_backward, .. } = stack;
    let functions = calling_functions(member.stack, code);
    let operator = code.allocating_operator(member.stack).filter(|_| !functions.is_empty())?;
    Some(CallingCode { is_backward, operator, blocks: member.at.blocks, functions })
}

/// The functions of the user and of libraries.
pub(super) fn calling_functions(stack: StackId, code: &SnapshotCode<'_>) -> Vec<Token> {
    let frames = code.identifying_frames(stack).into_iter();
    frames.filter(|&frame| code.owner(frame) != Owner::PyTorch).map(|frame| code.token(frame)).collect()
}

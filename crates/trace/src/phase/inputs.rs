//! Inputs of steps: tensors that a step copies to the device, or fills with random numbers, ahead of its forward pass.
//!
//! A copy to the device and a conversion on it have the same frames, so the stack does not distinguish an input from the
//! `.float()` of a loss. The place in the step does: the loss comes after the modules have run.

use rustc_hash::FxHashMap;

use super::passes::pass_of_classes;
use crate::stack::{Pass, SnapshotCode};
use crate::trace::Trace;
use ptmem_snapshot::snapshot::StackId;

/// The allocations of one stack.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Made {
    /// Their number.
    pub allocations: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Those that were asked for; 0 where a saved profile does not say.
    pub requested: u64,
}

/// The inputs of all steps of which the history has the beginning, by stack.
///
/// A history that begins with the program has none before its first backward pass: tensors copied to the device there
/// may be weights.
pub fn inputs(trace: &Trace, code: &SnapshotCode<'_>) -> FxHashMap<StackId, Made> {
    let passes = pass_of_classes(trace, code);
    let stacks = trace.classes.iter().zip(&passes).map(|(class, pass)| class.origin.stack().filter(|_| pass.is_none()));
    let candidates: Vec<Option<StackId>> = stacks.map(|stack| stack.filter(|of| copies_or_draws(code, *of))).collect();
    let mut found: FxHashMap<StackId, Made> = FxHashMap::default();
    let mut is_ahead = trace.start.iter().any(|start| start.allocated > 0);
    let mut pending = Vec::new();
    for &symbol in &trace.symbols {
        let Some(block) = trace.moves[symbol as usize].begins() else { continue };
        let class = block.class as usize;
        match passes[class] {
            None if is_ahead => pending.extend(candidates[class].map(|stack| (stack, &trace.classes[class]))),
            Some(Pass::Forward) => {
                is_ahead = false;
                for (stack, class) in pending.drain(..) {
                    let made = found.entry(stack).or_default();
                    made.allocations += 1;
                    made.bytes = made.bytes.saturating_add(class.bytes);
                    made.requested = made.requested.saturating_add(class.requested);
                }
            }
            // The next forward pass is that of another batch.
            Some(Pass::Backward | Pass::Optimizer) => {
                is_ahead = true;
                pending.clear();
            }
            None | Some(Pass::Setup | Pass::Step | Pass::Evaluation) => {}
        }
    }
    found
}

/// True for copies and random numbers that no code of modules makes.
fn copies_or_draws(code: &SnapshotCode<'_>, stack: StackId) -> bool {
    let operator = code.allocating_operator(stack).unwrap_or_default();
    (operator == "_to_copy" || operator.starts_with("rand"))
        && !code.python(stack).any(|frame| code.path(frame).starts_with("torch/nn/"))
}

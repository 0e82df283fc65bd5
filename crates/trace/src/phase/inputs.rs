//! Inputs of steps: tensors that a step copies to the device, or fills with random numbers, ahead of its forward pass.
//!
//! A copy to the device and a conversion on it have the same frames, so the stack does not distinguish an input from the
//! `.float()` of a loss. The place in the step does: the loss comes after the modules have run.

use rustc_hash::FxHashMap;

use super::passes::pass_of_classes;
use crate::stack::{Pass, SnapshotCode};
use crate::trace::{Origin, Trace};
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

/// The role of an allocation in finding inputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    /// A copy or random numbers, outside of all passes.
    Candidate,
    /// Modules run.
    Forward,
    /// The backward pass or an optimizer runs: the next forward pass is that of another batch.
    Ends,
    /// Any other allocation.
    Other,
}

/// The inputs of all steps of which the history has the beginning, by stack.
///
/// A history that begins with the program has none before its first backward pass: tensors copied to the device there
/// may be weights.
pub fn inputs(trace: &Trace, code: &SnapshotCode<'_>) -> FxHashMap<StackId, Made> {
    let roles = roles(trace, code);
    let mut found: FxHashMap<StackId, Made> = FxHashMap::default();
    let mut is_ahead = trace.start.iter().any(|start| start.allocated > 0);
    let mut pending = Vec::new();
    for &symbol in &trace.symbols {
        let Some(block) = trace.moves[symbol as usize].begins() else { continue };
        let class = block.class as usize;
        match roles[class] {
            Role::Candidate if is_ahead => pending.push(class),
            Role::Forward => {
                is_ahead = false;
                for class in pending.drain(..) {
                    let Origin::Stack(stack) = trace.classes[class].origin else { continue };
                    let made = found.entry(stack).or_default();
                    made.allocations += 1;
                    made.bytes = made.bytes.saturating_add(trace.classes[class].bytes);
                    made.requested = made.requested.saturating_add(trace.classes[class].requested);
                }
            }
            Role::Ends => {
                is_ahead = true;
                pending.clear();
            }
            Role::Candidate | Role::Other => {}
        }
    }
    found
}

fn roles(trace: &Trace, code: &SnapshotCode<'_>) -> Vec<Role> {
    let mut roles = Vec::with_capacity(trace.classes.len());
    for (class, pass) in trace.classes.iter().zip(pass_of_classes(trace, code)) {
        roles.push(match (pass, class.origin) {
            (Some(Pass::Forward), _) => Role::Forward,
            (Some(Pass::Backward | Pass::Optimizer), _) => Role::Ends,
            (None, Origin::Stack(stack)) if copies_or_draws(code, stack) => Role::Candidate,
            (None | Some(Pass::Setup | Pass::Step | Pass::Evaluation), _) => Role::Other,
        });
    }
    roles
}

/// True for copies and random numbers that no code of modules makes.
fn copies_or_draws(code: &SnapshotCode<'_>, stack: StackId) -> bool {
    let operator = code.allocating_operator(stack).unwrap_or_default();
    (operator == "_to_copy" || operator.starts_with("rand"))
        && !code.python(stack).any(|frame| code.path(frame).starts_with("torch/nn/"))
}

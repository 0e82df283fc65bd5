//! The backward pass of what a checkpoint with re-entry computes again: the checkpoint's own backward pass runs autograd anew.

use ptmem_snapshot::snapshot::{FrameId, StackId};
use rustc_hash::FxHashSet;

use super::classify::Owner;
use super::code::SnapshotCode;
use super::facts::Recomputed;
use super::token::Token;

impl SnapshotCode<'_> {
    /// The operation of a stack of the backward pass without Python frames of its own, which a checkpoint with re-entry may run.
    pub(super) fn node_tokens(&self, stack: StackId) -> Option<Vec<Token>> {
        let operation = self.operation(stack);
        let is_node = operation.backward && self.python(stack).next().is_none() || self.checkpoint(stack).is_some();
        (is_node && !operation.is_workspace).then(|| operation.tokens())
    }

    /// The function that runs autograd anew within a backward pass. Every node below it has the same Python frames.
    pub(super) fn checkpoint(&self, stack: StackId) -> Option<FrameId> {
        let operation = self.operation(stack);
        if operation.node.or(operation.operator).is_none() || !self.is_run_by_autograd(stack) {
            return None;
        }
        let mut frames = self.python(stack).filter(|&frame| !self.passes_through(frame));
        let autograd = frames.next().filter(|&frame| self.path(frame) == "torch/autograd/__init__.py")?;
        frames.next().filter(|_| matches!(self.function(autograd), "backward" | "grad"))
    }

    /// The function that a checkpoint computes again, or the checkpoint's own if there are several, in a label.
    pub(super) fn checkpointed(&self, checkpoint: FrameId) -> String {
        let recomputed = self.facts.recomputed.get_or_init(|| self.find_recomputed());
        match recomputed.get(&self.token(checkpoint)).copied().flatten() {
            Some(function) => format!("checkpointed {}", self.text_at(function, None)),
            None => self.text_at(checkpoint, None),
        }
    }

    /// Looks in all stacks for the functions that checkpoints compute again.
    fn find_recomputed(&self) -> Recomputed {
        let mut found = Recomputed::default();
        let checkpoints = self.tables.stacks().filter_map(|stack| self.checkpoint(stack));
        let checkpoints: FxHashSet<Token> = checkpoints.map(|checkpoint| self.token(checkpoint)).collect();
        for stack in self.tables.stacks().filter(|&stack| self.checkpoint(stack).is_none()) {
            let inside = self.python(stack).take_while(|&frame| !checkpoints.contains(&self.token(frame)));
            let Some(checkpoint) = self.python(stack).nth(inside.clone().count()) else { continue };
            let outermost = inside.filter(|&frame| matches!(self.owner(frame), Owner::User | Owner::Library)).last();
            let known = found.entry(self.token(checkpoint)).or_insert(outermost);
            if known.map(|frame| self.token(frame)) != outermost.map(|frame| self.token(frame)) {
                *known = None;
            }
        }
        found
    }
}

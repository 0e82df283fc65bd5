//! What a checkpoint computes again in the backward pass, and, of one with re-entry, the backward pass of it: the checkpoint's
//! own backward pass runs autograd again.

use ptmem_snapshot::snapshot::{FrameId, StackId};
use rustc_hash::FxHashSet;

use super::classify::Owner;
use super::code::SnapshotCode;
use super::facts::Recomputed;
use super::token::Token;

/// The file of all checkpoints.
const CHECKPOINT: &str = "torch/utils/checkpoint.py";

/// The most checkpoints around a stack, within each other, that are looked at.
const DEEPEST: usize = 16;

/// Code that allocates in two passes if a checkpoint calls it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckpointedCode {
    /// Its functions, innermost first: those inside the call of the checkpoint, or the operation of an autograd node.
    pub functions: Vec<Token>,
    /// True in the backward pass of the checkpoint.
    pub is_again: bool,
}

impl SnapshotCode<'_> {
    /// The code that a stack runs, by every checkpoint around it. Autograd nodes without Python frames may be within a checkpoint on
    /// the other side of a comparison. The workspace of a cuBLAS handle belongs to no code.
    pub fn checkpointed_code(&self, stack: StackId) -> Vec<CheckpointedCode> {
        if self.is_workspace(stack) {
            return Vec::new();
        }
        if let Some(functions) = self.node_tokens(stack) {
            return vec![CheckpointedCode { functions, is_again: self.checkpoint(stack).is_some() }];
        }
        let frames: Vec<FrameId> = self.python(stack).collect();
        let inner = (1..frames.len()).filter(|&at| !self.is_checkpoint(frames[at - 1]));
        let mut checkpoints: Vec<usize> = inner.filter(|&at| self.is_checkpoint(frames[at])).collect();
        let is_again = self.is_run_by_checkpoint(&frames);
        if is_again {
            // Where autograd runs the checkpoint, it is outside of the program.
            let program = frames.iter().rposition(|&frame| matches!(self.owner(frame), Owner::User | Owner::Library));
            checkpoints.retain(|&at| program.is_none_or(|outermost| at > outermost));
            checkpoints.truncate(1);
        }
        let inside = checkpoints.iter().take(DEEPEST).map(|&at| self.identifying(frames[..at].iter().copied()));
        // Without functions, it is memory of the checkpoint itself.
        let inside = inside.filter(|frames| !frames.is_empty());
        let functions = inside.map(|frames| frames.into_iter().map(|frame| self.token(frame)).collect());
        functions.map(|functions| CheckpointedCode { functions, is_again }).collect()
    }

    /// The operation of a stack of the backward pass without Python frames of its own, which a checkpoint with re-entry may run.
    pub(super) fn node_tokens(&self, stack: StackId) -> Option<Vec<Token>> {
        let operation = self.operation(stack);
        let is_node = operation.backward && self.python(stack).next().is_none() || self.checkpoint(stack).is_some();
        (is_node && !operation.is_workspace).then(|| operation.tokens())
    }

    /// Whether any code is within a checkpoint.
    pub fn has_checkpoints(&self) -> bool {
        self.facts.files.iter().any(|file| file.shown == CHECKPOINT)
    }

    fn is_checkpoint(&self, frame: FrameId) -> bool {
        self.path(frame) == CHECKPOINT
    }

    /// Whether the Python frames of a stack begin where autograd calls a checkpoint, on a thread of its own.
    fn is_run_by_checkpoint(&self, frames: &[FrameId]) -> bool {
        let mut outermost = frames.iter().rev().filter(|&&frame| !self.is_apply(frame));
        outermost.next().is_some_and(|&frame| self.is_checkpoint(frame))
    }

    /// The function that runs autograd again within a backward pass. Every node below it has the same Python frames.
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

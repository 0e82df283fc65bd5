//! The operators that a stack calls, and what runs it.

use ptmem_snapshot::snapshot::{FrameId, StackId};

use super::classify::Owner;
use super::code::SnapshotCode;
use super::operator::{Operation, Symbol, bare_name};

/// The place of the backward pass of a compiled graph.
pub(super) const COMPILED: &str = "compiled graph";

impl SnapshotCode<'_> {
    /// The operation of the C++ frames of a stack: of all frames without Python, otherwise of those inside the
    /// innermost Python frame.
    pub(super) fn operation(&self, stack: StackId) -> Operation<'_> {
        let frames = self.tables.stack(stack).iter();
        let mut operation = Operation::of(frames.map_while(|&frame| self.known(frame).symbol.as_deref()));
        operation.backward |= Operation::of(self.symbols(stack)).backward;
        operation
    }

    /// The actions of the C++ frames of a stack, innermost first.
    pub(super) fn symbols(&self, stack: StackId) -> impl Iterator<Item = &Symbol> {
        self.tables.stack(stack).iter().filter_map(|&frame| self.known(frame).symbol.as_deref())
    }

    /// The names of the operation of a stack, for people: the autograd node, and in it the operator; where there is
    /// neither, and no Python, the function.
    pub fn operation_names(&self, stack: StackId) -> Vec<String> {
        let operation = self.operation(stack);
        let operator = operation.operator.map(|operator| format!("aten::{operator}"));
        let mut names: Vec<_> = operation.node.map(str::to_owned).into_iter().chain(operator).collect();
        if names.is_empty() && self.site(stack).is_none() {
            names.extend(operation.function.map(str::to_owned));
        }
        names
    }

    /// All C++ functions of a stack, outermost first.
    pub fn cpp_names(&self, stack: StackId) -> Vec<String> {
        let names = self.cpp(stack).map(|frame| bare_name(self.function(frame)).to_owned());
        let mut names: Vec<_> = names.collect();
        names.reverse();
        names
    }

    /// The frames of a stack that matter: all in Python, and in C++ the operators and the engine of the backward
    /// pass; where there is neither operator nor node, the innermost function. Labels and pairing need no others.
    pub fn essential(&self, stack: StackId) -> Vec<FrameId> {
        let mut lacks_function = self.operator_names(stack).is_empty();
        let mut essential = Vec::new();
        for &frame in self.tables.stack(stack) {
            let is_kept = match self.known(frame).symbol.as_deref() {
                None | Some(Symbol::Operator(_) | Symbol::Node(_) | Symbol::Engine | Symbol::Workspace) => true,
                Some(Symbol::Function(_)) => std::mem::take(&mut lacks_function),
                Some(Symbol::Noise) => false,
            };
            essential.extend(is_kept.then_some(frame));
        }
        essential
    }

    /// The operators and autograd nodes in a stack, innermost first.
    pub fn operator_names(&self, stack: StackId) -> Vec<&str> {
        self.symbols(stack).filter_map(Symbol::operation).collect()
    }

    /// The operator that allocated; of the backward pass its node.
    pub fn allocating_operator(&self, stack: StackId) -> Option<&str> {
        let operation = self.operation(stack);
        operation.allocating.or(operation.operator).or(operation.node)
    }

    /// True for the workspace of a handle of cuBLAS.
    pub(crate) fn is_workspace(&self, stack: StackId) -> bool {
        self.symbols(stack).any(|symbol| *symbol == Symbol::Workspace)
    }

    /// True for a stack of the backward pass.
    pub fn is_backward(&self, stack: StackId) -> bool {
        self.operation(stack).backward || self.is_run_by_autograd(stack)
    }

    /// True for a stack whose Python begins where autograd calls back into it, on a thread of its own.
    pub(super) fn is_run_by_autograd(&self, stack: StackId) -> bool {
        self.python(stack).last().is_some_and(|outermost| self.is_apply(outermost))
    }

    /// True for the function by which autograd calls Python.
    pub(super) fn is_apply(&self, frame: FrameId) -> bool {
        self.function(frame) == "apply" && self.path(frame) == "torch/autograd/function.py"
    }

    /// True for the backward pass of a compiled graph, where no frame says which code it was compiled from.
    pub(super) fn is_compiled_backward(&self, stack: StackId) -> bool {
        self.is_run_by_autograd(stack)
            && self.python(stack).any(|frame| self.path(frame).starts_with("torch/_functorch/"))
            && !self.python(stack).any(|frame| matches!(self.owner(frame), Owner::User | Owner::Library))
    }
}

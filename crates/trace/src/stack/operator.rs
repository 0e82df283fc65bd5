//! The operation that C++ frames carry out: operators and autograd nodes, never symbols or addresses.

use super::token::{Token, legible, sha1};

/// The function of a C++ signature: without return type, template and call arguments, and what compilers
/// append to copies of a function.
pub(super) fn bare_name(signature: &str) -> &str {
    let signature = signature.find(" [clone ").map_or(signature, |at| &signature[..at]);
    let signature = signature.strip_suffix(" const").unwrap_or(signature);
    // Skip what looks like arguments and is part of the name.
    let inner = ["(anonymous namespace)", "operator()"].into_iter();
    let from = inner.filter_map(|inner| Some(signature.rfind(inner)? + inner.len())).max().unwrap_or(0);
    let name = signature[from..].find(['(', '<']).map_or(signature, |at| &signature[..from + at]);
    // Templates are written with their return type.
    let start = name.rmatch_indices(' ').find(|(at, _)| !name[at + 1..].starts_with("namespace)"));
    let name = start.map_or(name, |(at, _)| &name[at + 1..]);
    let end = name.match_indices('.').find(|(at, _)| COPIES.iter().any(|suffix| name[*at..].starts_with(suffix)));
    end.map_or(name, |(at, _)| &name[..at])
}

/// Ends of the names that compilers give to copies of a function.
const COPIES: [&str; 7] = [".cold", ".localalias", ".constprop.", ".isra.", ".part.", ".llvm.", ".lto_priv."];

/// A function without the namespace that changed when PyTorch took types of the standard library for its own.
pub(super) fn without_namespace(name: &str) -> &str {
    let name = name.strip_prefix("c10::").or_else(|| name.strip_prefix("std::")).unwrap_or(name);
    name.strip_prefix("__cxx11::").or_else(|| name.strip_prefix("__1::")).unwrap_or(name)
}

/// The part of `text` between `prefix` and the next `::`, for names such as `at::_ops::add::call`.
fn component<'a>(text: &'a str, prefix: &str) -> Option<&'a str> {
    let rest = &text[text.find(prefix)? + prefix.len()..];
    let name = &rest[..rest.find("::")?];
    (!name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')).then_some(name)
}

/// C++ writes the operator `add.Tensor` as `add_Tensor`, which cannot be undone by rule. These are the common
/// names of overloads; no operator ends in one of them.
fn without_overload(operator: &str) -> &str {
    let ends = include_str!("names/overloads.txt").lines().filter_map(|overload| operator.strip_suffix(overload));
    ends.filter(|name| !name.is_empty()).min_by_key(|name| name.len()).unwrap_or(operator)
}

/// Operators that get memory for others.
const PLUMBING: &str = "empty empty_strided empty_like new_empty new_empty_strided resize_ resize_as_ resize_output";

/// Autocast's copy of a weight or input in a smaller type, which is not an operator of its own and appears within the
/// operator that needed it.
const CACHED_CAST: &str = "cached_cast";

/// Functions that get the workspace of a handle of cuBLAS: once for each, whatever product comes first.
const WORKSPACE_FUNCTIONS: [&str; 4] = [
    "at::cuda::setWorkspaceForHandle",
    "at::cuda::getCurrentCUDABlas",
    "at::cuda::getNewWorkspace",
    "at::cuda::getCUDABlasLtWorkspace",
];

/// The name of that workspace.
const WORKSPACE: &str = "cuBLAS workspace";

/// The autograd node that a frame executes: `AddmmBackward0`.
fn node(name: &str) -> Option<&str> {
    if !name.contains("::apply(") {
        return None;
    }
    component(name, "torch::autograd::generated::").or_else(|| component(name, "torch::autograd::"))
}

/// True if an autograd node only repeats the name of its operator: `BmmBackward0` that of `bmm`, `ReluBackward0` not
/// that of `threshold_backward`.
fn is_named_after(node: &str, operator: &str) -> bool {
    let node = node.trim_end_matches(|c: char| c.is_ascii_digit());
    let node = node.strip_suffix("Backward").unwrap_or(node);
    let operator = operator.trim_matches('_');
    let operator = operator.strip_suffix("_backward_data").or(operator.strip_suffix("_backward")).unwrap_or(operator);
    let letters = operator.chars().filter(|c| *c != '_');
    node.chars().map(|c| c.to_ascii_lowercase()).eq(letters)
}

/// The part of a C++ frame in the operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Symbol {
    /// Part of a dispatched operator: `add`.
    Operator(String),
    /// Execution of an autograd node: `AddmmBackward0`.
    Node(String),
    /// Autograd's engine.
    Engine,
    /// The workspace of a handle of cuBLAS.
    Workspace,
    /// Some other function.
    Function(String),
    /// Nothing.
    Noise,
}

impl Symbol {
    /// Of a function, by its whole signature.
    pub(super) fn of(name: &str) -> Self {
        if let Some(operator) = component(name, "at::_ops::") {
            Self::Operator(legible(without_overload(operator)).to_owned())
        } else if name.contains("at::autocast::cached_cast") {
            Self::Operator(CACHED_CAST.to_owned())
        } else if WORKSPACE_FUNCTIONS.iter().any(|function| name.contains(function)) {
            Self::Workspace
        } else if let Some(node) = node(name) {
            Self::Node(legible(node).to_owned())
        } else if name.contains("torch::autograd::") && name.contains("Engine::") {
            Self::Engine
        } else if is_noise(name) {
            Self::Noise
        } else {
            Self::Function(legible(without_namespace(bare_name(name))).to_owned())
        }
    }

    /// The operator or node.
    pub(super) fn operation(&self) -> Option<&str> {
        match self {
            Self::Operator(name) | Self::Node(name) => Some(name),
            Self::Workspace => Some(WORKSPACE),
            Self::Engine | Self::Function(_) | Self::Noise => None,
        }
    }
}

/// The operation of a run of C++ frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Operation<'t> {
    /// True for a part of the backward pass.
    pub(super) backward: bool,
    /// The autograd node that is executed.
    pub(super) node: Option<&'t str>,
    /// The requested operator, which may get its memory through others.
    pub(super) operator: Option<&'t str>,
    /// The operator that allocated, on behalf of that one or the same.
    pub(super) allocating: Option<&'t str>,
    /// True for the workspace of a handle of cuBLAS, which belongs to no operator.
    pub(super) is_workspace: bool,
    /// The innermost function that says anything, where there is neither.
    pub(super) function: Option<&'t str>,
}

impl<'t> Operation<'t> {
    /// From frames, innermost first.
    pub(super) fn of(symbols: impl Iterator<Item = &'t Symbol>) -> Self {
        let mut operation = Self::default();
        for symbol in symbols {
            match symbol {
                // The outermost operator is the requested one; those inside are how it is done. Those outside
                // of the node asked for the backward pass.
                Symbol::Operator(name) if operation.node.is_none() => {
                    operation.operator = Some(name);
                    operation.allocating = match operation.allocating {
                        // The copy is made by other operators.
                        _ if name == CACHED_CAST => Some(name),
                        None if PLUMBING.split(' ').all(|plumbing| plumbing != name) => Some(name),
                        known => known,
                    };
                }
                Symbol::Workspace => operation.is_workspace = true,
                Symbol::Node(name) => {
                    operation.node = operation.node.or(Some(name));
                    operation.backward = true;
                }
                Symbol::Function(name) => operation.function = operation.function.or(Some(name)),
                Symbol::Engine => operation.backward = true,
                Symbol::Operator(_) | Symbol::Noise => {}
            }
        }
        operation
    }

    /// The operators that follow Python frames: the one that was called, and the one that allocated if it is another.
    pub(super) fn operators(&self) -> Option<String> {
        let operator = self.operator?;
        let others = self.allocating.filter(|other| other.trim_matches('_') != operator.trim_matches('_'));
        Some(format!("aten::{operator}{}", others.map(|other| format!(" ({other})")).unwrap_or_default()))
    }

    /// The stand-ins for the functions of a stack without Python frames, innermost first.
    pub(super) fn tokens(&self) -> Vec<Token> {
        if self.is_workspace {
            return vec![stand_in("function", WORKSPACE)];
        }
        let function = self.function.filter(|_| self.operator.or(self.node).is_none());
        let pass = if self.backward { "backward" } else { "forward" };
        let names = [("function", function), ("operator", self.operator), ("node", self.node), ("pass", Some(pass))];
        names.into_iter().filter_map(|(kind, name)| Some(stand_in(kind, name?))).collect()
    }

    /// The name of a stack without Python frames: the autograd node with its operator (unless the node is named after
    /// it), otherwise the operator, otherwise the function.
    pub(super) fn label(&self) -> String {
        match (self.node, self.operator) {
            (Some(node), Some(operator)) if !self.is_workspace && is_named_after(node, operator) => {
                format!("backward: {node}")
            }
            _ => self.whole_label(),
        }
    }

    /// The same with the operator in any case.
    pub(super) fn whole_label(&self) -> String {
        if self.is_workspace {
            return WORKSPACE.to_owned();
        }
        let what = match (self.node, self.operator, self.function) {
            (Some(node), Some(operator), _) => format!("{node} (aten::{operator})"),
            (Some(node), None, _) => node.to_owned(),
            (None, Some(operator), _) => format!("aten::{operator}"),
            (None, None, Some(function)) => function.to_owned(),
            (None, None, None) if self.backward => return "backward".to_owned(),
            (None, None, None) => "<no symbols>".to_owned(),
        };
        if self.backward { format!("backward: {what}") } else { what }
    }
}

/// The token that represents a function.
fn stand_in(kind: &str, name: &str) -> Token {
    let kind = sha1(&[kind.as_bytes()]);
    Token::new(&kind, &kind, &sha1(&[name.as_bytes()]))
}

/// Parts of their names.
const INSIDE: &str = include_str!("names/noise_inside.txt");

/// Beginnings of the names of functions of the interpreter, the C library and the loader.
const BEGINNINGS: &str = include_str!("names/noise_beginnings.txt");

/// Frames that are the same below every allocation, or belong to the interpreter or the loader.
fn is_noise(name: &str) -> bool {
    let bare = without_namespace(bare_name(name));
    let unknown = bare.is_empty() || bare == "??" || bare.starts_with('<');
    unknown
        || INSIDE.lines().any(|noise| name.contains(noise))
        || !bare.contains("::") && BEGINNINGS.lines().any(|noise| bare.starts_with(noise))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lose_their_arguments() {
        for (signature, name) in [
            ("at::native::empty(c10::ArrayRef<long>)", "at::native::empty"),
            ("at::(anonymous namespace)::create_out(long)", "at::(anonymous namespace)::create_out"),
            ("torch::autograd::Node::operator()(int)", "torch::autograd::Node::operator()"),
            ("at::TensorBase at::detail::make<c10::ArrayRef<long> >(c10::ArrayRef<long>)", "at::detail::make"),
            ("at::native::empty(long) [clone .cold]", "at::native::empty"),
            ("run_mod.llvm.9196888086361497952", "run_mod"),
            ("at::native::copy_(long) const", "at::native::copy_"),
            ("f", "f"),
        ] {
            assert_eq!(bare_name(signature), name);
        }
    }

    fn symbols(names: &[&str]) -> Vec<Symbol> {
        names.iter().map(|name| Symbol::of(name)).collect()
    }

    fn label(names: &[&str]) -> String {
        Operation::of(symbols(names).iter()).label()
    }

    #[test]
    fn labels_say_what_is_done() {
        assert_eq!(label(&["torch::unwind::unwind()", "at::_ops::mm::call(at::Tensor const&)"]), "aten::mm");
        assert_eq!(
            label(&["at::_ops::add_Tensor::call(X)", "torch::autograd::AccumulateGrad::apply(std::vector<X>&&)"]),
            "backward: AccumulateGrad (aten::add)"
        );
        let apply = "torch::autograd::generated::MaxPool2DWithIndicesBackward0::apply(std::vector<X>&&)";
        assert_eq!(
            label(&["at::_ops::max_pool2d_with_indices_backward::call(X)", apply]),
            "backward: MaxPool2DWithIndicesBackward0"
        );
        assert_eq!(label(&["??", "torch::unwind::unwind()", "cublasCreate_v2"]), "cublasCreate_v2");
        assert_eq!(label(&["at::native::empty(long)", "main"]), "at::native::empty");
        for noise in
            ["torch::unwind::unwind()", "_start", "??", "", "0x7f00", "Py_RunMain", "std::error_code::x() const"]
        {
            assert_eq!(label(&[noise]), "<no symbols>", "{noise}");
        }
        assert_eq!(label(&["_start", "torch::autograd::Engine::thread_main(X)"]), "backward");
    }

    fn operators(names: &[&str]) -> Option<String> {
        Operation::of(symbols(names).iter()).operators()
    }

    #[test]
    fn the_operator_that_allocated_stands_behind_the_one_that_was_called() {
        let empty = "at::_ops::empty_memory_format::call(X)";
        for (names, told) in [
            (
                &[empty, "at::_ops::slow_conv_dilated3d::call(X)", "at::_ops::conv3d::call(X)"][..],
                "aten::conv3d (slow_conv_dilated3d)",
            ),
            (
                &[empty, "at::_ops::to_dtype::call(X)", "at::autocast::cached_cast(X)", "at::_ops::linear::call(X)"],
                "aten::linear (cached_cast)",
            ),
            (&[empty, "at::_ops::_softmax::call(X)", "at::_ops::softmax_int::call(X)"], "aten::softmax"),
            (&[empty, "at::_ops::zeros::call(X)"], "aten::zeros"),
            (&[empty], "aten::empty"),
        ] {
            assert_eq!(operators(names).as_deref(), Some(told));
        }
        assert_eq!(operators(&["main"]), None);
    }

    #[test]
    fn a_workspace_belongs_to_no_operator() {
        let frames =
            ["at::cuda::setWorkspaceForHandle(X)", "at::cuda::getCurrentCUDABlasHandle()", "at::_ops::mm::call(X)"];
        assert_eq!(label(&frames), "cuBLAS workspace");
        let in_backward = [frames[1], "at::_ops::mm::call(X)", "torch::autograd::generated::MmBackward0::apply(X)"];
        assert_eq!(label(&in_backward), "cuBLAS workspace");
    }

    #[test]
    fn operators_are_called_as_the_profiler_calls_them() {
        for (operator, name) in [
            ("add_Tensor", "add"),
            ("pow_Tensor_Scalar", "pow"),
            ("arange_start_step", "arange"),
            ("empty_memory_format", "empty"),
            ("to_dtype_layout", "to"),
            ("native_dropout", "native_dropout"),
            ("_log_softmax_backward_data", "_log_softmax_backward_data"),
            ("_out", "_out"),
        ] {
            assert_eq!(without_overload(operator), name);
        }
    }

    #[test]
    fn the_text_of_cpp_may_drift() {
        let before = ["c10::cuda::workspace(c10::optional<long>)", "_start"];
        let after = ["std::cuda::workspace(std::optional<long>) [clone .cold]", "_start"];
        assert_eq!(label(&before), label(&after));
    }
}

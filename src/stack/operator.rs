//! What C++ frames say about the operation: operators and autograd nodes, never symbols or addresses.

/// The function of a C++ signature: without template and call arguments.
pub(super) fn bare_name(signature: &str) -> &str {
    let signature = signature.strip_suffix(" const").unwrap_or(signature);
    // Skip what looks like arguments and is part of the name.
    let mut from = 0;
    for inner in ["(anonymous namespace)", "operator()"] {
        if let Some(at) = signature.rfind(inner) {
            from = from.max(at + inner.len());
        }
    }
    match signature[from..].find(['(', '<']) {
        Some(at) => &signature[..from + at],
        None => signature,
    }
}

/// The part of `text` between `prefix` and the next `::`, for names such as `at::_ops::add::call`.
fn component<'a>(text: &'a str, prefix: &str) -> Option<&'a str> {
    let at = text.find(prefix)?;
    let rest = &text[at + prefix.len()..];
    let (name, _) = rest.split_once("::")?;
    (!name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')).then_some(name)
}

/// The dispatched operator that a frame is part of: `add_Tensor`.
fn operator(name: &str) -> Option<&str> {
    component(name, "at::_ops::")
}

/// The autograd node that a frame executes: `AddmmBackward0`.
fn node(name: &str) -> Option<&str> {
    if !name.contains("::apply(") {
        return None;
    }
    component(name, "torch::autograd::generated::").or_else(|| component(name, "torch::autograd::"))
}

/// Frames that are the same below every allocation, or belong to the interpreter or the loader.
fn is_noise(name: &str) -> bool {
    const NOISE: [&str; 24] = [
        "unwind::unwind",
        "CapturedTraceback::gather",
        "gather_with_cpp",
        "CUDACachingAllocator",
        "_start",
        "__libc_",
        "__clone",
        "clone3",
        "pthread_",
        "start_thread",
        "PyEval_",
        "PyObject_",
        "PyFunction_",
        "PyMethod_",
        "PyVectorcall_",
        "PyType_",
        "PyRun_",
        "Py_",
        "execute_native_thread_routine",
        "wrap_kernel_functor_unboxed_",
        "KernelFunction",
        "std::error_code",
        "at::detail::empty_",
        "_empty_generic",
    ];
    name.is_empty() || name == "??" || name.starts_with("0x") || NOISE.iter().any(|noise| name.contains(noise))
}

/// What a C++ frame says about the operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Symbol<'t> {
    /// Part of a dispatched operator: `add_Tensor`.
    Operator(&'t str),
    /// Execution of an autograd node: `AddmmBackward0`.
    Node(&'t str),
    /// Autograd's engine.
    Engine,
    /// Some other function.
    Function(&'t str),
    /// Nothing.
    Noise,
}

impl<'t> Symbol<'t> {
    pub(super) fn of(name: &'t str) -> Self {
        if let Some(operator) = operator(name) {
            Self::Operator(super::legible(operator))
        } else if let Some(node) = node(name) {
            Self::Node(super::legible(node))
        } else if name.contains("torch::autograd::Engine::") {
            Self::Engine
        } else if is_noise(name) {
            Self::Noise
        } else {
            Self::Function(super::legible(bare_name(name)))
        }
    }

    /// The operator or node.
    pub(super) fn operation(self) -> Option<&'t str> {
        match self {
            Self::Operator(name) | Self::Node(name) => Some(name),
            _ => None,
        }
    }
}

/// What a stack without Python frames is called, from its frames, innermost first: the autograd node and
/// the operator in it, else the operator, else the innermost function that says anything.
pub(super) fn label<'t>(symbols: impl Iterator<Item = Symbol<'t>>) -> String {
    let (mut operator, mut node, mut function, mut engine) = (None, None, None, false);
    for symbol in symbols {
        match symbol {
            // The outermost operator is the one that was asked for; those inside are how it is done. What is
            // outside the node asked for the backward pass.
            Symbol::Operator(name) if node.is_none() => operator = Some(name),
            Symbol::Node(name) => node = node.or(Some(name)),
            Symbol::Function(name) => function = function.or(Some(name)),
            Symbol::Engine => engine = true,
            Symbol::Operator(_) | Symbol::Noise => {}
        }
    }
    let backward = if engine || node.is_some() { "backward: " } else { "" };
    match (node, operator, function) {
        (Some(node), Some(operator), _) => format!("{backward}{node} (aten::{operator})"),
        (Some(node), None, _) => format!("{backward}{node}"),
        (None, Some(operator), _) => format!("{backward}aten::{operator}"),
        (None, None, Some(function)) => format!("{backward}{function}"),
        (None, None, None) if engine => "backward".to_owned(),
        (None, None, None) => "<no symbols>".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lose_their_arguments() {
        assert_eq!(bare_name("at::native::empty(c10::ArrayRef<long>)"), "at::native::empty");
        assert_eq!(bare_name("at::(anonymous namespace)::create_out(long)"), "at::(anonymous namespace)::create_out");
        assert_eq!(bare_name("torch::autograd::Node::operator()(int)"), "torch::autograd::Node::operator()");
        assert_eq!(bare_name("f"), "f");
    }

    #[test]
    fn labels_say_what_is_done() {
        let label = |names: &[&'static str]| label(names.iter().map(|name| Symbol::of(name)));
        assert_eq!(label(&["torch::unwind::unwind()", "at::_ops::mm::call(at::Tensor const&)"]), "aten::mm");
        assert_eq!(
            label(&["at::_ops::add_Tensor::call(X)", "torch::autograd::AccumulateGrad::apply(std::vector<X>&&)"]),
            "backward: AccumulateGrad (aten::add_Tensor)"
        );
        assert_eq!(label(&["??", "torch::unwind::unwind()", "cublasCreate_v2"]), "cublasCreate_v2");
        assert_eq!(label(&["torch::unwind::unwind()", "_start"]), "<no symbols>");
    }
}

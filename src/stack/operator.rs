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

/// Whether a frame runs on autograd's own thread or in its engine.
fn is_engine(name: &str) -> bool {
    name.contains("torch::autograd::Engine::")
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

/// The operators and autograd nodes of a stack, innermost first, without repetition.
pub(super) fn chain<'a>(names: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut chain: Vec<String> = Vec::new();
    for name in names {
        if let Some(part) = operator(name).or_else(|| node(name))
            && chain.last().is_none_or(|last| last != part)
        {
            chain.push(part.to_owned());
        }
    }
    chain
}

/// What a stack without Python frames is called: the autograd node and the operator in it, else the
/// operator, else the innermost function that says anything.
pub(super) fn label<'a>(names: impl Iterator<Item = &'a str> + Clone) -> String {
    let engine = names.clone().any(is_engine);
    let node = names.clone().find_map(node);
    // The outermost operator is the one that was asked for; those inside are how it is done.
    let operators = names.clone().take_while(|name| self::node(name).is_none()).filter_map(operator);
    let operator = operators.last().map(|name| format!("aten::{name}"));
    match (node, operator) {
        (Some(node), Some(operator)) => format!("backward: {node} ({operator})"),
        (Some(node), None) => format!("backward: {node}"),
        (None, Some(operator)) if engine => format!("backward: {operator}"),
        (None, Some(operator)) => operator,
        (None, None) => {
            let function = names.clone().find(|name| !is_noise(name)).map(bare_name);
            match (function, engine) {
                (Some(function), true) => format!("backward: {function}"),
                (Some(function), false) => function.to_owned(),
                (None, true) => "backward".to_owned(),
                (None, false) => "<no symbols>".to_owned(),
            }
        }
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
        let label = |names: &[&'static str]| label(names.iter().copied());
        assert_eq!(label(&["torch::unwind::unwind()", "at::_ops::mm::call(at::Tensor const&)"]), "aten::mm");
        assert_eq!(
            label(&["at::_ops::add_Tensor::call(X)", "torch::autograd::AccumulateGrad::apply(std::vector<X>&&)"]),
            "backward: AccumulateGrad (aten::add_Tensor)"
        );
        assert_eq!(label(&["??", "torch::unwind::unwind()", "cublasCreate_v2"]), "cublasCreate_v2");
        assert_eq!(label(&["torch::unwind::unwind()", "_start"]), "<no symbols>");
    }
}

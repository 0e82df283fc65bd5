//! Whose code a frame is.

use super::path::{file_name, folded, installed, standard_library};

/// Whose code a frame is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Owner {
    /// Python code of the user.
    User,
    /// Python code of an installed package.
    Library,
    /// Python code of PyTorch.
    PyTorch,
    /// Python code of the standard library.
    StandardLibrary,
    /// Python code without a file of its own: inductor, fx, `<string>`, `<frozen …>`.
    Generated,
    /// C or C++.
    Cpp,
}

/// Classifies a frame by its function and its clean path.
pub(super) fn owner(name: &str, path: &str) -> Owner {
    if !is_python(name, path) {
        return Owner::Cpp;
    }
    // IPython's cells before it had files for them: code that the user typed.
    if path.starts_with("<ipython-input-") {
        return Owner::User;
    }
    if folded(path).is_some() {
        return Owner::Generated;
    }
    match installed(path) {
        Some(package) if is_pytorch(package) => Owner::PyTorch,
        Some(_) => Owner::Library,
        None if standard_library(path).is_some() => Owner::StandardLibrary,
        // PyTorch built from its source.
        None if path.contains("/pytorch/torch/") => Owner::PyTorch,
        // Scripts that packages install, such as torchrun.
        None if !path.ends_with(".py") && path.contains("/bin/") => Owner::Library,
        None => Owner::User,
    }
}

fn is_pytorch(package: &str) -> bool {
    ["torch/", "functorch/"].iter().any(|folder| package.starts_with(folder))
}

/// Python frames name a `.py` file or one in angle brackets, and their function is no C++ signature. Scripts
/// may have any name, but their code is called `<module>`.
pub(super) fn is_python(name: &str, path: &str) -> bool {
    if name.contains("::") {
        return false;
    }
    let in_brackets = path.starts_with('<') && path.contains('>');
    path.ends_with(".py") || in_brackets || name.starts_with('<') && !path.is_empty() && path != "??"
}

/// Whether a frame only passes calls on: how PyTorch gets from one frame of the user to the next says nothing
/// about who allocates, and changes with every release.
pub(super) fn is_plumbing(owner: Owner, name: &str, path: &str) -> bool {
    const PLUMBING: [(&str, &[&str]); 12] = [
        ("torch/nn/modules/module.py", &["_wrapped_call_impl", "_call_impl", "_slow_forward", "inner", "__call__"]),
        ("torch/utils/_contextlib.py", &["decorate_context"]),
        ("torch/autograd/grad_mode.py", &["decorate_context"]),
        ("torch/amp/autocast_mode.py", &["decorate_autocast"]),
        ("torch/autograd/function.py", &["apply"]),
        ("torch/autograd/graph.py", &["_engine_run_backward"]),
        ("torch/optim/optimizer.py", &["wrapper", "_use_grad", "maybe_fallback"]),
        ("torch/_jit_internal.py", &["fn"]),
        ("torch/_ops.py", &["__call__"]),
        ("torch/_compile.py", &["inner"]),
        ("torch/_dynamo/external_utils.py", &[]),
        ("torch/_dynamo/eval_frame.py", &[]),
    ];
    match owner {
        Owner::PyTorch => {
            let package = installed(path).unwrap_or(path);
            // No list is every function of the file.
            let forwards = |functions: &[&str]| functions.is_empty() || functions.contains(&name);
            PLUMBING.iter().any(|(file, functions)| package.ends_with(file) && forwards(functions))
        }
        Owner::StandardLibrary | Owner::Generated => {
            matches!(file_name(path), "threading.py" | "runpy.py" | "contextlib.py" | "functools.py")
                || path.starts_with("<frozen ")
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::super::path::clean;
    use super::*;

    #[test]
    fn frames_have_owners() {
        for (name, file, expected) in [
            ("forward", "/home/me/model.py", Owner::User),
            ("<module>", "/tmp/ipykernel_114/3105878423.py", Owner::User),
            ("f", "<ipython-input-3-0a1b2c>", Owner::User),
            ("f", "D:\\work\\train.py", Owner::User),
            ("<module>", "/home/me/tools/train", Owner::User),
            ("forward", "/e/lib/python3.11/site-packages/torch/nn/modules/module.py", Owner::PyTorch),
            ("forward", "D:\\env\\Lib\\site-packages\\torch\\nn\\modules\\module.py", Owner::PyTorch),
            ("forward", "/opt/pytorch/torch/nn/modules/module.py", Owner::PyTorch),
            ("forward", "/usr/lib/python3/dist-packages/transformers/x.py", Owner::Library),
            ("forward", "/e/lib/python3.11/site-packages/torchvision/x.py", Owner::Library),
            ("<module>", "/e/bin/torchrun", Owner::Library),
            ("_run", "/root/miniconda3/lib/python3.10/asyncio/events.py", Owner::StandardLibrary),
            ("run", "C:\\Python312\\Lib\\threading.py", Owner::StandardLibrary),
            ("call", "/tmp/torchinductor_me/ab/cabc.py", Owner::Generated),
            ("forward", "<eval_with_key>.12", Owner::Generated),
            ("_call", "<frozen importlib._bootstrap>", Owner::Generated),
            ("<module>", "<string>", Owner::Generated),
            ("forward", "fx_generated_0a1b.py", Owner::Generated),
            ("torch::unwind::unwind()", "??", Owner::Cpp),
            ("_PyEval_EvalFrameDefault", "ceval.c", Owner::Cpp),
            ("PyMethod_New", "", Owner::Cpp),
            ("<unknown>", "??", Owner::Cpp),
        ] {
            assert_eq!(owner(name, &clean(file)), expected, "{name} {file}");
        }
    }

    #[test]
    fn what_only_passes_calls_on_is_known() {
        let module = "/e/lib/python3.11/site-packages/torch/nn/modules/module.py";
        assert!(is_plumbing(Owner::PyTorch, "_call_impl", module));
        assert!(!is_plumbing(Owner::PyTorch, "_apply", module));
        assert!(!is_plumbing(Owner::User, "_call_impl", "/home/me/torch/nn/modules/module.py"));
        assert!(is_plumbing(Owner::Generated, "_run_code", "<frozen runpy>"));
    }
}

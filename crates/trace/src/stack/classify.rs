//! Whose code a frame is.

use ptmem_snapshot::snapshot::{Frame, Tables};

use super::path::{cell, clean, file_name, folded, installed, standard_library};

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

/// The facts that a clean path alone gives about the frames in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PathFacts {
    /// Whose its Python code is.
    pub(super) owner: Owner,
    language: Language,
}

/// The language of the functions in a file, judged by its path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Language {
    Python,
    /// Python, if the name says so, too: scripts may have any name, but their code is called `<module>`.
    Either,
    Cpp,
}

impl PathFacts {
    pub(super) fn of(path: &str) -> Self {
        Self { owner: owner_of_python(path), language: Language::of(path) }
    }

    /// Whose a function there is.
    pub(super) fn owner_of(self, function: &str) -> Owner {
        if self.language.is_python(function) { self.owner } else { Owner::Cpp }
    }
}

impl Language {
    fn of(path: &str) -> Self {
        match path {
            "" | "??" => Self::Cpp,
            _ if path.ends_with(".py") || path.starts_with('<') && path.contains('>') => Self::Python,
            _ if cell(path).is_some() => Self::Python,
            _ => Self::Either,
        }
    }

    /// The function name of a Python frame is not a C++ signature.
    fn is_python(self, function: &str) -> bool {
        let may_be = match self {
            Self::Python => true,
            Self::Either => function.starts_with('<'),
            Self::Cpp => false,
        };
        may_be && !function.contains("::")
    }
}

/// True for a frame in Python.
pub(super) fn is_python(name: &str, path: &str) -> bool {
    Language::of(path).is_python(name)
}

fn owner_of_python(path: &str) -> Owner {
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
        // Names nothing: it only passes calls on, from a folder that differs in every run.
        None if is_of_recorder(path) => Owner::StandardLibrary,
        // Scripts that packages install, such as torchrun.
        None if !path.ends_with(".py") && path.contains("/bin/") => Owner::Library,
        None => Owner::User,
    }
}

/// True for the modules that `ptmem simulate` adds to a program.
fn is_of_recorder(path: &str) -> bool {
    path.contains("/ptmem-simulate-") || file_name(path).starts_with("ptmem_simulate_")
}

fn is_pytorch(package: &str) -> bool {
    ["torch/", "functorch/"].iter().any(|folder| package.starts_with(folder))
}

/// True for a function of the compiler that measures how fast a kernel is.
pub(crate) fn is_benchmark(tables: &Tables, frame: &Frame) -> bool {
    if !tables.string(frame.name).contains("bench") {
        return false;
    }
    let path = clean(tables.string(frame.filename));
    let package = installed(&path).or_else(|| path.split_once("/pytorch/").map(|(_, rest)| rest));
    package.is_some_and(|package| package.starts_with("torch/_inductor/") || package.starts_with("triton/"))
}

/// The functions of a file that only pass calls on: `*`, or their names with spaces in between.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PassThrough(&'static str);

impl PassThrough {
    const ALL: Self = Self("*");

    /// How PyTorch gets from one frame of the user to the next says nothing about who allocates, and changes with
    /// every release.
    pub(super) fn of(owner: Owner, path: &str) -> Self {
        match owner {
            Owner::PyTorch => {
                let package = installed(path).unwrap_or(path);
                let mut files = include_str!("names/pass_through.txt").lines().filter_map(|line| line.split_once(": "));
                let found = files.find(|(file, _)| package.ends_with(file));
                found.map_or(Self(""), |(_, functions)| Self(functions))
            }
            Owner::StandardLibrary | Owner::Generated
                if is_of_recorder(path)
                    || matches!(file_name(path), "threading.py" | "runpy.py" | "contextlib.py" | "functools.py")
                    || path.starts_with("<frozen ") =>
            {
                Self::ALL
            }
            _ => Self(""),
        }
    }

    pub(super) fn has(self, function: &str) -> bool {
        self == Self::ALL || self.0.split(' ').any(|name| name == function)
    }
}

#[cfg(test)]
mod tests {
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
            ("prepare_settled", "/tmp/ptmem-simulate-aX1/python/ptmem_simulate_ranks.py", Owner::StandardLibrary),
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
            assert_eq!(PathFacts::of(&clean(file)).owner_of(name), expected, "{name} {file}");
        }
    }

    #[test]
    fn what_only_passes_calls_on_is_known() {
        let module = "/e/lib/python3.11/site-packages/torch/nn/modules/module.py";
        assert!(PassThrough::of(Owner::PyTorch, module).has("_call_impl"));
        assert!(!PassThrough::of(Owner::PyTorch, module).has("_apply"));
        let recorder = "/tmp/ptmem-simulate-aX1/python/ptmem_simulate_ranks.py";
        assert!(PassThrough::of(Owner::StandardLibrary, recorder).has("any"));
        assert!(!PassThrough::of(Owner::User, "/home/me/torch/nn/modules/module.py").has("_call_impl"));
        assert!(PassThrough::of(Owner::Generated, "<frozen runpy>").has("_run_code"));
    }
}

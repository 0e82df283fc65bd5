//! Whose code a frame is.

/// Whose code a frame is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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

/// Classifies a frame by its function and file.
#[must_use]
pub fn owner(name: &str, file: &str) -> Owner {
    if !is_python(name, file) {
        return Owner::Cpp;
    }
    if file.starts_with('<') || generated(file) {
        return Owner::Generated;
    }
    match installed(file) {
        Some(path) if first_component(path) == "torch" => Owner::PyTorch,
        Some(_) => Owner::Library,
        None if standard_library(file).is_some() => Owner::StandardLibrary,
        None => Owner::User,
    }
}

/// Python frames name a `.py` file or one in angle brackets, and their function is no C++ signature.
fn is_python(name: &str, file: &str) -> bool {
    let python_file = file.ends_with(".py") || file.starts_with('<') && file.contains('>');
    python_file && !name.contains("::")
}

fn generated(file: &str) -> bool {
    file.contains("torchinductor_") || file_name(file).starts_with("fx_generated_")
}

/// What generated code is called, without the hashes and counters in its name.
pub(super) fn folded(file: &str) -> &str {
    if file.contains("torchinductor_") {
        return "<inductor>";
    }
    if file_name(file).starts_with("fx_generated_") {
        return "<fx>";
    }
    match file.find('>') {
        Some(end) => &file[..=end],
        None => file,
    }
}

fn is_separator(c: char) -> bool {
    c == '/' || c == '\\'
}

pub(super) fn file_name(path: &str) -> &str {
    path.rsplit(is_separator).next().unwrap_or(path)
}

fn first_component(path: &str) -> &str {
    path.split(is_separator).next().unwrap_or(path)
}

/// The path behind the last `site-packages` or `dist-packages`.
fn installed(file: &str) -> Option<&str> {
    ["site-packages", "dist-packages"].iter().find_map(|folder| {
        let rest = &file[file.rfind(folder)? + folder.len()..];
        rest.strip_prefix(is_separator)
    })
}

/// The path behind `lib/python3.x`, or behind `Lib` of an installation on Windows.
fn standard_library(file: &str) -> Option<&str> {
    for (at, _) in file.match_indices("python3") {
        let rest =
            file[at + "python3".len()..].trim_start_matches(|c: char| c == '.' || c.is_ascii_digit() || c == 't');
        if file[..at].ends_with(is_separator)
            && file[..at].trim_end_matches(is_separator).ends_with("lib")
            && let Some(rest) = rest.strip_prefix(is_separator)
        {
            return Some(rest);
        }
    }
    let at = file.find("\\Lib\\").or_else(|| file.find("\\lib\\"))?;
    Some(&file[at + "\\Lib\\".len()..])
}

/// The path of installed code, independent of where it is installed.
pub(super) fn library_path(file: &str) -> &str {
    installed(file).or_else(|| standard_library(file)).unwrap_or(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_have_owners() {
        for (name, file, expected) in [
            ("forward", "/home/me/model.py", Owner::User),
            ("<module>", "/tmp/ipykernel_114/3105878423.py", Owner::User),
            ("f", "D:\\work\\train.py", Owner::User),
            ("forward", "/e/lib/python3.11/site-packages/torch/nn/modules/module.py", Owner::PyTorch),
            ("forward", "D:\\env\\Lib\\site-packages\\torch\\nn\\modules\\module.py", Owner::PyTorch),
            ("forward", "/usr/lib/python3/dist-packages/transformers/x.py", Owner::Library),
            ("_run", "/root/miniconda3/lib/python3.10/asyncio/events.py", Owner::StandardLibrary),
            ("run", "C:\\Python312\\Lib\\threading.py", Owner::StandardLibrary),
            ("call", "/tmp/torchinductor_me/ab/cabc.py", Owner::Generated),
            ("forward", "<eval_with_key>.12", Owner::Generated),
            ("_call", "<frozen importlib._bootstrap>", Owner::Generated),
            ("forward", "fx_generated_0a1b.py", Owner::Generated),
            ("torch::unwind::unwind()", "??", Owner::Cpp),
            ("_PyEval_EvalFrameDefault", "ceval.c", Owner::Cpp),
            ("PyMethod_New", "", Owner::Cpp),
        ] {
            assert_eq!(owner(name, file), expected, "{name} {file}");
        }
        assert_eq!(folded("<eval_with_key>.12"), "<eval_with_key>");
        assert_eq!(library_path("/root/x/lib/python3.10/asyncio/events.py"), "asyncio/events.py");
    }
}

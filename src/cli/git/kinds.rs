//! Which files of a change are read, and which can matter, by their names.

use std::path::Path;

/// True for Python files, and for scripts, which need no ending; `.gitignore` and its like are none.
pub(super) fn may_be_python(path: &str) -> bool {
    let is_hidden = path.rsplit('/').next().is_some_and(|name| name.starts_with('.'));
    Path::new(path).extension().map_or(!is_hidden, |ending| ending == "py")
}

/// True for files whose lines are compared: code, and what a program or its installation may be configured by.
pub(super) fn is_read(path: &str) -> bool {
    const ENDINGS: [&str; 12] =
        ["yaml", "yml", "toml", "json", "ini", "cfg", "conf", "txt", "gin", "lock", "sh", "bash"];
    may_be_python(path) || ENDINGS.contains(&ending(path))
}

/// True for files that a program may use: not documentation, nor those of this tool and others.
pub(super) fn may_matter(path: &str) -> bool {
    const ENDINGS: [&str; 12] = ["md", "rst", "html", "css", "js", "ts", "svg", "png", "jpg", "jpeg", "gif", "pdf"];
    let is_hidden = path.split('/').any(|part| part.starts_with('.'));
    let is_own = [".ptmem.json", "ptmem.toml"].iter().any(|end| path.ends_with(end));
    may_be_python(path) || !is_hidden && !is_own && !ENDINGS.contains(&ending(path))
}

/// The ending of a file's name.
fn ending(path: &str) -> &str {
    Path::new(path).extension().and_then(|ending| ending.to_str()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_files_are_no_scripts() {
        assert!(may_be_python("bin/train") && may_be_python("train.py") && may_be_python(".ci/x.py"));
        assert!(!may_be_python(".gitignore") && !may_be_python("data/.gitkeep") && !may_be_python("README.md"));
    }
}

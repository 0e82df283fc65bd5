//! What a program imports: files of the repository, and packages.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Maximum number of the repository's own files that the imports of a program are followed to.
const MOST_FILES: usize = 100;

/// The files of the repository that a program runs, and the packages that these import.
#[derive(Debug, Default)]
pub(super) struct Imports {
    /// The text of the program and of the modules that it imports.
    pub(super) text: String,
    /// Names by which packages are imported.
    pub(super) packages: BTreeSet<String>,
    /// Whether it imports a module of its own by a path from the root, and lies in a folder itself.
    pub(super) needs_root: bool,
}

impl Imports {
    /// Those of the program at a path from the root.
    pub(super) fn of(root: &Path, path: &str) -> Self {
        let program = root.join(path);
        let mut imports = Self::default();
        let mut seen = BTreeSet::new();
        let mut files = vec![program.clone()];
        while let Some(file) = files.pop().filter(|_| seen.len() < MOST_FILES) {
            let text = fs::read_to_string(&file).unwrap_or_default();
            for module in text.lines().filter(|_| !seen.contains(&file)).flat_map(modules) {
                if let Some(folder) = folder_of(root, &program, &file, &module) {
                    imports.needs_root |= folder == root && program.parent() != Some(root);
                    files.extend(files_of(&folder, &module));
                } else if !module.starts_with('.') {
                    let is_tensorboard = module.starts_with("torch.utils.tensorboard");
                    imports.packages.insert(if is_tensorboard { "tensorboard" } else { top(&module) }.to_owned());
                }
            }
            if seen.insert(file) {
                imports.text += &text;
            }
        }
        imports
    }
}

fn top(module: &str) -> &str {
    module.split('.').next().unwrap_or(module)
}

/// The modules that a line imports; of `from a import b` also `a.b`, which may be one.
fn modules(line: &str) -> Vec<String> {
    let line = line.trim().split('#').next().unwrap_or_default().trim_end_matches(['(', '\\', ' ']);
    if let Some(names) = line.strip_prefix("import ") {
        return names.split(',').filter_map(first_word).collect();
    }
    let Some((module, names)) = line.strip_prefix("from ").and_then(|rest| rest.split_once(" import")) else {
        return Vec::new();
    };
    let module = module.trim();
    let dot = if module.ends_with('.') { "" } else { "." };
    let within = names.split(',').filter_map(first_word).map(|name| format!("{module}{dot}{name}"));
    [module.to_owned()].into_iter().chain(within).collect()
}

fn first_word(text: &str) -> Option<String> {
    text.split_whitespace().next().map(|word| word.trim_matches(['(', ')']).to_owned())
}

/// The folder of the repository in which a module of it is looked up: beside the program, the root or `src`, or that of a relative
/// import; `None` for a package of others.
fn folder_of(root: &Path, program: &Path, file: &Path, module: &str) -> Option<PathBuf> {
    let name = module.trim_start_matches('.');
    let levels = module.len() - name.len();
    let beside = program.parent().map(Path::to_owned);
    let folders = match levels {
        0 => beside.into_iter().chain([root.to_owned(), root.join("src")]).collect(),
        levels => file.ancestors().nth(levels).map(Path::to_owned).into_iter().collect::<Vec<_>>(),
    };
    folders.into_iter().find(|folder| name.is_empty() || is_module(&folder.join(top(name))))
}

/// True for a file of Python, or a folder with one: folders of data can have the name of a package.
fn is_module(path: &Path) -> bool {
    let mut entries = fs::read_dir(path).into_iter().flatten().flatten();
    path.with_extension("py").is_file() || entries.any(|entry| entry.path().extension().is_some_and(|end| end == "py"))
}

/// The files that an import of a module below a folder runs.
fn files_of(folder: &Path, module: &str) -> Vec<PathBuf> {
    let path: PathBuf = module.trim_start_matches('.').split('.').collect();
    let packages = path.ancestors().map(|part| folder.join(part).join("__init__.py"));
    let mut found: Vec<PathBuf> = packages.chain([folder.join(&path).with_extension("py")]).collect();
    found.retain(|file| file.is_file());
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_imports_modules() {
        for (line, expected) in [
            ("import a.b as c, d", &["a.b", "d"][..]),
            ("    from x.y import a, b as c  # why", &["x.y", "x.y.a", "x.y.b"]),
            ("from . import other", &[".", ".other"]),
            ("from x import (", &["x"]),
            ("important = 1", &[]),
            ("from here to there", &[]),
        ] {
            assert_eq!(modules(line), expected, "{line}");
        }
    }

    #[test]
    fn imports_are_followed_through_the_repository() {
        let place = tempfile::tempdir().unwrap();
        for (name, text) in [
            ("tools/train.py", "from lib.log import Log\nimport helper\nfrom lib import part\n"),
            ("tools/helper.py", "def f():\n    import os, pandas as p\n"),
            ("lib/__init__.py", ""),
            ("lib/part.py", "import einops\n"),
            ("lib/log.py", "from torch.utils.tensorboard import SummaryWriter\nimport wandb\nfrom .part import x\n"),
            ("lib/unused.py", "import timm\n"),
            ("wandb/run/log.txt", ""),
        ] {
            fs::create_dir_all(place.path().join(name).parent().unwrap()).unwrap();
            fs::write(place.path().join(name), text).unwrap();
        }
        let imports = Imports::of(place.path(), "tools/train.py");
        assert_eq!(imports.packages, ["einops", "os", "pandas", "tensorboard", "wandb"].map(str::to_owned).into());
        assert!(imports.needs_root && imports.text.contains("import einops"));
        assert!(!Imports::of(place.path(), "lib/log.py").needs_root);
    }
}

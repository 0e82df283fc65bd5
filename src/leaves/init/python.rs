//! The version of Python that a repository asks for.

use std::fs;
use std::path::Path;

/// A version of Python, and what says so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PythonVersion {
    /// Such as `3.10`.
    pub(super) version: String,
    pub(super) source: String,
}

/// Files that pin a version, and the text before it.
const PINS: [(&str, &str); 3] =
    [(".python-version", ""), ("environment.yml", "- python="), ("environment.yaml", "- python=")];

impl PythonVersion {
    /// The version that a file pins, otherwise one that a README tells readers to use; `None` for any.
    pub(super) fn of(root: &Path) -> Option<Self> {
        PINS.iter().find_map(|(file, before)| pinned(root, file, before)).or_else(|| told(root))
    }
}

fn pinned(root: &Path, file: &str, before: &str) -> Option<PythonVersion> {
    let text = fs::read_to_string(root.join(file)).ok()?;
    let version = text.lines().find_map(|line| version(line.trim().strip_prefix(before)?.trim_start_matches('=')))?;
    Some(PythonVersion { version, source: file.to_owned() })
}

/// The minor version at the begin of a text such as `3.10.4`.
fn version(text: &str) -> Option<String> {
    let minor: String = text.strip_prefix("3.")?.chars().take_while(char::is_ascii_digit).collect();
    (!minor.is_empty()).then(|| format!("3.{minor}"))
}

/// The version that a README tells readers to use. One that is the least of several is none.
fn told(root: &Path) -> Option<PythonVersion> {
    let text = fs::read_to_string(root.join("README.md")).ok()?.to_ascii_lowercase();
    let mut lines = (1..).zip(text.lines());
    lines.find_map(|(number, line)| {
        let version = line.split("python").skip(1).find_map(only_version)?;
        Some(PythonVersion { version, source: format!("README.md, line {number}") })
    })
}

/// Versions behind the one that is named.
const SEVERAL: [&str; 11] = ["+", "or ", "and ", "to ", ">", "<", "-", "–", "/", ",", "~"];

/// The version at the begin of a text, unless others do as well.
fn only_version(text: &str) -> Option<String> {
    let text = text.trim_start_matches([' ', '=', '*', '`']);
    let rest =
        text.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.').trim_start_matches(['*', '`', ' ', ')']);
    version(text).filter(|_| !SEVERAL.iter().any(|word| rest.starts_with(word)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn python(files: &[(&str, &str)]) -> Option<String> {
        let place = tempfile::tempdir().unwrap();
        for (name, text) in files {
            fs::write(place.path().join(name), text).unwrap();
        }
        PythonVersion::of(place.path()).map(|python| format!("{} {}", python.version, python.source))
    }

    #[test]
    fn a_file_pins_a_version() {
        assert_eq!(python(&[(".python-version", "3.11.4\n")]).as_deref(), Some("3.11 .python-version"));
        assert_eq!(python(&[(".python-version", "pypy3.9\n")]), None);
        let conda = ("environment.yml", "dependencies:\n  - pytorch=2.1\n  - python=3.9.7=h1\n");
        assert_eq!(python(&[conda]).as_deref(), Some("3.9 environment.yml"));
        assert_eq!(python(&[("environment.yml", "dependencies:\n  - python>=3.8\n")]), None);
        assert_eq!(python(&[]), None);
    }

    #[test]
    fn a_readme_tells_which_version_to_use_whatever_the_age_of_the_pins() {
        for (line, version) in [
            ("conda create -n x python=3.10", Some("3.10")),
            ("Tested with Python 3.9.", Some("3.9")),
            ("We use **Python 3.8** with CUDA.", Some("3.8")),
            ("It requires Python >= 3.11.", None),
            ("Python 3.8+", None),
            ("Python 3.8 and later", None),
            ("Python 3.8 or later", None),
            ("Python 3.8-3.11", None),
            ("python train.py", None),
        ] {
            let found = python(&[("README.md", &format!("# X\n{line}\n")), ("requirements.txt", "numpy==1.21\n")]);
            assert_eq!(found, version.map(|version| format!("{version} README.md, line 2")), "{line}");
        }
    }
}

//! The version of Python that a repository is for, from what its files say.

use std::fmt;
use std::fs;
use std::path::Path;
use std::process::Command;

use super::clauses::keeps;
use super::torch::Torch;
use super::workflows;

/// A version of Python 3, and the file that says so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Python {
    pub(super) minor: u32,
    /// What says so.
    pub(super) source: String,
}

impl fmt::Display for Python {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "3.{}", self.minor)
    }
}

/// Minor versions of Python 3 that are offered.
const OFFERED: std::ops::RangeInclusive<u32> = 8..=15;

/// Files of conda that name the packages of an environment.
pub(super) const CONDA: [&str; 4] = ["environment.yml", "environment.yaml", "conda.yml", "conda.yaml"];

/// Files that name one version. A runtime.txt is that of a site or a service.
const PINS: [&str; 2] = [".python-version", ".tool-versions"];

impl Python {
    /// The version; `None` for any.
    pub(super) fn of(root: &Path) -> Option<Self> {
        let allowed = Allowed { requirement: Requirement::of(root), torch: Torch::of(root) };
        pinned(root)
            .or_else(|| named(root, &allowed))
            .or_else(|| of_its_time(root, &allowed))
            .or_else(|| allowed.newest())
    }
}

/// The version that a file or conda pins.
fn pinned(root: &Path) -> Option<Python> {
    let of_files = lines(root, &PINS).into_iter().map(|(file, line)| (file, line.trim().to_owned()));
    let of_conda = lines(root, &CONDA).into_iter().filter_map(|(file, line)| Some((file, pinned_by_conda(&line)?)));
    let mut found = of_files.chain(of_conda).filter_map(|(file, line)| {
        let version = line.trim_start_matches("python").trim_start_matches(['-', ' ', '=']);
        Some(Python { minor: minor_of(version)?, source: file.to_owned() })
    });
    found.find(|python| OFFERED.contains(&python.minor))
}

/// The version in a line of conda such as `- python=3.9`.
fn pinned_by_conda(line: &str) -> Option<String> {
    let spec = line.trim().strip_prefix("- ")?.trim_matches(['"', '\'']).strip_prefix("python=")?;
    Some(spec.to_owned())
}

/// The lines of these files, as far as they are there.
fn lines(root: &Path, files: &[&'static str]) -> Vec<(&'static str, String)> {
    let mut all = Vec::new();
    for file in files {
        all.extend(read(root, file).lines().map(|line| (*file, line.to_owned())));
    }
    all
}

/// The versions that a package and the wheels of PyTorch allow.
#[derive(Debug)]
struct Allowed {
    requirement: Requirement,
    torch: Torch,
}

impl Allowed {
    fn contains(&self, minor: u32) -> bool {
        OFFERED.contains(&minor) && self.requirement.allows(minor) && self.torch.allows(minor)
    }

    /// The newest, where some are excluded: otherwise any will do.
    fn newest(&self) -> Option<Python> {
        let minor = OFFERED.rev().find(|minor| self.contains(*minor)).filter(|minor| minor != OFFERED.end())?;
        let is_of_package = !self.requirement.allows(minor + 1);
        let source = if is_of_package { self.requirement.file.to_owned() } else { self.torch.source.clone() };
        Some(Python { minor, source })
    }
}

/// The newest version that the repository names and allows. One that is too old for PyTorch's newest allowed release is
/// raised, unless other packages are pinned.
fn named(root: &Path, allowed: &Allowed) -> Option<Python> {
    let names = workflows::versions_of_python(root).into_iter().chain(classifiers(root));
    let named = names.filter(|name| allowed.contains(name.minor)).max_by_key(|name| name.minor)?;
    let least = allowed.torch.least();
    let is_free = allowed.contains(least) && count_of_pins(root) == 0;
    Some(if named.minor < least && is_free {
        Python { minor: least, source: "the newest PyTorch needs it".to_owned() }
    } else {
        named
    })
}

/// Number of releases that requirements.txt pins.
fn count_of_pins(root: &Path) -> usize {
    read(root, "requirements.txt").lines().filter(|line| line.contains("==")).count()
}

/// The classifiers of a package.
fn classifiers(root: &Path) -> Vec<Python> {
    let mut found = Vec::new();
    for file in ["pyproject.toml", "setup.py", "setup.cfg"] {
        let text = read(root, file);
        let versions = text.split("Programming Language :: Python :: ").skip(1).filter_map(minor_of);
        found.extend(versions.map(|minor| Python { minor, source: file.to_owned() }));
    }
    found
}

/// Where releases are pinned, the newest Python that was half a year old when they last changed: their wheels are for it.
fn of_its_time(root: &Path, allowed: &Allowed) -> Option<Python> {
    let (year, month) = date_of_pins(root)?;
    // Version 3.N comes out in October of the year 2011 + N.
    let minor = (year.checked_sub(2012)? + u32::from(month >= 4)).min(*OFFERED.end());
    allowed.contains(minor).then(|| Python { minor, source: format!("requirements.txt pins packages of {year}") })
}

/// The year and the month in which requirements.txt last changed, if it pins releases.
pub(super) fn date_of_pins(root: &Path) -> Option<(u32, u32)> {
    last_commit(root, &["--", "requirements.txt"]).filter(|_| count_of_pins(root) > 0)
}

/// The year and the month of the last commit of a repository that has had none for a year.
pub(super) fn dormant_since(root: &Path) -> Option<(u32, u32)> {
    let is_active = last_commit(root, &["--since=1.year"]).is_some();
    last_commit(root, &[]).filter(|_| !is_active)
}

/// The year and the month of the last commit that `git log` finds with these words.
fn last_commit(root: &Path, words: &[&str]) -> Option<(u32, u32)> {
    let output = Command::new("git").args(["log", "-1", "--format=%cs"]).args(words).current_dir(root).output().ok()?;
    let date = String::from_utf8(output.stdout).ok()?;
    let mut parts = date.trim().split('-').map_while(|part| part.parse::<u32>().ok());
    Some((parts.next()?, parts.next()?))
}

fn read(root: &Path, file: &str) -> String {
    fs::read_to_string(root.join(file)).unwrap_or_default()
}

/// The minor version at the begin of a text such as `3.10.4`.
pub(super) fn minor_of(text: &str) -> Option<u32> {
    let rest = text.strip_prefix("3.")?;
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    rest[..end].parse().ok()
}

/// A package's requirement of Python: clauses such as `>=3.8`, all of which hold.
#[derive(Debug)]
struct Requirement {
    file: &'static str,
    clauses: Vec<String>,
}

impl Requirement {
    fn of(root: &Path) -> Self {
        let project = toml::from_str(&read(root, "pyproject.toml")).ok();
        let of_project = project.as_ref().and_then(required_by_project).map(|text| ("pyproject.toml", text));
        let mut of_setup = ["setup.cfg", "setup.py"].into_iter();
        let found =
            of_project.or_else(|| of_setup.find_map(|file| Some((file, required_by_setup(&read(root, file))?))));
        found.map_or(Self { file: "", clauses: Vec::new() }, |(file, text)| Self {
            file,
            clauses: text.split(',').map(|clause| clause.replace(' ', "")).collect(),
        })
    }

    fn allows(&self, minor: u32) -> bool {
        self.clauses.iter().all(|clause| keeps(clause, (3, minor)))
    }
}

/// The requirement in a pyproject.toml, by the standard or by Poetry.
fn required_by_project(project: &toml::Table) -> Option<String> {
    let standard = project.get("project").and_then(|project| project.get("requires-python"));
    let poetry = project.get("tool").and_then(|tool| tool.get("poetry")?.get("dependencies")?.get("python"));
    Some(standard.or(poetry)?.as_str()?.to_owned())
}

/// The value of `python_requires` in a setup.py or setup.cfg.
fn required_by_setup(text: &str) -> Option<String> {
    let rest = text.split("python_requires").nth(1)?.trim_start().strip_prefix('=')?.trim_start();
    let quoted = ['"', '\''].into_iter().find_map(|quote| rest.strip_prefix(quote)?.split(quote).next());
    quoted.or_else(|| rest.lines().next()).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(files: &[(&str, &str)]) -> Option<String> {
        let place = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = place.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        Python::of(place.path()).map(|python| format!("{python} {}", python.source))
    }

    fn project(requires: &str) -> Option<String> {
        version(&[("pyproject.toml", &format!("[project]\nrequires-python = \"{requires}\"\n"))])
    }

    #[test]
    fn a_version_comes_from_what_pins_it() {
        assert_eq!(version(&[(".python-version", "3.11.4\n")]).as_deref(), Some("3.11 .python-version"));
        assert_eq!(version(&[(".python-version", "pypy3.9\n")]), None);
        assert_eq!(version(&[("runtime.txt", "3.9\n")]), None);
        let conda = "dependencies:\n  - pytorch=2.1\n  - python=3.9.7=h1\n";
        assert_eq!(version(&[("environment.yml", conda)]).as_deref(), Some("3.9 environment.yml"));
        assert_eq!(version(&[("environment.yml", "dependencies:\n  - python>=3.8\n")]), None);
        assert_eq!(version(&[]), None);
        let torch = ("requirements.txt", "torch==2.1.0\n");
        assert_eq!(version(&[torch]).as_deref(), Some("3.11 requirements.txt (torch==2.1.0)"));
        let tested = (".github/workflows/tests.yml", "python-version: ['3.8', '3.10', \"3.13\"]\n");
        assert_eq!(version(&[torch, tested]).as_deref(), Some("3.10 .github/workflows/tests.yml"));
        // Too old for PyTorch of today, unless packages are pinned.
        let old = (".github/workflows/tests.yml", "python-version: 3.8\n");
        assert_eq!(version(&[old]).as_deref(), Some("3.10 the newest PyTorch needs it"));
        assert_eq!(version(&[old, torch]).as_deref(), Some("3.8 .github/workflows/tests.yml"));
    }

    #[test]
    fn a_requirement_leaves_the_newest_that_it_allows() {
        assert_eq!(project(">=3.8,<3.11").as_deref(), Some("3.10 pyproject.toml"));
        assert_eq!(project(">=3.7.1, <=3.11").as_deref(), Some("3.11 pyproject.toml"));
        assert_eq!(project("~=3.9.2").as_deref(), Some("3.9 pyproject.toml"));
        assert_eq!(project("==3.10.*").as_deref(), Some("3.10 pyproject.toml"));
        // Any that this machine has will do.
        assert_eq!(project(">=3.9"), None);
        assert_eq!(project(">=3.9,<4.0"), None);
        let poetry = "[tool.poetry.dependencies]\npython = \"^3.8\"\n";
        assert_eq!(version(&[("pyproject.toml", poetry)]), None);
        let setup = "setup(\n    python_requires='>=3.6,<3.12',\n)\n";
        assert_eq!(version(&[("setup.py", setup)]).as_deref(), Some("3.11 setup.py"));
    }

    #[test]
    fn of_versions_that_are_named_the_newest_allowed_one_counts() {
        let tested = (".github/workflows/tests.yml", "python-version: ['3.8', '3.10', \"3.13\"]\n");
        assert_eq!(version(&[tested]).as_deref(), Some("3.13 .github/workflows/tests.yml"));
        let documented = (".github/workflows/doc-build.yml", "python-version: '3.9'\n");
        assert_eq!(version(&[documented, tested]).as_deref(), Some("3.13 .github/workflows/tests.yml"));
        let project = ("pyproject.toml", "[project]\nrequires-python = \">=3.8,<3.12\"\n");
        assert_eq!(version(&[tested, project]).as_deref(), Some("3.10 .github/workflows/tests.yml"));
        let listed =
            "classifiers = [\"Programming Language :: Python :: 3\", \"Programming Language :: Python :: 3.9\"]\n";
        assert_eq!(version(&[("setup.cfg", &listed.replace("3.9", "3.11"))]).as_deref(), Some("3.11 setup.cfg"));
    }
}

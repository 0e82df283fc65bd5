//! Facts about a repository: its CI system, its package, its Python, the programs that train.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::packages;
use super::programs::{self, MOST_RECORDED, Program};
use super::python::{CONDA, Python};
use super::workflows;
use crate::cli::checkout;

/// The system that runs the workflows of a repository.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ci {
    /// GitHub Actions, also where nothing says otherwise.
    Github,
    /// GitLab.
    Gitlab,
}

/// The way to install a repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Installation {
    /// As a package whose dependencies uv.lock pins.
    Locked,
    /// As this workflow does, by these arguments of pip.
    Workflow(String, Vec<String>),
    /// As a package, by `pip install .`.
    Package,
    /// By files of requirements.
    Requirements(Vec<String>),
    /// By the packages that a file of conda names.
    Conda(&'static str, Vec<String>),
    /// Not known.
    Unknown,
}

impl Installation {
    /// What says how.
    pub(super) fn described(&self) -> String {
        let source = match self {
            Self::Locked => "uv.lock",
            Self::Workflow(file, _) => file,
            Self::Requirements(files) => &files.join(", "),
            Self::Package => "pyproject.toml or setup.py",
            Self::Conda(file, _) => file,
            Self::Unknown => return "found no file that states how to install the repository".to_owned(),
        };
        format!("installed as {source} says")
    }

    /// Further files that name packages.
    pub(super) fn files(&self) -> Vec<String> {
        match self {
            Self::Workflow(file, _) => vec![file.clone()],
            Self::Requirements(files) => files.clone(),
            Self::Locked => vec!["uv.lock".to_owned()],
            Self::Package | Self::Conda(..) | Self::Unknown => Vec::new(),
        }
    }
}

/// A repository.
#[derive(Debug)]
pub(super) struct Repository {
    /// Its root.
    pub(super) root: PathBuf,
    pub(super) ci: Ci,
    pub(super) installation: Installation,
    pub(super) python: Option<Python>,
    /// Programs that train.
    pub(super) programs: Vec<Program>,
}

impl Repository {
    /// The repository around a folder, or the folder itself where it is in none.
    pub(super) fn around(folder: &Path) -> Self {
        let root = checkout::around(folder).unwrap_or_else(|| folder.to_owned());
        let programs = programs::find(&root);
        Self { ci: ci(&root), installation: installation(&root, &programs), python: Python::of(&root), programs, root }
    }
}

fn ci(root: &Path) -> Ci {
    if root.join(".github").is_dir() {
        return Ci::Github;
    }
    let remotes = fs::read_to_string(root.join(".git/config")).unwrap_or_default();
    let is_gitlab = remotes.lines().any(|line| line.trim().starts_with("url") && line.contains("gitlab"));
    if is_gitlab || root.join(".gitlab-ci.yml").is_file() { Ci::Gitlab } else { Ci::Github }
}

fn installation(root: &Path, programs: &[Program]) -> Installation {
    if root.join("uv.lock").is_file() && root.join("pyproject.toml").is_file() {
        return Installation::Locked;
    }
    if let Some((workflow, lines)) = workflows::installation(root) {
        return Installation::Workflow(workflow, lines);
    }
    if ["pyproject.toml", "setup.py"].iter().any(|name| root.join(name).is_file()) {
        return Installation::Package;
    }
    let file = ["requirements.txt", "requirements/base.txt"].into_iter().find(|name| root.join(name).is_file());
    if let Some(file) = file {
        return Installation::Requirements(vec![file.to_owned()]);
    }
    let recorded = &programs[..programs.len().min(MOST_RECORDED)];
    if let Some(file) = CONDA.into_iter().find(|file| root.join(file).is_file()) {
        let imported = recorded.iter().flat_map(|program| packages::imported(root, program)).collect();
        return Installation::Conda(file, packages_of_conda(&root.join(file), &imported));
    }
    let files = packages::requirements_of(root, recorded);
    if files.is_empty() { Installation::Unknown } else { Installation::Requirements(files) }
}

/// True for a repository that is a package: a pyproject.toml may only configure tools.
pub(super) fn is_package(root: &Path) -> bool {
    let text = fs::read_to_string(root.join("pyproject.toml")).unwrap_or_default();
    root.join("setup.py").is_file() || text.lines().any(|line| ["[project]", "[tool.poetry]"].contains(&line.trim()))
}

/// The packages in a file of conda, under the names of the index of Python: those of conda only if the programs import them, since
/// the index may not have the others.
fn packages_of_conda(file: &Path, imported: &BTreeSet<String>) -> Vec<String> {
    let text = fs::read_to_string(file).unwrap_or_default();
    let lines = text.lines().map(str::trim).skip_while(|line| *line != "dependencies:").skip(1);
    let items = lines
        .take_while(|line| line.is_empty() || line.starts_with(['-', '#']))
        .filter_map(|line| line.strip_prefix("- "));
    let specs = items.map(|item| item.trim_matches(['"', '\'']).rsplit("::").next().unwrap_or_default());
    let mut is_of_pip = false;
    let mut packages = Vec::new();
    for spec in specs {
        let Some((name, requirement)) = package_of_conda(spec) else { continue };
        if spec.ends_with(':') {
            is_of_pip = true;
        } else if is_of_pip || imported.iter().any(|module| packages::package_of(module) == name) {
            packages.push(requirement);
        }
    }
    packages
}

/// The name and the requirement: `numpy=1.26=build` of conda as `numpy==1.26.*`; one of pip as it is.
fn package_of_conda(spec: &str) -> Option<(&str, String)> {
    let spec = spec.split(" #").next()?.trim();
    let end = spec.find(['=', '<', '>', '~', '!', '[', ' ']).unwrap_or(spec.len());
    let (name, version) = spec.split_at(end);
    let name = if name == "pytorch" { "torch" } else { name };
    let requirement = match version.strip_prefix('=').filter(|rest| !rest.starts_with('=')) {
        Some(rest) => format!("{name}=={}.*", rest.split('=').next()?),
        None => format!("{name}{}", version.replace(' ', "")),
    };
    Some((name, requirement))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_of_conda_have_the_names_of_the_index() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("environment.yml");
        let text = "name: x\nchannels:\n  - conda-forge\ndependencies:\n  - python=3.9\n  - pytorch=2.1=py3\n  - conda-forge::numpy>=1.20\n\
                    \x20 - scikit-learn\n  - nb_conda_kernels\n  - pip\n  - pip:\n    - einops==0.6\n    - wandb\nprefix: /x\n";
        fs::write(&file, text).unwrap();
        let imported = ["torch", "numpy", "sklearn"].map(str::to_owned).into();
        let packages = packages_of_conda(&file, &imported);
        assert_eq!(packages, ["torch==2.1.*", "numpy>=1.20", "scikit-learn", "einops==0.6", "wandb"]);
    }
}

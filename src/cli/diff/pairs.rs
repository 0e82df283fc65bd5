//! A pair of files, or of sets of files, to compare.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use ptmem::sides::Sides;
use ptmem::verdict::{Limits, Thresholds};

use super::super::args::DiffArguments;
use super::super::config::{Loaded, today};
use super::super::ranks::{self, FoundFile};

/// A before and an after to compare.
#[derive(Clone)]
pub(crate) struct Pair {
    pub(crate) name: Option<String>,
    pub(crate) before: PathBuf,
    pub(crate) after: PathBuf,
    pub(crate) thresholds: Thresholds,
    /// The files of both sides where they are those of ranks.
    pub(crate) found: Option<Sides<Vec<FoundFile>>>,
    /// What reports call both sides, if not by their paths.
    pub(crate) called: Option<Sides<String>>,
    /// The files with what the recorded programs printed, where they were recorded here.
    pub(crate) logs: Option<Sides<PathBuf>>,
}

impl Pair {
    /// A before and an after with limits.
    pub(crate) fn new(
        name: Option<String>,
        before: PathBuf,
        after: PathBuf,
        limits: &Limits,
        loaded: &Loaded,
    ) -> Result<Self> {
        let accepted = loaded.config.accepted.clone();
        let thresholds = Thresholds { accepted, today: today()?, ..limits.thresholds()? };
        let pair = Self { name, before, after, thresholds, found: None, called: None, logs: None };
        let found = pair.context(ranks::sides(&pair.before, &pair.after))?;
        Ok(Self { found, ..pair })
    }

    /// The same, with names of both sides in place of their paths.
    #[cfg(feature = "simulate")]
    pub(crate) fn called(self, names: Sides<String>) -> Self {
        Self { called: Some(names), ..self }
    }

    /// All files and folders that are read.
    pub(crate) fn inputs(&self) -> impl Iterator<Item = &Path> {
        let of_ranks = self.found.iter().flat_map(|sides| sides.before.iter().chain(&sides.after));
        [&*self.before, &*self.after].into_iter().chain(of_ranks.map(|found| &*found.path))
    }

    /// Adds the name of the comparison, if it has one, to an error.
    pub(crate) fn context<T>(&self, result: Result<T>) -> Result<T> {
        match &self.name {
            Some(name) => result.with_context(|| format!("comparison '{name}'")),
            None => result,
        }
    }
}

/// The pair that the command line names.
pub(crate) fn pair(arguments: &DiffArguments, loaded: &Loaded) -> Result<Pair> {
    let DiffArguments { before, after, .. } = arguments;
    if before.as_os_str() == "-" && after.as_os_str() == "-" {
        bail!("only one of the two snapshots can come from standard input");
    }
    Pair::new(None, before.clone(), after.clone(), &arguments.limits().over(&loaded.config.limits), loaded)
}

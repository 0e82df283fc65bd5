//! The pairs of files, or of sets of files, that the command line or a suite names.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use ptmem::config::{self, Config};
use ptmem::verdict::{Headroom, Limits};

use super::super::args::DiffArguments;
use super::super::ranks::{self, Found};
use super::super::{headroom, output};
use super::update::shell_word;

/// A before and an after to compare.
pub(super) struct Pair {
    pub(super) name: Option<String>,
    pub(super) before: PathBuf,
    pub(super) after: PathBuf,
    pub(super) limits: Limits,
    pub(super) headroom: Option<Headroom>,
}

impl Pair {
    fn new(name: Option<String>, before: PathBuf, after: PathBuf, limits: Limits) -> Result<Self> {
        let headroom = headroom(&limits)?;
        Ok(Self { name, before, after, limits, headroom })
    }

    /// Adds the name of the comparison in a suite to an error.
    pub(super) fn context<T>(&self, result: Result<T>) -> Result<T> {
        match &self.name {
            Some(name) => result.with_context(|| format!("comparison '{name}'")),
            None => result,
        }
    }

    /// The files of both sides where they are those of ranks.
    pub(super) fn found(&self) -> Result<Option<(Vec<Found>, Vec<Found>)>> {
        self.context(ranks::sides(&self.before, &self.after))
    }
}

/// The pairs to compare, each with its limits. Paths of a suite begin at the folder of the configuration.
pub(super) fn pairs(arguments: &DiffArguments, config: &Config, folder: &Path) -> Result<Vec<Pair>> {
    let limits = arguments.limits();
    if let Some(name) = &arguments.suite {
        let suite = config.suite(name)?;
        let pair = |pair: &config::Pair| {
            let limits = limits.clone().over(&pair.limits).over(&suite.limits).over(&config.limits);
            Pair::new(Some(pair.name.clone()), folder.join(&pair.before), folder.join(&pair.after), limits)
        };
        if let Some(pair) = suite.pairs.iter().find(|pair| pair.before == "-" || pair.after == "-") {
            bail!("comparison '{}': standard input cannot be part of a suite; expected the name of a file", pair.name);
        }
        return suite.pairs.iter().map(pair).collect();
    }
    let (before, after) = match (&arguments.before, &arguments.after, &arguments.update) {
        (Some(before), Some(after), _) => (before, after),
        // The profile that is updated is the before.
        (Some(after), None, Some(profile)) => (profile, after),
        _ => bail!("--update needs the snapshot with the change: ptmem diff --update PROFILE AFTER"),
    };
    if before.as_os_str() == "-" && after.as_os_str() == "-" {
        bail!("only one of the two snapshots can come from standard input");
    }
    let is_before = |profile: &&PathBuf| *profile == before || output::is_same_file(profile, before);
    if arguments.update.as_ref().is_some_and(|profile| profile.as_os_str() == "-") {
        bail!("--update needs the name of the file to rewrite; standard input has none");
    }
    if let Some(profile) = arguments.update.as_ref().filter(|profile| !is_before(profile)) {
        bail!(
            "--update rewrites the before, which is {}, not {}; give the profile as the before",
            before.display(),
            profile.display()
        );
    }
    if let Some(profile) = arguments.update.as_ref().filter(|profile| !profile.exists()) {
        let (profile, after) = (profile.display(), shell_word(&after.display().to_string()));
        bail!("{profile}: no such file; write the first one with: ptmem profile {after} -o {profile}");
    }
    let limits = limits.over(&config.limits);
    Ok(vec![Pair::new(None, before.clone(), after.clone(), limits)?])
}

//! How commits and releases are recorded.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::Path;

use anyhow::{Context as _, Result};
use ptmem::patch::Edit;
use ptmem::sides::Sides;

use super::commits::{Commit, Commits};
use super::failure::Failure;
use super::recorder::{Job, Recorded, Recorder};
use super::releases::{Releases, paths_of};
use super::{Asked, Candidates};

/// A set whose members can be recorded.
pub(super) trait Recordable: Candidates {
    /// The good and the bad end.
    fn ends(&self) -> [Self::One; 2];
    /// The name of one as that of a folder.
    fn folder(one: &Self::One) -> &str;
    /// Runs and records one of them.
    fn record(&self, one: &Self::One, recorder: &Recorder<'_>, command: &[OsString]) -> Result<Recorded>;
    /// Makes the code of the answer that of the working directory, and gives the name of the code before it, where it has one.
    fn show(&self, found: &Found<Self::One>, recorder: &Recorder<'_>) -> Result<Option<String>>;
    /// Records the answer, shown before, without one of its edits; `None` where that edit cannot be taken back alone.
    fn without(
        &self,
        found: &Found<Self::One>,
        edit: &Edit,
        recorder: &Recorder<'_>,
        command: &[OsString],
    ) -> Result<Option<Recorded>>;
    /// The first bad one, as far as it is known.
    fn found(&self, asked: &Asked<Self::One>) -> Result<Found<Self::One>>;
}

/// The answer of a search.
pub(super) struct Found<C> {
    pub(super) bad: C,
    /// The one before it, or the last good one if others are between them.
    pub(super) before: C,
    /// Those between them of which nothing is known.
    pub(super) unknown: Vec<C>,
}

/// The worktree in which commits are recorded.
pub(super) const TREE: &str = "tree";

impl Recordable for Commits {
    fn ends(&self) -> [Commit; 2] {
        [self.good.clone(), self.bad.clone()]
    }

    fn folder(one: &Commit) -> &str {
        one.short()
    }

    fn record(&self, one: &Commit, recorder: &Recorder<'_>, command: &[OsString]) -> Result<Recorded> {
        match self.check_out(one, &recorder.place(TREE)) {
            Ok(folder) => record_in(&folder, one.short(), recorder, command),
            Err(error) => Ok(Recorded::Failed(Failure::of_candidate(format!("{error:#}")))),
        }
    }

    fn show(&self, found: &Found<Commit>, recorder: &Recorder<'_>) -> Result<Option<String>> {
        self.check_out(&found.bad, &recorder.place(TREE))?;
        Ok(Some(found.before.hash.clone()))
    }

    fn without(
        &self,
        found: &Found<Commit>,
        edit: &Edit,
        recorder: &Recorder<'_>,
        command: &[OsString],
    ) -> Result<Option<Recorded>> {
        let (Some(former), Some(path)) = (&edit.path.before, &edit.path.after) else { return Ok(None) };
        let file = recorder.place(TREE).join(path);
        let folder = self.check_out(&found.bad, &recorder.place(TREE))?;
        let old = self.text(&found.before, former)?;
        let new = fs::read_to_string(&file).with_context(|| format!("{}: cannot be read", file.display()))?;
        let Some(text) = edit.undone(Sides { before: &old, after: &new }) else { return Ok(None) };
        let mut key = DefaultHasher::new();
        text.hash(&mut key);
        let name = format!("{}-without-{:016x}", found.bad.short(), key.finish());
        if let Some(kept) = recorder.kept(&name) {
            return Ok(Some(kept));
        }
        fs::write(&file, text).with_context(|| format!("{}: cannot be written", file.display()))?;
        let recorded = record_in(&folder, &name, recorder, command);
        fs::write(&file, new).with_context(|| format!("{}: cannot be written", file.display()))?;
        recorded.map(Some)
    }

    fn found(&self, asked: &Asked<Commit>) -> Result<Found<Commit>> {
        let (bad, unknown) = self.first_bad(asked)?;
        let before = if unknown.is_empty() { self.parent(&bad, asked)? } else { self.last_good(&bad, asked) };
        Ok(Found { bad, before, unknown })
    }
}

/// Records a command in a folder of the worktree.
fn record_in(folder: &Path, name: &str, recorder: &Recorder<'_>, command: &[OsString]) -> Result<Recorded> {
    // The packages of this commit, whatever the environment has installed from the checkout.
    let paths = [recorder.place(TREE), recorder.place(TREE).join("src")].into_iter().chain(paths_of("PYTHONPATH"));
    let path = env::join_paths(paths).context("PYTHONPATH")?;
    recorder.record(name, &Job { command, folder, variables: &[("PYTHONPATH", path)], memory: None })
}

impl Recordable for Releases {
    fn ends(&self) -> [String; 2] {
        let (good, bad) = self.ends();
        [good.clone(), bad.clone()]
    }

    fn folder(one: &String) -> &str {
        one
    }

    fn record(&self, one: &String, recorder: &Recorder<'_>, command: &[OsString]) -> Result<Recorded> {
        let environment = recorder.place("environment");
        let variables = match self.install(one, &environment)? {
            Ok(variables) => variables,
            Err(reason) => return Ok(Recorded::Failed(Failure::of_candidate(reason))),
        };
        let here = env::current_dir()?;
        let recorded = recorder.record(one, &Job { command, folder: &here, variables: &variables, memory: None });
        let _ = fs::remove_dir_all(environment);
        recorded
    }

    fn show(&self, _: &Found<String>, _: &Recorder<'_>) -> Result<Option<String>> {
        Ok(None)
    }

    fn without(&self, _: &Found<String>, _: &Edit, _: &Recorder<'_>, _: &[OsString]) -> Result<Option<Recorded>> {
        Ok(None)
    }

    fn found(&self, asked: &Asked<String>) -> Result<Found<String>> {
        let (bad, before, unknown) = self.first_bad(asked);
        Ok(Found { bad: bad.clone(), before: before.clone(), unknown: unknown.to_vec() })
    }
}

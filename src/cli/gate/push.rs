//! A push to a branch: recorded gates are kept for the trend, and those that compare nothing are judged. The growth of a change was
//! judged before it was merged.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};
use ptmem::config::{GateRules, GateSource, Recording};

use super::super::{output, profile, ranks};
use super::ci::CiFolder;
use super::gates::Gates;
use super::results::ChangeFacts;
use super::sides::required;

impl Gates<'_> {
    /// Keeps or judges each gate, and gives the exit code.
    ///
    /// # Errors
    /// Where a gate compares, and nothing is kept either: it would pass without being judged.
    pub(super) fn pushed(&self) -> Result<ExitCode> {
        if self.folder.is_none() && self.rules.values().any(|gate| compares(&gate.source)) {
            bail!("a push is recorded for the trend of a CI job; give --base to compare with a commit");
        }
        let mut alone = Vec::new();
        for (name, gate) in &self.rules {
            match &gate.source {
                GateSource::Recorded(recording) => self.keep(name, gate, recording)?,
                GateSource::Snapshot(_) | GateSource::Leak(_) => alone.extend(self.alone(name, gate)?),
                GateSource::Files { .. } => {}
            }
        }
        output::print_note("the growth of a push is not judged; what it records is kept for the trend");
        if alone.is_empty() {
            self.folder.map_or(Ok(()), CiFolder::kept)?;
            return Ok(ExitCode::SUCCESS);
        }
        self.report(None, alone, &ChangeFacts::default())
    }

    /// Records the working tree alone, and keeps its profile.
    fn keep(&self, name: &str, gate: &GateRules, recording: &Recording) -> Result<()> {
        let folder = self.folder.context("without --ci, nothing is kept")?;
        let recordings = self.recordings.as_ref().context("nothing can be recorded")?;
        let plan = self.plan(name, gate, recording);
        let path = required(recordings.after(&plan, recordings.judged())?, recordings, name, None)?.path;
        profile::save(&first_file(&path)?, &folder.profile(name)?, &self.loaded.config)?;
        Ok(())
    }
}

fn compares(source: &GateSource) -> bool {
    match source {
        GateSource::Recorded(_) | GateSource::Files { .. } => true,
        GateSource::Snapshot(_) | GateSource::Leak(_) => false,
    }
}

/// A snapshot; of several ranks the first one's.
fn first_file(path: &Path) -> Result<PathBuf> {
    let found = ranks::find(path)?;
    Ok(found.and_then(|files| files.into_iter().next()).map_or(path.to_owned(), |first| first.path))
}

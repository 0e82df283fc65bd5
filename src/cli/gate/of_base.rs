//! The gates of the base, which is recorded by its own rules, and why it may have no recording.

use std::path::{Path, PathBuf};

use anyhow::Result;
use ptmem::config::{BrokenBase, GateRules, GateSource, Recording};
use ptmem::verdict::{Excuse, NoBefore};

use super::super::config::{Loaded, load_of_base};
use super::super::git::Base;
use super::super::place::normal;
use super::super::recorder::Failure;
use super::arguments::UNNAMED;
use super::base::BaseCommit;
use super::gates::Gates;

/// The base with its configuration.
pub(super) struct OfBase<'a> {
    pub(super) commit: &'a BaseCommit,
    loaded: Result<Loaded>,
    /// The file that `--config` names, from the root of the repository.
    configuration: Option<String>,
}

/// Why there is no recording of the base.
pub(super) enum NoRecording {
    /// The base does not have the gate.
    New(String),
    /// Its configuration cannot be read.
    Configuration(String),
    /// The program fails there.
    Failed(Failure),
}

impl<'a> OfBase<'a> {
    pub(super) fn of(commit: &'a BaseCommit, gates: &Gates<'_>) -> Result<Self> {
        let base = Base::find(&gates.place, &commit.hash)?;
        let arguments = &gates.arguments.config;
        let configuration = arguments.file().and_then(|file| base.path_below_root(file));
        Ok(Self { commit, loaded: load_of_base(&base, &gates.place, arguments), configuration })
    }

    /// How the base records a gate, and the folder that the paths of the gate begin at.
    pub(super) fn recording(&self, name: &str, gates: &Gates<'_>) -> Result<(Recording, PathBuf), NoRecording> {
        if name == UNNAMED && !gates.arguments.command.is_empty() {
            let own = gates.rules.get(name).and_then(recording_of);
            return own.map(|own| (own.clone(), PathBuf::new())).ok_or_else(|| self.lacks(name));
        }
        let loaded = self.loaded.as_ref().map_err(|error| NoRecording::Configuration(format!("{error:#}")))?;
        let recording = loaded.config.gates.get(name).and_then(recording_of);
        let mut recording = recording.cloned().ok_or_else(|| self.lacks(name))?;
        gates.arguments.apply(&mut recording).map_err(NoRecording::Configuration)?;
        Ok((recording, loaded.folder.clone()))
    }

    /// The files that gates of either side name as befores, and that of `--config`, from the root of the repository.
    pub(super) fn named(&self, gates: &Gates<'_>, folder: &Path) -> Vec<String> {
        let sides = [Some(gates.loaded), self.loaded.as_ref().ok()];
        let mut named: Vec<String> = self.configuration.iter().cloned().collect();
        for loaded in sides.into_iter().flatten() {
            for gate in loaded.config.gates.values() {
                if let GateSource::Files { before, .. } = &gate.source {
                    named.push(normal(&folder.join(&loaded.folder).join(before)).to_string_lossy().into_owned());
                }
            }
        }
        named
    }

    fn lacks(&self, name: &str) -> NoRecording {
        NoRecording::New(format!("the base {} does not record a gate '{name}'", self.commit.short()))
    }
}

impl NoRecording {
    /// The reason for the report, and whether absolute limits decide.
    pub(super) fn reason(self, gate: &GateRules, gates: &Gates<'_>) -> NoBefore {
        let broken = gate.broken_base.unwrap_or(gates.loaded.config.broken_base);
        let excuse = (broken == BrokenBase::Pass).then_some(Excuse::BrokenBase);
        match self {
            Self::New(reason) => NoBefore { reason, excuse: Some(Excuse::First) },
            Self::Configuration(error) => {
                NoBefore { reason: format!("the configuration of the base cannot be applied: {error}"), excuse }
            }
            // Another run may find it sound.
            Self::Failed(failure @ (Failure::Elsewhere(_) | Failure::Killed(_))) => {
                NoBefore { reason: format!("the base cannot be recorded: {failure}; run it again"), excuse: None }
            }
            Self::Failed(failure) => {
                let ways = "; if this change repairs the base, a label (--approve-label) or absolute limits with \
                            broken-base = \"pass\" let it pass";
                let ways = if excuse.is_some() { "" } else { ways };
                NoBefore { reason: format!("the base cannot be recorded: {failure}{ways}"), excuse }
            }
        }
    }
}

/// The recording of a gate that is recorded.
fn recording_of(gate: &GateRules) -> Option<&Recording> {
    match &gate.source {
        GateSource::Recorded(recording) => Some(recording),
        GateSource::Files { .. } | GateSource::Snapshot(_) | GateSource::Leak(_) => None,
    }
}

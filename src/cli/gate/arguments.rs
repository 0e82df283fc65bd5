//! The arguments of `ptmem gate`, and the gates that they name.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{env, fs};

use anyhow::{Context as _, Result, anyhow, bail};
use clap::builder::NonEmptyStringValueParser;
use clap::{Args, ValueEnum};
use ptmem::config::{GateRules, GateSource, Recording};
use ptmem::pattern::Pattern;
use ptmem::verdict::Limits;

use super::super::args::{Capacity, ConfigArguments, DiffLimits, Trust, ViewArguments, heading, value};
use super::super::config::Loaded;
use super::super::place::StartFolder;
use super::super::words::word;
use super::super::{git, recorder};

#[derive(Debug, Args)]
pub(crate) struct GateArguments {
    /// Gates of ptmem.toml to run, by name or glob [default: all]
    #[arg(value_name = "NAME", conflicts_with = "command")]
    pub(super) names: Vec<String>,
    /// Compare with the merge base with this commit, branch or tag [default: in CI what the event says; otherwise the merge base
    /// with the default branch, or HEAD on that branch]
    #[arg(long, value_name = "REV", value_parser = NonEmptyStringValueParser::new(), help_heading = heading::COMPARED)]
    pub(super) base: Option<String>,
    /// Judge this commit instead of the working tree
    #[arg(long, value_name = "REV", value_parser = NonEmptyStringValueParser::new(), help_heading = heading::COMPARED)]
    pub(super) head: Option<String>,
    /// Record the base again, although its recording is kept
    #[arg(long, help_heading = heading::SEARCHED)]
    pub(super) no_cache: bool,
    /// Card to simulate, such as h100; real records on that of the machine [default: a100]
    #[arg(long, value_name = "NAME", value_parser = gpu, help_heading = heading::SEARCHED)]
    pub(super) gpu: Option<String>,
    /// Steps of the optimizer to record: N, A..B, all, or none if the command writes its snapshot to the file that
    /// PTMEM_SNAPSHOT names [default: 1..3]
    #[arg(long, value_name = "STEPS", value_parser = recorder::steps, help_heading = heading::SEARCHED)]
    pub(super) steps: Option<String>,
    /// Record the after N times, and print how far each metric differs, how often the limits would have failed, and limits
    /// that would have been calm
    #[arg(
        long,
        value_name = "N",
        value_parser = clap::value_parser!(u32).range(2..),
        help_heading = heading::SEARCHED,
        conflicts_with_all = UNUSED_BY_REPEAT
    )]
    pub(super) repeat: Option<u32>,
    /// Rewrite the stored befores of these gates from their afters; figures can only fall
    #[arg(long, help_heading = heading::STORED, conflicts_with_all = ["head", "ci", "command", "device"])]
    pub(super) update: bool,
    /// Let --update also raise figures, even beyond limits; the reason is stored in the profile
    #[arg(long, value_name = "REASON", value_parser = value::reason, requires = "update", help_heading = heading::STORED)]
    pub(super) allow_raise: Option<String>,
    #[command(flatten)]
    pub(super) limits: DiffLimits,
    #[command(flatten)]
    pub(super) capacity: Capacity,
    #[command(flatten)]
    pub(super) trust: Trust,
    /// Exit with 0 if only limits on growth fail, or growth was not judged, and the pull request has LABEL (in GitHub
    /// Actions)
    #[arg(long, value_name = "LABEL", help_heading = heading::TRUST)]
    pub(super) approve_label: Option<String>,
    #[command(flatten)]
    pub(super) config: ConfigArguments,
    /// Write what a CI job shows into FOLDER: report, comment, annotations, outputs, page [default: in CI, ptmem-report in
    /// RUNNER_TEMP or the working directory]
    #[arg(long, value_name = "FOLDER", num_args = 0..=1, require_equals = true, help_heading = heading::OUTPUT)]
    #[expect(clippy::option_option, reason = "the option may stand without its value")]
    pub(super) ci: Option<Option<PathBuf>>,
    /// When there is a new comment on a pull request: auto (unless the verdict is a pass), on-change (also if figures changed),
    /// always or never
    #[arg(long, value_enum, value_name = "WHEN", default_value_t, help_heading = heading::OUTPUT)]
    pub(super) comment: CommentMode,
    #[command(flatten)]
    pub(super) view: ViewArguments,
    /// Record this command as the only gate, after --
    #[arg(last = true, value_name = "COMMAND")]
    pub(super) command: Vec<String>,
}

/// Options about a base, a verdict or its report, which repeated recordings have not.
const UNUSED_BY_REPEAT: [&str; 15] = [
    "base",
    "no_cache",
    "update",
    "max",
    "min_delta",
    "device_memory",
    "min_headroom",
    "strict",
    "exit_zero",
    "approve_label",
    "ci",
    "comment",
    "top",
    "source",
    "jobs",
];

/// Checks the name of a card, or that of no simulated one.
fn gpu(text: &str) -> Result<String, String> {
    if text == Recording::REAL_GPU { Ok(text.to_owned()) } else { recorder::card(text) }
}

/// Stands in the script that `ptmem init` writes for what nobody has filled in yet.
const PLACEHOLDER: &str = "REPLACE_ME";

/// The name of the gate of a command line.
pub(super) const UNNAMED: &str = "command";

impl GateArguments {
    /// The limits of the command line.
    pub(super) fn limits(&self) -> Limits {
        self.capacity.limits(self.limits.limits(self.trust.strict))
    }

    /// The gate of the command line, if it has a command.
    fn of_command(&self) -> Option<GateRules> {
        let words: Vec<String> = self.command.iter().map(|part| word(part)).collect();
        let source = GateSource::Recorded(Recording::of(words.join(" ")));
        (!words.is_empty()).then(|| GateRules { source, limits: Limits::default(), broken_base: None })
    }

    /// The gates to run, by their names.
    pub(super) fn gates(&self, place: &StartFolder, loaded: &Loaded) -> Result<BTreeMap<String, GateRules>> {
        let mut gates = match self.of_command() {
            Some(gate) => BTreeMap::from([(UNNAMED.to_owned(), gate)]),
            None => self.selected(loaded)?,
        };
        for (name, gate) in &mut gates {
            if let GateSource::Recorded(recording) = &mut gate.source {
                require_written(name, recording, &place.path(&loaded.folder))?;
                self.apply(recording).map_err(|wrong| anyhow!("[gate.{name}] {wrong}"))?;
            }
        }
        Ok(gates)
    }

    /// The gates of the file that the command line names.
    fn selected(&self, loaded: &Loaded) -> Result<BTreeMap<String, GateRules>> {
        let gates = &loaded.config.gates;
        if gates.is_empty() {
            let lack = match &loaded.file {
                Some((path, _)) => format!(": {} has no [gate.NAME]", path.display()),
                None => ": no ptmem.toml is read".to_owned(),
            };
            bail!(
                "there is no gate{lack}; give a command, such as ptmem gate -- python train.py, or write a gate with \
                 'ptmem init'"
            );
        }
        let mut selected = BTreeMap::new();
        for name in &self.names {
            let pattern = Pattern::glob(name).map_err(|error| anyhow!("{name}: {error}"))?;
            let before = selected.len();
            let matching = gates.iter().filter(|(gate, _)| *gate == name || pattern.matches(gate));
            selected.extend(matching.map(|(gate, rules)| (gate.clone(), rules.clone())));
            if selected.len() == before && !gates.keys().any(|gate| pattern.matches(gate)) {
                loaded.config.gate(name).with_context(|| loaded.name())?;
            }
        }
        Ok(if self.names.is_empty() { gates.clone() } else { selected })
    }

    /// Applies the options of the command line, and checks what the file says.
    pub(super) fn apply(&self, recording: &mut Recording) -> Result<(), String> {
        recording.gpu = self.gpu.clone().unwrap_or_else(|| recording.gpu.clone());
        recording.steps = self.steps.clone().unwrap_or_else(|| recording.steps.clone());
        recording
            .compute
            .as_deref()
            .map_or(Ok(String::new()), recorder::compute)
            .map_err(|error| format!("'compute': {error}"))?;
        gpu(&recording.gpu).map_err(|error| format!("'gpu': {error}"))?;
        recorder::steps(&recording.steps).map(|_| ()).map_err(|error| format!("'steps': {error}"))
    }

    /// The folder for a CI job, where one is asked for or this is one.
    pub(super) fn folder(&self) -> Option<PathBuf> {
        match &self.ci {
            Some(Some(folder)) => Some(folder.clone()),
            Some(None) => Some(default_folder()),
            None if git::is_ci_job() && !self.update && self.repeat.is_none() => Some(default_folder()),
            None => None,
        }
    }
}

/// Stops at a script that nobody has filled in.
fn require_written(name: &str, recording: &Recording, folder: &Path) -> Result<()> {
    let folder = recording.directory.as_ref().map_or(folder.to_owned(), |below| folder.join(below));
    let mut scripts = recording.script.split_whitespace().filter(|word| word.ends_with(".py"));
    if let Some(script) = scripts.find(|script| is_unwritten(&folder.join(script))) {
        bail!(
            "{script}: says {PLACEHOLDER}: fill in a model of this repository, its inputs and its loss, which [gate.{name}] records; \
             or let 'record' run a program that trains"
        );
    }
    Ok(())
}

fn is_unwritten(script: &Path) -> bool {
    fs::read_to_string(script).is_ok_and(|text| text.contains(PLACEHOLDER))
}

fn default_folder() -> PathBuf {
    let temporary = env::var_os("RUNNER_TEMP").filter(|folder| !folder.is_empty());
    temporary.map(PathBuf::from).unwrap_or_default().join("ptmem-report")
}

/// When there is a new comment on a pull request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(super) enum CommentMode {
    /// Unless the verdict is a pass.
    #[default]
    Auto,
    /// The same, and if any figure changed.
    OnChange,
    /// In any case.
    Always,
    /// Never.
    Never,
}

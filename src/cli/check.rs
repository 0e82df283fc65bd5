//! `ptmem check`: gates one snapshot, or those of the ranks of a job, by absolute limits.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::Args;
use ptmem::config::Config;
use ptmem::diagnostic::{Code, Diagnostic};
use ptmem::report::{Approval, Subject};
use ptmem::tree;
use ptmem::verdict::{Excuse, Limits, Maximum, NoBefore, Readings, Thresholds};

use super::args::{BaseArguments, Capacity, ConfigArguments, Stacks, Trust, View, heading};
use super::base::{self, Answer};
use super::config::Loaded;
use super::git::Base;
use super::output::Output;
use super::ranks::Found;
use super::report::report_options;
use super::{config, exit_code, gates, ranks, surroundings};

#[derive(Debug, Args)]
pub(crate) struct CheckArguments {
    /// The snapshot or saved profile; - is standard input. For the ranks of a job: a directory or a quoted glob with
    /// one file per rank
    pub(crate) snapshot: PathBuf,
    #[arg(
        long,
        value_name = "[METRIC=]SIZE",
        allow_hyphen_values = true,
        help_heading = heading::LIMITS,
        help = format!(
            "Fail when METRIC (default: peak) exceeds SIZE. Repeatable; at least one, here or in ptmem.toml. Metrics: {}",
            Maximum::accepted()
        )
    )]
    pub(crate) max: Vec<Maximum>,
    #[command(flatten)]
    pub(crate) capacity: Capacity,
    #[command(flatten)]
    pub(crate) trust: Trust,
    #[command(flatten)]
    pub(crate) base: BaseArguments,
    #[command(flatten)]
    pub(crate) config: ConfigArguments,
    #[command(flatten, next_help_heading = heading::SHOWN)]
    pub(crate) stacks: Stacks,
    #[command(flatten)]
    pub(crate) view: View,
}

/// A snapshot, or those of the ranks of a job, to be judged by absolute limits: by `check`, or as the after of a comparison
/// whose before is missing.
pub(crate) struct Request<'a> {
    pub(crate) snapshot: &'a Path,
    pub(crate) max: &'a [Maximum],
    pub(crate) capacity: &'a Capacity,
    pub(crate) trust: &'a Trust,
    /// The base by whose configuration what passes has to pass too.
    pub(crate) git: Option<&'a str>,
    pub(crate) config: &'a ConfigArguments,
    pub(crate) stacks: &'a Stacks,
    pub(crate) view: &'a View,
    /// Why the before is missing.
    pub(crate) no_before: Option<NoBefore>,
    /// The scripts of the recording, where it may be the first one or repair the base; an empty one where it certainly is the first.
    pub(crate) first: &'a [String],
    /// The label that lets an after without a before pass.
    pub(crate) approve_label: Option<&'a str>,
    /// Whether phases are listed.
    pub(crate) phases: bool,
    /// The call tree in place of the list of stacks.
    pub(crate) tree: Option<tree::TreeOptions>,
}

impl Request<'_> {
    /// The limits of the command line and of a configuration.
    fn limits(&self, config: &Config) -> Limits {
        let strict = self.trust.strict.then_some(true);
        let limits = Limits { maximum: self.max.to_vec(), strict, ..Limits::default() };
        let limits = self.capacity.limits(limits).over(&config.limits);
        // The before is missing, so there is no growth.
        Limits { growth: Vec::new(), ..limits }
    }

    fn thresholds(&self, loaded: &Loaded) -> Result<Thresholds> {
        let thresholds = loaded.thresholds(&self.limits(&loaded.config))?;
        Ok(Thresholds { no_before: self.no_before.clone(), ..thresholds })
    }

    /// Reads and judges the snapshot, or those of the ranks of a job, by these limits.
    fn judged(&self, config: &Config, found: Option<&[Found]>, thresholds: Thresholds) -> Result<Readings> {
        let options = self.stacks.options_of_one(config, self.view, found.is_some())?;
        ranks::readings(self.snapshot, found, Some(&thresholds), self.view, &options)
    }

    /// Whether an after without a before is the first recording of its gate, or repairs the base. Both are reported.
    fn settle_excuse(&mut self) -> Option<Diagnostic> {
        let (Some(no_before), Some(command)) = (&mut self.no_before, self.first.first()) else { return None };
        let excuse = match self.git {
            _ if command.is_empty() => Ok(Excuse::First),
            None => Err("no base is named by --git".to_owned()),
            Some(git) => Base::find(git)
                .and_then(|base| gates::excuse(&base, command, &self.first[1..]))
                .unwrap_or_else(|error| Err(format!("{error:#}"))),
        };
        let (code, what) = match &excuse {
            Ok(Excuse::First) => (Code::GateChanged, "this gate is new"),
            Ok(Excuse::BrokenBase) => (Code::OtherBefore, "the base is broken"),
            Err(doubt) => {
                no_before.reason += &format!(" (not excused: {doubt})");
                return None;
            }
        };
        no_before.excuse = excuse.ok();
        Some(Diagnostic::new(code, None, format!("{what}, so growth is not judged: {}", no_before.reason)))
    }

    /// Reads, judges and reports.
    pub(super) fn run(mut self, loaded: &Loaded, output: &Output) -> Result<ExitCode> {
        let excused = self.settle_excuse();
        let found = ranks::find(self.snapshot)?;
        let found = found.as_deref();
        ranks::check_exports(self.view, self.snapshot, found)?;
        let thresholds = self.thresholds(loaded)?;
        if !thresholds.limits_anything() && thresholds.no_before.is_none() {
            bail!("nothing to check: give a limit, such as --max reserved=75GiB, here or as [max] in ptmem.toml");
        }
        let mut checked = self.judged(&loaded.config, found, thresholds)?;
        let mut options = report_options(self.view, output);
        options.device_memory = self.limits(&loaded.config).memory();
        options.phases = self.phases;
        options.tree.clone_from(&self.tree);
        options.approval = self.approval(&checked)?;
        let has_label = options.approval.is_some();
        let answer = Answer::new(checked.headline(), has_label);
        checked.remark(base::remarks(self.git, self.config, loaded, &answer, |rules| {
            if rules.are_same {
                return Ok(Vec::new());
            }
            if self.snapshot.as_os_str() == "-" {
                bail!("standard input can be read only once");
            }
            let checked = self.judged(&rules.loaded.config, found, self.thresholds(rules.loaded)?)?;
            Ok(vec![Ok(Answer::new(checked.headline(), has_label && checked.lacks_a_before_at_most()))])
        })?);
        checked.remark(excused);
        self.view.write(Subject::from(&checked), &mut options, output)?;
        Ok(exit_code(checked.verdict(), self.trust.exit_zero || has_label))
    }

    /// The approval by a label, where nothing fails but that growth was not judged.
    fn approval(&self, checked: &Readings) -> Result<Option<Approval>> {
        match self.approve_label {
            Some(label) if checked.lacks_a_before_at_most() => surroundings::approval(label),
            _ => Ok(None),
        }
    }
}

pub(super) fn run(arguments: &CheckArguments, output: &Output) -> Result<ExitCode> {
    let request = Request {
        snapshot: &arguments.snapshot,
        max: &arguments.max,
        capacity: &arguments.capacity,
        trust: &arguments.trust,
        git: arguments.base.git.as_deref(),
        config: &arguments.config,
        stacks: &arguments.stacks,
        view: &arguments.view,
        no_before: None,
        first: &[],
        approve_label: None,
        phases: false,
        tree: None,
    };
    request.run(&config::load_with_folder(&arguments.config)?, output)
}

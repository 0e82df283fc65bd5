//! `ptmem check`: gates one snapshot, or those of the ranks of a job, by absolute limits.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::Args;
use ptmem::diagnostic::Diagnostic;
use ptmem::report::{Approval, Subject};
use ptmem::verdict::{self, Judgement, Limits, Maximum, NoBefore, Thresholds, Verdict};

use super::args::{Capacity, ConfigArguments, Stacks, Trust, View, heading};
use super::input::{self, require_moment};
use super::output::Output;
use super::report::report_options;
use super::{config, exit_code, ranks, surroundings, thresholds};

#[derive(Debug, Args)]
pub(crate) struct CheckArguments {
    /// The snapshot or saved profile; - is standard input. For the ranks of a job: a directory or a quoted glob with
    /// one file per rank
    pub(crate) snapshot: PathBuf,
    /// Fail when METRIC (peak, the default, baseline, end, active, requested, reserved, fragmentation, stack, stack:GLOB,
    /// imbalance) exceeds SIZE. Repeatable; at least one, here or in ptmem.toml
    #[arg(long, value_name = "[METRIC=]SIZE", allow_hyphen_values = true, help_heading = heading::LIMITS)]
    pub(crate) max: Vec<Maximum>,
    #[command(flatten)]
    pub(crate) capacity: Capacity,
    #[command(flatten)]
    pub(crate) trust: Trust,
    /// Why there is no before, where this is the after of a comparison.
    #[arg(skip)]
    pub(crate) no_before: Option<NoBefore>,
    /// The label that lets such an after pass.
    #[arg(skip)]
    pub(crate) approve_label: Option<String>,
    /// Remarks on the comparison that was to be made.
    #[arg(skip)]
    pub(crate) remarks: Vec<Diagnostic>,
    #[command(flatten)]
    pub(crate) config: ConfigArguments,
    #[command(flatten, next_help_heading = heading::SHOWN)]
    pub(crate) stacks: Stacks,
    #[command(flatten)]
    pub(crate) view: View,
}

pub(super) fn run(arguments: CheckArguments, output: &Output) -> Result<ExitCode> {
    let config = config::load(&arguments.config)?;
    let found = ranks::find(&arguments.snapshot)?;
    ranks::check_exports(&arguments.view, &arguments.snapshot, found.as_deref())?;
    let of_profile = arguments.stacks.options_of_one(&config, &arguments.view, found.is_some())?;
    let strict = arguments.trust.strict.then_some(true);
    let limits = Limits { maximum: arguments.max, strict, ..Limits::default() };
    let limits = arguments.capacity.limits(limits).over(&config.limits);
    // There is no before to compare growth with.
    let limits = Limits { growth: Vec::new(), ..limits };
    let thresholds = Thresholds { no_before: arguments.no_before, ..thresholds(&limits)? };
    if !thresholds.limits_anything() && thresholds.no_before.is_none() {
        bail!("nothing to check: give a limit, such as --max reserved=75GiB, here or as [max] in ptmem.toml");
    }
    let mut options = report_options(&arguments.view, output);
    options.device_memory = limits.memory();
    if let Some(found) = &found {
        let mut readings = ranks::readings(&arguments.snapshot, found, Some(thresholds), &arguments.view, &of_profile)?;
        readings.ranks.judgement.diagnostics.extend(arguments.remarks);
        let judgements = readings.readings.iter().filter_map(|reading| reading.judgement.as_ref());
        options.approval = approval(arguments.approve_label.as_deref(), judgements.chain([&readings.ranks.judgement]))?;
        arguments.view.write(Subject::Ranks(&readings), &mut options, output)?;
        let exit_zero = arguments.trust.exit_zero || options.approval.is_some();
        return Ok(exit_code(readings.verdict().unwrap_or(Verdict::Inconclusive), exit_zero));
    }
    let profile = input::profile(&arguments.snapshot, &of_profile)?;
    require_moment(&profile)?;
    let mut judgement = verdict::judge_profile(&profile, &thresholds);
    judgement.diagnostics.extend(arguments.remarks);
    options.approval = approval(arguments.approve_label.as_deref(), [&judgement])?;
    arguments.view.write(Subject::Profile(&profile, Some(&judgement)), &mut options, output)?;
    Ok(exit_code(judgement.verdict, arguments.trust.exit_zero || options.approval.is_some()))
}

/// The approval by a label, where nothing fails but that growth was not judged.
fn approval<'j>(label: Option<&str>, judgements: impl IntoIterator<Item = &'j Judgement>) -> Result<Option<Approval>> {
    match label {
        Some(label) if judgements.into_iter().all(Judgement::lacks_a_before_at_most) => surroundings::approval(label),
        _ => Ok(None),
    }
}

//! `ptmem diff`: one comparison or those of a suite, and the stored before.

mod compare;
mod pairs;
mod update;

use std::process::ExitCode;

use anyhow::{Result, bail};
use ptmem::report::{Acceptance, Subject};

use super::args::DiffArguments;
use super::config::{self, Loaded};
use super::output::{self, Output};
use super::report::{report_options, write_reports};
use super::{exit_code, surroundings};
use compare::compare_all;
use pairs::{Pair, pairs};
use update::{accepting, improvement, update};

/// Days for which a report proposes to accept growth.
const ACCEPTED_DAYS: u32 = 14;

pub(super) fn run(arguments: DiffArguments, output: &Output) -> Result<ExitCode> {
    let Loaded { config, folder } = config::load_with_folder(&arguments.config)?;
    let pairs = pairs(&arguments, &config, &folder)?;
    let found = pairs.iter().map(Pair::found).collect::<Result<Vec<_>>>()?;
    let inputs = pairs.iter().flat_map(|pair| [&*pair.before, &*pair.after]);
    let inputs = inputs.chain(arguments.config.config.as_deref());
    let of_ranks = found.iter().flatten().flat_map(|sides| sides.before.iter().chain(&sides.after));
    output::check_exports(&arguments.view.export, inputs.chain(of_ranks.map(|found| &*found.path)))?;
    if let (Some(_), Some(Some(_))) = (&arguments.update, found.first()) {
        bail!("--update rewrites one profile; write those of ranks anew with 'ptmem profile', one for each");
    }
    let mut gate = compare_all(&pairs, &found, &arguments, &config)?;
    if let [only] = &mut gate.comparisons[..]
        && arguments.update.is_none()
        && gate.ranks.is_empty()
    {
        only.judgement.diagnostics.extend(improvement(only, &arguments));
    }
    let mut options = report_options(&arguments.view, output);
    if let Some(label) = arguments.approve_label.as_ref().filter(|_| gate.fails_by_growth_alone()) {
        options.approval = surroundings::approval(label)?;
    }
    options.acceptance = (!arguments.no_acceptance).then_some(Acceptance {
        commands: gate.comparisons.iter().filter_map(|comparison| accepting(comparison, &arguments)).collect(),
        expires: config::today()?.after(ACCEPTED_DAYS),
        label: arguments.approve_label.clone(),
    });
    options.unchanged = arguments.all;
    options.explain = arguments.explain;
    options.tree = arguments.tree.options();
    options.phases = arguments.phases.phases;
    write_reports(Subject::Gate(&gate), &arguments.view, &mut options, output)?;
    if let (Some(path), [only]) = (&arguments.update, &gate.comparisons[..]) {
        let reason = arguments.reason.as_deref();
        output::print_note(&update(path, only, reason)?);
        if reason.is_some() && gate.fails_by_growth_alone() {
            return Ok(ExitCode::SUCCESS);
        }
    }
    let is_approved = options.approval.is_some();
    Ok(exit_code(gate.verdict(), arguments.trust.exit_zero || is_approved))
}

//! `ptmem diff`: compares two recordings, or the ranks of two jobs, and keeps the stored before.

mod compare;
mod names;
mod pairs;
mod update;

use std::process::ExitCode;

use anyhow::{Result, bail};
use ptmem::report::{Acceptance, Subject};

use super::args::DiffArguments;
use super::config;
use super::output::{self, Output};
use super::report::report_options;
use super::{exit_code, modes};
pub(crate) use compare::{Request, compare_all};
pub(crate) use pairs::Pair;
use pairs::pair;
use update::{accepting, improvement};

pub(crate) use update::{shell_word, update};

/// Days for which a report proposes to accept growth.
const ACCEPTED_DAYS: u32 = 14;

pub(crate) fn run(arguments: &DiffArguments, output: &Output) -> Result<ExitCode> {
    let loaded = config::load_with_folder(&arguments.config)?;
    let pair = pair(arguments, &loaded)?;
    if arguments.capacity.device.is_given() && pair.thresholds.headroom.is_none() {
        modes::refuse("--device-memory", "no --min-headroom is given, here or in ptmem.toml")?;
    }
    output::check_exports(&arguments.view.export, pair.inputs().chain(arguments.config.file()))?;
    if arguments.update.is_some() && pair.found.is_some() {
        bail!(
            "--update rewrites a single profile, but this before is several: ranks of a job, or cases of a file; write \
             each of them again, for example with 'ptmem profile'"
        );
    }
    let mut gate = compare_all(&[pair], &arguments.request(&loaded.config))?;
    let mut options = report_options(&arguments.view, output);
    if let Some(only) = gate.only_mut()
        && arguments.update.is_none()
    {
        only.judgement.diagnostics.extend(improvement(only, arguments));
    }
    options.acceptance = (!arguments.no_acceptance && arguments.allow_raise.is_none()).then_some(Acceptance {
        commands: gate.leaves().filter_map(|comparison| accepting(comparison, arguments)).collect(),
        expires: config::today()?.after(ACCEPTED_DAYS),
        label: None,
    });
    options.unchanged = arguments.all;
    options.explain = arguments.explain;
    options.tree = arguments.tree.options();
    options.phases = arguments.phases;
    arguments.view.write(Subject::Gate(&gate), &mut options, output)?;
    if let (Some(path), Some(only)) = (&arguments.update, gate.only()) {
        let reason = arguments.allow_raise.as_deref();
        output::print_note(&update(path, only, reason)?);
        if reason.is_some() && gate.fails_by_growth_alone() {
            return Ok(ExitCode::SUCCESS);
        }
    }
    Ok(exit_code(gate.verdict(), arguments.trust.exit_zero))
}

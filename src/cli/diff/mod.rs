//! `ptmem diff`: one comparison or those of a suite, and the stored before.

mod compare;
mod names;
mod pairs;
mod update;

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Result, bail};
use ptmem::config::Config;
use ptmem::diagnostic::{Code, Diagnostic};
use ptmem::report::{Acceptance, Subject};

use super::args::DiffArguments;
use super::config::{self, Loaded};
use super::output::{self, Output};
use super::report::report_options;
use super::{check, exit_code, git, surroundings};
use compare::compare_all;
use pairs::{Pair, pairs};
use update::{accepting, improvement, update};

/// The remark on limits that are looser than those of the base which `--git` names.
fn loosened(arguments: &DiffArguments, loaded: &Loaded) -> Result<Option<Diagnostic>> {
    let Some(base) = arguments.git.as_deref().filter(|_| !arguments.config.no_config) else { return Ok(None) };
    let text = match &loaded.path {
        Some(path) => git::text_at_base(base, path)?,
        // A change may remove the file.
        None => {
            config::PLACES.iter().find_map(|place| git::text_at_base(base, Path::new(place)).transpose()).transpose()?
        }
    };
    // A base whose file cannot be read gated nothing.
    let Some(base) = text.and_then(|text| Config::parse(&text).ok()) else { return Ok(None) };
    let mut found = loaded.config.limits.loosened_since(&base.limits);
    for (name, suite) in &base.suites {
        let own = loaded.config.suites.get(name).map(|suite| suite.limits.clone()).unwrap_or_default();
        found.extend(own.loosened_since(&suite.limits).into_iter().map(|what| format!("suite {name}: {what}")));
    }
    let message = format!("this change loosens its own limits: {}", found.join("; "));
    Ok((!found.is_empty()).then(|| Diagnostic::new(Code::LimitsLoosened, None, message)))
}

/// Days for which a report proposes to accept growth.
const ACCEPTED_DAYS: u32 = 14;

pub(super) fn run(arguments: DiffArguments, output: &Output) -> Result<ExitCode> {
    let loaded = config::load_with_folder(&arguments.config)?;
    let mut remarks: Vec<Diagnostic> = loosened(&arguments, &loaded)?.into_iter().collect();
    let arguments = match arguments.unpaired(remarks.clone()) {
        Ok(unpaired) => return check::run(unpaired, output),
        Err(arguments) => *arguments,
    };
    // The before takes the place of that of the base.
    remarks.extend(arguments.no_before.as_ref().map(|reason| {
        Diagnostic::new(Code::OtherBefore, None, format!("growth since the base is not judged: {reason}"))
    }));
    let Loaded { config, folder, .. } = loaded;
    let pairs = pairs(&arguments, &config, &folder)?;
    let inputs = pairs.iter().flat_map(Pair::inputs).chain(arguments.config.config.as_deref());
    output::check_exports(&arguments.view.export, inputs)?;
    if arguments.update.is_some() && pairs.iter().any(|pair| pair.found.is_some()) {
        bail!("--update rewrites one profile; write those of ranks anew with 'ptmem profile', one for each");
    }
    let mut gate = compare_all(&pairs, &arguments, &config)?;
    if let Some(first) = gate.comparisons.first_mut() {
        first.judgement.diagnostics.extend(remarks);
    }
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
    arguments.view.write(Subject::Gate(&gate), &mut options, output)?;
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

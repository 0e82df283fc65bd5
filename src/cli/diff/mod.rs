//! `ptmem diff`: one comparison or those of a suite, and the stored before.

mod compare;
mod names;
mod pairs;
mod rewritten;
mod update;

use std::process::ExitCode;
use std::slice;

use anyhow::{Result, bail};
use ptmem::config::Config;
use ptmem::diagnostic::{Code, Diagnostic};
use ptmem::report::{Acceptance, Subject};

use super::args::DiffArguments;
use super::base::{self, Answer, Rules};
use super::config::{self, Loaded};
use super::git::Base;
use super::output::{self, Output};
use super::report::report_options;
use super::{exit_code, modes, surroundings};
pub(super) use compare::{Request, compare_all};
pub(super) use pairs::Pair;
use pairs::pairs;
use rewritten::OfBase;
use update::{accepting, improvement};

pub(super) use update::{shell_word, update};

/// The answers by the rules of the base, one for each of its comparisons.
fn answers(arguments: &DiffArguments, rules: &Rules<'_>, has_label: bool) -> Result<Vec<Result<Answer>>> {
    let Rules { base, loaded, are_same } = rules;
    let config = &loaded.config;
    let answers = pairs(arguments, loaded)?.into_iter().map(|pair| {
        let pair = pair?;
        if pair.inputs().any(|path| path.as_os_str() == "-") {
            bail!("standard input can be read only once");
        }
        let stored = OfBase::find(base, &pair, arguments, config)?;
        if *are_same && stored.is_none() {
            return Ok(None);
        }
        let path = pair.before.display().to_string();
        let judged = stored.as_ref().map_or(&pair, |stored| &stored.pair);
        let gate = compare_all(slice::from_ref(judged), &arguments.request(config))?;
        let answer = Answer::new(gate.headline(), has_label && gate.fails_by_growth_alone());
        Ok(Some(Answer { before: stored.map(|_| path), ..answer }))
    });
    Ok(answers.filter_map(Result::transpose).collect())
}

/// Remarks on stored befores that the change raises or removes. One that cannot be read is reported with the rules of the base.
fn raised(pairs: &[Pair], arguments: &DiffArguments, config: &Config) -> Result<Vec<Diagnostic>> {
    let Some(git) = &arguments.git else { return Ok(Vec::new()) };
    let base = Base::find(git)?;
    let mut remarks = Vec::new();
    for pair in pairs {
        remarks
            .extend(OfBase::find(&base, pair, arguments, config).ok().flatten().and_then(|stored| stored.raise(pair)));
        remarks.extend(rewritten::removed(&base, pair)?);
    }
    Ok(remarks)
}

/// Days for which a report proposes to accept growth.
const ACCEPTED_DAYS: u32 = 14;

pub(super) fn run(arguments: &DiffArguments, output: &Output) -> Result<ExitCode> {
    let loaded = config::load_with_folder(&arguments.config)?;
    match arguments.without_before() {
        Some(of_after) => of_after.run(&loaded, output),
        None => report(arguments, &loaded, None, output),
    }
}

/// Judges the comparisons without a report.
#[cfg(feature = "simulate")]
pub(super) fn judge(arguments: &DiffArguments, loaded: &Loaded) -> Result<ptmem::verdict::Gate> {
    let pairs = pairs(arguments, loaded)?.into_iter().collect::<Result<Vec<_>>>()?;
    compare_all(&pairs, &arguments.request(&loaded.config))
}

/// Makes the comparisons and reports them, with a remark of the command that asks for them.
pub(super) fn report(
    arguments: &DiffArguments,
    loaded: &Loaded,
    remark: Option<Diagnostic>,
    output: &Output,
) -> Result<ExitCode> {
    let pairs = pairs(arguments, loaded)?.into_iter().collect::<Result<Vec<_>>>()?;
    if arguments.capacity.device.is_given() && pairs.iter().all(|pair| pair.thresholds.headroom.is_none()) {
        modes::refuse("--device-memory", "no --min-headroom is given, here or in ptmem.toml")?;
    }
    let inputs = pairs.iter().flat_map(Pair::inputs).chain(arguments.config.file());
    output::check_exports(&arguments.view.export, inputs)?;
    if pairs.iter().any(|pair| pair.found.is_some()) {
        arguments.view.require_no_history("a comparison of the ranks of a job")?;
    }
    if arguments.update.is_some() && pairs.iter().any(|pair| pair.found.is_some()) {
        bail!(
            "--update rewrites a single profile, but this before is several: ranks of a job, or cases of a file; write \
             each of them again, for example with 'ptmem profile'"
        );
    }
    let mut gate = compare_all(&pairs, &arguments.request(&loaded.config))?;
    gate.remark(remark);
    let mut options = report_options(&arguments.view, output);
    if let Some(label) = arguments.approve_label.as_ref().filter(|_| gate.fails_by_growth_alone()) {
        options.approval = surroundings::approval(label)?;
    }
    let has_label = options.approval.is_some();
    let answer = Answer::new(gate.headline(), has_label);
    gate.remark(base::remarks(arguments.git.as_deref(), &arguments.config, loaded, &answer, |rules| {
        answers(arguments, rules, has_label)
    })?);
    gate.remark(raised(&pairs, arguments, &loaded.config)?);
    // The before takes the place of that of the base.
    gate.remark(arguments.no_before.as_ref().map(|reason| {
        Diagnostic::new(Code::OtherBefore, None, format!("growth since the base is not judged: {reason}"))
    }));
    if let Some(only) = gate.only_mut()
        && arguments.update.is_none()
    {
        only.judgement.diagnostics.extend(improvement(only, arguments));
    }
    options.acceptance = (!arguments.no_acceptance && arguments.allow_raise.is_none()).then_some(Acceptance {
        commands: gate.leaves().filter_map(|comparison| accepting(comparison, arguments)).collect(),
        expires: config::today()?.after(ACCEPTED_DAYS),
        label: arguments.approve_label.clone(),
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
    let is_approved = options.approval.is_some();
    Ok(exit_code(gate.verdict(), arguments.trust.exit_zero || is_approved))
}

//! Arguments, reading inputs, output, exit code: the only place that touches files, environment or
//! terminal.

pub(crate) mod args;
mod checkout;
mod config;
mod gate;
mod input;
mod leak;
pub(crate) mod output;
mod phases;
mod progress;
mod ranks;

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use clap::CommandFactory;
use ptmem::diff::{Change, Sides};
use ptmem::profile::{self, Kind, Moment, Profile, saved};
use ptmem::report::{self, Format, Subject};
use ptmem::snapshot::Tables;
use ptmem::verdict::{self, Limits, Ranks, Reading, Readings, Thresholds, Verdict};

use args::{Arguments, CheckArguments, Command, Export, ProfileArguments, ShowArguments, View};
use ranks::Found;

/// Exit code of everything that kept the tool from an answer: usage, unreadable or invalid input. The
/// others belong to the verdict: [`ptmem::verdict::Verdict::exit_code`].
pub(crate) const COULD_NOT_RUN: u8 = 2;

/// Carries out a command line.
pub(crate) fn run(arguments: Arguments) -> Result<ExitCode> {
    let output = output::Output::new(arguments.color);
    match arguments.command {
        Command::Diff(arguments) => gate::run(arguments, &output),
        Command::Check(arguments) => run_check(arguments, &output),
        Command::Leak(arguments) => leak::run(arguments, &output),
        Command::Show(arguments) => run_show(arguments, &output),
        Command::Profile(arguments) => run_profile(arguments, &output),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Arguments::command(), "ptmem", &mut script);
            output.print(&String::from_utf8_lossy(&script))?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Man { command } => {
            output.print(&man_page(command.as_deref())?)?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn run_check(arguments: CheckArguments, output: &output::Output) -> Result<ExitCode> {
    let config = config::load(&arguments.config)?;
    let found = ranks::find(&arguments.snapshot)?;
    check_exports(&arguments.view, &arguments.snapshot, found.as_deref())?;
    let strict = arguments.trust.strict.then_some(true);
    let limits = Limits { maximum: arguments.max, strict, ..Limits::default() }.over(&config.limits);
    if limits.maximum.is_empty() {
        bail!("nothing to check: give a limit, such as --max reserved=75GiB, here or as [max] in ptmem.toml");
    }
    let strict = limits.strict.unwrap_or_default();
    let thresholds = Thresholds { maximum: limits.maximum, strict, ..Thresholds::default() };
    let mut options = report_options(&arguments.view, output);
    if let Some(found) = &found {
        let of_profile = arguments.stacks.profile_options(&config, &arguments.view.input);
        let readings = readings(&arguments.snapshot, found, Some(thresholds), &arguments.view, &of_profile)?;
        write_reports(Subject::Ranks(&readings), &arguments.view, &mut options, output)?;
        return Ok(exit_code(readings.verdict().unwrap_or(Verdict::Inconclusive), arguments.trust.exit_zero));
    }
    let profile =
        input::profile(&arguments.snapshot, &arguments.stacks.profile_options(&config, &arguments.view.input))?;
    require_moment(&profile)?;
    let judgement = verdict::judge_profile(&profile, &thresholds);
    write_reports(Subject::Profile(&profile, Some(&judgement)), &arguments.view, &mut options, output)?;
    Ok(exit_code(judgement.verdict, arguments.trust.exit_zero))
}

fn run_show(arguments: ShowArguments, output: &output::Output) -> Result<ExitCode> {
    let config = config::load(&arguments.config)?;
    let found = ranks::find(&arguments.snapshot)?;
    check_exports(&arguments.view, &arguments.snapshot, found.as_deref())?;
    let every = arguments.phases.every()?;
    let of_profile = profile::Options { every, ..arguments.stacks.profile_options(&config, &arguments.view.input) };
    let mut options = report_options(&arguments.view, output);
    (options.phases, options.skip_first) = (arguments.phases.phases, arguments.phases.skip_first);
    options.device_memory = arguments.device_memory.map(|size| size.0);
    options.tree = arguments.tree.options();
    if let Some(found) = &found {
        let readings = readings(&arguments.snapshot, found, None, &arguments.view, &of_profile)?;
        write_reports(Subject::Ranks(&readings), &arguments.view, &mut options, output)?;
        return Ok(ExitCode::SUCCESS);
    }
    let profile = input::profile(&arguments.snapshot, &of_profile)?;
    require_moment(&profile)?;
    write_reports(Subject::Profile(&profile, None), &arguments.view, &mut options, output)?;
    Ok(ExitCode::SUCCESS)
}

fn check_exports(view: &View, path: &Path, found: Option<&[Found]>) -> Result<()> {
    let of_ranks = found.unwrap_or_default().iter().map(|found| &*found.path);
    output::check_exports(&view.export, [path].into_iter().chain(of_ranks))
}

/// Reads the snapshots of the ranks of a job, and judges them where there are limits.
fn readings(
    path: &Path,
    found: &[Found],
    thresholds: Option<Thresholds>,
    view: &View,
    options: &profile::Options,
) -> Result<Readings> {
    let members = ranks::members(path, found)?;
    let sizes: Vec<u64> = members.iter().map(|(_, found)| ranks::size(&found.path)).collect();
    let one_of_ranks = thresholds.clone().map(|thresholds| Thresholds { one_of_ranks: true, ..thresholds });
    let (mut readings, mut tables, mut peaks) = (Vec::with_capacity(members.len()), Tables::default(), Vec::new());
    let read = |index: usize| {
        let profile = input::profile(&members[index].1.path, options)?;
        require_moment(&profile)?;
        let judgement = one_of_ranks.as_ref().map(|thresholds| verdict::judge_profile(&profile, thresholds));
        Ok((profile, judgement))
    };
    ranks::in_order(ranks::jobs(view.jobs), &sizes, read, |index, (mut profile, judgement): (Profile, _)| {
        let member = members[index].0.clone();
        peaks.extend(verdict::peaks_of_one(&member, &profile));
        profile.pool(&mut tables);
        readings.push(Reading { member, profile, judgement });
    })?;
    let tables = Arc::new(tables);
    readings.iter_mut().for_each(|reading| reading.profile.tables = Arc::clone(&tables));
    let (judgement, imbalance) =
        verdict::judge_ranks(readings.len(), &peaks, &[], &[], &thresholds.unwrap_or_default());
    let imbalance = Change { before: None, ..imbalance };
    let paths = Sides { before: None, after: Some(path.display().to_string()) };
    let members = 0..readings.len();
    let ranks = Ranks { name: None, paths, members, missing: Vec::new(), imbalance, judgement };
    Ok(Readings { readings, ranks })
}

fn run_profile(arguments: ProfileArguments, output: &output::Output) -> Result<ExitCode> {
    let config = config::load(&arguments.config)?;
    let rules = args::rules(&config, &arguments.strip_prefix);
    let options = profile::Options {
        at: arguments.at,
        rules,
        max_input: arguments.input.max_input(),
        ..profile::Options::default()
    };
    output::require_folder(&arguments.output)?;
    let mut profile = input::profile(&arguments.snapshot, &options)?;
    input::require_whole_groups(&profile)?;
    // What a profile keeps, a profile of it keeps as well.
    if let (Some(at), Moment::Peak) = (profile.kept, arguments.at) {
        if arguments.snapshot.as_os_str() == "-" {
            bail!("standard input: the profile also keeps the stacks at {at}; add --at {at} to keep them");
        }
        profile = input::profile(&arguments.snapshot, &profile::Options { at, ..options })?;
    }
    require_moment(&profile)?;
    if profile.source.kind != Kind::Profile && output::is_same_file(&arguments.snapshot, &arguments.output) {
        bail!("{}: is the snapshot itself; expected another file to write to", arguments.output.display());
    }
    let bound = saved::Bound { top: arguments.top, min_bytes: arguments.min_bytes.0 }.and(profile.bound);
    output.write(&arguments.output, &saved::text_of(&profile, bound, &profile.raises))?;
    Ok(ExitCode::SUCCESS)
}

/// How much the reports show, as far as all commands have it in common.
fn report_options(view: &View, output: &output::Output) -> report::Options {
    report::Options {
        top: view.top,
        width: output.width(),
        max_bytes: view.max_bytes,
        comment_key: view.comment_key.clone(),
        ..report::Options::default()
    }
}

/// Writes the files that were asked for, and prints the report.
fn write_reports(
    subject: Subject<'_>,
    view: &View,
    options: &mut report::Options,
    output: &output::Output,
) -> Result<()> {
    let formats = || view.export.iter().map(|export| export.format).chain([view.format.0]);
    if formats().any(|format| matches!(format, Format::Github | Format::Junit | Format::Sarif | Format::Csv)) {
        options.checkout = match subject {
            Subject::Gate(gate) => checkout::files(gate.comparisons.iter().map(|c| c.diff.profiles.after.code())),
            Subject::Profile(profile, _) => checkout::files([profile.code()].into_iter()),
            Subject::Leaks(gate) => checkout::files(gate.findings.iter().map(|f| f.search.code())),
            Subject::Ranks(ranks) => checkout::files(ranks.readings.iter().map(|r| r.profile.code())),
        };
    }
    // A table in a file is for people as well, but has no colours.
    for Export { format, path } in &view.export {
        let text = format.render(subject, options)?;
        let text = if *format == Format::Table { anstream::adapter::strip_str(&text).to_string() } else { text };
        output.write(path, &text)?;
    }
    output.print(&view.format.0.render(subject, options)?)
}

/// Refuses a moment (`--at`) that no device has: a typo would otherwise look like an empty device. A peak that
/// cannot be known is no typo.
fn require_moment(profile: &Profile) -> Result<()> {
    let moment = profile.options.at;
    let active: Vec<_> = profile.devices.iter().filter(|device| device.is_active()).collect();
    if moment == Moment::Peak || active.is_empty() || active.iter().any(|device| device.at.is_some()) {
        return Ok(());
    }
    let lengths: Vec<_> = active.iter().map(|device| device.events.to_string()).collect();
    bail!(
        "{}: no device has the moment '{moment}' (--at); the histories are {} events long",
        profile.source.path,
        lengths.join(", ")
    );
}

fn exit_code(verdict: Verdict, exit_zero: bool) -> ExitCode {
    ExitCode::from(if exit_zero { 0 } else { verdict.exit_code() })
}

fn man_page(command: Option<&str>) -> Result<String> {
    let mut root = Arguments::command();
    root.build();
    let page = match command {
        None => root,
        Some(name) => {
            let found = root.find_subcommand(name).cloned();
            found.with_context(|| format!("there is no command '{name}'"))?
        }
    };
    let mut text = Vec::new();
    clap_mangen::Man::new(page).render(&mut text)?;
    Ok(String::from_utf8(text)?)
}

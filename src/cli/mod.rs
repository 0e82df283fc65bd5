//! Arguments, reading inputs, output, exit code: the only place that touches files, environment or
//! terminal.

pub(crate) mod args;
mod input;
pub(crate) mod output;

use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::CommandFactory;
use ptmem::diff;
use ptmem::profile::{self, Moment, Profile, saved};
use ptmem::report::{self, json, table};
use ptmem::stack::Rules;
use ptmem::verdict::{self, Judgement, Thresholds};

use args::{Arguments, CheckArguments, Command, DiffArguments, Format, ProfileArguments, ShowArguments};

/// Exit code of everything that kept the tool from an answer: usage, unreadable or invalid input. The
/// others belong to the verdict: [`ptmem::verdict::Verdict::exit_code`].
pub(crate) const COULD_NOT_RUN: u8 = 2;

/// Carries out a command line.
pub(crate) fn run(arguments: Arguments) -> Result<ExitCode> {
    let output = output::Output::new(arguments.color);
    match arguments.command {
        Command::Diff(arguments) => run_diff(arguments, &output),
        Command::Check(arguments) => run_check(arguments, &output),
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

fn run_diff(arguments: DiffArguments, output: &output::Output) -> Result<ExitCode> {
    if arguments.before.as_os_str() == "-" && arguments.after.as_os_str() == "-" {
        bail!("only one of the two snapshots can come from standard input");
    }
    let options = arguments.view.profile_options();
    let (before, after) = input::profiles(&arguments.before, &arguments.after, &options)?;
    require_moment(&before)?;
    require_moment(&after)?;
    let diff = diff::diff(before, after, diff::Options { match_ratio: arguments.match_ratio });
    let thresholds = Thresholds {
        growth: arguments.thresholds(),
        maximum: arguments.max,
        min_delta: arguments.min_delta.0,
        strict: arguments.trust.strict,
    };
    let judgement = verdict::judge_diff(&diff, &thresholds);
    let options = report::Options {
        top: arguments.view.top,
        min_delta: arguments.min_delta.0,
        unchanged: arguments.all,
        explain: arguments.explain,
        tree: arguments.tree.options(),
        width: output.width(),
        device_memory: None,
    };
    let text = match arguments.view.format {
        Format::Table => table::diff(&diff, &judgement, &options),
        Format::Json => json::diff(&diff, &judgement, &options)?,
    };
    output.print(&text)?;
    Ok(exit_code(&judgement, arguments.trust.exit_zero))
}

fn run_check(arguments: CheckArguments, output: &output::Output) -> Result<ExitCode> {
    let profile = input::profile(&arguments.snapshot, &arguments.view.profile_options())?;
    require_moment(&profile)?;
    let thresholds = Thresholds { maximum: arguments.max, strict: arguments.trust.strict, ..Thresholds::default() };
    let judgement = verdict::judge_profile(&profile, &thresholds);
    let options = show_options(&arguments.view, output);
    output.print(&show(&profile, Some(&judgement), arguments.view.format, &options)?)?;
    Ok(exit_code(&judgement, arguments.trust.exit_zero))
}

fn run_show(arguments: ShowArguments, output: &output::Output) -> Result<ExitCode> {
    let profile = input::profile(&arguments.snapshot, &arguments.view.profile_options())?;
    let device_memory = arguments.device_memory.map(|size| size.0);
    let tree = arguments.tree.options();
    let options = report::Options { device_memory, tree, ..show_options(&arguments.view, output) };
    require_moment(&profile)?;
    output.print(&show(&profile, None, arguments.view.format, &options)?)?;
    Ok(ExitCode::SUCCESS)
}

fn run_profile(arguments: ProfileArguments, output: &output::Output) -> Result<ExitCode> {
    let rules = Rules { strip_prefix: arguments.strip_prefix, ..Rules::default() };
    let options = profile::Options { at: arguments.at, rules, ..profile::Options::default() };
    let profile = input::profile(&arguments.snapshot, &options)?;
    require_moment(&profile)?;
    let bound = saved::Bound { top: arguments.top, min_bytes: arguments.min_bytes.0 };
    output.write(&arguments.output, &saved::write(&profile, bound))?;
    Ok(ExitCode::SUCCESS)
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

fn show_options(view: &args::View, output: &output::Output) -> report::Options {
    report::Options { top: view.top, width: output.width(), ..report::Options::default() }
}

fn show(profile: &Profile, judgement: Option<&Judgement>, format: Format, options: &report::Options) -> Result<String> {
    Ok(match format {
        Format::Table => table::profile(profile, judgement, options),
        Format::Json => json::profile(profile, judgement, options)?,
    })
}

fn exit_code(judgement: &Judgement, exit_zero: bool) -> ExitCode {
    ExitCode::from(if exit_zero { 0 } else { judgement.verdict.exit_code() })
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

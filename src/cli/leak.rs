//! `ptmem leak`: what grows over a series of snapshots, or over the steps of one, for each rank.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::str::FromStr;

use anyhow::{Context, Result, bail};
use clap::Args;
use ptmem::config::Config;
use ptmem::leak::{self, LeakOptions, Search, WantedSteps};
use ptmem::pattern::Pattern;
use ptmem::profile::ReadOptions;
use ptmem::units::parse_size;
use ptmem::verdict::{self, GateNode, JudgedSearch, LeakGate, LeakLimit, LeakLimits, Limits};

use super::args::{ConfigArguments, DeviceArguments, GroupingArguments, Trust, ViewArguments, heading, value};
use super::output::{self, Output};
use super::place::StartFolder;
use super::ranks::{self, FoundFile, Process};
use super::report::report_options;
use super::series::{self, Purpose, SeriesOrder};
use super::{advice, config, input, modes};

#[derive(Debug, Args)]
pub(crate) struct LeakArguments {
    /// One snapshot, or two or more of a series: snapshots or saved profiles, directories or globs of them; - is standard
    /// input
    #[arg(required = true, value_name = "SNAPSHOT")]
    snapshots: Vec<PathBuf>,
    /// Fail only when all leaks of a device together exceed SIZE per snapshot or step [default: any leak fails];
    /// fragmentation=SIZE limits reserved memory that nothing uses [default: 0], cycles=SIZE memory that reference cycles hold
    /// until Python's garbage collector runs [default: any amount]
    #[arg(long, value_parser = LeakLimit::from_str, value_name = "[METRIC=]SIZE", allow_hyphen_values = true, help_heading = heading::LIMITS)]
    max_leak: Vec<LeakLimit>,
    /// Ignore the first N snapshots or steps as warm-up [default: 0 snapshots, 1 step]
    #[arg(long, value_name = "N", help_heading = heading::LEAK)]
    skip: Option<usize>,
    /// Smallest total growth that counts as a leak [default: 1MiB over a series; any within one snapshot]
    #[arg(long, value_parser = parse_size, value_name = "SIZE", allow_hyphen_values = true, help_heading = heading::LEAK)]
    min_growth: Option<u64>,
    /// Share of steps in which a stack must grow to count as a leak
    #[arg(
        long,
        value_name = "SHARE",
        default_value = "80%",
        value_parser = value::share,
        help_heading = heading::LEAK
    )]
    min_share: f64,
    /// Begin a step at every annotation or user_metadata whose name matches: part of a name, or a glob
    #[arg(
        long,
        value_name = "PATTERN",
        value_parser = Pattern::search_code,
        conflicts_with = "windows",
        help_heading = heading::LEAK
    )]
    step: Option<Pattern>,
    /// Divide the history into N equal parts and treat them as steps
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(2..), help_heading = heading::LEAK)]
    windows: Option<u16>,
    /// Order of a series [default: as recorded; names and times must agree, and recordings that end together, but begin apart, are of ranks]
    #[arg(long, value_enum, value_name = "ORDER", help_heading = heading::LEAK)]
    order: Option<SeriesOrder>,
    #[command(flatten, next_help_heading = heading::LEAK)]
    grouping: GroupingArguments,
    #[command(flatten)]
    trust: Trust,
    #[command(flatten)]
    config: ConfigArguments,
    #[command(flatten, next_help_heading = heading::OUTPUT)]
    device: DeviceArguments,
    #[command(flatten)]
    view: ViewArguments,
}

/// Snapshots of one process, in order.
struct ProcessSnapshots {
    process: Process,
    files: Vec<FoundFile>,
}

impl ProcessSnapshots {
    /// The size of the largest file.
    fn largest_file(&self) -> u64 {
        self.files.iter().map(|file| ranks::size(&file.path)).max().unwrap_or(0)
    }

    /// What leaks; `None` if the files are not a series, but of the ranks of a job.
    fn search(&self, order: Option<SeriesOrder>, options: &LeakOptions) -> Result<Option<Search>> {
        let found = match &self.files[..] {
            [file] => Some(search_steps(&file.path, options)?),
            files => search_series(files, order, options, self.purpose(order))?,
        };
        let Some(mut search) = found else { return Ok(None) };
        search.name = self.process.name();
        search.rank = self.process.rank();
        advice::complete_search(&mut search);
        Ok(Some(search))
    }

    /// Files may be of ranks that their names do not state in words. An order makes them a series.
    fn purpose(&self, order: Option<SeriesOrder>) -> Purpose {
        let may_be_of_ranks = self.process == Process::Only && order.is_none();
        if may_be_of_ranks { Purpose::StacksUnlessOfRanks } else { Purpose::Stacks }
    }
}

/// The options by which leaks are looked for.
fn options(arguments: &LeakArguments, config: &Config) -> LeakOptions {
    let steps = match (&arguments.step, arguments.windows) {
        (Some(pattern), _) => WantedSteps::Named(pattern.clone()),
        (None, Some(count)) => WantedSteps::Windows(count),
        (None, None) => WantedSteps::Any,
    };
    let reading = arguments.grouping.reading(config);
    LeakOptions {
        reading: ReadOptions { device: arguments.view.device, sources: arguments.view.source, ..reading },
        skip: arguments.skip,
        min_growth: arguments.min_growth,
        min_share: Some(arguments.min_share),
        steps,
        device_memory: arguments.device.memory(config),
        allow_oom: config.limits.allow_oom.unwrap_or_default(),
    }
}

/// How leaks are looked for, and judged.
struct LeakRequest {
    options: LeakOptions,
    order: Option<SeriesOrder>,
    limits: LeakLimits,
    strict: bool,
    jobs: Option<NonZeroUsize>,
}

impl LeakRequest {
    fn of(arguments: &LeakArguments, config: &Config) -> Self {
        Self {
            options: options(arguments, config),
            order: arguments.order,
            limits: arguments.max_leak.iter().copied().collect(),
            strict: arguments.trust.strict || config.limits.strict.unwrap_or_default(),
            jobs: arguments.view.jobs,
        }
    }

    /// Looks for leaks, and judges what is found.
    fn search(&self, runs: &[ProcessSnapshots]) -> Result<LeakGate> {
        if let Some(gate) = self.search_in(runs)? {
            return Ok(gate);
        }
        let members = ranks::by_member(runs.iter().flat_map(|run| run.files.iter().cloned()).collect());
        let runs: Vec<_> = members.into_iter().map(|(process, files)| ProcessSnapshots { process, files }).collect();
        self.search_in(&runs)?.context("the snapshots are neither of ranks nor a series")
    }

    /// The same; `None` if what looked like a series is of ranks.
    fn search_in(&self, runs: &[ProcessSnapshots]) -> Result<Option<LeakGate>> {
        // The snapshots of a series are read one after the other.
        let sizes: Vec<u64> = runs.iter().map(ProcessSnapshots::largest_file).collect();
        let mut nodes = Vec::with_capacity(runs.len());
        ranks::in_order(
            ranks::jobs(self.jobs),
            &sizes,
            |index| {
                let Some(search) = runs[index].search(self.order, &self.options)? else { return Ok(None) };
                let mut judgement = verdict::judge_leaks(&search, self.limits, self.strict);
                advice::complete_judgement(&mut judgement);
                Ok(Some(GateNode::One(JudgedSearch { search, judgement })))
            },
            |_, finding| nodes.push(finding),
        )?;
        let nodes: Option<Vec<_>> = nodes.into_iter().collect();
        Ok(nodes.map(|nodes| LeakGate { nodes }))
    }
}

/// Looks for leaks in the snapshots of a gate, in which nothing may leak.
#[cfg(feature = "simulate")]
pub(super) fn judged(
    snapshots: &[PathBuf],
    reading: ReadOptions,
    limits: &Limits,
    jobs: Option<NonZeroUsize>,
) -> Result<LeakGate> {
    let (device_memory, allow_oom) = (limits.memory(), limits.allow_oom.unwrap_or_default());
    let options = LeakOptions { reading, device_memory, allow_oom, ..LeakOptions::default() };
    let strict = limits.strict.unwrap_or_default();
    LeakRequest { options, order: None, limits: LeakLimits::default(), strict, jobs }.search(&runs(snapshots)?)
}

pub(super) fn run(arguments: LeakArguments, output: &Output) -> Result<ExitCode> {
    let config = config::load(&arguments.config)?;
    let runs = runs(&arguments.snapshots)?;
    let inputs = runs.iter().flat_map(|run| &run.files).map(|file| file.path.as_path());
    output::check_exports(&arguments.view.export, inputs.chain(arguments.config.file()))?;
    require_used(&arguments, &runs)?;
    let gate = LeakRequest::of(&arguments, &config).search(&runs)?;
    let mut options = report_options(&arguments.view, output);
    arguments.view.write(&StartFolder::here(), &gate, &mut options, output)?;
    Ok(super::exit::exit_code(gate.verdict(), arguments.trust.exit_zero))
}

/// Refuses the options of a single recording for a series, and of a series for a single recording.
fn require_used(arguments: &LeakArguments, runs: &[ProcessSnapshots]) -> Result<()> {
    let has_series = runs.iter().any(|run| run.files.len() > 1);
    let has_single = runs.iter().any(|run| run.files.len() == 1);
    let of_single = [
        ("--step", arguments.step.is_some() && !has_single),
        ("--windows", arguments.windows.is_some() && !has_single),
    ];
    modes::refuse_given(&of_single, "a series of snapshots is not divided into steps")?;
    modes::refuse_given(&[("--order", arguments.order.is_some() && !has_series)], "a single snapshot has no order")
}

/// The snapshots by the rank that their names state, or by their case; without either, all of them are of one process.
fn runs(paths: &[PathBuf]) -> Result<Vec<ProcessSnapshots>> {
    if paths.iter().filter(|path| path.as_os_str() == "-").count() > 1 {
        bail!("only one of the snapshots can come from standard input");
    }
    let by_process = ranks::by_process(ranks::files(paths)?);
    if by_process.len() == 1 {
        let files = by_process.into_values().flatten().collect();
        return Ok(vec![ProcessSnapshots { process: Process::Only, files }]);
    }
    if let Some(files) = by_process.get(&Process::Only) {
        bail!(
            "{}: the name states no rank, such as rank3, and others are of ranks or cases; give files of one kind only",
            files[0].path.display()
        );
    }
    let most = by_process.values().map(Vec::len).max().unwrap_or(0);
    if let Some(few) = by_process.values().find(|files| files.len() < most) {
        bail!(
            "not all ranks or cases have as many snapshots: {most}, but {} of that of {}; expected a series of the same \
             length for each, or one snapshot",
            few.len(),
            few[0].path.display()
        );
    }
    Ok(by_process.into_iter().map(|(process, files)| ProcessSnapshots { process, files }).collect())
}

fn search_steps(path: &Path, options: &LeakOptions) -> Result<Search> {
    let profile = input::profile(path, &options.reading())?;
    let found = leak::search(&profile, options);
    // A saved profile without usable steps is the first of a series, unless the user asks for steps.
    let is_unclear = found.devices.iter().all(|device| device.unclear.is_some());
    if profile.recorded.is_some() && is_unclear && matches!(options.steps, WantedSteps::Any) {
        return Ok(leak::over(vec![profile], &[], options));
    }
    Ok(found)
}

/// What grows over a series; `None` if the files turn out to be of ranks.
fn search_series(
    files: &[FoundFile],
    order: Option<SeriesOrder>,
    options: &LeakOptions,
    purpose: Purpose,
) -> Result<Option<Search>> {
    let series = series::read(files, order, &options.reading(), purpose)?;
    if series.are_of_ranks {
        return Ok(None);
    }
    let mut search = leak::over(series.profiles, &series.skipped, options);
    search.diagnostics.extend(series.remarks);
    Ok(Some(search))
}

//! Whether a snapshot is fit to gate, and how to record a better one.
//!
//! All of it is advice to whoever runs the commands, with their options by name, so it is not part of the library.

use std::cmp::Reverse;

use ptmem::device::DeviceId;
use ptmem::diagnostic::Code;
use ptmem::diff::{DeviceDiff, Diff, Metric, Row, Sides};
use ptmem::leak::Search;
use ptmem::phase::steps::FoundBy;
use ptmem::profile::{DeviceProfile, Figures, HistoryKind, Profile, RunFacts};
use ptmem::units::{Delta, Size, format_percent, format_share};
use ptmem_base::text::count;

/// The quality of a recording in one respect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, strum::Display)]
pub(super) enum Health {
    /// As well as can be.
    #[strum(serialize = "ok")]
    Good,
    /// A gate works, and says less than it could.
    #[strum(serialize = "weak")]
    Weak,
    /// A gate is inconclusive.
    #[strum(serialize = "unfit")]
    Unfit,
}

/// An aspect of a recording that is examined.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::Display)]
#[strum(serialize_all = "kebab-case")]
pub(super) enum Aspect {
    /// The events that were recorded at all.
    History,
    /// The recorded run, according to the recorder.
    Run,
    /// Whether the oldest events are missing.
    Beginning,
    /// Whether memory ran out.
    Memory,
    /// Whether the parts of a program are named.
    Steps,
    /// Whether memory has names.
    Stacks,
    /// Whether events have times.
    Clock,
    /// Whether figures are exact.
    Figures,
    /// Whether the settings of the allocator are known.
    Settings,
    /// Whether a second recording of the program is the same.
    Again,
}

/// A finding about a snapshot in one respect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Examined {
    /// The quality of the recording.
    pub(super) health: Health,
    /// The finding in words.
    pub(super) words: String,
    /// A better way to record, where something can be.
    pub(super) advice: Option<&'static str>,
}

fn good(words: impl Into<String>) -> Examined {
    Examined { health: Health::Good, words: words.into(), advice: None }
}

fn weak(words: impl Into<String>, advice: &'static str) -> Examined {
    Examined { health: Health::Weak, words: words.into(), advice: Some(advice) }
}

fn unfit(words: impl Into<String>, advice: &'static str) -> Examined {
    Examined { health: Health::Unfit, ..weak(words, advice) }
}

/// Ignore memory without a stack below this fraction of the peak. Needed for `corners/mid-run`.
const SMALL_SHARE: u64 = 20;

/// The call that records every event of the allocator.
const ALL_ACTIONS: &str = "record all actions: remove skip_actions";

/// Recording that a second call does not disturb.
const RECORD_ONCE: &str =
    "record again, and call torch.cuda.memory._record_memory_history() once, with one max_entries";

/// Recording that is on from the start of the process.
const FROM_THE_START: &str = "record from the start, before the model is made: \
                              torch.cuda.memory._record_memory_history(max_entries=1_000_000)";

/// Looks at a snapshot. `steps` is the search for leaks in it, which knows its steps; programs may exhaust memory with `allow_oom`.
pub(super) fn examine(profile: &Profile, steps: &Search, allow_oom: bool) -> Vec<(Aspect, Examined)> {
    let mut active: Vec<&DeviceProfile> = profile.devices.iter().filter(|device| device.is_active_device()).collect();
    active.sort_by_key(|device| Reverse((device.figures.allocated.peak, device.figures.active.end)));
    let Some(&device) = active.first() else {
        let advice = "call torch.cuda.memory._record_memory_history() in this process before the step, and dump before \
                      disabling it";
        return vec![(Aspect::History, unfit("nothing is recorded and nothing is held", advice))];
    };
    let mut findings = vec![(Aspect::History, history(&active))];
    findings.extend(profile.run.as_ref().map(|facts| (Aspect::Run, run(facts))));
    if device.figures.history == HistoryKind::StateOnly {
        // Without a history, it has neither a beginning nor steps.
        findings.extend([(Aspect::Stacks, worst(&active, stacks)), (Aspect::Settings, settings(profile))]);
        return findings;
    }
    if device.figures.history == HistoryKind::NumbersOnly {
        // Figures alone need not show that no request failed.
        let ran_out = active.iter().any(|device| device.ran_out_of_memory());
        findings.extend(ran_out.then(|| (Aspect::Memory, memory(&active, allow_oom))));
        return findings;
    }
    findings.extend([
        (Aspect::Beginning, beginning(profile)),
        (Aspect::Memory, memory(&active, allow_oom)),
        (Aspect::Steps, worst(&active, |device| found_steps(steps, device.device))),
        (Aspect::Stacks, worst(&active, stacks)),
        (Aspect::Clock, worst(&active, |device| clock(profile, device))),
        (Aspect::Figures, worst(&active, |device| figures(profile, device))),
        (Aspect::Settings, settings(profile)),
    ]);
    findings
}

/// The worst finding about devices, of equal ones that about the first; it names the device where others differ.
fn worst(devices: &[&DeviceProfile], examine: impl Fn(&DeviceProfile) -> Examined) -> Examined {
    let all: Vec<(DeviceId, Examined)> = devices.iter().map(|device| (device.device, examine(device))).collect();
    // From the back: of equal ones `max_by_key` takes the last.
    let worst = all.iter().rev().max_by_key(|(_, finding)| finding.health);
    let Some((device, finding)) = worst else { return good("no device did anything") };
    let differs = all.iter().any(|(_, other)| other.words != finding.words);
    let words = if differs { format!("{device}: {}", finding.words) } else { finding.words.clone() };
    Examined { words, ..finding.clone() }
}

/// The worst of findings: of the whole snapshot.
pub(super) fn health(findings: &[(Aspect, Examined)]) -> Health {
    findings.iter().map(|(_, finding)| finding.health).max().unwrap_or(Health::Good)
}

/// What differs between two recordings of one program, of the same code.
pub(super) fn again(diff: &Diff) -> Examined {
    if diff.devices.is_empty() {
        return good("no device has events in both recordings");
    }
    if let Some(device) =
        diff.devices.iter().find(|device| device.device.before.is_none() || device.device.after.is_none())
    {
        return unfit(format!("{} is in one recording only", device.name()), "record both on the same devices");
    }
    if diff.devices.iter().any(|device| device.metric(Metric::Peak).both().is_none()) {
        return unfit("the peak of one recording is unknown", "record both completely");
    }
    let differences = diff.devices.iter().filter_map(DeviceDifference::of);
    let Some(DeviceDifference { device, figure, sides, row, .. }) = differences.max_by_key(|found| found.bytes) else {
        return good("both recordings have the same figures, and the same stacks at the peak, to the byte");
    };
    let share = format_percent(sides.delta(), sides.before).map(|share| format!(" ({share})")).unwrap_or_default();
    let most = if figure == Metric::Peak.name() { "most in" } else { "most at the peak in" };
    let most = row.map(|row| format!("; {most} {}: {}", row.label, Delta(row.delta()))).unwrap_or_default();
    let inputs = diff.diagnostics.iter().find(|found| found.code == Code::InputsDiffer);
    let advice = match inputs {
        Some(_) => {
            "seed the program (torch.manual_seed, and the generator of its data loader) and give every batch one size, or set \
             limits above the difference"
        }
        None if diff.is_by_collector() => {
            "call gc.collect() in each step, or set limits above the difference: the allocations are the same, and Python's garbage \
             collector ran at other moments"
        }
        None => {
            "set limits above the difference; if the program does not seed its random numbers (torch.manual_seed, and the \
             generator of its data loader), that may be the cause"
        }
    };
    let inputs = inputs.map(|found| format!("; {}", found.message)).unwrap_or_default();
    let Sides { before, after } = sides.map(|bytes| Size(*bytes));
    weak(format!("{}: {figure} {before} and {after}{share}{most}{inputs}", device.name()), advice)
}

/// How a device differs in two recordings.
struct DeviceDifference<'d> {
    device: &'d DeviceDiff,
    /// The first figure that differs: the peak, another that does not follow addresses, or that inside a phase.
    figure: String,
    sides: Sides<u64>,
    /// The stack that differs most at the peak.
    row: Option<&'d Row>,
    /// The largest difference.
    bytes: u128,
}

impl<'d> DeviceDifference<'d> {
    /// `None` where nothing differs.
    fn of(device: &'d DeviceDiff) -> Option<Self> {
        let metrics = Metric::ALL.into_iter().filter(|metric| metric.noise().is_none());
        let metrics = metrics.map(|metric| (metric.name().to_owned(), device.metric(metric)));
        let phases = device.phases.iter().map(|phase| (format!("peak inside {}", phase.title()), phase.peak));
        let figures = metrics.chain(phases).filter_map(|(name, change)| Some((name, change.both()?)));
        let row = device.rows.iter().filter(|row| row.kind.is_memory()).max_by_key(|row| row.delta().unsigned_abs());
        let row = row.filter(|row| row.delta() != 0);
        let peak = device.metric(Metric::Peak).both().map(|peak| (Metric::Peak.name().to_owned(), peak));
        let mut differing = figures.filter(|(_, sides)| sides.before != sides.after);
        let (figure, sides) = differing.next().or(peak.filter(|_| row.is_some()))?;
        let of_row = row.map_or(0, |row| row.delta().unsigned_abs());
        Some(Self { device, figure, sides, row, bytes: sides.delta().unsigned_abs().max(of_row) })
    }
}

/// The events of all devices, of which the first holds most.
fn history(devices: &[&DeviceProfile]) -> Examined {
    let of = if devices.len() > 1 { format!(", on {} devices", devices.len()) } else { String::new() };
    let events: u64 = devices.iter().map(|device| device.events).sum();
    let events = format!("{events} events{of}");
    let allocations: u64 = devices.iter().map(|device| device.figures.allocation_count).sum();
    let frees: u64 = devices.iter().map(|device| device.figures.free_count).sum();
    let lacks_peak = |device: &&&DeviceProfile| {
        device.figures.history == HistoryKind::Recorded && device.figures.allocated.peak.is_none()
    };
    let figures = &devices.iter().find(lacks_peak).unwrap_or(&devices[0]).figures;
    match figures.history {
        HistoryKind::Recorded if figures.allocated.peak.is_none() => {
            unfit("allocations or frees are missing, so the peak is unknown", ALL_ACTIONS)
        }
        HistoryKind::Recorded if allocations == 0 => {
            let advice = "record complete steps that the program runs";
            unfit(format!("{events}, and nothing was allocated"), advice)
        }
        HistoryKind::Recorded => good(format!("{events}: {allocations} allocations, {frees} frees")),
        HistoryKind::StateOnly => unfit(
            "only the state at the dump, without a peak",
            "record with context and stacks: torch.cuda.memory._record_memory_history(max_entries=1_000_000), not \
             enabled=\"state\", and dump before enabled=None",
        ),
        HistoryKind::NumbersOnly if figures.allocated.peak.is_none() => {
            let advice = "add the peak, as torch.cuda.memory_stats()[\"allocated_bytes.all.peak\"] states it, or limit only metrics \
                          that the file has";
            unfit("only figures, without the peak", advice)
        }
        HistoryKind::NumbersOnly => {
            weak("only figures, without stacks or a history", "record the same run with ptmem_gate.record() for stacks")
        }
        HistoryKind::NoAllocations => unfit("frees without allocations: the peak is unknown", ALL_ACTIONS),
        // Empty.
        _ => unfit("nothing was allocated", "dump after the step: torch.cuda.memory._dump_snapshot(\"snapshot.pkl\")"),
    }
}

fn has(profile: &Profile, code: Code) -> bool {
    profile.diagnostics.iter().any(|diagnostic| diagnostic.code == code)
}

fn run(run: &RunFacts) -> Examined {
    if let Some(failure) = run.failure() {
        return unfit(failure, "fix the program, or record steps that it runs");
    }
    if let Some(package) = run.packages.iter().find(|package| !package.same) {
        let words = format!("{} was imported from {}, not from the checkout", package.name, package.path);
        let advice = "install the checkout that is recorded (pip install -e .), or put it first on PYTHONPATH";
        return weak(words, advice);
    }
    good(run.to_string())
}

/// The first code of events that contradict each other.
fn contradiction(profile: &Profile) -> Option<Code> {
    [Code::TimeBackwards, Code::EventsInconsistent, Code::BlocksOverlap].into_iter().find(|code| has(profile, *code))
}

fn beginning(profile: &Profile) -> Examined {
    if has(profile, Code::HistoryTruncated) {
        let words = "the ring buffer was full: the oldest events are missing";
        let advice = "keep more events, _record_memory_history(max_entries=10_000_000), or record fewer steps";
        return unfit(words, advice);
    }
    if has(profile, Code::FreesNotRecorded) {
        let words =
            "PyTorch 2.0 does not record frees of blocks that are older than the recording: the peak is a lower bound";
        return unfit(words, "record from the start, before the model is made");
    }
    if let Some(code) = contradiction(profile) {
        let words = format!("events may be missing: they contradict each other ({})", code.name());
        return unfit(words, RECORD_ONCE);
    }
    good("no sign of missing events")
}

fn memory(devices: &[&DeviceProfile], allow_oom: bool) -> Examined {
    let figures = devices.iter().map(|device| &device.figures);
    let failed: u64 = figures.map(Figures::failures).fold(0, u64::saturating_add);
    if failed == 0 {
        return good("no allocation failed in the recording");
    }
    let times = count(failed, "time", "times");
    if allow_oom {
        return good(format!("memory ran out {times}, as allow-oom in ptmem.toml permits"));
    }
    let words = format!("memory ran out {times}: the program may need more than the peak shows");
    unfit(words, "record a smaller batch, or set allow-oom = true in ptmem.toml if the program probes for it")
}

fn found_steps(search: &Search, device: DeviceId) -> Examined {
    let found = search.devices.iter().find(|other| other.device == device);
    let count = found.map_or(0, |found| found.points.len());
    let advice = "for 'ptmem leak' and --every 1step, record several and name them: \
                  with torch.profiler.record_function(\"ProfilerStep#1\"): train_step()";
    match found.and_then(|found| found.how.as_ref()) {
        Some(FoundBy::Named(name)) => good(format!("{count} by {name}")),
        Some(FoundBy::Optimizers(calls)) => good(format!("{count} by {calls}")),
        Some(FoundBy::Recurring(label)) => good(format!("{count} by a recurring stack: {label}")),
        Some(FoundBy::Called(module)) => good(format!("{count} by calls of {module}, the outermost module")),
        Some(FoundBy::Windows) | None => Examined { advice: Some(advice), ..good("none found") },
    }
}

fn stacks(device: &DeviceProfile) -> Examined {
    if !device.recorded_frames.python && !device.recorded_frames.cpp && device.figures.allocation_count > 0 {
        let advice = "record stacks: torch.cuda.memory._record_memory_history(context=\"all\", stacks=\"all\")";
        return weak("no allocation has a call stack", advice);
    }
    let is_state = device.figures.history == HistoryKind::StateOnly;
    let moment = if is_state { "dump" } else { "peak" };
    let mut total: u64 = 0;
    let mut unnamed: u64 = 0;
    for stack in &device.stacks {
        let bytes = if is_state { stack.end.bytes } else { stack.peak.bytes };
        total = total.saturating_add(bytes);
        unnamed = unnamed.saturating_add(if stack.bucket.is_some() { bytes } else { 0 });
    }
    let share = format_share(unnamed, total).unwrap_or_else(|| "nothing".to_owned());
    let words = format!("{} of {} at the {moment} have none ({share})", Size(unnamed), Size(total));
    if unnamed.saturating_mul(SMALL_SHARE) > total {
        return weak(words, FROM_THE_START);
    }
    if !device.recorded_frames.python && device.figures.allocation_count > 0 {
        let advice = "record Python frames: torch.cuda.memory._record_memory_history(stacks=\"all\")";
        return weak("only C++ frames, so no line of your code is named", advice);
    }
    good(words)
}

fn clock(profile: &Profile, device: &DeviceProfile) -> Examined {
    if has(profile, Code::TimeBackwards) {
        return weak("events are out of order, or the clock went back", RECORD_ONCE);
    }
    match device.duration_us {
        _ if device.events == 0 => good("no events"),
        None if device.has_times => {
            weak("the first or the last event has no time, or the clock went back", "record again to know the duration")
        }
        None => weak("events have no times, so annotations do not mark phases", "use PyTorch 2.2 or later"),
        Some(us) => good(format!("{}.{:03} s", us / 1_000_000, us / 1000 % 1000)),
    }
}

fn figures(profile: &Profile, device: &DeviceProfile) -> Examined {
    let figures = &device.figures;
    if !figures.checks.hold() {
        let advice = "record again, and report it if the file still contradicts itself";
        return weak("self-checks failed, so figures are estimates", advice);
    }
    if contradiction(profile).is_some() {
        return weak("events contradict each other, so figures are estimates", RECORD_ONCE);
    }
    let elsewhere = device.stacks.iter().map(|stack| stack.highest_bound.bytes).max();
    match figures.allocated.max_error() {
        _ if figures.allocated.is_least => weak("lower bounds", FROM_THE_START),
        Some(0) if elsewhere > Some(0) => {
            let error = Size(elsewhere.unwrap_or(0));
            good(format!("exact to the byte at the peak; a stack is known to within {error} at its highest"))
        }
        Some(0) => good("exact to the byte"),
        Some(error) => weak(format!("exact within {}", Size(error)), bounded(profile)),
        None => weak("the error is unknown", FROM_THE_START),
    }
}

/// Advice on figures with a bound. A recorder of steps drops what was before them on purpose.
fn bounded(profile: &Profile) -> &'static str {
    let steps = profile.run.as_ref().and_then(|run| run.steps?.asked);
    if steps.is_some_and(|[first, _]| first > 1) {
        return "blocks from before the recorded steps have no exact size; limits decide unless they are within this bound";
    }
    FROM_THE_START
}

fn settings(profile: &Profile) -> Examined {
    if has(profile, Code::SettingsChanged) {
        let words = "block sizes contradict the settings in the file";
        let advice = "set PYTORCH_CUDA_ALLOC_CONF before the start, instead of calling torch.cuda.memory._set_allocator_settings()";
        return weak(words, advice);
    }
    if profile.settings.present {
        let text = profile.settings.all.get("PYTORCH_CUDA_ALLOC_CONF").map_or("", String::as_str);
        let words = if text.is_empty() { "the defaults".to_owned() } else { text.to_owned() };
        return good(words);
    }
    let advice =
        "if PYTORCH_CUDA_ALLOC_CONF was set, set it in ptmem.toml, too: allocator-settings = \"max_split_size_mb:64\"";
    Examined { advice: Some(advice), ..good("not in the file (PyTorch before 2.3)") }
}

//! Whether a snapshot is fit to gate, and how to record a better one.
//!
//! All of it is advice to whoever runs the commands, with their options by name, so it is not part of the library.

use ptmem::device::DeviceId;
use ptmem::diagnostic::Code;
use ptmem::diff::{Diff, Metric};
use ptmem::leak::Search;
use ptmem::phase::steps::FoundBy;
use ptmem::profile::{DeviceProfile, HistoryKind, Profile, RunFacts};
use ptmem::units::{Delta, Size, format_percent, format_share};

use crate::cli::words::many;

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

/// Recording that is on from the start of the process.
const FROM_THE_START: &str = "record from the start, before the model is made: \
                              torch.cuda.memory._record_memory_history(max_entries=1_000_000)";

/// Looks at a snapshot. `steps` is the search for leaks in it, which knows its steps; programs may exhaust memory with `allow_oom`.
pub(super) fn examine(profile: &Profile, steps: &Search, allow_oom: bool) -> Vec<(Aspect, Examined)> {
    let active: Vec<&DeviceProfile> = profile.devices.iter().filter(|device| device.is_active_device()).collect();
    // The one that holds most stands for the others, which did the same.
    let main = active.iter().copied().max_by_key(|device| (device.figures.allocated.peak, device.figures.active.end));
    let Some(device) = main else {
        let advice = "call torch.cuda.memory._record_memory_history() in this process before the step, and dump before \
                      disabling it";
        return vec![(Aspect::History, unfit("nothing is recorded and nothing is held", advice))];
    };
    let mut findings = vec![(Aspect::History, history(device, active.len()))];
    findings.extend(profile.run.as_ref().map(|facts| (Aspect::Run, run(facts))));
    if device.figures.history == HistoryKind::StateOnly {
        // Without a history, it has neither a beginning nor steps.
        findings.extend([(Aspect::Stacks, stacks(device)), (Aspect::Settings, settings(profile))]);
        return findings;
    }
    if device.figures.history == HistoryKind::NumbersOnly {
        findings.push((Aspect::Memory, memory(&active, allow_oom)));
        return findings;
    }
    findings.extend([
        (Aspect::Beginning, beginning(profile)),
        (Aspect::Memory, memory(&active, allow_oom)),
        (Aspect::Steps, found_steps(steps, device.device)),
        (Aspect::Stacks, stacks(device)),
        (Aspect::Clock, clock(device)),
        (Aspect::Figures, figures(profile, device)),
        (Aspect::Settings, settings(profile)),
    ]);
    findings
}

/// The worst of findings: of the whole snapshot.
pub(super) fn health(findings: &[(Aspect, Examined)]) -> Health {
    findings.iter().map(|(_, finding)| finding.health).max().unwrap_or(Health::Good)
}

/// What differs between two recordings of one program, of the same code.
pub(super) fn again(diff: &Diff) -> Examined {
    let peaks = diff.devices.iter().map(|device| (device, device.metric(Metric::Peak)));
    let Some((device, peak)) = peaks.max_by_key(|(_, peak)| peak.gained().map(i128::unsigned_abs)) else {
        return good("no device has events in both recordings");
    };
    let rows = diff.devices.iter().flat_map(|device| &device.rows);
    let row = rows.filter(|row| row.kind.is_memory()).max_by_key(|row| row.delta().unsigned_abs());
    let row = row.filter(|row| row.delta() != 0);
    let (Some(before), Some(after)) = (peak.before, peak.after) else {
        return unfit("the peak of one recording is unknown", "record both completely");
    };
    if before == after && row.is_none() {
        return good("both recordings have the same stacks at the peak, to the byte");
    }
    let share = format_percent(i128::from(after) - i128::from(before), before)
        .map(|share| format!(" ({share})"))
        .unwrap_or_default();
    let most = row.map(|row| format!("; most in {}: {}", row.label, Delta(row.delta()))).unwrap_or_default();
    let inputs = diff.diagnostics.iter().find(|found| found.code == Code::InputsDiffer);
    let advice = match inputs {
        Some(_) => {
            "seed the program (torch.manual_seed, and the generator of its data loader) and give every batch one size, or set \
             limits above the difference"
        }
        None => {
            "set limits above the difference; if the program does not seed its random numbers (torch.manual_seed, and the \
             generator of its data loader), that may be the cause"
        }
    };
    let inputs = inputs.map(|found| format!("; {}", found.message)).unwrap_or_default();
    let words = format!("{}: peak {} and {}{share}{most}{inputs}", device.name(), Size(before), Size(after));
    weak(words, advice)
}

fn history(device: &DeviceProfile, devices: usize) -> Examined {
    let of = if devices > 1 { format!(", on {devices} devices") } else { String::new() };
    let events = format!("{} events{of}", device.events);
    let figures = &device.figures;
    match figures.history {
        HistoryKind::Recorded if figures.allocated.peak.is_none() => {
            unfit("allocations or frees are missing, so the peak is unknown", ALL_ACTIONS)
        }
        HistoryKind::Recorded if figures.allocation_count == 0 => {
            let advice = "record complete steps that the program runs";
            unfit(format!("{events}, and nothing was allocated"), advice)
        }
        HistoryKind::Recorded => {
            let counts = format!("{} allocations, {} frees", figures.allocation_count, figures.free_count);
            good(format!("{events}: {counts}"))
        }
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
    good("no sign of missing events")
}

fn memory(devices: &[&DeviceProfile], allow_oom: bool) -> Examined {
    let count: usize = devices.iter().map(|device| device.figures.ooms.len()).sum();
    if count == 0 {
        return good("no allocation failed in the recording");
    }
    let times = many(count, "time");
    if allow_oom {
        return good(format!("memory ran out {times}, as allow-oom in ptmem.toml permits"));
    }
    let words = format!("memory ran out {times}: the peak is the limit of the card, not of the program");
    unfit(words, "record a smaller batch, or set allow-oom = true in ptmem.toml if the program probes for it")
}

fn found_steps(search: &Search, device: DeviceId) -> Examined {
    let found = search.devices.iter().find(|other| other.device == device);
    let count = found.map_or(0, |found| found.points.len());
    let advice = "for 'ptmem leak' and --every 1step, record several and name them: \
                  with torch.profiler.record_function(\"ProfilerStep#1\"): train_step()";
    match found.and_then(|found| found.how.as_ref()) {
        Some(FoundBy::Named(name)) => good(format!("{count} by {name}")),
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
    let total: u64 = device.stacks.iter().fold(0, |sum, stack| sum.saturating_add(stack.peak.bytes));
    let unnamed = device.stacks.iter().filter(|stack| stack.bucket.is_some());
    let unnamed: u64 = unnamed.fold(0, |sum, stack| sum.saturating_add(stack.peak.bytes));
    let share = format_share(unnamed, total).unwrap_or_else(|| "nothing".to_owned());
    let moment = if device.figures.history == HistoryKind::StateOnly { "dump" } else { "peak" };
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

fn clock(device: &DeviceProfile) -> Examined {
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
    match figures.allocated.max_error() {
        _ if figures.allocated.is_least => weak("lower bounds", FROM_THE_START),
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

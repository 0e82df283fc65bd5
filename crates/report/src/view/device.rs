//! One device of a snapshot: facts, counters, timeline, failed allocations.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use ptmem_base::sides::Side;
use ptmem_base::text::{count, thousands};
use ptmem_base::units::{Delta, Size};
use ptmem_compare::budget::{DeviceBudget, Overhead};
use ptmem_judge::verdict::{Check, Judgement, LimitKind, Mark};
use ptmem_trace::profile::{DeviceProfile, Metric, Moment, Point, Profile};
use ptmem_trace::replay::{Counter, HistoryKind, Oom};
use ptmem_trace::stack::Languages;
use ptmem_trace::trace::Measure;

use super::{Column, Content, Curve, Fact, RowOfCells, Table, Tone, Value, figure, words};
use crate::known;

/// The moment of stacks without a history, so without a peak and a baseline.
pub(super) const IN_STATE: &str = "in the state at the dump";

/// Failed allocations that are listed in full: a job that catches and retries runs out of memory many times.
const MOST_FAILURES: usize = 3;

/// Facts about the recording.
pub(super) fn facts(device: &DeviceProfile, budget: Option<DeviceBudget>, judgement: Option<&Judgement>) -> Vec<Fact> {
    let mut facts = vec![Fact::new("recording", recording(device))];
    if !device.actions.is_empty() {
        let actions = device.actions.iter().map(|(name, &count)| format!("{name} {}", thousands(count)));
        facts.push(Fact::of_lines("events", vec![actions.collect()]));
    }
    let figures = &device.figures;
    if !device.is_numbers() {
        let total = Size(figures.allocated_total);
        let allocations = format!("{} of {total} in total", thousands(figures.allocation_count));
        facts.push(Fact::of_lines("allocations", vec![vec![allocations, count(figures.free_count, "free", "frees")]]));
    }
    let reserved_peak = known::counter(&figures.reserved, figures.history).peak;
    facts.push(fragmentation(device, reserved_peak, judgement));
    facts.extend(figures.ooms.iter().take(MOST_FAILURES).map(out_of_memory));
    facts.extend(device.failed_request.iter().map(|label| Fact::new("", format!("first requested by {label}"))));
    let more = figures.ooms.len().saturating_sub(MOST_FAILURES) as u64;
    if more > 0 {
        facts.push(Fact::new("", format!("and {}", count(more, "more time", "more times"))));
    }
    if figures.failed_count > 0 {
        let words = count(figures.failed_count, "request failed", "requests failed");
        facts.push(Fact { tone: Tone::Worse, ..Fact::new("out of memory", words) });
    }
    if let Some(budget) = budget {
        facts.push(headroom(budget, reserved_peak));
        facts.push(overhead(budget.overhead));
    }
    facts
}

/// The reserved bytes that were not active, with the finding of the limits on them.
fn fragmentation(device: &DeviceProfile, reserved_peak: Option<u64>, judgement: Option<&Judgement>) -> Fact {
    let figures = &device.figures;
    let peak = figures.fragmentation.peak.filter(|_| reserved_peak.is_some());
    let check = judgement.and_then(|judgement| worst_check(device, judgement, &[Metric::Fragmentation]));
    let found = check.map(|check| format!(": {}", Mark::of(check).word())).unwrap_or_default();
    let error = Some(figures.fragmentation.peak_error).filter(|&error| error > 0 && peak.is_some());
    let error = error.map(|error| format!(" ± {}", Size(error))).unwrap_or_default();
    let at_peak = format!("{}{error} at the reserved peak{found}", with_share(peak, reserved_peak));
    let at_end = with_share(figures.fragmentation.end, figures.reserved.end) + " at the end";
    let fact = Fact::of_lines("fragmentation", vec![vec![at_peak, at_end]]);
    Fact { tone: check.map_or(fact.tone, |check| Tone::Mark(Mark::of(check))), ..fact }
}

fn recording(device: &DeviceProfile) -> String {
    let time = device.duration_us.filter(|&us| us > 0).map(|us| format!(" in {}", seconds(us)));
    let history = match device.figures.history {
        HistoryKind::Recorded => "",
        HistoryKind::StateOnly => ", state at the dump only",
        HistoryKind::NoAllocations => ", allocations were not recorded",
        HistoryKind::Empty => ", nothing held",
        HistoryKind::NumbersOnly => return "only figures, without a history".to_owned(),
    };
    format!("{}{}{history}", count(device.events, "event", "events"), time.unwrap_or_default())
}

/// A time in seconds.
pub(crate) fn seconds(us: u64) -> String {
    format!("{}.{:03} s", us / 1_000_000, us % 1_000_000 / 1000)
}

/// A size that may not be known.
pub fn known_size(bytes: Option<u64>) -> String {
    Value::size(bytes).to_string()
}

/// A size, and its share of the whole.
fn with_share(part: Option<u64>, whole: Option<u64>) -> String {
    match part.zip(whole) {
        Some((part, whole)) if whole > 0 => format!("{} ({})", Size(part), Value::share(part, whole)),
        _ => known_size(part.filter(|_| whole.is_some())),
    }
}

/// The memory of the device, and the part of it that is left.
fn headroom(budget: DeviceBudget, reserved_peak: Option<u64>) -> Fact {
    let reserved = with_share(reserved_peak, Some(budget.memory)) + " reserved at the peak";
    let left = match reserved_peak.map(|peak| budget.left(peak)) {
        Some(left) => u64::try_from(left).map_or(Delta(left).to_string(), |left| Size(left).to_string()),
        None => Value::Unknown.to_string(),
    };
    Fact::of_lines("device memory", vec![vec![Size(budget.memory).to_string(), reserved, left + " left"]])
}

/// The part of the memory of a device that PyTorch's allocator cannot have.
pub fn overhead(overhead: Overhead) -> Fact {
    let size = (overhead != Overhead::Unknown).then(|| Size(overhead.bytes()).to_string());
    Fact::of_lines("overhead", vec![size.into_iter().chain([overhead.to_string()]).collect()])
}

/// A failed allocation: the requested, held and free bytes.
fn out_of_memory(oom: &Oom) -> Fact {
    let asked = format!("event {}: asked for {}", thousands(oom.event.into()), Size(oom.requested));
    let free = format!("the device had {} free", Size(oom.device_free));
    let counters = [("allocated", oom.allocated), ("active", oom.active), ("reserved", oom.reserved)];
    let mut held: Vec<String> = counters.map(|(name, bytes)| format!("{name} {}", known_size(bytes))).into();
    match oom.max_error {
        Some(0) => {}
        Some(error) => held.push(format!("± {}", Size(error))),
        None if oom.active.is_some() => held.push("not reliable".to_owned()),
        None => {}
    }
    let demand = format!("with the request {} would have been allocated", known_size(oom.demand()));
    let mut unused = vec![format!("fragmentation {}", with_share(oom.fragmentation(), oom.reserved))];
    unused.extend(
        oom.unusable()
            .filter(|bytes| *bytes > 0)
            .map(|bytes| format!("{} of it unusable for this request", Size(bytes))),
    );
    let pool = match oom.pool_free.zip(oom.largest_free) {
        None => vec!["the free memory of its pool is unknown".to_owned()],
        Some((0, _)) => vec!["its pool had no free memory".to_owned()],
        Some((all, largest)) => {
            vec![format!("its pool had {} free", Size(all)), format!("at most {} at once", Size(largest))]
        }
    };
    let lines = vec![vec![asked, free], held, vec![demand], unused, pool];
    Fact { tone: Tone::Worse, ..Fact::of_lines("out of memory", lines) }
}

/// The counters, with the finding of the limits on each.
pub(super) fn counters(device: &DeviceProfile, judgement: Option<&Judgement>) -> Table {
    let figures = &device.figures;
    let rows = Measure::ALL.map(|measure| {
        // Fragmentation has a line of its own.
        let of_counter = Metric::ALL.into_iter().filter(|metric| metric.measure() == measure);
        let metrics: Vec<Metric> = of_counter.filter(|metric| metric.point() != Point::UnusedAtPeak).collect();
        let worst = judgement.and_then(|judgement| worst_check(device, judgement, &metrics));
        let limit = worst.map(|check| format!("{} {}", check.of.name(), check.limit.text));
        let mark = worst.map_or(Value::Nothing, |check| Value::Mark { mark: Mark::of(check), limit });
        let tone = if measure == Measure::Allocated { Tone::Main } else { Tone::Plain };
        let tone = worst.map_or(tone, |check| Tone::Mark(Mark::of(check)));
        let (figures, error) = known_figures(figures.counter(measure), figures.history);
        let cells = [Value::words(<&str>::from(measure))]
            .into_iter()
            .chain(figures)
            .chain(judgement.map(|_| mark))
            .chain([error]);
        RowOfCells::new(tone, cells)
    });
    let mut heads = vec![words(""), figure("baseline"), figure("peak").main(), figure("at event"), figure("end")];
    heads.extend(judgement.map(|_| words("")));
    heads.push(words(""));
    Table::new(heads, rows)
}

/// The worst of the absolute limits on some metrics of a device.
fn worst_check<'j>(device: &DeviceProfile, judgement: &'j Judgement, metrics: &[Metric]) -> Option<&'j Check> {
    let is_of = |check: &&Check| metrics.iter().any(|metric| check.kind() == LimitKind::Metric(*metric));
    let checks =
        judgement.checks_on(Some(device.device)).filter(|check| check.limit.is_absolute && check.row.is_none());
    checks.filter(is_of).min_by_key(|check| Reverse(check.standing()))
}

/// The values of a counter, as far as they are known, and their error.
fn known_figures(counter: &Counter, history: HistoryKind) -> ([Value; 4], Value) {
    let known = known::counter(counter, history);
    let figures = [
        Value::size(known.baseline),
        Value::size(known.peak),
        known.peak_at.map_or(Value::Unknown, |position| Value::event(position.event())),
        Value::size(counter.end),
    ];
    (figures, if counter.is_least { Value::words("or more") } else { error(&known) })
}

/// The bound of the error of the figures that are known.
fn error(known: &Counter) -> Value {
    match (known.baseline_error.unwrap_or(0), known.peak_error.unwrap_or(0)) {
        (0, 0) => Value::Nothing,
        (error, 0) => Value::words(format!("baseline ± {}", Size(error))),
        (baseline, peak) => Value::words(format!("± {}", Size(baseline.max(peak)))),
    }
}

/// Allocated bytes over the recording.
pub(super) fn timeline(device: &DeviceProfile) -> Option<Content> {
    Some(Content::Timeline(vec![curve(device, None)?]))
}

/// The curve of a device, where it is more than a point.
pub(super) fn curve(device: &DeviceProfile, side: Option<Side>) -> Option<Curve> {
    let points = &device.figures.timeline.allocated;
    let known = known::counter(&device.figures.allocated, device.figures.history);
    let peak = known.peak?;
    (points.len() > 1).then(|| Curve { side, points: points.clone(), peak, baseline: known.baseline })
}

/// A moment in words.
pub(super) fn moment_name(moment: &Moment) -> String {
    match moment {
        Moment::Peak => "at the peak".to_owned(),
        Moment::Baseline => "at the baseline".to_owned(),
        Moment::End => "at the end".to_owned(),
        Moment::Oom => "when memory ran out".to_owned(),
        Moment::Event(index) => format!("after event {}", thousands(u64::from(*index))),
        Moment::Time(_) => format!("at {moment}"),
        Moment::Phase(phase) => {
            let number = phase.number.map(|number| format!(" #{number}")).unwrap_or_default();
            format!("at the {} of {}{number}", phase.point.name(), phase.name)
        }
        Moment::Between(ends) => format!("at the peak between {} and {}", ends[0], ends[1]),
        Moment::Aligned => "at the peak of the after".to_owned(),
    }
}

/// The moment that the stacks of a device are listed for, in words.
pub(super) fn moment_of(profile: &Profile, device: &DeviceProfile) -> String {
    let moment = moment_name(&profile.options.at);
    let stands_in = matches!(profile.options.at, Moment::Peak | Moment::Baseline);
    if stands_in && device.figures.history == HistoryKind::StateOnly {
        return IN_STATE.to_owned();
    }
    let is_oom = profile.options.at == Moment::Peak && device.at_is_oom();
    if is_oom { format!("{moment}, when memory ran out") } else { moment }
}

/// Settings that are listed; PyTorch has about twenty.
const MOST_SETTINGS: usize = 64;

/// The recordings of the snapshots of a group: their lengths, their frames, and the settings of PyTorch's allocator. A column for each
/// snapshot.
pub(super) fn recordings(profiles: &[(&str, &Profile)]) -> Table {
    let columns: Vec<Column> = [""].into_iter().chain(profiles.iter().map(|(head, _)| *head)).map(words).collect();
    let mut rows = vec![
        row(Value::words("file"), profiles, |profile| Value::code(&*profile.source.path)),
        row(Value::words("size"), profiles, |profile| Value::Size(profile.source.bytes)),
        row(Value::words("kind"), profiles, |profile| Value::words(profile.source.kind.name())),
        row(Value::words("events"), profiles, |profile| {
            Value::count(profile.devices.iter().map(|device| device.events).sum())
        }),
        row(Value::words("time"), profiles, time),
        row(Value::words("frames"), profiles, frames),
    ];
    let keys: BTreeSet<&String> = profiles.iter().flat_map(|(_, profile)| profile.settings.all.keys()).collect();
    let keys = keys.into_iter().take(MOST_SETTINGS);
    rows.extend(keys.map(|key| row(Value::code(&**key), profiles, |profile| setting(profile, key))));
    Table::new(columns, rows)
}

/// A row with a value of each snapshot.
fn row(head: Value, profiles: &[(&str, &Profile)], value: impl Fn(&Profile) -> Value) -> RowOfCells {
    let cells = std::iter::once(head).chain(profiles.iter().map(|(_, profile)| value(profile)));
    RowOfCells::new(Tone::Plain, cells)
}

/// The time that the longest history of a device covers.
fn time(profile: &Profile) -> Value {
    let longest = profile.devices.iter().filter_map(|device| device.duration_us).max();
    longest.map_or(Value::Unknown, |us| Value::words(seconds(us)))
}

fn setting(profile: &Profile, key: &str) -> Value {
    profile.settings.all.get(key).map_or(Value::Nothing, |text| Value::code(&**text))
}

/// The languages of the frames that were recorded.
fn frames(profile: &Profile) -> Value {
    let of_devices = profile.devices.iter().filter(|device| DeviceProfile::is_active(device));
    let languages = of_devices.fold(Languages::default(), |mut all, device| {
        all |= device.recorded_frames;
        all
    });
    Value::words(match (languages.python, languages.cpp) {
        (true, true) => "Python and C++",
        (true, false) => "Python",
        (false, true) => "C++",
        (false, false) => "none",
    })
}

//! One device of a snapshot: facts, counters, timeline, failed allocations.

use super::{Column, Content, Curve, Exactness, Fact, Marks, Phrase, Row, Table, Timeline, Tone, Value};
use crate::budget::{DeviceBudget, Overhead};
use crate::known::KnownCounter;
use crate::profile::{DeviceProfile, Moment, Profile};
use crate::replay::{Counter, History, Oom, Position};
use crate::sides::Side;
use crate::text::thousands;

/// The moment of stacks where no history says what the peak and the baseline were.
pub(super) const IN_STATE: &str = "in the state at the dump";

/// Failed allocations that are listed in full: a job that catches and retries runs out of memory many times.
const MOST_FAILURES: usize = 3;

/// Facts about the recording.
pub(super) fn facts(device: &DeviceProfile, budget: Option<DeviceBudget>) -> Vec<Fact> {
    let mut facts = vec![Fact::new("recording", recording(device))];
    if !device.actions.is_empty() {
        let actions = device.actions.iter();
        let items = actions.map(|(name, &count)| Phrase::from(format!("{name} ")).and(Value::Count(count))).collect();
        facts.push(Fact::of_lines("events", vec![items]));
    }
    let figures = &device.figures;
    let allocations = Phrase::from(Value::Count(figures.allocation_count))
        .and(" of ")
        .and(Value::Size(figures.allocated_total))
        .and(" in total");
    let frees = Phrase::count(figures.free_count, "free", "frees");
    facts.push(Fact::of_lines("allocations", vec![vec![allocations, frees]]));
    let reserved_peak = KnownCounter::new(&figures.reserved, figures.history).peak;
    let fragmentation = figures.fragmentation.peak.filter(|_| reserved_peak.is_some());
    let at_peak = with_share(fragmentation, reserved_peak).and(" at the reserved peak");
    let at_end = with_share(Some(figures.fragmentation.end), Some(figures.reserved.end)).and(" at the end");
    facts.push(Fact::of_lines("fragmentation", vec![vec![at_peak, at_end]]));
    facts.extend(figures.ooms.iter().take(MOST_FAILURES).map(out_of_memory));
    if let Some(label) = &device.failed_request {
        facts.push(Fact::new("", Phrase::from("first requested by ").and(Value::code(label.clone()))));
    }
    let more = figures.ooms.len().saturating_sub(MOST_FAILURES) as u64;
    if more > 0 {
        let times = if more == 1 { " more time" } else { " more times" };
        facts.push(Fact::new("", Phrase::from("and ").and(Value::Count(more)).and(times)));
    }
    if let Some(budget) = budget {
        facts.push(headroom(budget, reserved_peak));
        facts.push(overhead(budget.overhead));
    }
    facts
}

fn recording(device: &DeviceProfile) -> Phrase {
    let mut recording = Phrase::count(device.events, "event", "events");
    if let Some(us) = device.duration_us.filter(|&us| us > 0) {
        recording = recording.and(format!(" in {}.{:03} s", us / 1_000_000, us % 1_000_000 / 1000));
    }
    match device.figures.history {
        History::Recorded => recording,
        History::StateOnly => recording.and(", state at the dump only"),
        History::NoAllocations => recording.and(", allocations were not recorded"),
        History::Empty => recording.and(", nothing held"),
    }
}

/// A size, and its share of the whole.
fn with_share(part: Option<u64>, whole: Option<u64>) -> Phrase {
    match part.zip(whole) {
        Some((part, whole)) if whole > 0 => {
            Phrase::from(Value::Size(part)).and(" (").and(Value::Share { part, whole }).and(")")
        }
        Some((part, _)) => Phrase::from(Value::Size(part)),
        None => Phrase::from(Value::Unknown),
    }
}

/// The memory of the device, and the part of it that is left.
fn headroom(budget: DeviceBudget, reserved_peak: Option<u64>) -> Fact {
    let reserved = with_share(reserved_peak, Some(budget.memory)).and(" reserved at the peak");
    let left = match reserved_peak.map(|peak| i128::from(budget.usable()) - i128::from(peak)) {
        Some(left) => u64::try_from(left).map_or(Phrase::from(Value::Change(left)), |left| Value::Size(left).into()),
        None => Phrase::from(Value::Unknown),
    };
    let items = vec![Phrase::from(Value::Size(budget.memory)), reserved, left.and(" left")];
    Fact::of_lines("device memory", vec![items])
}

/// The part of the memory of a device that PyTorch's allocator cannot have.
pub(super) fn overhead(overhead: Overhead) -> Fact {
    let origin = Phrase::from(overhead.to_string());
    let items = match overhead {
        Overhead::Unknown => vec![origin],
        Overhead::Given(_) | Overhead::Measured(_) | Overhead::Estimated(_) => {
            vec![Value::Size(overhead.bytes()).into(), origin]
        }
    };
    Fact::of_lines("overhead", vec![items])
}

/// A failed allocation: what was asked for, what was held, and what was free.
fn out_of_memory(oom: &Oom) -> Fact {
    let asked =
        Phrase::from("event ").and(Value::Event(Some(oom.event))).and(": asked for ").and(Value::Size(oom.requested));
    let free = Phrase::from("the device had ").and(Value::Size(oom.device_free)).and(" free");
    let mut held = vec![
        Phrase::from("allocated ").and(Value::size(oom.allocated)),
        Phrase::from("active ").and(Value::size(oom.active)),
        Phrase::from("reserved ").and(Value::size(oom.reserved)),
    ];
    match oom.max_error {
        Some(0) => {}
        Some(error) => held.push(Phrase::from(Value::Error(Exactness::Within(error)))),
        None if oom.active.is_some() => held.push(Phrase::from(Value::Error(Exactness::Unreliable))),
        None => {}
    }
    let demand = Phrase::from("with the request ").and(Value::size(oom.demand())).and(" would have been allocated");
    let mut unused = vec![match oom.fragmentation().zip(oom.reserved) {
        Some((part, whole)) => {
            let mut phrase = Phrase::from("fragmentation ");
            phrase.0.extend(with_share(Some(part), Some(whole)).0);
            phrase
        }
        None => Phrase::from("fragmentation ").and(Value::Unknown),
    }];
    unused.extend(oom.unusable().map(|bytes| Phrase::from(Value::Size(bytes)).and(" of it unusable for this request")));
    let pool = match oom.pool_free.zip(oom.largest_free) {
        None => vec![Phrase::from("the free memory of its pool is unknown")],
        Some((all, largest)) => vec![
            Phrase::from("its pool had ").and(Value::Size(all)).and(" free"),
            Phrase::from("at most ").and(Value::Size(largest)).and(" at once"),
        ],
    };
    let lines = vec![vec![asked, free], held, vec![demand], unused, pool];
    Fact { tone: Tone::Worse, ..Fact::of_lines("out of memory", lines) }
}

/// The four counters.
pub(super) fn counters(device: &DeviceProfile) -> Table {
    let figures = &device.figures;
    let rows = vec![
        counter_row(Tone::Main, "allocated", &figures.allocated, figures.history),
        counter_row(Tone::Plain, "active", &figures.active, figures.history),
        counter_row(Tone::Plain, "requested", &figures.requested, figures.history),
        counter_row(Tone::Plain, "reserved", &figures.reserved, figures.history),
    ];
    let columns = vec![
        Column::words(""),
        Column::figure("baseline"),
        Column::figure("peak").main(),
        Column::figure("at event"),
        Column::figure("end"),
        Column::words(""),
    ];
    Table { columns, rows, ..Table::default() }
}

fn counter_row(tone: Tone, name: &str, counter: &Counter, history: History) -> Row {
    let known = KnownCounter::new(counter, history);
    let peak_at = counter.peak_at.filter(|_| known.peak.is_some());
    let cells = [
        name.into(),
        Value::size(known.baseline),
        Value::size(known.peak),
        peak_at.map_or(Value::Unknown, |position| Value::Event(position.event())),
        Value::Size(counter.end),
        if counter.is_least { Value::words("or more") } else { Value::Error(exactness(known, counter)) },
    ];
    Row::new(tone, cells)
}

/// The bound of the figures that are known.
fn exactness(known: KnownCounter, counter: &Counter) -> Exactness {
    let baseline = counter.baseline_error.filter(|_| known.baseline.is_some()).unwrap_or(0);
    let peak = counter.peak_error.filter(|_| known.peak.is_some()).unwrap_or(0);
    match (baseline, peak) {
        (0, 0) => Exactness::Exact,
        (error, 0) => Exactness::Baseline(error),
        (baseline, peak) => Exactness::Within(baseline.max(peak)),
    }
}

/// Allocated bytes over the recording.
pub(super) fn timeline(device: &DeviceProfile) -> Option<Content> {
    let curve = curve(device, None)?;
    let marks = Marks {
        baseline: KnownCounter::new(&device.figures.allocated, device.figures.history).baseline?,
        peak_event: device.figures.allocated.peak_at.and_then(Position::event).unwrap_or(0) as usize,
        events: usize::try_from(device.events).unwrap_or(usize::MAX),
    };
    let top = curve.peak;
    Some(Content::Timeline(Timeline { curves: vec![Curve { marks: Some(marks), ..curve }], top, caption: None }))
}

/// The curve of a device, where it is more than a point.
pub(super) fn curve(device: &DeviceProfile, side: Option<Side>) -> Option<Curve> {
    let points = &device.figures.timeline.allocated;
    let peak = KnownCounter::new(&device.figures.allocated, device.figures.history).peak?;
    (points.len() > 1).then(|| Curve { side, points: points.clone(), peak, marks: None })
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
        Moment::Aligned(_) => "at the peak of the after".to_owned(),
    }
}

/// The moment that the stacks of a device are listed for, in words.
pub(super) fn moment_of(profile: &Profile, device: &DeviceProfile) -> String {
    let moment = moment_name(&profile.options.at);
    let stands_in = matches!(profile.options.at, Moment::Peak | Moment::Baseline);
    if stands_in && device.figures.history == History::StateOnly {
        return IN_STATE.to_owned();
    }
    let is_oom = profile.options.at == Moment::Peak && device.at_is_oom();
    if is_oom { format!("{moment}, when memory ran out") } else { moment }
}

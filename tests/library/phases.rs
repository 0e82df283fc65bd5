//! The named parts of a history: how they are found, what is held in them, and limits on that.

use std::fs::File;
use std::path::{Path, PathBuf};

use crate::support::pickle::{self, Value, write};
use proptest::prelude::*;
use ptmem::config::Config;
use ptmem::diff::{self, Occurrences, PhaseOptions};
use ptmem::phase::{self, Source};
use ptmem::profile::saved::{Bound, text_of};
use ptmem::profile::{self, Every, Kind, MOST_PHASES, Occurrence, Options, Profile};
use ptmem::replay::{self, Position};
use ptmem::snapshot::{self, Snapshot};
use ptmem::verdict::{Day, Growth, Judgement, Level, Outcome, Thresholds, Verdict, judge_diff};
use serde_json::Value as Json;

const MIB: u64 = 1 << 20;

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(name)
}

fn load(name: &str) -> Profile {
    profile::read(File::open(fixture(name)).unwrap(), name, Options::default()).unwrap()
}

// Hand-made histories.

/// An event of a hand-made history.
#[derive(Debug, Clone, Default)]
struct Event {
    /// Bytes allocated in a segment of their own, or if negative the number of the allocation that is freed, from -1.
    bytes: i64,
    time: Option<i64>,
    metadata: &'static str,
    context: &'static str,
    /// Of a thread that runs no Python.
    autograd: bool,
}

fn alloc(time: i64, mib: i64) -> Event {
    Event { bytes: mib * MIB as i64, time: Some(time), ..Event::default() }
}

fn free(time: i64, number: i64) -> Event {
    Event { bytes: -number, time: Some(time), ..Event::default() }
}

fn said(metadata: &'static str) -> Event {
    Event { metadata, ..alloc(0, 1) }
}

const SILENT: Event = Event { bytes: MIB as i64, time: Some(0), metadata: "", context: "N/A", autograd: true };

fn list(items: impl IntoIterator<Item = Value>) -> Value {
    Value::List(items.into_iter().collect())
}

/// The pickle of a history. What is allocated and not freed is not in the final state, as in a damaged file, unless
/// it is whole.
fn pickle_of(events: &[Event], marks: &[(&str, &str, i64)]) -> Vec<u8> {
    let frame = |name: &str, file: &str| {
        list([Value::dict([("name", name.into()), ("filename", file.into()), ("line", 7.into())])])
    };
    let mut alive: Vec<(u64, i64, bool)> = Vec::new();
    let mut trace = Vec::new();
    for event in events {
        let mut add = |action: &str, addr: u64, size: i64| {
            let stack = if event.autograd { frame("torch::autograd::Engine", "??") } else { frame("f", "/repo/a.py") };
            let value = Value::dict([
                ("action", action.into()),
                ("addr", addr.into()),
                ("size", size.into()),
                ("stream", 0.into()),
                ("frames", stack),
                ("user_metadata", event.metadata.into()),
                ("compile_context", event.context.into()),
            ]);
            trace.push(match event.time {
                Some(time) => value.with("time_us", time),
                None => value,
            });
        };
        if event.bytes >= 0 {
            let address = (alive.len() as u64 + 1) << 32;
            add("alloc", address, event.bytes);
            alive.push((address, event.bytes, true));
        } else if let Some(block) = alive.get_mut(usize::try_from(-event.bytes - 1).unwrap()).filter(|block| block.2) {
            block.2 = false;
            add("free_completed", block.0, block.1);
        }
    }
    let segment = |&(address, bytes, is_alive): &(u64, i64, bool)| {
        let state = if is_alive { "active_allocated" } else { "inactive" };
        let block = Value::dict([
            ("address", address.into()),
            ("size", bytes.into()),
            ("requested_size", bytes.into()),
            ("state", state.into()),
            ("frames", list([])),
        ]);
        Value::dict([
            ("device", 0.into()),
            ("address", address.into()),
            ("total_size", bytes.into()),
            ("stream", 0.into()),
            ("segment_type", "large".into()),
            ("blocks", list([block])),
        ])
    };
    let mark = |(stage, name, time): &(&str, &str, i64)| {
        Value::dict([
            ("stage", (*stage).into()),
            ("name", (*name).into()),
            ("device", 3.into()),
            ("time_us", (*time).into()),
        ])
    };
    let value = Value::dict([
        ("segments", list(alive.iter().filter(|block| block.1 > 0).map(segment))),
        ("device_traces", list([list(trace)])),
        ("external_annotations", list(marks.iter().map(mark))),
    ]);
    write(&value, pickle::Options::default())
}

fn snapshot_of(events: &[Event], marks: &[(&str, &str, i64)]) -> Snapshot {
    snapshot::read(&*pickle_of(events, marks)).unwrap()
}

fn profile_of(events: &[Event], marks: &[(&str, &str, i64)]) -> Profile {
    let source = profile::Source { path: "made.pkl".to_owned(), bytes: 0, kind: Kind::Snapshot };
    profile::measure(snapshot_of(events, marks), source, Options::default()).unwrap()
}

/// Name and occurrence, first event and end, and `<` or `>` where beginning or end were not recorded.
fn found(events: &[Event], marks: &[(&str, &str, i64)]) -> Vec<String> {
    let snapshot = snapshot_of(events, marks);
    let describe = |phase: &phase::Phase| {
        let marks = [if phase.begins { "" } else { "<" }, if phase.ends { "" } else { ">" }];
        format!(
            "{}{} {}..{}{}",
            snapshot.tables.string(phase.name),
            phase.occurrence,
            phase.from.count(),
            phase.to.count(),
            marks.concat()
        )
    };
    phase::phases(&snapshot, &snapshot.events).iter().map(describe).collect()
}

/// Events at the times 10, 20, ….
fn clock(count: i64) -> Vec<Event> {
    (1..=count).map(|i| alloc(i * 10, 1)).collect()
}

#[test]
fn phases_nest() {
    let marks = [
        ("START", "step", 5),
        ("START", "forward", 15),
        ("END", "forward", 25),
        ("START", "backward", 35),
        ("END", "backward", 45),
        ("END", "step", 55),
    ];
    assert_eq!(found(&clock(6), &marks), ["step0 0..5", "forward0 1..2", "backward0 3..4"]);
    // The order in the file is not that of time.
    let mut mixed = marks;
    mixed.reverse();
    assert_eq!(found(&clock(6), &mixed), found(&clock(6), &marks));
}

#[test]
fn phases_overlap() {
    let marks = [("START", "a", 5), ("START", "b", 15), ("END", "a", 25), ("END", "b", 35)];
    assert_eq!(found(&clock(4), &marks), ["a0 0..2", "b0 1..3"]);
    let profile = profile_of(&clock(4), &marks);
    let message = profile.diagnostics.iter().find(|d| d.code.name() == "phases-irregular").unwrap().message.clone();
    assert_eq!(message, "of 2 annotated phases 1 begins in another and ends after it");
    // One that ends before the other begins does not overlap it, although they share the events of a microsecond.
    let marks = [("START", "a", 5), ("END", "a", 20), ("START", "b", 20), ("END", "b", 45)];
    assert_eq!(found(&clock(4), &marks), ["a0 0..2", "b0 1..4"]);
    assert!(profile_of(&clock(4), &marks).diagnostics.iter().all(|d| d.code.name() != "phases-irregular"));
}

#[test]
fn a_name_may_be_within_itself() {
    let marks = [
        ("START", "f", 5),
        ("START", "f", 15),
        ("END", "f", 25),
        ("START", "f", 35),
        ("END", "f", 45),
        ("END", "f", 55),
    ];
    assert_eq!(found(&clock(6), &marks), ["f0 0..5", "f1 1..2", "f2 3..4"]);
    let depths: Vec<_> = profile_of(&clock(6), &marks).devices[0].phases.all.iter().map(|phase| phase.depth).collect();
    assert_eq!(depths, [0, 1, 1]);
}

#[test]
fn what_was_not_recorded_is_taken_to_reach_the_border() {
    let marks = [("END", "a", 25), ("START", "b", 35), ("START", "c", 45), ("END", "c", 45)];
    assert_eq!(found(&clock(5), &marks), ["a0 0..2<", "b0 3..5>", "c0 4..4"]);
    let profile = profile_of(&clock(5), &marks);
    let message = profile.diagnostics.iter().find(|d| d.code.name() == "phases-irregular").unwrap().message.clone();
    assert_eq!(
        message,
        "of 3 annotated phases 1 has no recorded beginning and is taken to begin with the recording, 1 has no recorded \
         end and is taken to last until the dump"
    );
    // Of two starts and one end, the end belongs to the later start.
    let marks = [("START", "a", 5), ("START", "a", 25), ("END", "a", 35)];
    assert_eq!(found(&clock(5), &marks), ["a0 0..5>", "a1 2..3"]);
}

#[test]
fn events_of_the_same_microsecond_are_inside() {
    let events: Vec<Event> = [10, 20, 20, 20, 30].map(|time| alloc(time, 1)).to_vec();
    assert_eq!(found(&events, &[("START", "a", 20), ("END", "a", 20)]), ["a0 1..4"]);
    assert_eq!(found(&events, &[("START", "a", 11), ("END", "a", 12)]), ["a0 1..1"]);
    // What was over before the first event is no part of the history.
    assert_eq!(
        found(&events, &[("START", "a", 0), ("END", "a", 5), ("START", "a", 10), ("END", "a", 11)]),
        ["a0 0..1"]
    );
    assert_eq!(found(&events, &[("START", "a", 99), ("END", "a", 100)]), ["a0 5..5"]);
}

#[test]
fn a_clock_that_goes_back_brings_no_event_back() {
    let events: Vec<Event> = [10, 40, 20, 30, 50].map(|time| alloc(time, 1)).to_vec();
    assert_eq!(found(&events, &[("START", "a", 15), ("END", "a", 35)]), ["a0 1..1"]);
    assert_eq!(found(&events, &[("START", "a", 15), ("END", "a", 45)]), ["a0 1..4"]);
}

#[test]
fn without_times_there_are_no_annotated_phases() {
    let events = vec![Event { time: None, ..said("x") }; 3];
    assert_eq!(found(&events, &[("START", "a", 0), ("END", "a", 9)]), ["x0 0..3<>"]);
}

#[test]
fn runs_of_metadata_are_phases() {
    // What autograd's threads do belongs to what goes on around them.
    let events = [said("a"), SILENT, SILENT, said("a"), SILENT, said("b"), SILENT];
    assert_eq!(found(&events, &[]), ["a0 0..4<", "b0 5..6"]);
    // A thread that runs Python and says nothing ends a run.
    let nothing = Event { autograd: false, ..SILENT };
    let events = [nothing.clone(), said("a"), nothing.clone(), said("a"), SILENT, nothing];
    assert_eq!(found(&events, &[]), ["a0 1..2", "a1 3..4"]);
}

#[test]
fn compiled_regions_are_phases() {
    let within = |context: &'static str| Event { context, ..alloc(0, 1) };
    let events =
        [within("N/A"), within("Region 0"), within("Region 0"), within(""), within("Region 1"), within("Region 0")];
    assert_eq!(found(&events, &[]), ["Region 00 1..3", "Region 10 4..5", "Region 01 5..6>"]);
    let source = |phase: &Occurrence| phase.source;
    let profile = profile_of(&events, &[]);
    assert!(profile.devices[0].phases.all.iter().map(source).all(|source| source == Source::CompileContext));
}

// What is held.

#[test]
fn phases_hold_what_the_simulated_allocator_says() {
    for name in ["phases-before", "phases-after", "metadata-phases"] {
        let profile = load(&format!("{name}.pkl"));
        let truth: Json =
            serde_json::from_str(&std::fs::read_to_string(fixture(&format!("{name}.json"))).unwrap()).unwrap();
        let truth = truth["phases"].as_array().unwrap();
        let phases = &profile.devices[0].phases;
        assert_eq!((phases.all.len(), phases.cut), (truth.len(), 0), "{name}");
        for truth in truth {
            let figure = |key: &str| truth[key].as_u64().unwrap();
            let (name_of, number) = (truth["name"].as_str().unwrap(), figure("occurrence"));
            let place = format!("{name}: {name_of} {number}");
            let is_it = |phase: &&Occurrence| (&*phase.name, u64::from(phase.number)) == (name_of, number);
            let phase = phases.all.iter().find(is_it).unwrap_or_else(|| panic!("{place}"));
            assert_eq!((phase.from, phase.to), (figure("first_event"), figure("last_event") + 1), "{place}");
            assert_eq!((phase.start, phase.end), (figure("before"), figure("after")), "{place}");
            assert_eq!(phase.peak, figure("peak"), "{place}");
            assert_eq!(phase.ends, truth["ended"].as_bool().unwrap(), "{place}");
        }
    }
}

#[test]
fn a_history_without_allocations_has_no_phases() {
    for name in ["state-only.pkl", "empty.pkl", "torch-1.13.pkl"] {
        assert!(load(name).devices.iter().all(|device| device.phases.all.is_empty()), "{name}");
    }
}

#[test]
fn no_more_phases_are_looked_at_than_anybody_reads() {
    let most = i64::try_from(MOST_PHASES).unwrap();
    let marks: Vec<_> = (20..most + 25).flat_map(|i| [("START", "a", i), ("END", "a", i)]).collect();
    let events = clock(3);
    let before = profile_of(&events, &marks);
    let phases = &before.devices[0].phases;
    assert_eq!((phases.all.len(), phases.cut), (MOST_PHASES, 5));
    let cut = before.diagnostics.iter().find(|d| d.code.name() == "phases-cut").unwrap();
    assert_eq!(cut.severity(), ptmem::diagnostic::Severity::Warning);
    // What is not looked at could have grown, also where profiles are saved.
    let saved = profile::read(text_of(&before, Bound::default(), &[]).as_bytes(), "x", Options::default()).unwrap();
    assert_eq!(saved.devices[0].phases, before.devices[0].phases);
    let judgement = judge(saved, profile_of(&events, &marks), PhaseOptions::default(), &["phase:a=5%"]);
    assert_eq!(judgement.verdict, Verdict::Inconclusive);
    assert!(
        judgement.headline().sentence.contains("only the first 65,536 phases of the before"),
        "{}",
        judgement.headline()
    );
}

#[test]
fn long_names_are_cut_and_keep_their_order() {
    let long = |end: &str| -> &'static str { Box::leak(format!("{}{end}", "é".repeat(400)).into_boxed_str()) };
    let profile = profile_of(&[said(long("a")), said(long("b")), said(long("a"))], &[]);
    let phases = &profile.devices[0].phases.all;
    assert!(phases.iter().all(|phase| *phase.name == *"é".repeat(256)));
    assert_eq!(phases.iter().map(|phase| phase.number).collect::<Vec<_>>(), [0, 1, 2]);
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let metadata = prop_oneof![Just(""), Just("a"), Just("b")];
    let context = prop_oneof![Just("N/A"), Just("r")];
    let bytes = prop_oneof![(1..64_i64).prop_map(|n| n << 19), (1..20_i64).prop_map(|n| -n)];
    let event = (bytes, proptest::option::weighted(0.9, -5..40_i64), metadata, context, any::<bool>());
    let event =
        event.prop_map(|(bytes, time, metadata, context, autograd)| Event { bytes, time, metadata, context, autograd });
    proptest::collection::vec(event, 0..40)
}

fn marks() -> impl Strategy<Value = Vec<(&'static str, &'static str, i64)>> {
    let stage = prop_oneof![Just("START"), Just("END")];
    let name = prop_oneof![Just("x"), Just("y"), Just("z")];
    let time = prop_oneof![-10..50_i64, Just(i64::MAX), Just(i64::MIN + 1)];
    proptest::collection::vec((stage, name, time), 0..30)
}

proptest! {
    #[test]
    fn phases_of_any_history_are_what_the_counters_say(events in events(), marks in marks()) {
        let snapshot = snapshot_of(&events, &marks);
        let count = snapshot.events.len();
        let found = phase::phases(&snapshot, &snapshot.events);
        for phase in &found {
            prop_assert!(phase.from <= phase.to && phase.to.count() <= count, "{phase:?}");
        }
        prop_assert!(found.windows(2).all(|pair| pair[0].from <= pair[1].from));
        let borders: Vec<_> = (0..=count).map(Position::of_count).collect();
        let levels: Vec<Vec<u64>> = snapshot
            .devices
            .iter()
            .map(|(&id, device)| replay::run(&snapshot, id, device, &borders).unwrap())
            .map(|replay| replay.parts.iter().map(|part| part.start.allocated).collect())
            .collect();
        let profile = profile_of(&events, &marks);
        for (device, levels) in profile.devices.iter().zip(&levels) {
            let phases = &device.phases.all;
            prop_assert!(phases.is_empty() || phases.len() == found.len());
            for phase in phases {
                let inside = &levels[usize::try_from(phase.from).unwrap()..=usize::try_from(phase.to).unwrap()];
                prop_assert_eq!(phase.start, inside[0]);
                prop_assert_eq!(phase.end, inside[inside.len() - 1]);
                prop_assert_eq!(phase.peak, *inside.iter().max().unwrap());
            }
        }
        // What is saved and read is the same, and nothing has changed against it.
        let text = text_of(&profile, Bound::default(), &[]);
        let saved = profile::read(text.as_bytes(), "x", Options::default()).unwrap();
        for (saved, live) in saved.devices.iter().zip(&profile.devices) {
            prop_assert_eq!(&saved.phases, &live.phases);
        }
        prop_assert_eq!(text_of(&saved, Bound::default(), &[]), text);
        let diff = diff::compare(saved, profile, diff::Options::default());
        for row in diff.devices.iter().flat_map(|device| &device.phases) {
            prop_assert_eq!(row.delta(), Some(0));
        }
    }
}

// Limits.

fn thresholds(growth: &[&str]) -> Thresholds {
    let growth = growth.iter().map(|limit| Growth::parse(limit, Level::Fail).unwrap()).collect();
    Thresholds { growth, ..Thresholds::default() }
}

fn judge(before: Profile, after: Profile, phases: PhaseOptions, growth: &[&str]) -> Judgement {
    let diff = diff::compare(before, after, diff::Options { phases, ..diff::Options::default() });
    judge_diff(&diff, &thresholds(growth))
}

/// `name` with a peak of so many MiB in each occurrence.
fn peaks(occurrences: &[(&'static str, i64)]) -> Profile {
    let (mut events, mut marks) = (Vec::new(), Vec::new());
    for (i, &(name, mib)) in (0_i64..).zip(occurrences) {
        marks.extend([("START", name, i * 100), ("END", name, i * 100 + 50)]);
        events.extend([alloc(i * 100 + 10, mib), free(i * 100 + 20, i + 1)]);
    }
    profile_of(&events, &marks)
}

#[test]
fn a_peak_may_hide_the_growth_of_a_phase() {
    let judge =
        |growth: &[&str]| judge(load("phases-before.pkl"), load("phases-after.pkl"), PhaseOptions::default(), growth);
    assert_eq!(judge(&["0", "stack=0"]).verdict, Verdict::Pass);
    let failed = judge(&["0", "phase:*=0"]);
    assert_eq!(failed.verdict, Verdict::Regression);
    let check = &failed.checks[0];
    let growth = check.delta.unwrap();
    assert_eq!((check.scope.as_deref(), &*check.metric), (Some("forward #0"), "phase:*"));
    assert_eq!(growth, 4 << 20);
    assert_eq!(check.reason.as_deref(), Some("4 of 4 occurrences exceed it"));
    // One check for the phase, not one per occurrence.
    assert_eq!(failed.checks.len(), 2);
    assert_eq!(judge(&["phase:forward=4MiB"]).verdict, Verdict::Pass);
    assert_eq!(judge(&["phase:backward=0"]).headline().to_string(), "PASS no phase:backward grew by more than 0 B");
}

#[test]
fn saved_profiles_gate_phases() {
    let saved = |name: &str| {
        profile::read(text_of(&load(name), Bound::default(), &[]).as_bytes(), "x", Options::default()).unwrap()
    };
    for after in [load("phases-after.pkl"), saved("phases-after.pkl")] {
        let judgement = judge(saved("phases-before.pkl"), after, PhaseOptions::default(), &["phase:forward=5%"]);
        assert_eq!(judgement.verdict, Verdict::Regression);
    }
}

#[test]
fn what_cannot_be_compared_is_inconclusive() {
    let each = PhaseOptions { wanted: true, ..PhaseOptions::default() };
    for (before, after, limit, expected) in [
        (
            peaks(&[("a", 5)]),
            peaks(&[("a", 5)]),
            "phase:b=0",
            "the pattern matches no phase on either side; the nearest phase is 'a'",
        ),
        (peaks(&[]), peaks(&[]), "phase:b=0", "neither side"),
        (peaks(&[("a", 5)]), peaks(&[("b", 5)]), "phase:b=0", "phase b: the phase is missing in the before"),
        (peaks(&[("a", 5), ("b", 5)]), peaks(&[("b", 5)]), "phase:*=0", "phase a: the phase is missing in the after"),
        (load("phases-before.pkl"), load("state-only.pkl"), "phase:forward=0", "the after records no allocations"),
        (load("torch-1.13.pkl"), load("phases-after.pkl"), "phase:forward=0", "the before records no allocations"),
        (load("empty.pkl"), load("phases-after.pkl"), "phase:forward=0", "the device is missing in the before"),
    ] {
        let judgement = judge(before, after, each, &[limit]);
        assert_eq!(judgement.verdict, Verdict::Inconclusive, "{limit}: {}", judgement.headline());
        assert!(judgement.headline().sentence.contains(expected), "{expected}: {}", judgement.headline());
    }
    // What failed, failed, whatever else is missing.
    let judgement = judge(peaks(&[("a", 5), ("b", 5)]), peaks(&[("b", 6)]), each, &["phase:*=0"]);
    assert_eq!(judgement.verdict, Verdict::Regression);
}

#[test]
fn names_may_hold_what_limits_are_written_with() {
    let judgement = judge(
        peaks(&[("step=1:forward", 5)]),
        peaks(&[("step=1:forward", 6)]),
        PhaseOptions::default(),
        &["phase:step=?:forward=10%", "phase:{step=1:*,x}=1GiB"],
    );
    assert_eq!(judgement.headline().to_string(), "FAIL phase step=1:forward grew 1.00 MiB (+20.0 %), allowed 10 %");
    assert_eq!(judgement.checks.len(), 2);
}

#[test]
fn occurrences_are_compared_by_number_or_by_their_highest() {
    let before = || peaks(&[("a", 9), ("a", 4), ("a", 5)]);
    let after = || peaks(&[("a", 9), ("a", 5), ("a", 5), ("a", 20)]);
    let compare =
        |phases: PhaseOptions| diff::compare(before(), after(), diff::Options { phases, ..diff::Options::default() });
    let wanted = PhaseOptions { wanted: true, ..PhaseOptions::default() };
    let each = compare(wanted);
    let deltas: Vec<_> = each.devices[0].phases.iter().map(|row| (row.title(), row.delta().unwrap() >> 20)).collect();
    assert_eq!(deltas, [("a #0".to_owned(), 0), ("a #1".to_owned(), 1), ("a #2".to_owned(), 0)]);
    let note = each.diagnostics.iter().find(|d| d.code.name() == "phase-occurrences-differ").unwrap();
    assert!(note.message.contains("(a 3 before, 4 after)"), "{}", note.message);
    assert!(judge_diff(&each, &thresholds(&["phase:a=0"])).headline().sentence.contains("phase a #1 grew 1.00 MiB"));
    // Nobody is told who does not ask for phases.
    assert!(compare(PhaseOptions::default()).diagnostics.iter().all(|d| d.code.name() != "phase-occurrences-differ"));
    let worst = compare(PhaseOptions { occurrences: Occurrences::Worst, ..wanted });
    let rows = &worst.devices[0].phases;
    assert_eq!((rows.len(), rows[0].title(), rows[0].delta()), (1, "a #0 -> #3".to_owned(), Some(11 << 20)));
    assert!(worst.diagnostics.iter().all(|d| d.code.name() != "phase-occurrences-differ"));
    // Without those that warm up.
    let later = compare(PhaseOptions { skip_first: 2, ..wanted });
    let rows: Vec<_> = later.devices[0].phases.iter().map(|row| (row.title(), row.delta())).collect();
    assert_eq!(rows, [("a #2".to_owned(), Some(0))]);
    assert_eq!(judge_diff(&later, &thresholds(&["phase:a=0"])).verdict, Verdict::Pass);
    let none = compare(PhaseOptions { skip_first: 3, ..wanted });
    assert_eq!(judge_diff(&none, &thresholds(&["phase:a=0"])).verdict, Verdict::Inconclusive);
}

#[test]
fn growth_of_a_phase_can_be_accepted() {
    let config = |bytes: &str| {
        let text = format!(
            "max-growth = \"phase:forward=5%\"\nphase-occurrence = \"max\"\n[[accept]]\nmetric = \"phase:forw*\"\nbytes = \
             \"{bytes}\"\nreason = \"a wider layer\"\nexpires = 2026-12-31"
        );
        Config::parse(&text).unwrap()
    };
    assert_eq!(config("1MiB").phase_occurrence, Some(Occurrences::Worst));
    for (bytes, today, verdict) in [
        ("4MiB", (2026, 12, 31), Verdict::Pass),
        ("1MiB", (2026, 12, 31), Verdict::Regression),
        ("4MiB", (2027, 1, 1), Verdict::Regression),
    ] {
        let config = config(bytes);
        let today = Day::from_date(today.0, today.1, today.2).unwrap();
        let thresholds =
            Thresholds { growth: config.limits.growth, accepted: config.accepted, today, ..Thresholds::default() };
        let diff = diff::compare(load("phases-before.pkl"), load("phases-after.pkl"), diff::Options::default());
        let judgement = judge_diff(&diff, &thresholds);
        assert_eq!(judgement.verdict, verdict, "{bytes} {}", judgement.headline());
        let check = &judgement.checks[0];
        assert_eq!(check.accepted, verdict == Verdict::Pass);
        assert!(check.reason.as_deref().unwrap().contains("a wider layer"), "{check:?}");
        let told = judgement.diagnostics.iter().filter(|d| d.message.contains("phase forward #0 exceeds its limit"));
        assert_eq!(told.count(), usize::from(check.accepted));
    }
    for text in ["max = \"phase:a=1MiB\"", "phase-occurrence = \"all\"", "max-growth = \"phase=5%\""] {
        assert!(Config::parse(text).is_err(), "{text}");
    }
}

#[test]
fn phases_that_are_not_recorded_in_full_say_so() {
    let events = |mib| [alloc(10, mib), free(20, 1), alloc(30, 1)];
    let marks = [("END", "a", 25)];
    let judgement =
        judge(profile_of(&events(5), &marks), profile_of(&events(6), &marks), PhaseOptions::default(), &["phase:a=0"]);
    assert_eq!(judgement.checks[0].outcome, Outcome::Exceeded);
    assert_eq!(judgement.checks[0].reason.as_deref(), Some("not recorded from its beginning to its end"));
}

// Saved profiles that were changed.

#[test]
fn figures_of_phases_that_cannot_be_are_refused() {
    let good = text_of(&peaks(&[("a", 5), ("a", 6), ("b", 7)]), Bound::default(), &[]);
    let line = good.lines().find(|line| line.contains("\"name\":\"a\"")).unwrap().trim().to_owned();
    let refusal = |from: &str, to: &str| {
        assert!(line.contains(from), "{line}");
        let text = good.replacen(&line, &line.replacen(from, to, 1), 1);
        profile::read(crate::support::signed(&text).as_bytes(), "x.json", Options::default()).unwrap_err().to_string()
    };
    for (from, to, expected) in [
        ("annotation", "dream", "has an unknown source"),
        ("\"name\":\"a\"", "\"name\":\"b\"", "is there twice"),
        ("\"events\":[2,2]", "\"events\":[2]", "different lengths"),
        ("\"events\":[2,2]", "\"events\":[2,400]", "is beyond the events"),
        ("\"events\":[2,2]", "\"events\":[2,18446744073709551615]", "figures that cannot be"),
        ("\"from\":[0,2]", "\"from\":[3,2]", "is beyond the events"),
        ("\"start\":[0,0]", "\"start\":[0,18446744073709551615]", "figures that cannot be"),
        ("\"below\":[", "\"below\":[9999", "figures that cannot be"),
        ("\"above\":[", "\"above\":[-", "invalid value"),
    ] {
        let message = refusal(from, to);
        assert!(message.contains(expected), "{from}: {message}");
    }
}

// Equal parts.

fn every(bytes: &[u8], every: &str) -> Result<Profile, profile::Error> {
    let options = Options { every: Some(every.parse::<Every>().unwrap()), ..Options::default() };
    profile::read(bytes, "made.pkl", options)
}

#[test]
fn equal_parts_have_their_peaks() {
    let events = [alloc(100, 5), free(150, 1), alloc(250, 3), alloc(900, 2), free(905, 2)];
    let pickle = pickle_of(&events, &[]);
    let parts = |length: &str| -> Vec<(String, u64, u64, u64, u64)> {
        let profile = every(&pickle, length).unwrap();
        let part = |part: &profile::Interval| {
            (part.name.clone(), part.to - part.from, part.start >> 20, part.peak >> 20, part.end >> 20)
        };
        profile.devices[0].intervals.iter().map(part).collect()
    };
    let part = |name: &str, events, start, peak, end| (name.to_owned(), events, start, peak, end);
    assert_eq!(
        parts("2events"),
        [part("events 0 to 1", 2, 0, 5, 0), part("events 2 to 3", 2, 0, 5, 5), part("event 4", 1, 5, 5, 2)]
    );
    let by_time = parts("400us");
    assert_eq!(
        by_time,
        [
            part("0 s to 0.0004 s", 3, 0, 5, 3),
            part("0.0004 s to 0.0008 s", 0, 3, 3, 3),
            part("0.0008 s to 0.0012 s", 2, 3, 5, 2)
        ]
    );
    assert_eq!(parts("1min").len(), 1);
    assert_eq!(parts("99999events").len(), 1);
}

#[test]
fn steps_are_parts() {
    let leak = std::fs::read(fixture("leak.pkl")).unwrap();
    let names = |profile: &Profile| -> Vec<String> {
        profile.devices[0].intervals.iter().map(|part| part.name.clone()).collect()
    };
    let profile = every(&leak, "5steps").unwrap();
    assert_eq!(
        names(&profile),
        ["ProfilerStep#0 to ProfilerStep#4", "ProfilerStep#5 to ProfilerStep#9", "ProfilerStep#10 to ProfilerStep#11"]
    );
    let (device, phases) = (&profile.devices[0], &profile.devices[0].phases.all);
    // A step lasts until the next; the last one until the dump.
    let from = |index: usize| {
        phases.iter().find(|phase| &*phase.name == "ProfilerStep" && phase.number as usize == index).unwrap().from
    };
    assert_eq!(device.intervals.iter().map(|part| part.from).collect::<Vec<_>>(), [0, from(5), from(10)]);
    assert_eq!(device.intervals[2].to, device.events);
    // By name, and with what lies before the first one.
    let named = |pattern: &str| {
        let pattern = ptmem::pattern::Pattern::search(pattern).unwrap();
        let options = Options { every: Some(Every::Steps(1, Some(pattern))), ..Options::default() };
        profile::read(&*std::fs::read(fixture("phases-after.pkl")).unwrap(), "x", options)
    };
    assert_eq!(
        names(&named("backward").unwrap()),
        ["before the first step", "backward", "backward", "backward", "backward"]
    );
    let message = named("sideways").unwrap_err().to_string();
    assert!(message.contains("no step is named 'sideways'"), "{message}");
    let message = every(&pickle_of(&clock(3), &[]), "1step").unwrap_err().to_string();
    assert!(message.contains("no steps are found, which parts of 1step need"), "{message}");
}

#[test]
fn parts_that_nobody_could_read_are_refused() {
    let pickle = pickle_of(&[alloc(0, 1), alloc(1_000_000_000, 1)], &[]);
    let error = every(&pickle, "1ms").unwrap_err();
    assert_eq!(error.to_string(), "device 0: the history has 1000001 parts of 1ms, and at most 10000 are shown");
    let profile::Error::TooManyIntervals { better, .. } = error else { panic!("{error}") };
    assert_eq!(better.to_string(), "200ms");
    assert_eq!(every(&pickle, "200ms").unwrap().devices[0].intervals.len(), 5001);
    let far = pickle_of(&[alloc(i64::MIN + 1, 1), alloc(i64::MAX, 1)], &[]);
    assert!(matches!(every(&far, "1us"), Err(profile::Error::TooManyIntervals { .. })));
    let timeless = pickle_of(&[Event { time: None, ..alloc(0, 1) }, Event { time: None, ..alloc(0, 1) }], &[]);
    assert!(every(&timeless, "1s").unwrap_err().to_string().contains("no times (PyTorch before 2.2)"));
    let saved = text_of(&peaks(&[("a", 1)]), Bound::default(), &[]);
    let message = every(saved.as_bytes(), "1s").unwrap_err().to_string();
    assert!(message.contains("a saved profile has no history"), "{message}");
}

proptest! {
    #[test]
    fn parts_of_any_history_cover_it(events in events(), length in 1..50_u64, by_time in any::<bool>()) {
        let pickle = pickle_of(&events, &[]);
        let text = if by_time { format!("{length}us") } else { format!("{length}events") };
        let Ok(profile) = every(&pickle, &text) else {
            return Ok(());
        };
        for device in profile.devices.iter().filter(|device| !device.intervals.is_empty()) {
            let parts = &device.intervals;
            prop_assert_eq!((parts[0].from, parts[parts.len() - 1].to), (0, device.events));
            prop_assert!(parts.windows(2).all(|pair| pair[0].to == pair[1].from && pair[0].end == pair[1].start));
            prop_assert_eq!(parts.iter().map(|part| part.peak).max(), device.figures.allocated.peak);
        }
    }
}

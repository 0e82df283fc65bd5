//! The named parts of a history: how they are found, what is held in them, and limits on that.

mod every;
mod held;
mod limits;

use std::collections::HashMap;
use std::fs::File;
use std::path::{Path, PathBuf};

use self::limits::judge;
use crate::support::pickle::{self, Value, write};
use crate::support::program::Program;
use crate::support::signed;
use proptest::prelude::*;
use ptmem::diff::{self, PhaseOptions};
use ptmem::phase::{self, Phase, PhaseSource};
use ptmem::profile::saved::text_of;
use ptmem::profile::{self, InputKind, MOST_PHASES, Occurrence, Profile, ReadOptions};
use ptmem::replay;
use ptmem::snapshot::{self, Snapshot};
use ptmem::trace::{Measure, Window, WindowCounters};
use ptmem::verdict::Verdict;
use serde_json::Value as Json;

const MIB: u64 = 1 << 20;

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(name)
}

fn load(name: &str) -> Profile {
    profile::read(File::open(fixture(name)).unwrap(), name, ReadOptions::default()).unwrap()
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
    /// True for an event of a thread that runs no Python.
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
            add("free_requested", block.0, block.1);
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
    let source = profile::Source { path: "made.pkl".to_owned(), bytes: 0, kind: InputKind::Snapshot };
    profile::measure(snapshot_of(events, marks), source, ReadOptions::default()).unwrap()
}

/// Name and occurrence, first event and end, and `<` or `>` where beginning or end were not recorded.
fn found(events: &[Event], marks: &[(&str, &str, i64)]) -> Vec<String> {
    let snapshot = snapshot_of(events, marks);
    let mut numbers: HashMap<_, usize> = HashMap::new();
    let describe = |phase: &Phase| {
        let marks = [if phase.begins { "" } else { "<" }, if phase.ends { "" } else { ">" }];
        let number = numbers.entry((phase.source, phase.name)).or_default();
        *number += 1;
        format!(
            "{}{} {}..{}{}",
            snapshot.tables.string(phase.name),
            *number - 1,
            phase.from.count(),
            phase.to.count(),
            marks.concat()
        )
    };
    phases_of(&snapshot).iter().map(describe).collect()
}

/// The phases of all devices: one at most.
fn phases_of(snapshot: &Snapshot) -> Vec<Phase> {
    snapshot.devices.values().flat_map(|device| phase::phases(snapshot, device)).collect()
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
    // One that ends before the other begins does not overlap it, although they share the events of a microsecond.
    let marks = [("START", "a", 5), ("END", "a", 20), ("START", "b", 20), ("END", "b", 45)];
    assert_eq!(found(&clock(4), &marks), ["a0 0..2", "b0 1..4"]);
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
        "3 annotated phases, of which 1 without a recorded beginning (taken to begin with the recording), 1 without a \
         recorded end (taken to last until the dump)"
    );
    // An end after two starts belongs to the later start.
    let marks = [("START", "a", 5), ("START", "a", 25), ("END", "a", 35)];
    assert_eq!(found(&clock(5), &marks), ["a0 0..5>", "a1 2..3"]);
}

#[test]
fn events_of_the_same_microsecond_are_inside() {
    let events: Vec<Event> = [10, 20, 20, 20, 30].map(|time| alloc(time, 1)).to_vec();
    assert_eq!(found(&events, &[("START", "a", 20), ("END", "a", 20)]), ["a0 1..4"]);
    assert_eq!(found(&events, &[("START", "a", 11), ("END", "a", 12)]), ["a0 1..1"]);
    // A phase before the first event counts: other devices, or other runs, may have events in it.
    assert_eq!(
        found(&events, &[("START", "a", 0), ("END", "a", 5), ("START", "a", 10), ("END", "a", 11)]),
        ["a0 0..0", "a1 0..1"]
    );
    assert_eq!(found(&events, &[("START", "a", 99), ("END", "a", 100)]), ["a0 5..5"]);
}

/// Number, name and peak in MiB of each phase, indented by its depth.
fn drawn(profile: &Profile) -> String {
    let phases = profile.devices[0].phases.all.iter().map(|phase| {
        let indent = "  ".repeat(phase.depth as usize);
        format!("{indent}{} #{} {}\n", phase.name, phase.number, phase.held.peak.allocated / MIB)
    });
    phases.collect()
}

#[test]
fn phases_without_events_lie_where_they_began() {
    let events = [alloc(50, 8), free(51, 1), alloc(95, 4), free(96, 2)];
    let marks = [
        ("START", "load", 10),
        ("END", "load", 11),
        ("START", "epoch", 20),
        ("START", "load", 21),
        ("END", "load", 22),
        ("START", "batch", 30),
        ("START", "batch of a model", 31),
        ("START", "load", 32),
        ("END", "load", 33),
        ("END", "batch of a model", 60),
        ("END", "batch", 61),
        ("START", "save", 62),
        ("END", "save", 62),
        ("END", "epoch", 70),
        ("START", "save", 80),
        ("END", "save", 81),
        ("START", "batch", 90),
        ("END", "batch", 96),
        ("START", "batch", 96),
        ("END", "batch", 97),
    ];
    let profile = profile_of(&events, &marks);
    assert_reads!(drawn(&profile) => str![[r#"
load #0 0
epoch #0 8
  load #1 0
  batch #0 8
    batch of a model #0 8
      load #2 0
  save #0 0
save #1 0
batch #1 4
batch #2 4
"#]]);
    // A saved profile has the marks, which earlier versions did not write.
    let text = text_of(&profile, &[]).unwrap();
    let saved = |text: &str| profile::read(signed(text).as_bytes(), "x", ReadOptions::default());
    assert_eq!(saved(&text).unwrap().devices[0].phases, profile.devices[0].phases);
    let earlier: String =
        text.split(",\"marks\":").map(|part| part.find("]]}").map_or(part, |end| &part[end + 2..])).collect();
    assert_reads!(drawn(&saved(&earlier).unwrap()) => str![[r#"
load #0 0
load #1 0
load #2 0
batch #0 8
  batch of a model #0 8
    epoch #0 8
save #0 0
save #1 0
batch #1 4
  batch #2 4
"#]]);
    let wrong = text.replacen("\"marks\":[[", "\"marks\":[[9", 1);
    assert_reads!(saved(&wrong).unwrap_err().to_string() => str!["the marks of phases of device 0 contradict the events; the file was changed by hand, merged or damaged, or another version saved it. Write it again"]);
}

#[test]
fn a_ring_buffer_that_ran_over_lost_the_events_of_earlier_phases() {
    let marks = [("START", "a", 0), ("END", "a", 5), ("START", "a", 6), ("END", "a", 11)];
    let mut snapshot = snapshot_of(&clock(2), &marks);
    snapshot.devices.values_mut().for_each(|device| device.overflowed = Some(true));
    let source = profile::Source { path: "made.pkl".to_owned(), bytes: 0, kind: InputKind::Snapshot };
    let profile = profile::measure(snapshot, source, ReadOptions::default()).unwrap();
    assert_reads!(drawn(&profile) => str!["a #0 1"]);
    assert_reads!(drawn(&profile_of(&clock(2), &marks)) => str![[r#"
a #0 0
a #1 1
"#]]);
}

/// Steps of which the first two are lost, as from a ring buffer of unusual length. One of the others has nothing to do.
fn steps_after_lost_ones(idle: usize) -> Profile {
    let mut program = Program::default();
    for step in 0..5 {
        program.mark("START", "log");
        program.mark("END", "log");
        program.mark("START", "forward");
        if step != idle {
            program.alloc(format!("x {step}"), "forward:10", MIB);
        }
        program.mark("END", "forward");
        if step == 1 {
            program.events.clear();
            program.free("x 0");
        }
    }
    program.profile("made.pkl")
}

#[test]
fn phases_before_the_first_event_are_lost_with_the_events_of_their_kind() {
    assert_reads!(drawn(&steps_after_lost_ones(5)) => str![[r#"
log #0 1
forward #0 2
log #1 2
forward #1 3
log #2 3
forward #2 4
"#]]);
    // A phase without events among those with some: the earlier ones may have had none as well.
    assert_reads!(drawn(&steps_after_lost_ones(3)) => str![[r#"
log #0 2
forward #0 2
log #1 2
forward #1 2
log #2 1
forward #2 2
log #3 2
forward #3 2
log #4 2
forward #4 3
"#]]);
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
    // Events of autograd's threads belong to the phase around them.
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
    assert!(profile.devices[0].phases.all.iter().map(source).all(|source| source == PhaseSource::CompileContext));
}

// Memory within phases.

#[test]
fn phases_hold_what_the_simulated_allocator_says() {
    for name in ["phases-before", "phases-after", "metadata-phases"] {
        let profile = load(&format!("{name}.pkl"));
        let truth: Json =
            serde_json::from_str(&std::fs::read_to_string(fixture(&format!("{name}.json"))).unwrap()).unwrap();
        let truth = truth["phases"].as_array().unwrap();
        let phases = &profile.devices[0].phases;
        let named = phases.all.iter().filter(|phase| phase.source != PhaseSource::Pass);
        assert_eq!((named.count(), phases.cut), (truth.len(), 0), "{name}");
        for truth in truth {
            let figure = |key: &str| truth[key].as_u64().unwrap();
            let (name_of, number) = (truth["name"].as_str().unwrap(), figure("occurrence"));
            let place = format!("{name}: {name_of} {number}");
            let is_it = |phase: &&Occurrence| (&*phase.name, u64::from(phase.number)) == (name_of, number);
            let phase = phases.all.iter().find(is_it).unwrap_or_else(|| panic!("{place}"));
            let [first, last] = ["first_event", "last_event"].map(|key| usize::try_from(figure(key)).unwrap());
            let window = Window::of_counts(first, last + 1);
            assert_eq!(phase.window, window, "{place}");
            let WindowCounters { start, peak, end } = phase.held;
            let held = [start, peak, end].map(|level| level.allocated);
            assert_eq!(held, ["before", "peak", "after"].map(figure), "{place}");
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
    // A phase beyond the limit could have grown, in saved profiles too.
    let saved = profile::read(text_of(&before, &[]).unwrap().as_bytes(), "x", ReadOptions::default()).unwrap();
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
        let found = phases_of(&snapshot);
        for phase in &found {
            prop_assert!(phase.from <= phase.to && phase.to.count() <= count, "{phase:?}");
        }
        prop_assert!(found.windows(2).all(|pair| pair[0].from <= pair[1].from));
        let levels: Vec<Vec<u64>> = snapshot
            .devices
            .iter()
            .map(|(&id, device)| replay::run(&snapshot, id, device).unwrap().trace)
            .map(|trace| trace.values(Measure::Allocated).map(|value| u64::try_from(value).unwrap()).collect())
            .collect();
        let profile = profile_of(&events, &marks);
        for (device, levels) in profile.devices.iter().zip(&levels) {
            let phases = &device.phases.all;
            prop_assert!(phases.is_empty() || phases.len() == found.len());
            for phase in phases {
                let inside = &levels[phase.window.from.count()..=phase.window.to.count()];
                let WindowCounters { start, peak, end } = phase.held;
                prop_assert_eq!(start.allocated, inside[0]);
                prop_assert_eq!(end.allocated, inside[inside.len() - 1]);
                prop_assert_eq!(peak.allocated, *inside.iter().max().unwrap());
            }
        }
        // A saved profile reads back the same, and comparing it with the original shows no change.
        let text = text_of(&profile, &[]).unwrap();
        let saved = profile::read(text.as_bytes(), "x", ReadOptions::default()).unwrap();
        for (saved, live) in saved.devices.iter().zip(&profile.devices) {
            prop_assert_eq!(&saved.phases, &live.phases);
        }
        prop_assert_eq!(text_of(&saved, &[]).unwrap(), text);
        let diff = diff::compare(saved, profile, diff::DiffOptions::default());
        for row in diff.devices.iter().flat_map(|device| &device.phases) {
            prop_assert_eq!(row.delta(), Some(0));
        }
    }
}

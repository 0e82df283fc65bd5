//! A figure that is not known is null, empty or left out in every format for machines, and `unknown` in those for
//! people: never a stand-in.

use std::path::PathBuf;

use ptmem::diff;
use ptmem::profile::{self, Profile};
use ptmem::report::{Format, RenderOptions};
use ptmem::verdict::{self, Comparison, Gate, GrowthLimit, Level, Thresholds};
use serde_json::{Value as Json, json};

use crate::support::history::{A, B, C, MIB, event, file, free, pool, segment};
use crate::support::pickle::{self, Value};

fn load(name: &str) -> Profile {
    let path: PathBuf = [env!("CARGO_MANIFEST_DIR"), "fixtures", name].iter().collect();
    profile::read(std::fs::File::open(path).unwrap(), name, profile::ReadOptions::default()).unwrap()
}

fn shown(profile: &Profile, format: Format) -> String {
    format.render(profile, &RenderOptions::default()).unwrap()
}

fn parsed(text: &str) -> Json {
    serde_json::from_str(text).unwrap()
}

/// A snapshot of the state alone.
const STATE_ONLY: &str = "state-only.pkl";

/// `MemPool.snapshot()` records the bytes of its pool: they say nothing about all pools.
#[test]
fn a_snapshot_of_one_pool_checks_no_figure_of_all() {
    let of = |number| event("snapshot", 0, MIB).with("pool_id", pool(number));
    // Before PyTorch 2.12, events do not name the pool: those with less may be of the one that there is.
    let unnamed = |bytes| event("snapshot", 0, bytes);
    for (dump, segment_pool, expected) in [
        (of(3), 0, false),
        (of(0), 0, true),
        (of(0), 3, true),
        (unnamed(MIB), 0, true),
        (unnamed(MIB), 3, false),
        (unnamed(5 * MIB), 3, true),
    ] {
        let events = vec![event("segment_alloc", A, 20 * MIB), event("alloc", A, 4 * MIB), dump.clone()];
        let segment = segment(A, &[(4 * MIB, true), (16 * MIB, false)]).with("segment_pool_id", pool(segment_pool));
        let profile =
            profile::read(&file(vec![segment], events)[..], "pool.pkl", profile::ReadOptions::default()).unwrap();
        let doubted = profile.diagnostics.iter().any(|found| found.code.name() == "checkpoint-mismatch");
        assert_eq!(doubted, expected, "{dump:?} {segment_pool}: {:?}", profile.diagnostics);
        let is_exact = profile.devices[0].figures.allocated.peak_error == Some(0);
        assert_eq!(is_exact, !expected, "{dump:?} {segment_pool}");
    }
}

/// With `skip_actions`, a recording may lack the events of new segments alone.
#[test]
fn reserved_bytes_are_unknown_if_a_segment_is_returned_twice() {
    let new = event("segment_alloc", A, 20 * MIB);
    let uses = || {
        let [requested, completed] = free(A, 4 * MIB);
        vec![event("alloc", A, 4 * MIB), requested, completed, event("segment_free", A, 20 * MIB)]
    };
    for (between, is_skipped) in [(vec![new], false), (vec![], true)] {
        let recorded = file(Vec::new(), [uses(), between, uses()].concat());
        let profile = profile::read(&recorded[..], "returned.pkl", profile::ReadOptions::default()).unwrap();
        let found = profile.diagnostics.iter().any(|found| found.code.name() == "segments-skipped");
        let peak = profile.devices[0].figures.reserved.peak;
        assert_eq!((found, peak.is_none()), (is_skipped, is_skipped), "{:?}", profile.diagnostics);
    }
}

#[test]
fn a_state_without_history_has_no_peak() {
    let profile = load(STATE_ONLY);
    let json = parsed(&shown(&profile, Format::Json));
    let device = &json["devices"][0];
    for counter in ["allocated", "active", "requested", "reserved"] {
        let counter = &device[counter];
        for key in ["baseline", "peak", "peak_event", "max_error"] {
            assert_eq!(counter[key], Json::Null, "{key}: {counter}");
        }
        assert_eq!(counter["exact"], json!(false));
        assert!(counter["end"].as_u64().unwrap() > 0);
    }
    assert_eq!(device["fragmentation"]["peak"], Json::Null);
    for stack in device["stacks"].as_array().unwrap() {
        for key in ["baseline", "peak", "baseline_blocks", "peak_blocks"] {
            assert_eq!(stack[key], Json::Null, "{key}: {stack}");
        }
        assert!(stack["end"].is_u64());
    }
}

/// A segment of another device than the first.
fn on_device(device: i128, segment: Value) -> Value {
    let Value::Dict(pairs) = segment else { panic!("no segment") };
    let others = pairs.into_iter().filter(|(key, _)| *key != "device".into());
    Value::Dict(others.chain([("device".into(), device.into())]).collect())
}

/// The errors of the baselines of allocated bytes, by device; `None` is an unknown baseline.
fn baseline_errors(snapshot: &Value) -> Vec<Option<u64>> {
    let bytes = pickle::write(snapshot, pickle::Options::default());
    let profile = profile::read(&bytes[..], "a.pkl", profile::ReadOptions::default()).unwrap();
    let json = parsed(&shown(&profile, Format::Json));
    let devices = json["devices"].as_array().unwrap().iter();
    devices.map(|device| device["allocated"]["baseline_error"].as_u64()).collect()
}

fn two_devices(events: Vec<Value>) -> Value {
    let held = |device, address| on_device(device, segment(address, &[(4 * MIB, true), (16 * MIB, false)]));
    let traces: Vec<Value> = vec![events.into(), vec![].into()];
    Value::dict([("segments", vec![held(0, A), held(1, B)].into()), ("device_traces", traces.into())])
}

/// A device without events did nothing only if allocations and frees were recorded elsewhere.
#[test]
fn a_device_without_events_is_known_only_if_its_events_would_be_recorded() {
    let comes = || event("alloc", A + 4 * MIB, 2 * MIB);
    let goes = || free(A + 4 * MIB, 2 * MIB);
    let idle = |events| baseline_errors(&two_devices(events))[1];
    assert_eq!(idle([vec![comes()], goes().into()].concat()), Some(0), "both were recorded");
    assert_eq!(idle(goes().into()), None, "allocations were skipped");
    assert_eq!(idle(vec![event("alloc", A, 4 * MIB), event("snapshot", 0, 4 * MIB)]), None, "frees were skipped");
    let marks = || vec![event("snapshot", 0, 4 * MIB), event("snapshot", 0, 4 * MIB)];
    assert_eq!(baseline_errors(&two_devices(marks())), [None, None], "all were skipped");
    assert_eq!(baseline_errors(&two_devices(vec![])), [None, None], "nothing was recorded");
}

/// `record_cuda=False` records pinned host memory alone.
#[test]
fn events_of_pinned_memory_say_nothing_about_devices() {
    let host = [vec![event("alloc", C, MIB)], free(C, MIB).into()].concat();
    let snapshot = two_devices(vec![]).with("host_traces", host);
    assert_eq!(baseline_errors(&snapshot)[..2], [None, None]);
    let bytes = pickle::write(&snapshot, pickle::Options::default());
    let profile = profile::read(&bytes[..], "a.pkl", profile::ReadOptions::default()).unwrap();
    let said = shown(&profile, Format::Table);
    assert!(said.contains("record_cuda=False"), "{said}");
}

/// PyTorch's counters tell whether a device without events was idle.
#[test]
fn counters_tell_whether_a_device_without_events_was_idle() {
    let counted = |calls: [u64; 2]| json!({"current": {}, "peak": {}, "calls": calls});
    let of_calls = |calls| json!({"device": 1, "start": counted([3, 1]), "dump": counted(calls)});
    let with_calls = |calls| {
        let comes = vec![event("alloc", A + 4 * MIB, 2 * MIB)];
        let facts = json!({"format": 1, "counters": [of_calls(calls)]});
        baseline_errors(&two_devices([comes, free(A + 4 * MIB, 2 * MIB).into()].concat()).with("ptmem", facts))[1]
    };
    assert_eq!(with_calls([3, 1]), Some(0));
    assert_eq!(with_calls([5, 3]), None, "the program cleared the history");
}

/// The text without the escapes of a terminal.
fn plain(report: &str) -> String {
    let mut parts = report.split('\u{1b}');
    let first = parts.next().unwrap().to_owned();
    first + &parts.map(|part| part.split_once('m').unwrap().1).collect::<String>()
}

/// The cells of the first row of a report that begins with a name, whether in columns or between bars.
fn row(report: &str, name: &str) -> Vec<String> {
    let report = plain(report);
    let line = report.lines().map(|line| line.replace('|', "  ").replace('\u{a0}', " "));
    let mut rows = line.map(|line| {
        let cells = line.split("  ").map(|cell| cell.trim().trim_matches('*').to_owned());
        cells.filter(|cell| !cell.is_empty()).collect::<Vec<_>>()
    });
    rows.find(|cells| cells.first().is_some_and(|first| first == name)).unwrap_or_else(|| panic!("{name}: {report}"))
}

#[test]
fn people_are_told_that_a_state_without_history_has_no_peak() {
    let profile = load(STATE_ONLY);
    for format in [Format::Table, Format::Markdown] {
        let report = shown(&profile, format);
        for counter in ["allocated", "active", "requested", "reserved"] {
            assert_eq!(row(&report, counter)[1..4], ["unknown", "unknown", "unknown"], "{report}");
            assert_eq!(row(&report, counter).len(), 5, "the end and nothing else: {report}");
        }
        assert!(report.contains("in the state at the dump"), "{report}");
        assert!(!report.contains("at the peak"), "{report}");
        assert!(report.contains("state-only"), "{report}");
    }
}

#[test]
fn people_are_told_of_no_change_against_a_state_without_history() {
    let diff = diff::compare(load("before.pkl"), load(STATE_ONLY), diff::DiffOptions::default());
    let growth = vec![GrowthLimit::parse("5%", Level::Fail).unwrap()];
    let judgement = verdict::judge_diff(&diff, &Thresholds { growth, ..Thresholds::default() });
    let comparison = Comparison { name: None, member: None, diff, judgement, min_delta: 1 << 20 };
    let gate = Gate::from(comparison);
    for format in [Format::Table, Format::Markdown] {
        let report = format.render(&gate, &RenderOptions::default()).unwrap();
        for metric in ["peak", "baseline", "active", "requested", "reserved"] {
            assert_eq!(row(&report, metric)[2..4], ["unknown", "unknown"], "{metric}: {report}");
        }
        assert!(row(&report, "end")[3].starts_with('-'), "{report}");
        assert!(report.contains("of the after in the state at the dump"), "{report}");
    }
}

#[test]
fn exports_leave_out_figures_of_a_state_without_history() {
    let profile = load(STATE_ONLY);
    let outputs = shown(&profile, Format::GithubOutput);
    assert!(outputs.contains("\npeak-after=\n"), "{outputs}");
    let csv = shown(&profile, Format::Csv);
    let mut reader = csv::Reader::from_reader(csv.as_bytes());
    let columns = reader.headers().unwrap().clone();
    let counters: Vec<_> = reader.records().map(Result::unwrap).filter(|record| record[2].is_empty()).collect();
    assert_eq!(counters.len(), 4, "{csv}");
    for record in counters {
        let known = |column: &str| !record[columns.iter().position(|name| name == column).unwrap()].is_empty();
        assert!(known("name") && known("end") && !known("baseline") && !known("peak"), "{csv}");
    }
}

#[test]
fn a_saved_profile_of_a_state_is_not_exact() {
    let text = profile::saved::text_of(&load(STATE_ONLY), &[]).unwrap();
    let read = profile::read(text.as_bytes(), "saved.json", profile::ReadOptions::default()).unwrap();
    let report = parsed(&shown(&read, Format::Json));
    for counter in ["allocated", "active", "requested", "reserved"] {
        assert_eq!(report["devices"][0][counter]["exact"], json!(false), "{counter}");
        assert_eq!(report["devices"][0][counter]["max_error"], Json::Null, "{counter}");
    }
    // A saved profile gives the same report.
    assert_eq!(shown(&read, Format::GithubOutput), shown(&load(STATE_ONLY), Format::GithubOutput));
}

fn gate(before: Profile, after: Profile) -> Gate {
    let diff = diff::compare(before, after, diff::DiffOptions::default());
    let growth = vec![GrowthLimit::parse("5%", Level::Fail).unwrap()];
    let judgement = verdict::judge_diff(&diff, &Thresholds { growth, ..Thresholds::default() });
    let comparison = Comparison { name: None, member: None, diff, judgement, min_delta: 0 };
    Gate::from(comparison)
}

#[test]
fn a_comparison_with_a_state_has_no_change_of_the_peak() {
    for (before, after, known, unknown) in
        [("before.pkl", STATE_ONLY, "before", "after"), (STATE_ONLY, "before.pkl", "after", "before")]
    {
        let gate = gate(load(before), load(after));
        let text = |format: Format| format.render(&gate, &RenderOptions::default()).unwrap();
        let json = parsed(&text(Format::Json));
        let metrics = &json["devices"][0]["metrics"];
        for metric in ["peak", "baseline", "active", "requested", "reserved"] {
            let metric = &metrics[metric];
            assert_eq!(metric[unknown], Json::Null, "{metric}");
            assert_eq!(metric["delta"], Json::Null, "{metric}");
            assert_eq!(metric["percent"], Json::Null, "{metric}");
            assert!(metric[known].is_u64(), "{metric}");
        }
        assert!(metrics["end"]["delta"].is_i64());
        let outputs = text(Format::GithubOutput);
        for line in [format!("peak-{unknown}="), "delta=".to_owned(), "percent=".to_owned()] {
            assert!(outputs.lines().any(|output| output == line), "{line}: {outputs}");
        }
        assert!(!outputs.contains(&format!("peak-{known}=\n")), "{outputs}");
    }
}

#[test]
fn a_figure_of_unknown_error_is_no_figure() {
    let mut profile = load("before.pkl");
    let whole = parsed(&shown(&profile, Format::Json));
    assert!(whole["devices"][0]["allocated"]["peak"].is_u64());
    profile.devices[0].figures.allocated.peak_error = None;
    let device = parsed(&shown(&profile, Format::Json))["devices"][0].clone();
    assert_eq!(device["allocated"]["peak"], Json::Null);
    assert_eq!(device["allocated"]["exact"], json!(false));
    assert_eq!(device["allocated"]["max_error"], Json::Null);
    assert_eq!(device["allocated"]["baseline"], whole["devices"][0]["allocated"]["baseline"]);
    assert!(shown(&profile, Format::GithubOutput).contains("peak-after=\n"));
    // Another device does not stand in for it.
    let mut several = load("two-devices-before.pkl");
    assert!(!shown(&several, Format::GithubOutput).contains("peak-after=\n"));
    several.devices[1].figures.allocated.peak_error = None;
    assert!(shown(&several, Format::GithubOutput).contains("peak-after=\n"));
    let gate = gate(profile, load("after.pkl"));
    let json = parsed(&Format::Json.render(&gate, &RenderOptions::default()).unwrap());
    assert_eq!(json["devices"][0]["metrics"]["peak"]["before"], Json::Null);
    assert_eq!(json["devices"][0]["metrics"]["peak"]["percent"], Json::Null);
}

/// A segment of the small pool, as release 2.0 writes it, whose blocks are of these sizes and states.
fn segment_of_2_0(device: u64, address: u64, blocks: &[(u64, &str)]) -> Value {
    let blocks = blocks.iter().map(|&(size, state)| {
        Value::dict([("size", size.into()), ("requested_size", size.into()), ("state", state.into())])
    });
    Value::dict([
        ("device", device.into()),
        ("address", address.into()),
        ("total_size", (2_u64 << 20).into()),
        ("stream", 0.into()),
        ("segment_type", "small".into()),
        ("blocks", blocks.collect::<Vec<_>>().into()),
    ])
}

/// Release 2.0 records the current device alone: the other one may have held anything, also where it holds nothing at
/// the dump.
#[test]
fn a_device_that_release_2_0_did_not_record_has_no_peak() {
    let address = 0x7f00_0000_0000_u64;
    let event = Value::dict([
        ("action", "segment_alloc".into()),
        ("addr", address.into()),
        ("size", (2_u64 << 20).into()),
        ("stream", 0.into()),
    ]);
    let alloc =
        Value::dict([("action", "alloc".into()), ("addr", address.into()), ("size", 512.into()), ("stream", 0.into())]);
    let value = Value::dict([
        (
            "segments",
            vec![
                segment_of_2_0(0, address, &[(512, "active_allocated"), ((2 << 20) - 512, "inactive")]),
                segment_of_2_0(1, address + (1 << 30), &[(2 << 20, "inactive")]),
            ]
            .into(),
        ),
        ("device_traces", vec![vec![event, alloc].into(), Value::List(Vec::new())].into()),
    ]);
    let bytes = pickle::write(&value, pickle::Options::default());
    let profile = profile::read(&bytes[..], "two.pkl", profile::ReadOptions::default()).unwrap();
    let peaks: Vec<_> = profile.devices.iter().map(|device| device.figures.allocated.peak).collect();
    assert_eq!(peaks, [Some(512), None]);
}

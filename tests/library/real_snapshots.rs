//! Snapshots that PyTorch really wrote, against figures computed independently.
//!
//! They are not part of the repository: the tests run where a folder `../shared/snapshots` holds them with
//! their `expected.json`, and say so where it does not.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

use ptmem::diff;
use ptmem::profile::saved::{Bound, text_of};
use ptmem::profile::{self, DeviceProfile, Kind, Moment, Options, Profile, Source};
use ptmem::report::{self, Format, Subject};
use ptmem::snapshot;
use ptmem::stack::GroupBy;
use serde_json::Value;
use sha1::{Digest, Sha1};

fn folder() -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/snapshots");
    if folder.join("expected.json").is_file() {
        return Some(folder);
    }
    // Not eprintln!, which the test harness keeps to itself when all is well.
    let _ = writeln!(std::io::stderr(), "skipped: no real snapshots in {}", folder.display());
    None
}

fn load(path: &Path, group_by: GroupBy) -> Profile {
    let file = std::fs::File::open(path).unwrap();
    let snapshot = snapshot::read(file).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let source = Source { path: path.display().to_string(), bytes: 0, kind: Kind::Snapshot };
    profile::measure(snapshot, source, Options { group_by, ..Options::default() }).unwrap()
}

fn expected(folder: &Path) -> BTreeMap<String, Value> {
    let text = std::fs::read_to_string(folder.join("expected.json")).unwrap();
    let value: Value = serde_json::from_str(&text).unwrap();
    match value {
        Value::Object(files) => files.into_iter().collect(),
        Value::Array(files) => files.into_iter().map(|f| (f["file"].as_str().unwrap().to_owned(), f)).collect(),
        _ => panic!("expected.json is neither a list nor an object"),
    }
}

/// Every figure and every stack total of the JSON report.
#[test]
fn every_figure_is_exact() {
    let Some(folder) = folder() else { return };
    let expected = expected(&folder);
    assert!(expected.len() >= 11);
    let options = report::Options { top: 0, ..report::Options::default() };
    for (name, expected) in &expected {
        let profile = load(&folder.join(name), GroupBy::Frames);
        let report: Value =
            serde_json::from_str(&Format::Json.render(Subject::Profile(&profile, None), &options).unwrap()).unwrap();
        let devices = expected["devices"].as_object().unwrap();
        assert_eq!(report["devices"].as_array().unwrap().len(), devices.len(), "{name}: devices");
        for device in report["devices"].as_array().unwrap() {
            let number = device["device"].to_string();
            compare_device(&format!("{name}, device {number}"), device, &devices[&number]);
        }
    }
}

fn compare_device(place: &str, device: &Value, expected: &Value) {
    let has_history = expected["actions"].get("alloc").is_some();
    assert_eq!(device["events"], expected["events"], "{place}: events");
    assert_eq!(device["actions"], expected["actions"], "{place}: actions");
    for counter in ["allocated", "active", "requested", "reserved"] {
        assert_eq!(device[counter]["end"], expected["end"][counter], "{place}: {counter} end");
        assert_eq!(device[counter]["end"], expected["replay_end"][counter], "{place}: {counter} after the replay");
        // A file that holds only a state says nothing about any other moment: there the report has no figure, while the
        // table of exact figures repeats the state.
        if !has_history {
            assert!(device[counter]["baseline"].is_null() && device[counter]["peak"].is_null(), "{place}: {counter}");
            assert_eq!(device[counter]["exact"], false, "{place}: {counter}");
            continue;
        }
        for figure in ["baseline", "peak"] {
            let got = &device[counter][figure];
            assert_eq!(got, &expected[figure][counter], "{place}: {counter} {figure}");
        }
        if let Some(event) = expected["peak_event"].get(counter) {
            assert_eq!(&device[counter]["peak_event"], event, "{place}: {counter} peak event");
        }
    }
    let checks = &device["checks"];
    assert_eq!(checks["sizes"]["recovered"], expected["size_check"][0], "{place}: sizes");
    assert_eq!(checks["sizes"]["total"], expected["size_check"][1], "{place}: sizes");
    assert_eq!(checks["checkpoints"]["total"], expected["snapshot_check"][0], "{place}: checkpoints");
    assert_eq!(checks["checkpoints"]["matched"], expected["snapshot_check"][1], "{place}: checkpoints");
    assert_eq!(checks["end_matches"], true, "{place}: end");
    let stacks = device["stacks"].as_array().unwrap();
    let of_key = |key: &str| stacks.iter().find(|stack| identity(stack) == key);
    for row in expected["peak_stacks"].as_array().unwrap() {
        let key = row[0].as_str().unwrap();
        let stack = of_key(key).unwrap_or_else(|| panic!("{place}: no stack {key}"));
        if has_history {
            assert_eq!(stack["peak"], row[1], "{place}: bytes of {key}");
            assert_eq!(stack["peak_blocks"], row[2], "{place}: blocks of {key}");
        } else {
            assert!(stack["peak"].is_null(), "{place}: bytes of {key}");
        }
    }
    let moments = if has_history { &["baseline", "peak", "end"][..] } else { &["end"] };
    for &moment in moments {
        let sum: u64 = stacks.iter().map(|stack| stack[moment].as_u64().unwrap()).sum();
        assert_eq!(sum, device["allocated"][moment].as_u64().unwrap(), "{place}: rows at {moment}");
    }
}

/// How `expected.json` names a stack: a SHA-1 over its frames, or the name of a bucket.
fn identity(stack: &Value) -> String {
    let frames = stack["frames"].as_array().unwrap();
    if frames.is_empty() {
        return stack["label"].as_str().unwrap().to_owned();
    }
    let mut hash = Sha1::new();
    for frame in frames {
        let text = |key: &str| frame[key].as_str().unwrap();
        hash.update(format!("{}\0{}\0{}\n", text("name"), text("filename"), frame["line"]));
    }
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Device 1 ran out of memory, and what it held is long freed at the dump.
#[test]
fn the_live_set_when_memory_ran_out() {
    let Some(folder) = folder() else { return };
    let path = folder.join("three-gpus-oom-expandable.pickle");
    let live = load(&path, GroupBy::Stack);
    let text = text_of(&live, Bound::default(), &[]);
    let options = Options { at: Moment::Oom, ..Options::default() };
    let saved = profile::read(text.as_bytes(), "saved.json", options).unwrap();
    for profile in [&live, &saved] {
        let ooms: Vec<usize> = profile.devices.iter().map(|device| device.figures.ooms.len()).collect();
        assert_eq!(ooms[..3], [0, 1, 0]);
        let device = &profile.devices[1];
        let oom = device.figures.ooms[0];
        assert_eq!((oom.event, oom.requested, oom.device_free), (421, 5_308_694_528, 95_682_560));
        assert_eq!([oom.allocated, oom.active], [Some(84_063_358_976); 2]);
        assert_eq!((oom.reserved, oom.demand()), (Some(84_202_749_952), Some(89_372_053_504)));
        assert_eq!((oom.fragmentation(), oom.unusable()), (Some(139_390_976), Some(558_592)));
        assert_eq!(oom.pool.map(|pool| (pool.bytes, pool.largest)), Some((138_832_384, 17_313_792)));
        assert_eq!(oom.max_error, Some(0));
        assert_eq!(device.stacks.iter().map(|stack| stack.oom.bytes).sum::<u64>(), 84_063_358_976);
        assert_eq!(device.figures.allocated.end, 403_507_712);
        let largest = &device.listed_at_oom(1, 1)[0];
        assert_eq!(largest.label, "update_nodes (models.py:174) aten::index");
        assert_eq!((largest.oom.bytes, largest.oom.blocks), (48_479_570_944, 29));
    }
    assert_eq!(saved.devices[1].allocated_at(), 84_063_358_976);
    // The others say nothing of it.
    for name in expected(&folder).keys().filter(|name| !path.ends_with(name)) {
        let profile = load(&folder.join(name), GroupBy::Stack);
        assert!(profile.devices.iter().all(|device| device.figures.ooms.is_empty()), "{name}");
    }
}

#[test]
fn two_train_steps_differ_by_their_stacks_and_backwards_by_the_opposite() {
    let Some(folder) = folder() else { return };
    let (short, long) = ("gpt-ctx128-train-step.pickle", "gpt-ctx256-train-step.pickle");
    let compare = |before: &str, after: &str, by| {
        diff::compare(load(&folder.join(before), by), load(&folder.join(after), by), diff::Options::default())
    };
    for by in [GroupBy::Frames, GroupBy::Stack] {
        let forth = compare(short, long, by);
        let back = compare(long, short, by);
        let [device] = &forth.devices[..] else { panic!("one device") };
        let peak = device.metric(diff::Metric::Peak);
        assert_eq!(peak.delta(), Some(54_961_465_856 - 55_079_000_576));
        let rows: i128 = device.rows.iter().map(diff::Row::delta).sum();
        assert_eq!(Some(rows), peak.delta());
        let deltas = |diff: &diff::Diff| -> BTreeMap<String, i128> {
            diff.devices[0].rows.iter().map(|row| (row.key.clone(), row.delta())).collect()
        };
        let opposite: BTreeMap<_, _> = deltas(&back).into_iter().map(|(key, delta)| (key, -delta)).collect();
        assert_eq!(deltas(&forth), opposite);
        for (metric, change) in &device.metrics {
            assert_eq!(change.delta(), back.devices[0].metric(*metric).delta().map(|delta| -delta));
        }
    }
}

#[test]
fn a_snapshot_does_not_differ_from_itself() {
    let Some(folder) = folder() else { return };
    for name in expected(&folder).keys() {
        let path = folder.join(name);
        let diff = diff::compare(load(&path, GroupBy::Stack), load(&path, GroupBy::Stack), diff::Options::default());
        assert!(!diff.devices.is_empty(), "{name}");
        assert!(diff.diagnostics.is_empty(), "{name}: {:?}", diff.diagnostics);
        for device in &diff.devices {
            assert!(device.rows.iter().all(|row| row.change == diff::Kind::Same && !row.moved), "{name}");
            assert!(device.metrics.iter().all(|(_, change)| change.before == change.after), "{name}");
        }
    }
}

#[test]
fn rows_add_up_at_every_grouping() {
    let Some(folder) = folder() else { return };
    let pairs = [
        ("gpt-ctx128-train-step.pickle", "gpt-ctx256-train-step.pickle"),
        ("gpt-medium-128-inference.pickle", "gpt-medium-512-training.pickle"),
        ("torch21-cpp-frames.pickle", "trimmed-fixture.pickle"),
    ];
    for by in GroupBy::ALL {
        for (before, after) in pairs {
            let (before, after) = (load(&folder.join(before), by), load(&folder.join(after), by));
            let diff = diff::compare(before, after, diff::Options::default());
            for device in &diff.devices {
                let rows: i128 = device.rows.iter().map(diff::Row::delta).sum();
                assert_eq!(Some(rows), device.metric(diff::Metric::Peak).delta(), "{by}");
            }
        }
    }
}

#[test]
fn no_label_blames_the_unwinder() {
    let Some(folder) = folder() else { return };
    for name in expected(&folder).keys() {
        for by in GroupBy::ALL {
            for DeviceProfile { stacks, .. } in &load(&folder.join(name), by).devices {
                for stack in stacks {
                    let bad = ["unwind", "??", "_start", "0x", "gather_with_cpp", "CUDACachingAllocator", "no symbols"];
                    assert!(!bad.iter().any(|bad| stack.label.contains(bad)), "{name}: {}", stack.label);
                }
            }
        }
    }
}

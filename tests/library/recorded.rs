//! Recordings of PyTorch itself: its own counters at the corners of the allocator, and what holds for any recording.

use std::fs::{self, File};
use std::path::Path;

use ptmem::device::DeviceId;
use ptmem::diff;
use ptmem::profile::{self, DeviceProfile, Profile, ReadOptions, saved};
use ptmem::replay::{Counter, Position};
use ptmem::stack::GroupBy;
use serde_json::Value;

use crate::support::fixtures;

fn load(path: &Path, group_by: GroupBy) -> Profile {
    let options = ReadOptions { group_by, ..ReadOptions::default() };
    profile::read(File::open(path).unwrap(), "recording", options).unwrap()
}

/// Holds a counter against PyTorch's own: each figure is right, within its bound, or not known.
fn assert_true(counter: &Counter, of_pytorch: &Value, name: &str, place: &str) -> usize {
    let truth = |when: &str| of_pytorch[when][name].as_u64().unwrap();
    // Of a ring buffer that ran over, the file holds less than the recording.
    let start = if place.contains("wrapped") { None } else { counter.baseline.zip(counter.baseline_error) };
    let figures = [
        ("start", start),
        ("peak", counter.peak.zip(counter.peak_error)),
        ("current", counter.end.map(|end| (end, 0))),
    ];
    let known = figures.into_iter().filter_map(|(when, figure)| figure.map(|figure| (when, figure)));
    known.map(|(when, (value, error))| assert!(value.abs_diff(truth(when)) <= error, "{place}: {name} {when}")).count()
}

#[test]
fn figures_at_the_corners_are_right_or_within_their_bounds() {
    let mut known = 0;
    for path in fixtures::recorded().iter().filter(|path| path.parent().unwrap().ends_with("corners")) {
        let text = fs::read_to_string(path.with_extension("").with_extension("json")).unwrap();
        let facts: Value = serde_json::from_str(&text).unwrap();
        let counters = &facts["counters"];
        let place = path.display().to_string();
        let profile = load(path, GroupBy::Stack);
        let [DeviceProfile { figures, .. }, host @ ..] = &profile.devices[..] else { panic!("{place}: no device") };
        assert_eq!(host.len(), usize::from(facts["host"].is_object()), "{place}");
        for host in host {
            let reserved = &host.figures.reserved;
            // PyTorch counts the segments of pinned host memory as allocated.
            let of_pytorch = ["peak", "current"].map(|when| facts["host"][when].as_u64());
            assert_eq!([reserved.peak, reserved.end], of_pytorch, "{place}");
            assert_eq!((host.device, reserved.peak_error), (DeviceId::Host, Some(0)), "{place}");
        }
        known += assert_true(&figures.allocated, counters, "allocated", &place);
        known += assert_true(&figures.active, counters, "active", &place);
        known += assert_true(&figures.requested, counters, "requested", &place);
        known += assert_true(&figures.reserved, counters, "reserved", &place);
    }
    assert!(known >= 100, "{known}");
}

#[test]
fn private_pools_reserve_what_the_counters_rose_by() {
    let mut seen = 0;
    for path in fixtures::recorded() {
        let text = fs::read_to_string(path.with_extension("").with_extension("json")).unwrap_or_default();
        let facts: Value = serde_json::from_str(&text).unwrap_or_default();
        let Some(of_pytorch) = facts["pools"].as_object() else { continue };
        let profile = load(&path, GroupBy::Stack);
        let device = &profile.devices[0];
        assert_eq!(device.private_pools.len(), of_pytorch.len(), "{}", path.display());
        for pool in &device.private_pools {
            let function = pool.name.strip_suffix(" (corners.py)").unwrap();
            assert_eq!(Some(pool.reserved), of_pytorch[function].as_u64(), "{}", path.display());
            // It rises with each segment, from nothing to what is there at the end.
            assert_eq!(pool.curve.len() as u64, pool.segments + 1);
            assert!(pool.curve.is_sorted() && pool.reserved_at(Position::START) == Some(0));
            assert_eq!(pool.curve.last().map(|(_, bytes)| *bytes), Some(pool.reserved));
            seen += pool.pools;
        }
        let saved = saved::text_of(&profile, &[]).unwrap();
        let again = profile::read(saved.as_bytes(), "saved", ReadOptions::default()).unwrap();
        assert_eq!(again.devices[0].private_pools, device.private_pools);
    }
    assert_eq!(seen, 12);
}

#[test]
fn a_recording_does_not_differ_from_itself() {
    for path in fixtures::some(fixtures::recorded()) {
        let [before, after] = [(); 2].map(|()| load(&path, GroupBy::Stack));
        let diff = diff::compare(before, after, diff::DiffOptions::default());
        assert!(!diff.devices.is_empty(), "{}", path.display());
        for device in &diff.devices {
            let is_same = |row: &diff::Row| row.change == diff::ChangeKind::Same && !row.moved;
            assert!(device.rows.iter().all(is_same), "{}", path.display());
            assert!(device.metrics.iter().all(|(_, change)| change.before == change.after), "{}", path.display());
        }
    }
}

#[test]
fn changes_add_up_in_every_grouping_and_backwards_are_the_opposite() {
    // Each grouping with some of the changes.
    for (&by, some) in GroupBy::ALL.iter().zip((0..9).cycle()) {
        for [before, after] in fixtures::changes().into_iter().skip(some).step_by(9) {
            let compare = |before: &Path, after: &Path| {
                diff::compare(load(before, by), load(after, by), diff::DiffOptions::default())
            };
            let (forth, back) = (compare(&before, &after), compare(&after, &before));
            let [forth, back] = [&forth, &back].map(|diff| &diff.devices[0]);
            for device in [forth, back] {
                let rows: i128 = device.rows.iter().map(diff::Row::delta).sum();
                assert_eq!(Some(rows), device.metric(diff::Metric::Peak).gained(), "{} by {by}", after.display());
            }
            for (metric, change) in &forth.metrics {
                assert_eq!(change.gained(), back.metric(*metric).gained().map(|delta| -delta), "{}", after.display());
            }
        }
    }
}

#[test]
fn no_label_blames_the_unwinder() {
    for path in fixtures::some(fixtures::recorded()) {
        let profile = load(&path, GroupBy::Stack);
        for &by in GroupBy::ALL {
            let grouper = profile.grouper_by(by);
            for stack in profile.devices.iter().flat_map(|device| device.grouped(&grouper).into_owned()) {
                let bad = ["unwind", "??", "_start", "0x", "gather_with_cpp", "CUDACachingAllocator", "no symbols"];
                assert!(!bad.iter().any(|bad| stack.label.contains(bad)), "{}: {}", path.display(), stack.label);
            }
        }
    }
}

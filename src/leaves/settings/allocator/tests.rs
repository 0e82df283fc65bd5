//! The requests of a recording, and the blocks that pin segments, on histories whose answer is known.

#[path = "../../../../tests/support/pickle.rs"]
mod pickle;
mod pools;
#[path = "../../../../tests/support/history.rs"]
mod recorded;

use ptmem::device::DeviceId;
use ptmem::replay::{self, WantedResults};
use ptmem::snapshot::{self, Snapshot};
use ptmem::stack::{GroupBy, Grouper, Rules};

use super::recording::RepeatError;
use super::{Earlier, RequestHistory, curve, pinned};
use pickle::Value;
use recorded::{A, B, C, MIB, event, file, frames, free, oom, segment};

fn read(bytes: Vec<u8>) -> Snapshot {
    snapshot::read(&bytes[..]).unwrap()
}

/// A segment from before the recording with a block of 8 MiB, which the recording frees, behind 4 MiB that are free; one that is
/// given back, and one that comes for a request; at the end memory runs out.
fn story() -> Snapshot {
    let mut events = vec![event("alloc", A, 3 * MIB)];
    events.extend(free(A + 4 * MIB, 8 * MIB));
    events.push(event("segment_free", C, 32 * MIB));
    events.push(event("alloc", A + 4 * MIB, 7 * MIB));
    events.push(event("segment_alloc", B, 40 * MIB));
    events.push(event("alloc", B, 40 * MIB));
    events.push(oom(64 * MIB));
    let first = segment(A, &[(3 * MIB, true), (MIB, false), (7 * MIB, true), (9 * MIB, false)]);
    read(file(vec![first, segment(B, &[(40 * MIB, true)])], events))
}

fn recording(snapshot: &Snapshot) -> Result<RequestHistory, RepeatError> {
    let device = &snapshot.devices[&DeviceId::FIRST];
    let replay =
        replay::run_with(snapshot, DeviceId::FIRST, device, WantedResults { layout: true, ..WantedResults::default() })
            .unwrap();
    RequestHistory::new(snapshot, device, &replay)
}

fn requests(snapshot: &Snapshot, how: Earlier) -> String {
    let requests = recording(snapshot).unwrap().requests(how, false);
    requests.iter().map(|request| format!("{request}\n")).collect()
}

#[test]
fn requests_are_those_of_the_recording_after_the_memory_from_before() {
    let snapshot = story();
    let whole = requests(&snapshot, Earlier::AsRecorded);
    let mib = |number: u64| number * MIB;
    // Each segment is made whole and filled, and then what was free is freed.
    let before = format!(
        "a 5 {} 0 0\nf 5\na 6 {} 0 0\na 1 {} 0 0\na 7 {} 0 0\na 8 {} 0 0\nf 6\nf 7\nf 8\nb\n",
        mib(20),
        mib(4),
        mib(8),
        mib(8),
        mib(32)
    );
    let recorded = format!("a 2 {} 0 0\nf 1\ne\na 3 {} 0 0\na 4 {} 0 0\no {} 0 0\n", mib(3), mib(7), mib(40), mib(64));
    assert_eq!(whole, before + &recorded);
    let RequestHistory { streams, private_pools, reserved_before, held_before, capacity, .. } =
        recording(&snapshot).unwrap();
    assert_eq!((streams, private_pools), (1, 0));
    // Reserved when memory ran out, and what the device had free: the events say 3 MiB.
    assert_eq!((reserved_before, held_before, capacity), (52 * MIB, 8 * MIB, Some(63 * MIB)));
    let packed = requests(&snapshot, Earlier::Packed);
    assert!(packed.starts_with(&format!("a 1 {} 0 0\nb\na 2 ", mib(8))), "{packed}");
}

#[test]
fn the_curve_has_a_point_for_each_request() {
    let snapshot = story();
    let events = snapshot.events_of(&snapshot.devices[&DeviceId::FIRST]);
    let expected = [(52, true), (20, true), (60, true), (60, false)].map(|(mib, fits)| (mib * MIB, fits));
    assert_eq!(curve(events, 52 * MIB), expected);
}

/// A segment that goes, by the function `by`, right before a larger one comes for a request of `main`.
fn replaced(by: &str, conf: &str) -> Snapshot {
    let Value::Dict(mut went) = event("segment_free", A, 20 * MIB) else { panic!("no event") };
    went.retain(|(key, _)| *key != "frames".into());
    went.push(("frames".into(), frames(by)));
    let mut events = vec![event("segment_alloc", A, 20 * MIB), event("alloc", A, 2 * MIB)];
    events.extend(free(A, 2 * MIB));
    events.extend([Value::Dict(went), event("segment_alloc", B, 32 * MIB), event("alloc", B, 32 * MIB)]);
    let value = recorded::snapshot(vec![segment(B, &[(32 * MIB, true)])], events);
    let settings = Value::dict([("PYTORCH_CUDA_ALLOC_CONF", conf.into())]);
    read(pickle::write(&value.with("allocator_settings", settings), pickle::Options::default()))
}

#[test]
fn segments_that_made_room_for_a_request_tell_the_memory_of_the_device() {
    let requests_of = |by| requests(&replaced(by, ""), Earlier::AsRecorded);
    let capacity = |by| recording(&replaced(by, "")).unwrap().capacity;
    assert_eq!(requests_of("main"), format!("b\na 1 {} 0 0\nf 1\na 2 {} 0 0\n", 2 * MIB, 32 * MIB));
    assert_eq!(capacity("main"), Some(52 * MIB - 1));
    assert_eq!(requests_of("empty_cache"), format!("b\na 1 {} 0 0\nf 1\ne\na 2 {} 0 0\n", 2 * MIB, 32 * MIB));
    assert_eq!(capacity("empty_cache"), None);
    // Collected, whatever the memory of the device.
    assert_eq!(recording(&replaced("main", "garbage_collection_threshold:0.5")).unwrap().capacity, None);
}

#[test]
fn a_history_without_requests_is_refused() {
    let state = read(file(vec![segment(A, &[(2 * MIB, true)])], Vec::new()));
    let refused = recording;
    assert_eq!(refused(&state).unwrap_err(), RepeatError::NoHistory);
    let twice = ["alloc", "alloc"].map(|action| event(action, A, 20 * MIB));
    let without_frees = read(file(vec![segment(A, &[(20 * MIB, true)])], twice.to_vec()));
    let expected = "the recorded requests are not complete: the history has allocations but no frees (skip_actions?), so the peak \
                    cannot be computed; 'ptmem doctor' says how to record them";
    assert_eq!(refused(&without_frees).unwrap_err().to_string(), expected);
    let unbacked = vec![event("alloc", B, 2 * MIB), event("segment_alloc", A, 20 * MIB), event("alloc", A, 20 * MIB)];
    let unbacked = unbacked.into_iter().chain(free(B, 2 * MIB)).collect();
    let error = refused(&read(file(vec![segment(A, &[(20 * MIB, true)])], unbacked))).unwrap_err();
    assert!(error.to_string().contains("outside every known segment"), "{error}");
}

#[test]
fn blocks_pin_segments_that_are_mostly_free() {
    let snapshot = story();
    let device = &snapshot.devices[&DeviceId::FIRST];
    let replay = replay::run_with(
        &snapshot,
        DeviceId::FIRST,
        device,
        WantedResults { layout: true, ..WantedResults::default() },
    )
    .unwrap();
    let grouper = Grouper::new(&snapshot.tables, GroupBy::default(), &Rules::default());
    let found = pinned(&snapshot, device, &replay, &grouper).unwrap();
    // The peak is that of both segments, after the last block.
    assert_eq!((found.reserved_peak, found.active_then, found.without_free_memory), (60 * MIB, 50 * MIB, 50 * MIB));
    assert_eq!((found.unused_segments, found.mostly_free_segments.len(), found.pinning_stacks.len()), (0, 0, 0));
}

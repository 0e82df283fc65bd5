//! The private pools of segments that went before the dump.

use ptmem::device::DeviceId;
use ptmem::replay::{self, WantedResults};
use ptmem::snapshot;

use super::super::requests::AllocatorRequest;
use super::super::{Earlier, RequestHistory};
use super::pickle::Value;
use super::recorded::{A, B, C, KIB, MIB, event, file, free, pool, segment};

fn requests(segments: Vec<Value>, events: Vec<Value>) -> Vec<AllocatorRequest> {
    let snapshot = snapshot::read(&file(segments, events)[..]).unwrap();
    let device = &snapshot.devices[&DeviceId::FIRST];
    let replay = replay::run_with(
        &snapshot,
        DeviceId::FIRST,
        device,
        WantedResults { layout: true, ..WantedResults::default() },
    )
    .unwrap();
    RequestHistory::new(&snapshot, device, &replay).unwrap().requests(Earlier::AsRecorded, false)
}

/// The pools from which blocks are served, in order.
fn pools(requests: &[AllocatorRequest]) -> Vec<usize> {
    let lanes = requests.iter().filter_map(|request| match request {
        AllocatorRequest::Allocate { lane, .. } => Some(lane.pool),
        _ => None,
    });
    lanes.collect()
}

/// A block in a segment that comes for it.
fn obtain(at: u64, segment: u64, size: u64) -> [Value; 2] {
    [event("segment_alloc", at, segment), event("alloc", at, size)]
}

/// The end of a block and of its segment.
fn give_back(at: u64, segment: u64, size: u64) -> Vec<Value> {
    free(at, size).into_iter().chain([event("segment_free", at, segment)]).collect()
}

#[test]
fn a_segment_that_comes_although_another_has_room_is_in_another_pool() {
    let mut events = [obtain(A, 20 * MIB, 3 * MIB), obtain(B, 20 * MIB, 3 * MIB)].concat();
    // The smallest free block that is large enough is in the second segment.
    events.push(event("alloc", B + 3 * MIB, 4 * MIB));
    events.extend(free(B + 3 * MIB, 4 * MIB));
    events.extend([give_back(A, 20 * MIB, 3 * MIB), give_back(B, 20 * MIB, 3 * MIB)].concat());
    events.extend(obtain(C, 40 * MIB, 40 * MIB));
    let end = vec![segment(C, &[(40 * MIB, true)])];
    assert_eq!(pools(&requests(end, events)), [0, 1, 1, 0]);
}

#[test]
fn a_free_block_that_fits_better_is_in_another_pool() {
    let mut events = [obtain(A, 20 * MIB, 8 * MIB), obtain(B, 20 * MIB, 14 * MIB)].concat();
    // Of 12 MiB and of 6 MiB; then the larger one is taken.
    events.push(event("alloc", A + 8 * MIB, 3 * MIB));
    events.extend(give_back(B, 20 * MIB, 14 * MIB));
    let end = vec![segment(A, &[(8 * MIB, true), (3 * MIB, true), (9 * MIB, false)])];
    assert_eq!(pools(&requests(end, events)), [0, 1, 0]);
}

#[test]
fn a_free_segment_that_an_emptied_cache_keeps_is_in_a_private_pool() {
    let mut events = [obtain(A, 32 * MIB, 32 * MIB), obtain(B, 40 * MIB, 40 * MIB)].concat();
    events.extend([free(B, 40 * MIB).to_vec(), give_back(A, 32 * MIB, 32 * MIB)].concat());
    events.push(event("alloc", B, 40 * MIB));
    events.extend(give_back(B, 40 * MIB, 40 * MIB));
    events.extend(obtain(C, 2 * MIB, 4 * KIB));
    let end = vec![segment(C, &[(4 * KIB, true), (2 * MIB - 4 * KIB, false)])];
    assert_eq!(pools(&requests(end, events)), [0, 1, 1, 0]);
}

/// A segment of a private pool at the dump.
fn private(blocks: &[(u64, bool)]) -> Value {
    let Value::Dict(mut pairs) = segment(A, blocks) else { panic!("no segment") };
    pairs.retain(|(key, _)| *key != "segment_pool_id".into());
    pairs.push(("segment_pool_id".into(), pool(1)));
    Value::Dict(pairs)
}

#[test]
fn a_pool_goes_with_blocks_in_use_if_no_request_follows() {
    let mut events = [obtain(A, 20 * MIB, 10 * MIB), obtain(B, 20 * MIB, 12 * MIB)].concat();
    // From the default pool, although there is room in the second segment.
    events.extend(obtain(C, 20 * MIB, 7 * MIB));
    events.extend(give_back(B, 20 * MIB, 12 * MIB));
    let of_default = segment(C, &[(7 * MIB, true), (13 * MIB, false)]);
    let end = vec![private(&[(10 * MIB, true), (10 * MIB, false)]), of_default.clone()];
    let found = requests(end, events.clone());
    assert_eq!(pools(&found), [1, 1, 0]);
    assert!(found.contains(&AllocatorRequest::Drop(1)), "{found:?}");
    events.push(event("alloc", A + 10 * MIB, 9 * MIB));
    let end = vec![private(&[(10 * MIB, true), (9 * MIB, true), (MIB, false)]), of_default];
    let found = requests(end, events);
    assert_eq!(pools(&found), [1, 1, 0, 1]);
    assert!(!found.contains(&AllocatorRequest::Drop(1)), "{found:?}");
}

//! Reports of failed allocations: memory held, memory free for the request, and who held the rest.

use crate::support::history::{A, B, C, KIB, MIB, event, file, frames, free, oom, pool, segment};
use crate::support::pickle::{self, Value};
use ptmem::diff;
use ptmem::profile::saved::text_of;
use ptmem::profile::{self, Moment, Profile, ReadOptions};
use ptmem::replay::Oom;
use ptmem::report::{self, Format};

fn load(file: &[u8], at: Moment) -> Profile {
    profile::read(file, "oom.pkl", ReadOptions { at, ..ReadOptions::default() }).unwrap()
}

fn ooms(segments: Vec<Value>, events: Vec<Value>) -> Vec<Oom> {
    let profile = load(&file(segments, events), Moment::Peak);
    assert!(
        profile.diagnostics.iter().all(|found| found.code.name() != "self-check-failed"),
        "{:?}",
        profile.diagnostics
    );
    profile.devices[0].figures.ooms.clone()
}

fn pools(ooms: &[Oom]) -> Vec<Option<(u64, u64)>> {
    ooms.iter().map(|oom| oom.pool_free.zip(oom.largest_free)).collect()
}

/// Free are 4 and 10 MiB for large requests and 1.5 MiB for small ones; and 12 MiB for large ones on stream 7.
fn held() -> Vec<Value> {
    let on_7 = |event: Value| event.with("stream", 7);
    let mut events = vec![
        event("segment_alloc", A, 20 * MIB),
        event("alloc", A, 4 * MIB),
        event("alloc", A + 4 * MIB, 6 * MIB),
        event("segment_alloc", B, 2 * MIB),
        event("alloc", B, 512 * KIB),
        on_7(event("segment_alloc", C, 20 * MIB)),
        on_7(event("alloc", C, 8 * MIB)),
    ];
    events.extend(free(A, 4 * MIB));
    events
}

/// The segments of [`held`] as the dump has them if nothing happens after it.
fn segments() -> Vec<Value> {
    vec![
        segment(A, &[(4 * MIB, false), (6 * MIB, true), (10 * MIB, false)]),
        segment(B, &[(512 * KIB, true), (1536 * KIB, false)]),
        segment(C, &[(8 * MIB, true), (12 * MIB, false)]).with("stream", 7),
    ]
}

/// A handler that gives everything back before the dump.
fn given_back() -> Vec<Value> {
    let on_7 = |event: Value| event.with("stream", 7);
    let mut events = free(A + 4 * MIB, 6 * MIB).to_vec();
    events.extend(free(B, 512 * KIB));
    events.extend(free(C, 8 * MIB).map(on_7));
    events.extend([event("segment_free", A, 20 * MIB), event("segment_free", B, 2 * MIB)]);
    events.push(on_7(event("segment_free", C, 20 * MIB)));
    events
}

#[test]
fn a_request_has_the_free_blocks_of_its_stream_and_size() {
    let requests = vec![
        oom(50 * MIB),
        oom(MIB),
        oom(MIB + 512),
        oom(50 * MIB).with("stream", 7),
        oom(512).with("stream", 7),
        oom(50 * MIB).without("stream"),
    ];
    let expected = [
        Some((14 * MIB, 10 * MIB)),
        Some((1536 * KIB, 1536 * KIB)),
        Some((14 * MIB, 10 * MIB)),
        Some((12 * MIB, 12 * MIB)),
        Some((0, 0)),
        None,
    ];
    // Whether the memory is there at the dump or not, and whether the whole history is.
    for kept in [true, false] {
        for first in [0, 4] {
            let mut events = [held()[first..].to_vec(), requests.clone()].concat();
            let mut segments = segments();
            if !kept {
                events.extend(given_back());
                segments.clear();
            }
            let ooms = ooms(segments, events);
            // A block from before the history that is freed in it may be larger than its request.
            let error = if kept || first == 0 { 0 } else { 2 * MIB };
            for (oom, expected) in ooms.iter().zip(expected) {
                let place = format!("kept {kept}, from {first}, {oom:?}");
                assert!(oom.max_error.unwrap() <= error, "{place}");
                let near = |got: Option<u64>, expected: u64| got.unwrap().abs_diff(expected) <= oom.max_error.unwrap();
                assert!(near(oom.allocated, 14 * MIB + 512 * KIB), "{place}");
                assert!(near(oom.active, 14 * MIB + 512 * KIB), "{place}");
                assert_eq!(oom.reserved, Some(42 * MIB), "{place}");
                assert!(near(oom.fragmentation(), 27 * MIB + 512 * KIB), "{place}");
                assert!(near(oom.demand(), 14 * MIB + 512 * KIB + oom.requested), "{place}");
                assert_eq!(oom.pool_free.is_some(), expected.is_some(), "{place}");
                if let Some((bytes, largest)) = expected {
                    assert!(near(oom.pool_free, bytes) && near(oom.largest_free, largest), "{place}");
                    assert!(near(oom.unusable(), 27 * MIB + 512 * KIB - bytes), "{place}");
                }
            }
            assert_eq!(ooms.len(), expected.len());
        }
    }
}

#[test]
fn what_waits_for_another_stream_is_not_free() {
    let mut events = held();
    events.push(event("free_requested", A + 4 * MIB, 6 * MIB));
    events.push(oom(50 * MIB));
    events.push(event("free_completed", A + 4 * MIB, 6 * MIB));
    events.push(oom(50 * MIB));
    let mut segments = segments();
    segments[0] = segment(A, &[(20 * MIB, false)]);
    let ooms = ooms(segments, events);
    assert_eq!(pools(&ooms), [Some((14 * MIB, 10 * MIB)), Some((20 * MIB, 20 * MIB))]);
    assert_eq!([ooms[0].allocated, ooms[1].allocated], [Some(8 * MIB + 512 * KIB); 2]);
    assert_eq!([ooms[0].active, ooms[1].active], [Some(14 * MIB + 512 * KIB), Some(8 * MIB + 512 * KIB)]);
}

#[test]
fn private_pools_are_for_their_own_requests() {
    let mut segments = segments();
    segments[2] = segment(C, &[(8 * MIB, true), (12 * MIB, false)]).with("segment_pool_id", pool(3));
    let (on_0, in_3) = (|event: Value| event.with("pool_id", pool(0)), |event: Value| event.with("pool_id", pool(3)));
    let own = |event: Value| event.with("stream", 0);
    let requests = vec![oom(50 * MIB), oom(50 * MIB)];
    let told = |first: usize, events: Vec<Value>| -> Vec<Value> {
        events
            .into_iter()
            .enumerate()
            .map(|(i, event)| if i == 5 - first || i == 6 - first { in_3(own(event)) } else { on_0(event) })
            .collect()
    };
    let mut events = told(0, held());
    events.extend([on_0(requests[0].clone()), in_3(requests[1].clone())]);
    let expected = [Some((14 * MIB, 10 * MIB)), Some((12 * MIB, 12 * MIB))];
    assert_eq!(pools(&ooms(segments.clone(), events)), expected);
    // Before 2.12, a request on a stream that has private pools may be for them.
    let untold: Vec<Value> = held().into_iter().map(own).chain(requests).collect();
    assert_eq!(pools(&ooms(segments.clone(), untold)), [None, None]);
    segments[2] = segment(C, &[(8 * MIB, true), (12 * MIB, false)]).with("segment_pool_id", pool(3)).with("stream", 7);
    let untold = [held(), vec![oom(50 * MIB), oom(50 * MIB).with("stream", 7)]].concat();
    assert_eq!(pools(&ooms(segments, untold)), [Some((14 * MIB, 10 * MIB)), None]);
}

#[test]
fn mapped_memory_that_touches_is_one_block() {
    let small = A + (1 << 38);
    let mut events = vec![
        event("segment_map", A, 20 * MIB),
        event("alloc", A, 18 * MIB),
        event("segment_map", A + 20 * MIB, 20 * MIB),
        event("alloc", A + 18 * MIB, 10 * MIB),
        event("segment_map", small, 2 * MIB),
        event("alloc", small, 1000),
        // Ten small granules together look like a large one.
        event("segment_map", small + 2 * MIB, 2 * MIB),
        event("alloc", small + KIB, MIB),
    ];
    events.extend(free(A, 18 * MIB));
    events.push(oom(30 * MIB));
    events.push(event("segment_unmap", A, 18 * MIB));
    events.push(oom(30 * MIB));
    events.push(oom(MIB));
    events.extend(free(A + 18 * MIB, 10 * MIB));
    events.extend(free(small, 1000));
    events.extend(free(small + KIB, MIB));
    events.push(event("segment_unmap", A + 18 * MIB, 22 * MIB));
    events.push(event("segment_unmap", small, 4 * MIB));
    let expected = [Some((30 * MIB, 18 * MIB)), Some((12 * MIB, 12 * MIB)), Some((3 * MIB - KIB, 3 * MIB - KIB))];
    let settings = Value::dict([("expandable_segments", true.into())]);
    for first in [0, 4, 7] {
        let value = Value::dict([
            ("segments", Vec::new().into()),
            ("device_traces", vec![events[first..].to_vec().into()].into()),
            ("allocator_settings", settings.clone()),
        ]);
        let profile = load(&pickle::write(&value, pickle::Options::default()), Moment::Peak);
        let ooms = &profile.devices[0].figures.ooms;
        assert_eq!(pools(ooms), expected, "from {first}");
        assert!(ooms.iter().all(|oom| oom.max_error == Some(0)), "from {first}: {ooms:?}");
    }
}

#[test]
fn only_the_first_failures_are_looked_at() {
    let events = [held(), vec![oom(50 * MIB); 40]].concat();
    let ooms = ooms(segments(), events);
    assert_eq!(pools(&ooms), [vec![Some((14 * MIB, 10 * MIB)); 16], vec![None; 24]].concat());
    assert!(ooms.iter().all(|oom| oom.fragmentation() == Some(27 * MIB + 512 * KIB)));
    let profile = load(&file(segments(), [held(), vec![oom(50 * MIB); 40]].concat()), Moment::Peak);
    let table = table(&profile, 10);
    assert_eq!(table.matches("asked for 50.00 MiB").count(), 3, "{table}");
    assert!(table.contains("and 37 more times"), "{table}");
}

#[test]
fn what_cannot_be_known_is_not_told() {
    // Frees alone: what was allocated is not known.
    // The same block twice: it was allocated in between.
    let frees = [free(A, 4 * MIB), free(A, 4 * MIB)].concat();
    let events = [vec![oom(50 * MIB)], frees, vec![oom(50 * MIB)]].concat();
    let profile = load(&file(segments(), events), Moment::Peak);
    for oom in &profile.devices[0].figures.ooms {
        assert_eq!((oom.allocated, oom.active, oom.demand(), oom.fragmentation()), (None, None, None, None));
        assert_eq!((oom.reserved, oom.pool_free, oom.max_error), (Some(42 * MIB), None, None));
    }
    let text = table(&profile, 10);
    assert!(text.contains("allocated unknown, active unknown, reserved 42.00 MiB"), "{text}");
    assert!(text.contains("the free memory of its pool is unknown"), "{text}");
    let json = Format::Json.render(&profile, &report::RenderOptions::default()).unwrap();
    assert!(json.contains("\"pool_free\": null") && json.contains("\"demand\": null"), "{json}");
    assert_eq!(text_of(&parse(&whole(&profile), Moment::Peak), &[]).unwrap(), whole(&profile));
}

#[test]
fn ranges_that_overlap_are_no_trap() {
    // Every segment reaches over all that follow.
    let far = (0..4000).map(|i| segment(A + i * 512, &[(512, true), (1 << 30, false)]).with("total_size", 1_u64 << 40));
    let events = [vec![event("alloc", A, 512)], vec![oom(50 * MIB); 16]].concat();
    let profile = load(&file(far.collect(), events), Moment::Peak);
    assert_eq!(profile.devices[0].figures.ooms.len(), 16);
}

fn table(profile: &Profile, top: usize) -> String {
    let options = report::RenderOptions {
        top: Some(top),
        table: report::TableOptions { width: Some(80), more: None },
        ..report::RenderOptions::default()
    };
    let text = Format::Table.render(profile, &options).unwrap();
    anstream::adapter::strip_str(&text).to_string()
}

fn whole(profile: &Profile) -> String {
    text_of(profile, &[]).unwrap()
}

fn parse(text: &str, at: Moment) -> Profile {
    load(text.as_bytes(), at)
}

/// Seven functions hold 1 to 7 MiB when memory runs out, long after a peak of 300 MiB.
fn late() -> Vec<u8> {
    let mut events = vec![event("segment_alloc", C, 300 * MIB), event("alloc", C, 300 * MIB)];
    events.extend(free(C, 300 * MIB));
    for i in 1..=7 {
        let address = A + i * 64 * MIB;
        let function = format!("keep_{i}");
        events.push(event("segment_alloc", address, 40 * MIB).with("frames", frames(&function)));
        events.push(event("alloc", address, i * MIB * 2).with("frames", frames(&function)));
    }
    events.push(oom(900 * MIB));
    for i in 1..=7 {
        events.extend(free(A + i * 64 * MIB, i * MIB * 2));
    }
    let segments = (1..=7).map(|i| segment(A + i * 64 * MIB, &[(40 * MIB, false)]));
    file(segments.chain([segment(C, &[(300 * MIB, false)])]).collect(), events)
}

#[test]
fn who_held_the_memory_is_said_without_being_asked() {
    let live = load(&late(), Moment::Peak);
    let saved = parse(&whole(&live), Moment::Peak);
    for profile in [&live, &saved] {
        let text = table(profile, 10);
        assert!(text.contains("largest stacks at the peak (300.00 MiB)"), "{text}");
        let (_, section) = text.split_once("largest stacks when memory ran out (56.00 MiB)").unwrap();
        let rows: Vec<&str> = section.lines().skip(2).map(str::trim).collect();
        let expected = [
            "14.00 MiB  25.0 %       1  keep_7 (train.py:7)",
            "12.00 MiB  21.4 %       1  keep_6 (train.py:7)",
            "10.00 MiB  17.9 %       1  keep_5 (train.py:7)",
            "8.00 MiB  14.3 %       1  keep_4 (train.py:7)",
            "6.00 MiB  10.7 %       1  keep_3 (train.py:7)",
            "6.00 MiB  10.7 %       2  [2 others]",
        ];
        assert_eq!(rows[..expected.len()], expected, "{text}");
        let facts = text.lines().skip_while(|line| !line.contains("out of memory")).take(6);
        assert!(facts.chain(section.lines()).all(|line| line.chars().count() <= 80), "{text}");
        assert!(table(profile, 1).contains("42.00 MiB  75.0 %       6  [6 others]"), "{}", table(profile, 1));
        assert!(table(profile, 0).contains("2.00 MiB   3.6 %       1  keep_1"), "{}", table(profile, 0));
        let page = Format::Markdown.render(profile, &report::RenderOptions::default()).unwrap();
        assert!(page.contains("**Largest stacks at the peak**"), "{page}");
        assert!(page.contains("**Largest stacks when memory ran out**"), "{page}");
        let device = &profile.devices[0];
        assert_eq!(device.stacks.iter().map(|stack| stack.oom.bytes).sum::<u64>(), 56 * MIB);
        assert_eq!(device.figures.ooms[0].allocated, Some(56 * MIB));
    }
    // Whoever asks for another moment gets that one.
    for at in [Moment::End, Moment::Oom, Moment::Event(5)] {
        let text = table(&load(&late(), at), 10);
        assert_eq!(text.matches("largest stacks").count(), 1, "{text}");
    }
}

#[test]
fn a_saved_profile_keeps_the_stacks_when_memory_ran_out() {
    let live = load(&late(), Moment::Peak);
    let text = whole(&live);
    // Whichever moment it was read at.
    for at in [Moment::Oom, Moment::End] {
        assert_eq!(whole(&load(&late(), at)), text);
    }
    let (live, saved) = (load(&late(), Moment::Oom), parse(&text, Moment::Oom));
    assert_eq!(saved.devices[0].at, live.devices[0].at);
    assert_eq!(saved.devices[0].figures.ooms, live.devices[0].figures.ooms);
    assert_eq!(table(&saved, 10).split_once("device 0").unwrap().1, table(&live, 10).split_once("device 0").unwrap().1);
    let diff = diff::compare(saved, live, diff::DiffOptions::default());
    assert!(
        diff.devices[0]
            .rows
            .iter()
            .all(|row| row.change == diff::ChangeKind::Same && row.held.before == row.held.after)
    );
    assert_eq!(diff.devices[0].rows.iter().map(|row| row.held.after.bytes).sum::<u64>(), 56 * MIB);
}

#[test]
fn a_full_pool_is_described_without_zeros() {
    let events = vec![event("segment_alloc", A, 20 * MIB), event("alloc", A, 20 * MIB), oom(50 * MIB)];
    let profile = load(&file(vec![segment(A, &[(20 * MIB, true)])], events), Moment::Peak);
    let table = Format::Table.render(&profile, &report::RenderOptions::default()).unwrap();
    assert!(table.contains("its pool had no free memory"), "{table}");
    assert!(!table.contains("unusable") && !table.contains("at most 0 B"), "{table}");
}

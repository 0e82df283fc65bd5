//! Files that refer to one large object over and over, in a few bytes each time. Time or memory that grows with the product of
//! both would be minutes or gigabytes.

use ptmem::snapshot::{Snapshot, read};

/// A text.
fn text(text: &str) -> Vec<u8> {
    [b"X", &u32::try_from(text.len()).unwrap().to_le_bytes()[..], text.as_bytes()].concat()
}

/// A dictionary of these values.
fn dict<const N: usize>(pairs: [(&str, &[u8]); N]) -> Vec<u8> {
    let pairs = pairs.into_iter().flat_map(|(key, value)| [text(key), value.to_vec()].concat());
    [b"}(".to_vec(), pairs.collect(), b"u".to_vec()].concat()
}

/// A list of an item, so often.
fn list(item: &[u8], count: usize) -> Vec<u8> {
    [b"](".to_vec(), item.repeat(count), b"e".to_vec()].concat()
}

/// A dictionary with this many unknown keys.
fn long_dict(count: usize) -> Vec<u8> {
    [b"}(".to_vec(), b"K\0N".repeat(count), b"u".to_vec()].concat()
}

const NONE: &[u8] = b"N";
const ZERO: &[u8] = b"K\0";
/// The object that a file refers to.
const SHARED: &[u8] = b"h\0";

/// A file that keeps an object, and then has these entries.
fn of<const N: usize>(shared: &[u8], entries: [(&str, &[u8]); N]) -> Snapshot {
    let file = [b"\x80\x04", shared, b"\x940", &dict(entries)[..], b"."].concat();
    read(&file[..]).unwrap()
}

/// The same with this many events, each with an entry that is the object.
fn of_events(shared: &[u8], count: usize, key: &str) -> Snapshot {
    let event = dict([("action", &text("alloc")), ("addr", ZERO), ("size", ZERO), (key, SHARED)]);
    let snapshot = of(shared, [("segments", b"]"), ("device_traces", &list(&list(&event, count), 1))]);
    assert_eq!(snapshot.events.len(), count);
    snapshot
}

const MANY: usize = 1_000_000;

#[test]
fn a_long_list_is_no_pool_and_no_metadata() {
    let list = list(NONE, MANY);
    let metadata = dict([("a", &list)]);
    for (key, shared) in [("pool_id", list), ("user_metadata", metadata)] {
        let snapshot = of_events(&shared, 60_000, key);
        let tags = snapshot.tables.tags(snapshot.events[0].tags);
        assert_eq!((tags.pool_id, tags.user_metadata), (None, None));
    }
}

#[test]
fn only_the_latest_occupant_of_a_block_is_read() {
    let occupant = dict([("real_size", b"K\x07")]);
    let history = [b"](".to_vec(), occupant, NONE.repeat(MANY), b"e".to_vec()].concat();
    let block = |state| dict([("size", b"K\x08"), ("state", &text(state)), ("history", SHARED)]);
    let blocks = list(&block("active_allocated"), 60_000);
    let size = [b"J", &480_000_i32.to_le_bytes()[..]].concat();
    let segment = dict([("device", ZERO), ("address", ZERO), ("total_size", &size), ("blocks", &blocks)]);
    let snapshot = of(&history, [("segments", &list(&segment, 1))]);
    let blocks = snapshot.devices.values().flat_map(|device| &device.segments).flat_map(|segment| &segment.blocks);
    assert!(blocks.clone().all(|block| block.requested_size == Some(7)) && blocks.count() == 60_000);
}

#[test]
fn an_annotation_counts_once_and_has_few_keys() {
    let annotation = [("stage", &text("START")[..]), ("name", &text("forward")), ("time_us", ZERO)];
    for (shared, expected) in [(dict(annotation), 1), (long_dict(MANY), 0)] {
        let annotations = list(SHARED, MANY);
        let snapshot = of(&shared, [("segments", b"]"), ("external_annotations", &annotations)]);
        assert_eq!(snapshot.annotations.len(), expected);
    }
}

#[test]
fn settings_are_few_and_short() {
    let intervals = dict([("1", ZERO), ("16", b"K\x04"), (&"x".repeat(16_000), ZERO)]);
    for (shared, expected) in [(long_dict(MANY), ""), (intervals, "1:0,16:4,x")] {
        let mut settings = b"}(".to_vec();
        for at in 0..100_000 {
            settings.extend([text(&format!("{at}")), SHARED.to_vec()].concat());
        }
        for _ in 0..100_000 {
            settings.extend([text("roundup_power2_divisions"), SHARED.to_vec()].concat());
        }
        settings.push(b'u');
        let snapshot = of(&shared, [("segments", b"]"), ("allocator_settings", &settings)]);
        let all = &snapshot.settings.all;
        assert!(all.len() <= 1000 && all.values().all(|text| text.len() <= 1000), "{} settings", all.len());
        assert!(all["0"].starts_with(expected) && all["0"].is_empty() == expected.is_empty(), "{}", all["0"]);
    }
}

/// The lines of a traceback that are one text take no memory of their own.
#[test]
fn the_text_of_a_traceback_is_read_once() {
    let line = text(&format!("  File \"a.py\", line 7, in f\n{}", "x".repeat(16_000)));
    let lines = list(SHARED, MANY);
    let event = dict([
        ("action", &text("alloc")),
        ("addr", ZERO),
        ("size", ZERO),
        ("frames", b"]"),
        ("forward_frames", &lines),
    ]);
    let snapshot = of(&line, [("segments", b"]"), ("device_traces", &list(&list(&event, 1), 1))]);
    let frames = snapshot.tables.forward(snapshot.events[0].stack.unwrap());
    assert!(frames.len() == 128 && frames.iter().all(|&frame| snapshot.tables.frame(frame).line == 7));
}

/// Every traceback makes a stack of its own, which would have all frames.
#[test]
fn a_stack_that_nothing_real_has_gets_no_forward_pass() {
    let frame = dict([("name", &text("f")), ("filename", &text("a.py")), ("line", ZERO)]);
    let frames = |count: usize| [frame.clone(), b"\x940".to_vec(), list(b"h\0", count)].concat();
    for (depth, forward) in [(MANY, 0), (9, 1)] {
        let mut events = b"](".to_vec();
        for at in 0..20_000 {
            let line = text(&format!("File \"a.py\", line {at}, in g"));
            let traceback = list(&line, 1);
            events.extend(dict([
                ("action", &text("alloc")[..]),
                ("addr", ZERO),
                ("size", ZERO),
                ("frames", b"h\x01"),
                ("forward_frames", &traceback),
            ]));
        }
        events.push(b'e');
        let snapshot = of(&frames(depth), [("segments", b"]"), ("device_traces", &list(&events, 1))]);
        let stack = snapshot.events[0].stack.unwrap();
        assert_eq!((snapshot.tables.stack(stack).len(), snapshot.tables.forward(stack).len()), (depth, forward));
    }
}

#[test]
fn generated_frames_share_the_text_of_their_origin() {
    let mut events = b"](".to_vec();
    for line in 0..200_000_i32 {
        let line = [b"J", &line.to_le_bytes()[..]].concat();
        let frame = dict([("name", SHARED), ("filename", SHARED), ("line", &line), ("fx_original_trace", SHARED)]);
        events.extend(dict([
            ("action", &text("alloc")[..]),
            ("addr", ZERO),
            ("size", ZERO),
            ("frames", &list(&frame, 1)),
        ]));
    }
    events.push(b'e');
    let origin = text(&format!("  File \"a.py\", line 7, in f\n{}", "x\n".repeat(8000)));
    let snapshot = of(&origin, [("segments", b"]"), ("device_traces", &list(&events, 1))]);
    let last = snapshot.tables.stack(snapshot.events[199_999].stack.unwrap())[0];
    let original = snapshot.tables.frame(last).original.unwrap();
    assert_eq!((snapshot.tables.frame(last).line, snapshot.tables.frame(original).line), (199_999, 7));
}

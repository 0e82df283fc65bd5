//! Snapshots that are refused, and the message.

use super::{
    block, error_of, event, frame, list, of_event, ordinary, profile_of, read_with, segment, snapshot_of, styles,
};

use crate::support::pickle::{Options, Value, Writer, write};
use ptmem::snapshot;

#[test]
fn missing_and_wrong_keys_are_named_with_their_place() {
    let events = |bad: Value| {
        let mut events = vec![event("alloc", 4096, 512); 20];
        events[17] = bad;
        snapshot_of(list([]), list([list(events)]))
    };
    let good = || event("alloc", 4096, 512);
    let in_block = |bad: Value| {
        let segments = list([
            segment(4096, 2 << 20),
            segment(1 << 30, 2 << 20),
            segment(2 << 30, 2 << 20).with("blocks", list([bad])),
        ]);
        snapshot_of(segments, list([]))
    };
    let in_segment = |bad: Value| snapshot_of(list([segment(4096, 2 << 20), bad]), list([]));
    let unsigned = "is missing or is not an integer from 0 to 2^64-1";
    let at = "device_traces[0][17]: ";
    for (value, place, problem) in [
        (events(good().without("addr")), at, format!("the key 'addr' {unsigned}")),
        (events(good().without("size")), at, format!("the key 'size' {unsigned}")),
        (events(good().with("size", -1)), at, format!("the key 'size' {unsigned}")),
        (events(good().with("size", 0.5)), at, format!("the key 'size' {unsigned}")),
        (events(good().with("addr", 1_i128 << 64)), at, format!("the key 'addr' {unsigned}")),
        (events(good().with("addr", Value::BigInt)), at, format!("the key 'addr' {unsigned}")),
        (events(good().with("addr", "4096")), at, format!("the key 'addr' {unsigned}")),
        (events(good().with("addr", Value::None)), at, format!("the key 'addr' {unsigned}")),
        (events(good().with("action", "oom").without("addr")), at, format!("the key 'device_free' {unsigned}")),
        (events(good().without("action")), at, "not an event (a dict with the keys 'action' and 'size')".to_owned()),
        (events(good().with("action", 7)), at, "the key 'action' is not a string".to_owned()),
        (events(7.into()), at, "not an event (a dict with the keys 'action' and 'size')".to_owned()),
        (events(segment(0, 1024)), at, "not an event (a dict with the keys 'action' and 'size')".to_owned()),
        (in_segment(segment(1, 1024).without("device")), "segments[1]: ", "the key 'device' is missing or is not an integer".to_owned()),
        (in_segment(segment(1, 1024).without("address")), "segments[1]: ", format!("the key 'address' {unsigned}")),
        (in_segment(segment(1, 1024).with("total_size", "x")), "segments[1]: ", format!("the key 'total_size' {unsigned}")),
        (in_segment(segment(1, 1024).with("device", 1_i64 << 32)), "segments[1]: ", "there is no device 4294967296; expected 0 to 1023".to_owned()),
        (in_segment(segment(1, 1024).without("blocks")), "segments[1]: ", "the key 'blocks' is missing or is not a list".to_owned()),
        (in_segment(segment(1, 1024).with("blocks", 7)), "segments[1]: ", "the key 'blocks' is not a list of blocks".to_owned()),
        (in_segment(segment(1, 1024).with("blocks", list([frame("f", 1)]))), "segments[1]: ", "the key 'blocks' is not a list of blocks".to_owned()),
        (in_segment(Value::None), "segments[1]: ", "not a segment (a dict with the key 'total_size')".to_owned()),
        (in_segment(block(0, 1, "inactive")), "segments[1]: ", "not a segment (a dict with the key 'total_size')".to_owned()),
        (in_block(block(0, 1, "inactive").without("size")), "segments[2]['blocks'][0]: ", format!("the key 'size' {unsigned}")),
        (in_block(block(0, 1, "inactive").without("state")), "segments[2]['blocks'][0]: ", "not a block (a dict with the key 'state')".to_owned()),
        (in_block(block(0, 1, "active")), "segments[2]['blocks'][0]: ", "the key 'state' is missing or is not one of active_allocated, active_pending_free, active_awaiting_free, inactive".to_owned()),
        (in_block(block(u64::MAX, 2, "inactive")), "segments[2]['blocks'][0]: ", "the block ends past the last address".to_owned()),
        (ordinary().with("segments", 7), "segments: ", "missing or not a list".to_owned()),
        (ordinary().without("segments"), "segments: ", "missing or not a list".to_owned()),
        (ordinary().with("device_traces", 7), "device_traces: ", "not a list".to_owned()),
        (ordinary().with("device_traces", list([list([]), 7.into()])), "device_traces[1]: ", "not a list of events".to_owned()),
        // As `host_traces` are: events, not a list of them per device.
        (ordinary().with("device_traces", list([good()])), "device_traces[0]: ", "not a list of events".to_owned()),
    ] {
        assert_eq!(error_of(&value), format!("{place}{problem}"));
    }
}

#[test]
fn of_a_key_that_is_set_twice_the_later_value_counts() {
    let twice = |key: &str, value: Value| {
        let Value::Dict(mut pairs) = event("alloc", 4096, 512) else { unreachable!() };
        pairs.push((key.into(), value));
        of_event(Value::Dict(pairs))
    };
    let unsigned = "is missing or is not an integer from 0 to 2^64-1";
    for (value, problem) in [
        (twice("size", "abc".into()), format!("the key 'size' {unsigned}")),
        (twice("addr", (-5).into()), format!("the key 'addr' {unsigned}")),
        (twice("action", Value::None), "the key 'action' is not a string".to_owned()),
    ] {
        assert_eq!(error_of(&value), format!("device_traces[0][0]: {problem}"));
    }
    assert_eq!(read_with(&twice("size", 7.into()), |snapshot| snapshot.events[0].size), 7);
}

#[test]
fn only_a_failed_request_has_free_bytes_for_an_address() {
    let unsigned = "is missing or is not an integer from 0 to 2^64-1";
    let alloc = event("alloc", 4096, 512).without("addr").with("device_free", 4096);
    assert_eq!(error_of(&of_event(alloc)), format!("device_traces[0][0]: the key 'addr' {unsigned}"));
    let failed = event("oom", 4096, 512);
    assert_eq!(error_of(&of_event(failed.clone())), format!("device_traces[0][0]: the key 'device_free' {unsigned}"));
    let both = of_event(failed.with("device_free", 77));
    assert_eq!(read_with(&both, |snapshot| snapshot.events[0].addr), 77);
}

/// Each level takes one byte of a file, and a hundred in memory.
#[test]
fn tuples_deep_within_each_other_are_an_error() {
    let nested = |depth: usize| {
        let nothing = (0..depth).fold(Value::from(7), |inner, _| Value::Tuple(vec![inner]));
        snapshot_of(list([]), list([])).with("other", nothing)
    };
    let read = |value: &Value| snapshot::read(&write(value, Options::default())[..]).map(drop);
    read(&nested(17)).unwrap();
    assert_reads!(read(&nested(18)).unwrap_err().to_string() => str!["byte 89: tuples are nested more than 16 deep; the file is damaged"]);
}

#[test]
fn what_stands_twice_is_an_error() {
    let shared =
        |value: &Value| snapshot::read(&write(value, Options::shared())[..]).map(drop).unwrap_err().to_string();
    let separate = |value: &Value| snapshot::read(&write(value, Options::default())[..]).map(drop);
    // The same object, which equal parts are with sharing; without, they are two that say the same.
    let twice = snapshot_of(list([segment(4096, 2 << 20), segment(4096, 2 << 20)]), list([]));
    assert_reads!(shared(&twice) => str!["segments[1]: the same segment object occurs twice; the file is damaged"]);
    separate(&twice).unwrap();
    let block = Value::dict([("size", 512.into()), ("state", "inactive".into())]);
    let of_block = snapshot_of(list([segment(4096, 2 << 20).with("blocks", list([block.clone(), block]))]), list([]));
    assert_reads!(shared(&of_block) => str!["segments[0]['blocks'][1]: the same block object occurs twice; the file is damaged"]);
    separate(&of_block).unwrap();
    let blocks = snapshot_of(list([segment(4096, 2 << 20), segment(4096, 2 << 20).with("device", 1)]), list([]));
    assert_reads!(shared(&blocks) => str!["segments[1]: shares its list of blocks with another segment; the file is damaged"]);
    separate(&blocks).unwrap();
    let traces = list([list([event("alloc", 1, 1)]), list([]), list([event("alloc", 1, 1)])]);
    assert_reads!(shared(&snapshot_of(list([]), traces.clone())) => str!["device_traces[2]: is the same list as that of another device; the file is damaged"]);
    separate(&snapshot_of(list([]), traces)).unwrap();
    // Empty lists are equal too, and that is no damage.
    let empty = snapshot_of(list([]), list([list([]), list([])]));
    snapshot::read(&write(&empty, Options::shared())[..]).unwrap();
}

#[test]
fn pickles_of_something_else_say_what_was_found() {
    for (value, found) in [
        (Value::from(7), "an int"),
        (Value::BigInt, "an int"),
        (
            Value::Int(0x1950_a86a_20f9_469c_fc6c),
            "an int, as torch.save() writes it with _use_new_zipfile_serialization=False; leave that out",
        ),
        (Value::from("segments"), "a str"),
        (Value::from(0.5), "a float"),
        (Value::from(true), "a bool"),
        (Value::None, "None, bytes or a set"),
        (Value::Bytes(vec![1]), "None, bytes or a set"),
        (list([1.into(), 2.into()]), "a list whose first item is an int"),
        (list([list([])]), "a list whose first item is a list"),
        (list([event("alloc", 1, 1)]), "a list whose first item is a single event"),
        (list([Value::dict([("a", 1.into())])]), "a list whose first item is a dict with the keys 'a'"),
        (Value::dict([("model", 1.into()), ("epoch", 2.into())]), "a dict with the keys 'model', 'epoch'"),
        (Value::Dict(vec![]), "an empty dict"),
        (event("alloc", 1, 1), "a single event"),
        (block(0, 1, "inactive"), "a dict with the keys 'address', 'size', 'requested_size', 'state', 'frames'"),
        (frame("f", 1), "a single frame"),
    ] {
        for style in styles() {
            let text = snapshot::read(&write(&value, style)[..]).unwrap_err().to_string();
            let expected =
                format!("the file is a pickle, but not a CUDA memory snapshot: {found}. Expected the dictionary");
            assert!(text.starts_with(&expected), "{text}");
        }
    }
    let many = Value::Dict((0..9).map(|i| (format!("layer.{i}\u{1b}[31m").as_str().into(), 0.into())).collect());
    let text = error_of(&many);
    assert!(text.contains(r"'layer.5\u{1b}[31m', …"), "{text}");
    assert!(!text.contains("layer.6") && !text.contains('\u{1b}'), "{text}");
}

#[test]
fn a_message_stays_short_whatever_the_file_holds() {
    let long = "x".repeat(1 << 20);
    let text = error_of(&Value::dict([(long.as_str(), 1.into())]));
    assert!(text.len() < 2000, "{} bytes", text.len());
}

#[test]
fn sums_that_leave_64_bits_are_errors() {
    let far = u64::MAX - 1023;
    let huge = 1_u64 << 63;
    let overflow = |value: &Value, what: &str| {
        let text = profile_of(snapshot::read(&write(value, Options::default())[..]).unwrap()).unwrap_err().to_string();
        assert_eq!(text, format!("the {what} bytes of device 0 add up to more than 2^64-1; the file is damaged"));
    };
    let with = |blocks: Vec<Value>| segment(0, 2 << 20).with("blocks", Value::List(blocks));
    overflow(&of_event(event("alloc", 4096, u64::MAX)), "allocated");
    overflow(
        &snapshot_of(
            list([]),
            list([list([event("alloc", 0, huge), event("alloc", huge, huge), event("free_completed", 0, huge)])]),
        ),
        "allocated",
    );
    overflow(
        &snapshot_of(
            list([
                with(vec![block(0, huge, "active_allocated")]),
                with(vec![block(huge, huge - 1, "active_allocated"), block(far, 1, "active_allocated")]),
            ]),
            list([]),
        ),
        "allocated",
    );
    overflow(
        &snapshot_of(list([segment(0, 2 << 20).with("total_size", u64::MAX), segment(1 << 40, 2 << 20)]), list([])),
        "reserved",
    );
    let requested = block(0, 512, "active_allocated").with("requested_size", u64::MAX);
    overflow(
        &snapshot_of(list([with(vec![requested.clone(), requested.with("address", 512)])]), list([])),
        "requested",
    );
    let churn = |address: u64| {
        [event("alloc", address, huge), event("free_requested", address, huge), event("free_completed", address, huge)]
    };
    let events: Vec<Value> = churn(0).into_iter().chain(churn(0)).collect();
    overflow(&snapshot_of(list([]), list([Value::List(events)])), "allocated in total");
}

#[test]
fn one_setting_in_the_place_of_many_costs_what_it_is_not_what_it_would_be() {
    // A long value that many keys refer to: gigabytes where it is copied for every one of them.
    let text = Value::from("x".repeat(200_000).as_str());
    let pairs = Value::Dict((0..5000).map(|i| (format!("p{i}").as_str().into(), i.into())).collect());
    for value in [text, pairs] {
        let mut writer = Writer::new(Options::default());
        writer.value(&value);
        let shared = writer.memoize();
        writer.op(b"0}(");
        writer.value(&"segments".into());
        writer.op(b"]");
        writer.value(&"allocator_settings".into());
        writer.op(b"}(");
        for i in 0..400 {
            writer.value(&format!("k{i}").as_str().into());
            writer.get(shared);
        }
        writer.op(b"uu");
        let bytes = writer.finish();
        let snapshot = snapshot::read(&bytes[..]).unwrap();
        assert_eq!(snapshot.settings.all.len(), 400);
        let kept: usize = snapshot.settings.all.values().map(String::len).sum();
        assert!(kept < 10 * bytes.len(), "{kept} bytes of {}", bytes.len());
    }
}

#[test]
fn a_device_that_no_machine_has_is_an_error() {
    let segment = Value::dict([
        ("device", 5000.into()),
        ("address", 4096.into()),
        ("total_size", 0.into()),
        ("blocks", Value::List(vec![])),
    ]);
    let bytes = write(&Value::List(vec![segment]), Options::default());
    assert_reads!(snapshot::read(&bytes[..]).unwrap_err().to_string() => str!["segments[0]: there is no device 5000; expected 0 to 1023"]);
}

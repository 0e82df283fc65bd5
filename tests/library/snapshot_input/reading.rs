//! Snapshots in every style of writing that PyTorch and its releases use.

use super::{
    block, event, frame, list, of_block, of_event, ordinary, profile_of, read_with, segment, snapshot_of, stack_of,
};
use proptest::prelude::*;
use ptmem::device::DeviceId;

use crate::pickle::Dribble;
use crate::support::pickle::{Options, Value, Writer, write};
use crate::support::random;
use ptmem::snapshot::{self, Action, BlockState, Event, Frame, Snapshot};

#[test]
fn a_snapshot_is_read_in_every_style_of_writing() {
    let (events, stack, segments) = read_with(&ordinary(), |snapshot| {
        let device = &snapshot.devices[&DeviceId::FIRST];
        let events = snapshot.events_of(device);
        let first = &events[0];
        let event = (events.len(), first.action, first.addr, first.size, snapshot.time_of(device, 0));
        let blocks: Vec<_> = device.segments[0].blocks.iter().map(|b| (b.address, b.size, b.state)).collect();
        (event, stack_of(snapshot, first), (device.segments.len(), blocks))
    });
    assert_eq!(events, (1, Action::Alloc, 4096, 512, Some(1_700_000_000_000_000)));
    assert_eq!(stack, Some(vec![("step".to_owned(), 3), ("main".to_owned(), 9)]));
    let blocks = vec![(4096, 512, BlockState::ActiveAllocated), (4608, (2 << 20) - 512, BlockState::Inactive)];
    assert_eq!(segments, (1, blocks));
}

#[test]
fn serde_pickle_as_writer_is_read_the_same() {
    fn to_serde(value: &Value) -> serde_pickle::Value {
        use serde_pickle::Value as Theirs;
        match value {
            Value::None => Theirs::None,
            Value::Bool(value) => Theirs::Bool(*value),
            Value::Int(value) => i64::try_from(*value).map_or_else(
                |_| {
                    serde_pickle::value_from_slice(
                        &write(&Value::Int(*value), Options::default()),
                        serde_pickle::DeOptions::new(),
                    )
                    .unwrap()
                },
                Theirs::I64,
            ),
            Value::Str(text) => Theirs::String(String::from_utf8(text.clone()).unwrap()),
            Value::List(items) => Theirs::List(items.iter().map(to_serde).collect()),
            Value::Tuple(items) => Theirs::Tuple(items.iter().map(to_serde).collect()),
            Value::Dict(pairs) => {
                Theirs::Dict(pairs.iter().map(|(k, v)| (to_serde(k).into_hashable().unwrap(), to_serde(v))).collect())
            }
            other => panic!("{other:?}"),
        }
    }
    // In alphabetical order of keys, so 'state' comes last in a block and 'action' first in an event.
    let value = of_event(event("alloc", u64::MAX - 511, 512));
    for options in [serde_pickle::SerOptions::new(), serde_pickle::SerOptions::new().proto_v2()] {
        let bytes = serde_pickle::value_to_vec(&to_serde(&value), options).unwrap();
        let snapshot = snapshot::read(&bytes[..]).unwrap();
        let device = &snapshot.devices[&DeviceId::FIRST];
        assert_eq!(snapshot.events_of(device)[0].addr, u64::MAX - 511);
        assert_eq!(stack_of(&snapshot, &snapshot.events_of(device)[0]).unwrap().len(), 2);
        assert_eq!(device.segments[0].blocks[0].stack.map(|id| snapshot.tables.stack(id).len()), Some(1));
    }
}

#[test]
fn a_list_of_segments_is_a_snapshot_without_history() {
    for value in [list([segment(4096, 2 << 20)]), Value::Tuple(vec![segment(4096, 2 << 20)])] {
        let (has_traces, segments) =
            read_with(&value, |snapshot| (snapshot.has_traces, snapshot.devices[&DeviceId::FIRST].segments.len()));
        assert_eq!((has_traces, segments), (false, 1));
    }
    assert_eq!(read_with(&list([]), |snapshot| (snapshot.has_traces, snapshot.devices.len())), (false, 0));
    let no_traces = ordinary().without("device_traces");
    assert!(!read_with(&no_traces, |snapshot| snapshot.has_traces));
    // Nothing allocated: empty lists, which are there.
    let empty = snapshot_of(list([]), list([list([]), list([])]));
    assert_eq!(read_with(&empty, |snapshot| (snapshot.has_traces, snapshot.devices.len())), (true, 0));
}

#[test]
fn tuples_stand_for_lists_and_lists_for_tuples() {
    let tuples = |value: &Value| match value {
        Value::List(items) => Value::Tuple(items.clone()),
        other => panic!("{other:?}"),
    };
    let event = event("alloc", 4096, 512).with("pool_id", list([3.into(), 4.into()]));
    let segment = segment(4096, 2 << 20).with("segment_pool_id", list([0.into(), 0.into()]));
    let Value::Dict(pairs) = &segment else { panic!() };
    let blocks = tuples(&pairs.iter().find(|(key, _)| *key == "blocks".into()).unwrap().1);
    let segments = tuples(&list([segment.clone().with("blocks", blocks)]));
    let traces = tuples(&list([tuples(&list([event]))]));
    let (pool, blocks) = read_with(&snapshot_of(segments, traces), |snapshot| {
        let device = &snapshot.devices[&DeviceId::FIRST];
        let tags = snapshot.tables.tags(snapshot.events_of(device)[0].tags);
        (tags.pool_id, device.segments[0].blocks.len())
    });
    assert_eq!((pool, blocks), (Some((3, 4)), 2));
}

#[test]
fn optional_keys_may_be_missing() {
    let event = ["stream", "time_us", "frames"].iter().fold(event("alloc", 4096, 512), |e, key| e.without(key));
    let (time, stack) = read_with(&of_event(event), |s| (s.times.all().next().flatten(), s.events[0].stack));
    assert_eq!((time, stack), (None, None));
    let keys =
        ["allocated_size", "active_size", "stream", "segment_type", "segment_pool_id", "is_expandable", "frames"];
    let segment = keys.iter().fold(segment(4096, 2 << 20), |segment, key| segment.without(key));
    let block = |size: u64| Value::dict([("size", size.into()), ("state", "active_allocated".into())]);
    let segment = segment.with("blocks", list([block(512), block(1024), block(2048)]));
    let (sums, blocks) = read_with(&list([segment]), |snapshot| {
        let segment = &snapshot.devices[&DeviceId::FIRST].segments[0];
        let blocks: Vec<_> = segment.blocks.iter().map(|b| (b.address, b.requested_size)).collect();
        ((segment.allocated_size, segment.active_size, segment.small_pool, segment.is_expandable), blocks)
    });
    assert_eq!(sums, (None, None, false, false));
    // Addresses are derived from the sizes before.
    assert_eq!(blocks, [(4096, None), (4608, None), (5632, None)]);
    // An oom has no address, a snapshot event may lack it.
    let oom = Value::dict([("action", "oom".into()), ("device_free", 77.into()), ("size", 99.into())]);
    let taken = Value::dict([("action", "snapshot".into()), ("size", 0.into())]);
    let value = snapshot_of(list([]), list([list([oom, taken])]));
    assert_eq!(read_with(&value, |s| (s.events[0].addr, s.events[0].size)), (77, 99));
    // With stack frames that lack everything but what makes them frames.
    let bare = Value::dict([("filename", "a.py".into()), ("line", Value::None)]);
    let value = of_event(self::event("alloc", 4096, 512).with("frames", list([bare])));
    let stack = read_with(&value, |snapshot| stack_of(snapshot, &snapshot.events[0]));
    assert_eq!(stack, Some(vec![(String::new(), -1)]));
}

/// `torch.save` of a snapshot to which a program added something, and metadata of the program's own.
#[test]
fn keys_of_a_frame_or_an_event_make_no_record_of_other_dictionaries() {
    let metadata = Value::dict([("action", "train".into()), ("filename", "run.py".into())]);
    let file = of_event(event("alloc", 4096, 512).with("user_metadata", metadata));
    for added in ["filename", "action"] {
        let text = read_with(&file.clone().with(added, "run.py"), |snapshot| {
            let tags = snapshot.tables.tags(snapshot.events[0].tags);
            tags.user_metadata.map(|text| snapshot.tables.string(text).to_owned())
        });
        assert_eq!(text.as_deref(), Some(r#"{"action":"train","filename":"run.py"}"#));
    }
    // With the second key of a frame or an event, too.
    for [added, second] in [["filename", "name"], ["action", "size"]] {
        let file = file.clone().with(added, "run.py").with(second, "job");
        assert_eq!(read_with(&file, |snapshot| snapshot.events.len()), 1);
    }
}

#[test]
fn blocks_of_release_1_13_have_their_stack_and_size_in_the_history() {
    let occupant = Value::dict([
        ("addr", 4096.into()),
        ("real_size", 500.into()),
        ("frames", list([frame("old", 1)])),
        ("cpp_frames", "a\nb".into()),
    ]);
    let older = Value::dict([("addr", 4096.into()), ("real_size", 100.into())]);
    for history in [list([occupant.clone(), older.clone()]), Value::Tuple(vec![occupant, older])] {
        let block = Value::dict([("size", 512.into()), ("state", "active_allocated".into()), ("history", history)]);
        let (requested, frames) = read_with(&of_block(block), |snapshot| {
            let block = &snapshot.devices[&DeviceId::FIRST].segments[0].blocks[0];
            (block.requested_size, block.stack.map(|id| snapshot.tables.stack(id).len()))
        });
        assert_eq!((requested, frames), (Some(500), Some(1)));
    }
}

#[test]
fn tracebacks_of_the_forward_pass_and_of_generated_code_are_read() {
    let line = |name: &str, line: u32| -> Value {
        (*format!("  File \"/repo/model.py\", line {line}, in {name}\n    x\n")).into()
    };
    let forward = list([line("<module>", 9), line("forward", 54), "no line of a traceback".into()]);
    let generated = frame("call", 3)
        .with("filename", "/tmp/torchinductor_me/ab/cab.py")
        .with("fx_original_trace", line("layer", 7));
    let odd = frame("call", 4).with("fx_original_trace", 7);
    let event =
        event("alloc", 4096, 512).with("frames", list([generated, odd])).with("forward_frames", forward.clone());
    let block = block(4096, 512, "active_allocated").with("forward_frames", forward);
    let value = snapshot_of(list([segment(4096, 2 << 20).with("blocks", list([block]))]), list([list([event])]));
    let (of_event, of_block, original) = read_with(&value, |snapshot| {
        let tables = &snapshot.tables;
        let text = |frame: &snapshot::FrameId| {
            let frame = tables.frame(*frame);
            format!("{}:{}", tables.string(frame.name), frame.line)
        };
        let of_event = snapshot.events[0].stack.unwrap();
        let of_block = snapshot.devices[&DeviceId::FIRST].segments[0].blocks[0].stack.unwrap();
        let original = tables.frame(tables.stack(of_event)[0]).original.as_ref().map(text);
        assert_eq!(tables.frame(tables.stack(of_event)[1]).original, None);
        let texts = |frames: &[snapshot::FrameId]| frames.iter().map(text).collect::<Vec<_>>();
        assert_eq!(texts(tables.stack(of_event)), ["call:3", "call:4"]);
        (texts(tables.forward(of_event)), texts(tables.forward(of_block)), original)
    });
    assert_eq!(of_event, ["forward:54", "<module>:9"]);
    assert_eq!(of_block, of_event);
    assert_eq!(original.as_deref(), Some("layer:7"));
}

#[test]
fn both_spellings_of_the_pending_state_are_read() {
    for state in ["active_pending_free", "active_awaiting_free"] {
        let state =
            read_with(&of_block(block(4096, 512, state)), |s| s.devices[&DeviceId::FIRST].segments[0].blocks[0].state);
        assert_eq!(state, BlockState::ActivePendingFree);
    }
}

#[test]
fn unknown_keys_and_actions_are_skipped() {
    let odd = Value::Set(vec![Value::BigInt, Value::Bytes(vec![1]), Value::None, 0.5.into()]);
    let event = event("alloc", 4096, 512).with("forward_frames", odd.clone()).with("internal_metadata", odd.clone());
    let unknown = Value::dict([("action", "annotate".into()), ("size", 0.into()), ("what", odd.clone())]);
    let segment = segment(4096, 2 << 20).with("colour", odd.clone());
    let value = snapshot_of(list([segment]), list([list([unknown, event])])).with("categories", odd.clone());
    let (actions, addr) = read_with(&value, |snapshot| {
        let name = |event: &Event| event.action_name(&snapshot.tables).to_owned();
        (snapshot.events.iter().map(name).collect::<Vec<_>>(), snapshot.events[1].addr)
    });
    assert_eq!(actions, ["annotate", "alloc"]);
    assert_eq!(addr, 4096);
    let profile = profile_of(snapshot::read(&write(&value, Options::default())[..]).unwrap()).unwrap();
    assert_eq!(profile.devices[0].figures.allocated.end, Some(512));
    assert_eq!(profile.devices[0].figures.allocation_count, 1);
    // Keys that are no strings.
    let Value::Dict(mut pairs) = value else { panic!() };
    pairs.insert(0, (7.into(), 7.into()));
    pairs.push((Value::Tuple(vec![]), Value::None));
    assert_eq!(read_with(&Value::Dict(pairs), |snapshot| snapshot.events.len()), 2);
}

/// The state that a reader keeps from one event must not show in the next.
#[test]
fn an_event_is_read_the_same_whatever_stands_before_it() {
    let full = event("alloc", 4096, 512)
        .with("compile_context", "N/A")
        .with("user_metadata", "step 1")
        .with("pool_id", Value::Tuple(vec![0.into(), 0.into()]));
    let change = |change: fn(&mut Vec<(Value, Value)>)| {
        let Value::Dict(mut pairs) = full.clone() else { panic!() };
        change(&mut pairs);
        Value::Dict(pairs)
    };
    let events = [
        full.clone(),
        change(|pairs| pairs.reverse()),
        change(|pairs| pairs.rotate_left(3)),
        // The last one counts.
        change(|pairs| pairs.push(("addr".into(), 8192.into()))),
        change(|pairs| pairs.insert(1, ("device_free".into(), 77.into()))),
        full.clone().without("frames"),
        full.clone().without("stream"),
        full.clone().without("pool_id").without("user_metadata"),
        full.clone().with("stream", Value::None),
        full.clone().with("user_metadata", "step 2"),
        full.clone().with("pool_id", list([1.into(), 2.into()])),
        full.clone().with("pool_id", Value::Tuple(vec![3.into(), Value::None])),
        full.clone().with("time_us", "soon"),
        full.clone().with("size", i64::MAX),
        full.clone().with("action", "free_completed"),
        full.clone().with("action", "annotate"),
        full.clone().with("frames", Value::None),
        event("segment_map", 4096, 2 << 20).with("spare", list([])),
    ];
    let look = |snapshot: &Snapshot, index: usize| {
        let event = &snapshot.events[index];
        let tags = snapshot.tables.tags(event.tags);
        let text = |id: Option<_>| id.map(|id| snapshot.tables.string(id).to_owned());
        let tags = (tags.stream, text(tags.compile_context), text(tags.user_metadata), tags.pool_id);
        let action = event.action_name(&snapshot.tables).to_owned();
        let time = snapshot.times.all().nth(index).flatten();
        (action, event.addr, event.size, time, stack_of(snapshot, event), tags)
    };
    let file = |events: Vec<Value>| snapshot_of(list([]), list([list(events)]));
    let alone: Vec<_> =
        events.iter().map(|event| read_with(&file(vec![event.clone()]), |snapshot| look(snapshot, 0))).collect();
    assert_eq!((alone[3].1, alone[4].1), (8192, 4096));
    for (event, expected) in events.iter().zip(&alone) {
        for (before, known) in events.iter().zip(&alone) {
            let three = file(vec![before.clone(), event.clone(), event.clone()]);
            let seen = read_with(&three, |snapshot| [0, 1, 2].map(|index| look(snapshot, index)));
            assert_eq!(seen, [known.clone(), expected.clone(), expected.clone()]);
        }
    }
}

#[test]
fn host_memory_is_apart_wherever_it_stands() {
    let host = list([event("alloc", 1, 2), event("free_requested", 1, 2)]);
    let segments = list([segment(1, 1024).with("device", -1_i64)]);
    let Value::Dict(mut pairs) = ordinary() else { panic!() };
    pairs.insert(0, ("host_traces".into(), host.clone()));
    pairs.insert(1, ("host_segments".into(), segments.clone()));
    let before = Value::Dict(pairs);
    let after = ordinary().with("host_segments", segments).with("host_traces", host);
    for value in [before, after] {
        let (events, addr, segments, devices) = read_with(&value, |snapshot| {
            let [device, host] = [DeviceId::FIRST, DeviceId::Host].map(|id| &snapshot.devices[&id]);
            let events = [device, host].map(|of| snapshot.events_of(of).len());
            let segments = [device, host].map(|of| of.segments.len());
            (events, snapshot.events_of(device)[0].addr, segments, snapshot.devices.len())
        });
        assert_eq!((events, addr, segments, devices), ([1, 2], 4096, [1, 1], 2));
    }
}

#[test]
fn lines_of_any_width_are_read() {
    let wide = |bytes: &[u8]| {
        // A pickle with the line by hand.
        let mut writer = Writer::new(Options { frame: None, ..Options::default() });
        let key = |writer: &mut Writer, key: &str| writer.value(&key.into());
        writer.op(b"}(");
        key(&mut writer, "segments");
        writer.op(b"]");
        key(&mut writer, "device_traces");
        writer.op(b"]](}(");
        for (name, value) in [("action", Value::from("alloc")), ("addr", 1.into()), ("size", 1.into())] {
            key(&mut writer, name);
            writer.value(&value);
        }
        key(&mut writer, "frames");
        writer.op(b"]}(");
        key(&mut writer, "name");
        key(&mut writer, "f");
        key(&mut writer, "filename");
        key(&mut writer, "a.py");
        key(&mut writer, "line");
        writer.op(&[&[0x8a, u8::try_from(bytes.len()).unwrap()], bytes].concat());
        writer.op(b"uauea");
        writer.op(b"u");
        let snapshot = snapshot::read(&writer.finish()[..]).unwrap();
        stack_of(&snapshot, &snapshot.events[0]).unwrap()[0].1
    };
    assert_eq!(wide(&[0xff; 8]), -1);
    assert_eq!(wide(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0]), (1 << 64) - 1);
    assert_eq!(wide(&[0x55; 16]), i128::from_le_bytes([0x55; 16]));
    assert_eq!(wide(&[0x55; 40]), -1, "as unknown as -1");
    assert_eq!(wide(&[0xff; 40]), -1);
    assert_eq!(wide(&[]), 0);
    // As PyTorch writes them: all three mean an unknown line, and get no number in a label.
    for line in [Value::from(-1), Value::from(u64::MAX), Value::BigInt] {
        let traces = list([list([event("alloc", 4096, 512).with("frames", list([frame("step", line)]))])]);
        let value = snapshot_of(list([segment(4096, 2 << 20)]), traces);
        let profile = profile_of(snapshot::read(&write(&value, Options::shared())[..]).unwrap()).unwrap();
        assert_eq!(profile.devices[0].stacks[0].label, "step (train.py)");
    }
}

#[test]
fn names_with_surrogates_stay_distinct() {
    let names = [&b"/home/\xed\xb2\x80/a.py"[..], b"/home/\xed\xb2\x81/a.py", b"/home/\xff/a.py"];
    let texts = names.map(|name| {
        let frame = frame("f", 1).with("filename", Value::Str(name.to_vec()));
        let value = of_event(event("alloc", 4096, 512).with("frames", list([frame])));
        read_with(&value, |snapshot| {
            let stack = snapshot.tables.stack(snapshot.events[0].stack.unwrap());
            let Frame { filename, .. } = *snapshot.tables.frame(stack[0]);
            snapshot.tables.string(filename).to_owned()
        })
    });
    assert_eq!(texts[0], r"/home/\xed\xb2\x80/a.py");
    assert_ne!(texts[0], texts[1]);
    assert_eq!(texts[2], r"/home/\xff/a.py");
}

// Lists of frames.

#[test]
fn long_lists_of_frames_are_read_in_every_batching() {
    // Picklers write lists in batches of 1,000.
    for length in [1000, 1001] {
        let frames = list((0..length).map(|line| frame("f", line)));
        let events = list([
            event("alloc", 4096, 512).with("frames", frames.clone()),
            event("alloc", 8192, 512).with("frames", frames.clone()),
        ]);
        let value = snapshot_of(list([]), list([events]));
        let (first, equal) = read_with(&value, |snapshot| {
            let events = &snapshot.events;
            (stack_of(snapshot, &events[0]), events[0].stack == events[1].stack)
        });
        let lines: Vec<_> = first.unwrap().into_iter().map(|(_, line)| line).collect();
        assert_eq!(lines, (0..i128::from(length)).collect::<Vec<_>>());
        assert!(equal, "equal stacks have one id");
    }
}

#[test]
fn one_list_of_frames_may_serve_many_events() {
    let frames = list([frame("a", 1), frame("b", 2)]);
    let other = list([frame("b", 2), frame("a", 1)]);
    let with = |action: &str, frames: &Value| event(action, 4096, 512).with("frames", frames.clone());
    let events = list([
        with("alloc", &frames),
        with("free_requested", &other),
        with("free_completed", &other),
        with("alloc", &frames),
        with("free_requested", &list([])),
    ]);
    let stacks =
        read_with(&snapshot_of(list([segment(4096, 2 << 20).without("frames")]), list([events])), |snapshot| {
            snapshot.events.iter().map(|event| stack_of(snapshot, event).unwrap()).collect::<Vec<_>>()
        });
    let pair = |a: (&str, i128), b: (&str, i128)| vec![(a.0.to_owned(), a.1), (b.0.to_owned(), b.1)];
    let (ab, ba) = (pair(("a", 1), ("b", 2)), pair(("b", 2), ("a", 1)));
    assert_eq!(stacks, [ab.clone(), ba.clone(), ba, ab, vec![]]);
}

/// A pickle with two events and a list of frames in the memo; `after_use` stands between the events.
fn two_events(list: &[u8], after_use: &[u8]) -> Result<Snapshot, snapshot::SnapshotError> {
    let text = |text: &str| [&[0x8c, u8::try_from(text.len()).unwrap()], text.as_bytes()].concat();
    let entry = |name: &str, line: u8| {
        [
            b"}(".as_slice(),
            &text("name"),
            &text(name),
            &text("filename"),
            &text("a.py"),
            &text("line"),
            &[b'K', line],
            b"u",
        ]
        .concat()
    };
    let event =
        [&b"}("[..], &text("action"), &text("alloc"), &text("addr"), b"K\x01", &text("size"), b"K\x01"].concat();
    let event = [&event, &text("frames")[..], b"h\0u"].concat();
    let bytes = [
        &b"\x80\x04"[..],
        // Entries 1 and 2 are frames, entry 0 the list.
        &entry("f", 1),
        b"q\x010",
        &entry("g", 2),
        b"q\x020",
        list,
        b"q\x000",
        b"}(",
        &text("segments"),
        b"]",
        &text("device_traces"),
        b"]](",
        &event,
        after_use,
        &event,
        b"eau.",
    ];
    snapshot::read(&bytes.concat()[..])
}

#[test]
fn an_event_that_is_listed_a_million_times_is_an_error() {
    let repeated = |times: usize| two_events(b"](h\x01h\x02e", &[&b"q\x03"[..], &b"h\x03".repeat(times)].concat());
    assert_eq!(repeated(1 << 20).unwrap().events.len(), (1 << 20) + 2);
    let text = repeated((1 << 20) + 1).map(drop).unwrap_err().to_string();
    assert_eq!(text, "device_traces[0]: has more entries than the file has events; the file is damaged");
    // A segment or a block, before the list is looked at.
    let text = |text: &str| [&[0x8c, u8::try_from(text.len()).unwrap()], text.as_bytes()].concat();
    let many = [&b"](}q\0"[..], &b"h\0".repeat((1 << 20) + 9), b"e"].concat();
    let of_segment = [&text("total_size")[..], b"K\x01", &text("device"), b"K\0", &text("address"), b"K\0"].concat();
    let blocks = [&b"]}("[..], &of_segment, &text("blocks"), &many, b"ua"].concat();
    for (segments, told) in [(many, "segments: has more entries"), (blocks, "segments[0]: has more blocks")] {
        let bytes = [&b"\x80\x04}("[..], &text("segments"), &segments, &text("device_traces"), b"]u."].concat();
        let error = snapshot::read(&bytes[..]).map(drop).unwrap_err().to_string();
        assert!(error.starts_with(told), "{error}");
    }
}

#[test]
fn a_list_of_frames_that_changes_after_its_first_use_is_an_error() {
    let lines = |snapshot: &Snapshot| -> Vec<Vec<i128>> {
        let stack = |event: &Event| stack_of(snapshot, event).unwrap().into_iter().map(|(_, line)| line).collect();
        snapshot.events.iter().map(stack).collect()
    };
    for list in [&b"](h\x01h\x02e"[..], b"]h\x01ah\x02a", b"](h\x01e(h\x02e", b"]h\x01a(h\x02e"] {
        assert_eq!(lines(&two_events(list, b"").unwrap()), [[1, 2], [1, 2]], "{}", list.escape_ascii());
        for change in [&b"h\0h\x01a0"[..], b"h\0(h\x01e0", b"h\0(h\x01h\x02e0", b"h\0Na0"] {
            let text = two_events(list, change).unwrap_err().to_string();
            assert!(text.ends_with("a list of frames changes after it was used; the file is damaged"), "{text}");
        }
        // Nothing appended is no change.
        assert_eq!(lines(&two_events(list, b"h\0(e0").unwrap()), [[1, 2], [1, 2]]);
    }
    assert_reads!(two_events(b"]", b"h\0h\x01a0").unwrap_err().to_string() => str!["byte 163: a list of frames changes after it was used; the file is damaged"]);
}

#[test]
fn a_frame_that_changes_after_its_first_use_is_an_error() {
    let two = |change: &[u8]| two_events(b"](h\x01h\x02e", change);
    let renamed = two(b"h\x01(\x8c\x04name\x8c\x01fu0").unwrap_err().to_string();
    assert!(renamed.ends_with("a frame changes after it was used; the file is damaged"), "{renamed}");
    // Nothing set is no change.
    assert_eq!(two(b"h\x01(u0").unwrap().events.len(), 2);
}

#[test]
fn what_is_in_the_list_of_frames_and_no_frame_leaves_no_stack() {
    for list in [&b"]K\x01a"[..], b"](h\x01K\x01e", b"](h\x01h\x01e]a", b"N", b"}", b"K\x05"] {
        let snapshot = two_events(list, b"").unwrap();
        assert!(snapshot.events.iter().all(|event| event.stack.is_none()), "{}", list.escape_ascii());
    }
}

#[test]
fn a_memo_entry_that_memoize_overwrites_is_another_frame_from_there_on() {
    // Entry 1 by PUT alone; the MEMOIZE after the first use is number 1 again.
    let text = |text: &str| [&[0x8c, u8::try_from(text.len()).unwrap()], text.as_bytes()].concat();
    let frame =
        |line: u8| [b"}(".as_slice(), &text("filename"), &text("a.py"), &text("line"), &[b'K', line], b"u"].concat();
    let event = |frames: &[u8]| {
        let start =
            [&b"}("[..], &text("action"), &text("alloc"), &text("addr"), b"K\x01", &text("size"), b"K\x01"].concat();
        [&start, &text("frames")[..], frames, b"u"].concat()
    };
    let lines_with = |events: &[u8]| -> Vec<_> {
        let start = [&b"\x80\x04"[..], &frame(5), b"q\x010}(", &text("segments"), b"]"].concat();
        let bytes = [&start, &text("device_traces")[..], b"]](", events, b"eau."].concat();
        let snapshot = snapshot::read(&bytes[..]).unwrap();
        snapshot.events.iter().map(|event| stack_of(&snapshot, event).map(|stack| stack[0].1)).collect()
    };
    let run = b"](h\x01h\x01e";
    let another = [&event(run)[..], &frame(6), b"\x940", &event(run)].concat();
    assert_eq!(lines_with(&another), [Some(5), Some(6)]);
    // The list itself becomes number 1, and holds itself: no stack.
    let itself = [&event(run)[..], &event(b"]\x94(h\x01h\x01e")].concat();
    assert_eq!(lines_with(&itself), [Some(5), None]);
}

/// An event, and what sets it apart from others.
fn any_event() -> impl Strategy<Value = Value> {
    let actions = ["alloc", "free_requested", "free_completed", "segment_alloc", "unheard_of"];
    let changes: [fn(Value) -> Value; 12] = [
        |event| event,
        |event| event.without("time_us"),
        |event| event.without("size"),
        |event| event.with("addr", -1),
        |event| event.with("size", "large"),
        |event| event.with("frames", list([frame("other", 4)])),
        |event| event.with("frames", list([3.into()])),
        |event| event.with("user_metadata", "step"),
        |event| event.with("stream", 0x7f_0000_1234_5678_i64),
        |event| event.with("pool_id", Value::Tuple(vec![0.into(), 1.into()])),
        |event| event.with("action", "oom").with("device_free", 77),
        |event| Value::dict([("a", Value::None), ("b", event)]),
    ];
    let kinds = (proptest::sample::select(actions.to_vec()), proptest::sample::select(changes.to_vec()));
    let sizes = proptest::sample::select(vec![0_u64, 4, 512, 70_000, 1 << 40]);
    // Most are like the others.
    let is_usual = proptest::bool::weighted(0.8);
    (kinds, any::<u64>(), sizes, is_usual).prop_map(|((action, change), addr, size, is_usual)| {
        let event = event(action, addr >> (size % 64), size).with("compile_context", "N/A");
        if is_usual { event } else { change(event) }
    })
}

proptest! {
    #![proptest_config(random::config(128))]

    /// An event that is like an earlier one is recognized by its bytes, where these are there.
    #[test]
    fn events_are_read_the_same_whole_and_byte_by_byte(
        events in proptest::collection::vec(any_event(), 1..40),
        is_shared in any::<bool>(),
    ) {
        let value = snapshot_of(list([segment(4096, 2 << 20)]), list([list(events)]));
        let bytes = write(&value, Options { share: is_shared, ..Options::default() });
        let [whole, byte_by_byte] = [&[1 << 20][..], &[1]].map(|sizes| {
            let snapshot = snapshot::read(Dribble::new(&bytes, sizes));
            snapshot.map_or_else(|error| error.to_string(), |snapshot| format!("{snapshot:?}"))
        });
        prop_assert_eq!(whole, byte_by_byte);
    }
}

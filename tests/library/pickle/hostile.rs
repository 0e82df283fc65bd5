//! Files that mean to take time or memory out of proportion.

use std::io::Read;

use super::{cat, ints, read};
use crate::support::pickle::{Node, Options, Tree, Value, decode, write};
use ptmem::pickle::ErrorKind;
use ptmem::snapshot;

#[test]
fn declared_lengths_allocate_nothing() {
    let tail = [b'x'; 100];
    for length in [1_u64 << 31, 1 << 40, 1 << 62, u64::MAX] {
        for opcode in [0x8d, 0x8e] {
            let bytes = cat(&[&[opcode], &length.to_le_bytes(), &tail]);
            let text = read(&bytes).unwrap_err();
            assert!(text.starts_with("byte 0: the pickle ends in the middle of "), "{text}");
            snapshot::read(&cat(&[b"\x80\x04", &bytes])[..]).unwrap_err();
        }
        // FRAME declares without effect.
        let bytes = cat(&[b"\x80\x04\x95", &length.to_le_bytes(), b"K\x01."]);
        assert_eq!(read(&bytes), Ok(Value::from(1)));
    }
    for opcode in [b'X', b'B'] {
        let text = read(&cat(&[&[opcode, 0xff, 0xff, 0xff, 0xff], &tail])).unwrap_err();
        assert!(text.contains("the file is truncated"), "{text}");
    }
    assert_reads!(read(&cat(&[b"\x8b\xff\xff\xff\x7f", &tail])).unwrap_err() => str!["byte 0: the pickle ends in the middle of LONG4; the file is truncated: copy it again, or record it again"]);
}

#[test]
fn lists_nested_deeper_than_any_stack_are_no_recursion() {
    const DEPTH: usize = 300_000;
    let mut bytes = b"\x80\x04".to_vec();
    bytes.extend(b"]".repeat(DEPTH));
    bytes.extend(b"a".repeat(DEPTH - 1));
    bytes.push(b'.');
    let (tree, root) = decode(&bytes[..], Tree::with_runs()).unwrap();
    assert_eq!(tree.nodes.len(), DEPTH);
    let (mut at, mut depth) = (root, 1);
    while let Node::List(items) = tree.node(at)
        && let [inner] = items[..]
    {
        at = inner;
        depth += 1;
    }
    assert_eq!(depth, DEPTH);
    assert_reads!(snapshot::read(&bytes[..]).unwrap_err().to_string() => str!["the file is a pickle, but not a CUDA memory snapshot: a list whose first item is a list. Expected the dictionary that torch.cuda.memory._dump_snapshot() writes, with the keys 'segments' and 'device_traces', or the list of torch.cuda.memory_snapshot()"]);

    // The same in tuples, and as dictionaries under a key of the format.
    let mut bytes = b"\x80\x04N".to_vec();
    bytes.extend(b"\x85".repeat(DEPTH));
    bytes.push(b'.');
    snapshot::read(&bytes[..]).unwrap_err();
    let mut bytes = b"\x80\x04\x8c\x08segments\x94}".to_vec();
    bytes.extend(b"h\0}".repeat(DEPTH / 4));
    bytes.extend(b"s".repeat(DEPTH / 4));
    bytes.push(b'.');
    let text = snapshot::read(&bytes[..]).unwrap_err().to_string();
    assert_eq!(text, "segments: missing or not a list");
    // MARKs alone.
    let bytes = cat(&[b"\x80\x04", &b"(".repeat(DEPTH), b"."]);
    assert!(snapshot::read(&bytes[..]).is_err());
}

/// Zeros compress to a thousandth: these are a few KB that would take a hundred times the bytes that they expand to.
#[test]
fn values_that_wait_for_nothing_are_refused_while_they_come() {
    for values in ["(", "N", "]", "}", "N\u{94}", "](N"] {
        let values: Vec<u8> = values.chars().map(|value| value as u8).collect();
        let stream = Read::chain(&b"\x80\x04("[..], Endless(&values));
        let text = snapshot::read(stream).unwrap_err().to_string();
        let (at, problem) = text.strip_prefix("byte ").unwrap().split_once(": ").unwrap();
        assert!(at.parse::<u64>().unwrap() < 16 << 20, "{text}");
        let expected = "the pickle holds more values at once than a snapshot of its size; the file is damaged";
        assert_eq!(problem, expected);
    }
    // Lists that hold something and are dropped.
    for list in ["](Ne0", "}(NNu0"] {
        let stream = Read::chain(&b"\x80\x04("[..], Endless(list.as_bytes()));
        let text = snapshot::read(stream).unwrap_err().to_string();
        assert!(
            text.ends_with("more than 2,097,152 lists and dictionaries that no snapshot has; the file is damaged"),
            "{text}"
        );
    }
}

/// The same bytes again and again.
struct Endless<'b>(&'b [u8]);

impl Read for Endless<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = buffer.len() / self.0.len() * self.0.len();
        buffer[..count].chunks_exact_mut(self.0.len()).for_each(|part| part.copy_from_slice(self.0));
        Ok(count)
    }
}

#[test]
fn shared_lists_that_double_on_every_level_are_not_unfolded() {
    let mut doubled = b"]\x94".to_vec();
    for level in 0..40_u8 {
        doubled.extend([b']', 0x94, b'(', b'h', level, b'h', level, b'e']);
    }
    let last = [b'h', 40];
    let (tree, root) = decode(&cat(&[&doubled, &last, b"."])[..], Tree::with_runs()).unwrap();
    assert_eq!(tree.nodes.len(), 41);
    assert_eq!(tree.value(root), None, "2^40 values");
    // Wherever a snapshot has a list.
    let key = |key: &str| cat(&[&[0x8c, u8::try_from(key.len()).unwrap()], key.as_bytes()]);
    let at_top = cat(&[b"\x80\x04", &doubled, &last, b"."]);
    assert!(snapshot::read(&at_top[..]).is_err());
    for name in ["segments", "device_traces", "allocator_settings", "external_annotations", "host_traces"] {
        let dict = cat(&[b"}(", &key("device_traces"), b"]", &key("segments"), b"]", &key(name), &last, b"u."]);
        let result = snapshot::read(&cat(&[b"\x80\x04", &doubled, &dict])[..]);
        assert_eq!(result.is_err(), matches!(name, "segments" | "device_traces" | "host_traces"), "{name}");
    }
    let event = cat(&[b"}(", &key("action"), &key("alloc"), &key("addr"), b"K\0", &key("size"), b"K\0"]);
    let event = cat(&[&event, &key("frames"), &last, &key("pool_id"), &last, b"u"]);
    let dict = cat(&[b"}(", &key("segments"), b"]", &key("device_traces"), b"](](", &event, b"eeu."]);
    assert!(snapshot::read(&cat(&[b"\x80\x04", &doubled, &dict])[..]).is_ok(), "frames that are none are no stack");
}

#[test]
fn containers_may_hold_themselves() {
    let (tree, root) = decode(&b"]\x94(h\0h\0e."[..], Tree::with_runs()).unwrap();
    assert!(matches!(tree.node(root), Node::List(items) if *items == [root, root]));
    let (tree, root) = decode(&b"}\x94(\x8c\x01kh\0u."[..], Tree::with_runs()).unwrap();
    assert!(matches!(tree.node(root), Node::Dict(items) if items.len() == 2 && items[1] == root));
    assert_eq!(tree.value(root), None);
    // A run that puts a list into itself, twice, through the cache.
    let (tree, root) = decode(&b"]\x94(h\0e0]\x94(h\0e."[..], Tree::with_runs()).unwrap();
    assert!(matches!(tree.node(root), Node::List(items) if items.len() == 1 && items[0] != root));

    let key = |key: &str| cat(&[&[0x8c, u8::try_from(key.len()).unwrap()], key.as_bytes()]);
    for bytes in [
        cat(&[b"\x80\x04]\x94(h\0h\0e."]),
        cat(&[b"\x80\x04}\x94(", &key("segments"), b"h\0u."]),
        cat(&[b"\x80\x04}\x94(", &key("segments"), b"]", &key("device_traces"), b"h\0u."]),
        cat(&[b"\x80\x04}(", &key("segments"), b"]", &key("device_traces"), b"]\x94(h\0h\0eu."]),
        cat(&[b"\x80\x04}(", &key("segments"), b"]", &key("device_traces"), b"]](}\x94(", &key("action"), b"h\0ueau."]),
        // Frames that hold their own event, and a segment among its own blocks.
        cat(&[
            b"\x80\x04](}\x94(",
            &key("total_size"),
            b"K\0",
            &key("device"),
            b"K\0",
            &key("address"),
            b"K\0",
            &key("blocks"),
            b"](h\0eue.",
        ]),
    ] {
        assert!(snapshot::read(&bytes[..]).is_err(), "{}", bytes.escape_ascii());
    }
    // Where only the settings hold themselves, nothing depends on it.
    let bytes = cat(&[
        b"\x80\x04}(",
        &key("segments"),
        b"]",
        &key("device_traces"),
        b"]",
        &key("allocator_settings"),
        b"}\x94(",
        &key("itself"),
        b"h\0uu.",
    ]);
    assert_eq!(snapshot::read(&bytes[..]).unwrap().settings.all.len(), 1);
}

#[test]
fn every_shorter_file_is_called_truncated() {
    let value = Value::dict([
        ("ints", Value::List(vec![1.into(), 300.into(), (-1).into(), u64::MAX.into(), Value::BigInt])),
        ("bytes", Value::Bytes(vec![0; 300])),
        ("tuples", Value::Tuple(vec![Value::Tuple(vec![]), Value::Tuple(vec![Value::None; 4]), true.into()])),
        ("float", 1.5.into()),
        ("text", "x\u{20ac}".into()),
        ("set", Value::Set(vec![1.into()])),
        ("runs", Value::List(vec![Value::List(vec!["text".into(), "text".into(), "text".into()]); 3])),
    ]);
    for protocol in 2..=5 {
        for (share, frame) in [(false, None), (true, None), (true, Some(16))] {
            let options = Options { protocol, share, frame, ..Options::default() };
            let bytes = write(&value, options);
            assert_eq!(read(&bytes), Ok(value.clone()));
            for length in 0..bytes.len() {
                let Err(error) = decode(&bytes[..length], Tree::with_runs()) else { panic!("{length} bytes are read") };
                assert!(
                    matches!(error.kind, ErrorKind::Truncated { .. }),
                    "protocol {protocol}, {length} bytes: {error}"
                );
                assert!(error.offset <= length as u64);
                snapshot::read(&bytes[..length]).unwrap_err();
            }
        }
    }
}

#[test]
fn bytes_after_stop_are_not_looked_at() {
    assert_eq!(read(b"K\x07.\0\0\0"), Ok(Value::from(7)));
    assert_eq!(read(b"K\x07.cos\nsystem\n(S'x'\ntR."), Ok(Value::from(7)));
    let empty = cat(&[
        &write(&Value::dict([("segments", ints([])), ("device_traces", ints([]))]), Options::default()),
        b"\0\0",
    ]);
    assert!(snapshot::read(&empty[..]).is_ok());
}

#[test]
fn input_that_fails_is_an_error_of_the_input() {
    struct Failing<'d>(&'d [u8]);
    impl Read for Failing<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            if self.0.is_empty() { Err(std::io::Error::other("the disk is gone")) } else { self.0.read(buffer) }
        }
    }
    let bytes = write(&ints(0..100), Options::default());
    for length in [0, 1, 2, 20, bytes.len() - 1] {
        let Err(error) = decode(Failing(&bytes[..length]), Tree::plain()) else { panic!("{length} bytes are read") };
        assert!(matches!(error.kind, ErrorKind::Io(_)), "{error}");
        let text = snapshot::read(Failing(&bytes[..length])).unwrap_err().to_string();
        assert_eq!(text.matches("the disk is gone").count(), 1, "{text}");
    }
}

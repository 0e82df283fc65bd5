//! Values that were written are read again, whatever the style of writing.

use std::collections::{BTreeMap, BTreeSet};

use super::{Dribble, cat, ints, read};
use crate::support::pickle::{Batch, Memo, Options, Tree, Value, decode, write};
use crate::support::random;
use proptest::prelude::*;
use ptmem::snapshot;

fn leaf() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::None),
        any::<bool>().prop_map(Value::Bool),
        any::<i32>().prop_map(Value::from),
        (0_i32..70_000).prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<i128>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        Just(Value::BigInt),
        any::<f64>().prop_filter("NaN is not equal to itself", |f| !f.is_nan()).prop_map(Value::from),
        ".{0,12}".prop_map(|text| Value::from(text.as_str())),
        "[a-c\\\\\n\r\u{0}\u{1a}\u{e9}\u{20ac}\u{1f600}]{0,6}".prop_map(|text| Value::from(text.as_str())),
        "[xy]{250,300}".prop_map(|text| Value::from(text.as_str())),
        proptest::collection::vec(any::<u8>(), 0..300).prop_map(Value::Bytes),
    ]
}

fn tree() -> impl Strategy<Value = Value> {
    leaf().prop_recursive(4, 48, 6, |inner| {
        let some = |size| proptest::collection::vec(inner.clone(), 0..size);
        prop_oneof![
            some(6).prop_map(Value::Tuple),
            some(6).prop_map(Value::List),
            some(5).prop_map(Value::Set),
            proptest::collection::vec((inner.clone(), inner.clone()), 0..4).prop_map(Value::Dict),
            // The same part many times, which sharing turns into runs of references.
            (inner.clone(), 1_usize..30).prop_map(|(value, count)| Value::List(vec![value; count])),
        ]
    })
}

fn options() -> impl Strategy<Value = Options> {
    (
        2_u8..=5,
        prop_oneof![Just(Memo::No), Just(Memo::Memoize), Just(Memo::BinPut), Just(Memo::LongBinPut)],
        any::<bool>(),
        proptest::option::of(1_usize..100),
        prop_oneof![Just(Batch::Thousand), Just(Batch::All), Just(Batch::One)],
        any::<bool>(),
    )
        .prop_map(|(protocol, memo, share, frame, batch, memo_first)| Options {
            protocol,
            memo,
            share,
            frame,
            batch,
            memo_first,
        })
}

proptest! {
    #![proptest_config(random::config(256))]

    #[test]
    fn what_was_written_is_read(value in tree(), options in options(), sizes in proptest::collection::vec(1_usize..50, 1..5)) {
        let bytes = write(&value, options);
        prop_assert_eq!(read(&bytes), Ok(value.clone()));
        let (tree, root) = decode(Dribble::new(&bytes, &sizes), Tree::with_runs()).unwrap();
        prop_assert_eq!(tree.value(root), Some(value));
    }

    #[test]
    fn serde_pickle_reads_the_same(value in plain_tree(), options in options(), version_2 in any::<bool>()) {
        let ours = normal(value.clone());
        let options = Options { share: false, ..options };
        if options.protocol <= 4 {
            let bytes = write(&value, options);
            let theirs = serde_pickle::value_from_slice(&bytes, serde_pickle::DeOptions::new()).unwrap();
            prop_assert_eq!(from_serde(&theirs), ours.clone());
            prop_assert_eq!(read(&bytes).map(normal), Ok(ours.clone()));
            // And back, written by them. They write sets, and in protocol 2 bytes, as calls.
            let style = serde_pickle::SerOptions::new();
            let style = if version_2 { style.proto_v2() } else { style };
            let bytes = serde_pickle::value_to_vec(&theirs, style).unwrap();
            match read(&bytes) {
                Err(text) if needs_a_call(&ours) => prop_assert!(text.contains("opcode GLOBAL"), "{}", text),
                read => prop_assert_eq!(read.map(normal), Ok(ours)),
            }
        }
    }

    #[test]
    fn random_bytes_do_no_harm(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        survives(&bytes);
    }

    #[test]
    fn random_opcodes_do_no_harm(parts in proptest::collection::vec(part(), 0..60)) {
        let soup = cat(&[&parts.concat(), b"."]);
        survives(&soup);
        // Where all is well, what is below the top must not matter, nor how the bytes arrive.
        let whole = decode(&soup[..], Tree::plain()).map(|(tree, root)| tree.value(root)).map_err(|e| e.to_string());
        for sizes in [&[1][..], &[7], &[3, 1, 64]] {
            let piecewise = decode(Dribble::new(&soup, sizes), Tree::with_runs());
            let piecewise = piecewise.map(|(tree, root)| tree.value(root)).map_err(|e| e.to_string());
            prop_assert_eq!(&piecewise, &whole);
        }
    }
}

/// Reads with and without the cache of runs, and as a snapshot; nothing may panic, and the first two agree.
fn survives(bytes: &[u8]) {
    let [plain, cached] = [Tree::plain(), Tree::with_runs()].map(|tree| match decode(bytes, tree) {
        Ok((tree, root)) => Ok(tree.value(root)),
        Err(error) => Err(error.to_string()),
    });
    assert_eq!(plain, cached);
    if let Ok(snapshot) = snapshot::read(bytes) {
        drop(snapshot);
    }
}

/// A piece of a pickle that is plausible by itself.
fn part() -> impl Strategy<Value = Vec<u8>> {
    let fixed: Vec<&[u8]> = vec![
        b"(",
        b"]",
        b"}",
        b")",
        b"\x8f",
        b"e",
        b"a",
        b"u",
        b"s",
        b"t",
        b"\x85",
        b"\x86",
        b"\x87",
        b"\x90",
        b"\x91",
        b"\x94",
        b"0",
        b"1",
        b"2",
        b"N",
        b"\x88",
        b"l",
        b"d",
        b"K\x07",
        b"\x8a\x01\xff",
        b"\x8c\x06action",
        b"\x8c\x08filename",
        b"\x8c\x06frames",
        b"\x8c\x05alloc",
        b"\x8c\x0adevice_traces"[..].as_ref(),
        b"\x95\0\0\0\0\0\0\0\0",
        b"](h\0e",
        b"](h\0h\x01e",
        b"](h\0h\0e",
        b"(h\x01e",
        b"g1\n",
        b"p2\n",
        b"I01\n",
    ];
    prop_oneof![
        6 => proptest::sample::select(fixed).prop_map(<[u8]>::to_vec),
        2 => (0_u8..5).prop_map(|index| vec![b'h', index]),
        1 => (0_u8..5).prop_map(|index| vec![b'q', index]),
        1 => (0_u8..5).prop_map(|index| vec![b'j', index, 0, 0, 0]),
        1 => (0_u8..5).prop_map(|index| vec![b'r', index, 0, 0, 0]),
        1 => any::<u8>().prop_map(|byte| vec![byte]),
    ]
}

/// Trees that serde_pickle can hold: keys and members are distinct strings.
fn plain_tree() -> impl Strategy<Value = Value> {
    let leaf = leaf().prop_filter("no stand-in for digits", |leaf| *leaf != Value::BigInt);
    leaf.prop_recursive(3, 32, 5, |inner| {
        let some = proptest::collection::vec(inner.clone(), 0..5);
        prop_oneof![
            some.clone().prop_map(Value::Tuple),
            some.prop_map(Value::List),
            proptest::collection::btree_set("[a-z]{0,4}", 0..4)
                .prop_map(|set| Value::Set(set.iter().map(|text| text.as_str().into()).collect())),
            proptest::collection::btree_map("[a-z]{0,4}", inner, 0..4)
                .prop_map(|map| { Value::Dict(map.into_iter().map(|(k, v)| (k.as_str().into(), v)).collect()) }),
        ]
    })
}

fn needs_a_call(value: &Value) -> bool {
    match value {
        Value::Set(_) | Value::Bytes(_) => true,
        Value::List(items) | Value::Tuple(items) => items.iter().any(needs_a_call),
        Value::Dict(pairs) => pairs.iter().any(|(_, value)| needs_a_call(value)),
        _ => false,
    }
}

/// In the order of keys.
fn normal(value: Value) -> Value {
    match value {
        Value::Dict(pairs) => {
            let sorted: BTreeMap<_, _> = pairs.into_iter().map(|(k, v)| (k, normal(v))).collect();
            Value::Dict(sorted.into_iter().collect())
        }
        Value::Set(items) => Value::Set(items.into_iter().collect::<BTreeSet<_>>().into_iter().collect()),
        Value::List(items) => Value::List(items.into_iter().map(normal).collect()),
        Value::Tuple(items) => Value::Tuple(items.into_iter().map(normal).collect()),
        other => other,
    }
}

fn from_serde(value: &serde_pickle::Value) -> Value {
    use serde_pickle::{HashableValue, Value as Theirs};
    let hashable = |value: &HashableValue| from_serde(&value.clone().into_value());
    let value = match value {
        Theirs::None => Value::None,
        Theirs::Bool(value) => Value::Bool(*value),
        Theirs::I64(value) => Value::from(*value),
        Theirs::Int(value) => Value::Int(value.to_string().parse().unwrap()),
        Theirs::F64(value) => Value::from(*value),
        Theirs::Bytes(bytes) => Value::Bytes(bytes.clone()),
        Theirs::String(text) => Value::from(text.as_str()),
        Theirs::List(items) => Value::List(items.iter().map(from_serde).collect()),
        Theirs::Tuple(items) => Value::Tuple(items.iter().map(from_serde).collect()),
        Theirs::Set(items) | Theirs::FrozenSet(items) => Value::Set(items.iter().map(hashable).collect()),
        Theirs::Dict(pairs) => Value::Dict(pairs.iter().map(|(k, v)| (hashable(k), from_serde(v))).collect()),
    };
    normal(value)
}

#[test]
fn large_containers_are_read_in_every_style() {
    let value = Value::dict([
        ("list", ints(0..2500)),
        ("tuple", Value::Tuple(vec![Value::None; 1001])),
        ("dict", Value::Dict((0..2001).map(|i| (Value::from(i), Value::from(-i))).collect())),
        ("set", Value::Set((0..1001).map(Value::from).collect())),
        ("str", Value::Str(vec![b's'; 70_000])),
        ("bytes", Value::Bytes(vec![7; 300_000])),
    ]);
    for protocol in 2..=5 {
        for batch in [Batch::Thousand, Batch::All, Batch::One] {
            let bytes = write(&value, Options { protocol, batch, ..Options::default() });
            assert_eq!(read(&bytes), Ok(value.clone()), "{protocol} {batch:?}");
        }
    }
    let bytes = write(&value, Options::default());
    for sizes in [&[1][..], &[7], &[262_144], &[262_143, 2], &[100_000, 1, 5]] {
        let (tree, root) = decode(Dribble::new(&bytes, sizes), Tree::plain()).unwrap();
        assert!(tree.value(root) == Some(value.clone()), "in pieces of {sizes:?}");
    }
}

#[test]
fn opcodes_that_python_never_combines_work_as_python_defines_them() {
    for (bytes, value) in [
        // POP, on a value and on a MARK.
        (&b"K\x01K\x020."[..], Value::from(1)),
        (b"K\x01(0.", Value::from(1)),
        // FROZENSET takes all from the MARK.
        (b"(K\x01\x91.", Value::Set(vec![1.into()])),
        // Empty batches.
        (b"](e.", ints([])),
        (b"}(u.", Value::Dict(vec![])),
        (b"\x8d\x02\0\0\0\0\0\0\0hi.", "hi".into()),
        // Lone surrogates are no UTF-8 and arrive as they are.
        (b"X\x03\0\0\0\xed\xb2\x80.", Value::Str(b"\xed\xb2\x80".to_vec())),
        // PROTO and FRAME anywhere.
        (b"\x80\x02]\x80\x05\x95\xff\xff\xff\xff\xff\xff\xff\xff(K\x01e.", ints([1])),
    ] {
        assert_eq!(read(bytes), Ok(value), "{}", bytes.escape_ascii());
    }
}

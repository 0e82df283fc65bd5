//! The pickle reader against everything that a pickle can hold, and against what none should.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;

use crate::support::pickle::{Batch, Memo, Node, Options, Tree, Value, Writer, decode, long_bytes, write};
use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;
use ptmem::pickle::ErrorKind;
use ptmem::snapshot;

/// The whole value, decoded with and without the cache of runs, which must not differ.
fn read(bytes: &[u8]) -> Result<Value, String> {
    let [plain, cached] = [Tree::plain(), Tree::with_runs()].map(|tree| {
        let (tree, root) = decode(bytes, tree).map_err(|error| error.to_string())?;
        Ok(tree.value(root).expect("small and without cycles"))
    });
    assert_eq!(plain, cached, "the cache of runs changes the result");
    cached
}

fn cat(parts: &[&[u8]]) -> Vec<u8> {
    parts.concat()
}

/// Gives its bytes in pieces of the given sizes, over and over.
struct Dribble<'d> {
    data: &'d [u8],
    sizes: Vec<usize>,
    turn: usize,
}

impl<'d> Dribble<'d> {
    fn new(data: &'d [u8], sizes: &[usize]) -> Self {
        Self { data, sizes: sizes.to_vec(), turn: 0 }
    }
}

impl Read for Dribble<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        self.turn += 1;
        // What a signal does.
        if self.turn.is_multiple_of(1013) {
            return Err(std::io::ErrorKind::Interrupted.into());
        }
        let count = self.sizes[self.turn % self.sizes.len()].min(buffer.len()).min(self.data.len());
        let (now, later) = self.data.split_at(count);
        buffer[..count].copy_from_slice(now);
        self.data = later;
        Ok(count)
    }
}

fn ints(values: impl IntoIterator<Item = i32>) -> Value {
    Value::List(values.into_iter().map(Value::from).collect())
}

// Round trips.

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
        any::<f64>().prop_filter("bits of NaN have no text form", |f| !f.is_nan()).prop_map(Value::from),
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
        0_u8..=5,
        prop_oneof![Just(Memo::No), Just(Memo::Memoize), Just(Memo::BinPut), Just(Memo::LongBinPut), Just(Memo::Put)],
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

fn config(cases: u32) -> ProptestConfig {
    ProptestConfig {
        cases,
        failure_persistence: Some(Box::new(FileFailurePersistence::Off)),
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(config(256))]

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
    for protocol in 0..=5 {
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
        // POP, on a value and on a MARK; POP_MARK; DUP.
        (&b"K\x01K\x020."[..], Value::from(1)),
        (b"K\x01(0.", Value::from(1)),
        (b"K\x01(K\x02K\x031.", Value::from(1)),
        (b"](K\x012e.", ints([1, 1])),
        // LIST, DICT, FROZENSET take all from the MARK.
        (b"(K\x01K\x02l.", ints([1, 2])),
        (b"(K\x01K\x02d.", Value::Dict(vec![(1.into(), 2.into())])),
        (b"(K\x01\x91.", Value::Set(vec![1.into()])),
        // Empty batches.
        (b"](e.", ints([])),
        (b"}(u.", Value::Dict(vec![])),
        // Strings of Python 2.
        (b"U\x02hi.", "hi".into()),
        (b"T\x02\0\0\0hi.", "hi".into()),
        (b"S'a\\n\\x41\\\\'\n.", "a\nA\\".into()),
        (b"S\"it's\"\n.", "it's".into()),
        (b"\x8d\x02\0\0\0\0\0\0\0hi.", "hi".into()),
        (b"F-2.5e3\n.", Value::from(-2500.0)),
        // Lone surrogates are no UTF-8 and arrive as they are.
        (b"X\x03\0\0\0\xed\xb2\x80.", Value::Str(b"\xed\xb2\x80".to_vec())),
        (b"V\\udc80\n.", Value::Str(b"\xed\xb2\x80".to_vec())),
        // PROTO and FRAME anywhere.
        (b"\x80\x02]\x80\x05\x95\xff\xff\xff\xff\xff\xff\xff\xff(K\x01e.", ints([1])),
    ] {
        assert_eq!(read(bytes), Ok(value), "{}", bytes.escape_ascii());
    }
}

#[test]
fn a_backslash_in_raw_unicode_escapes_hides_what_follows_it_as_in_python() {
    // pickle.loads(rb"V\\u0041" + b"\n.") == r"\\u0041"
    assert_eq!(read(b"V\\\\u0041\n."), Ok("\\\\u0041".into()));
    assert_eq!(read(b"V\\u005cu0041\n."), Ok("\\u0041".into()));
}

// Refusals.

#[test]
fn opcodes_that_run_code_are_refused_by_name_and_place() {
    let forbidden: [(&[u8], &str); 14] = [
        (b"cos\nsystem\n", "GLOBAL"),
        (b"\x8c\x02os\x8c\x06system\x93", "STACK_GLOBAL"),
        (b"N)R", "REDUCE"),
        (b"N}b", "BUILD"),
        (b"(ios\nsystem\n", "INST"),
        (b"(No", "OBJ"),
        (b"N)\x81", "NEWOBJ"),
        (b"N)}\x92", "NEWOBJ_EX"),
        (b"Psome id\n", "PERSID"),
        (b"NQ", "BINPERSID"),
        (b"\x82\x01", "EXT1"),
        (b"\x83\x01\x00", "EXT2"),
        (b"\x84\x01\x00\x00\x00", "EXT4"),
        (b"\x97", "NEXT_BUFFER"),
    ];
    for (bytes, name) in forbidden {
        let before = b"\x80\x05]K\x00a";
        let opcode = match name {
            "STACK_GLOBAL" | "REDUCE" | "BUILD" | "NEWOBJ" | "NEWOBJ_EX" | "OBJ" | "BINPERSID" => bytes.len() - 1,
            "INST" => 1,
            _ => 0,
        };
        let offset = before.len() + opcode;
        let Err(error) = decode(&cat(&[before, bytes, b"."])[..], Tree::plain()) else { panic!("{name} was read") };
        assert!(matches!(error.kind, ErrorKind::Forbidden { opcode } if opcode == name), "{name}: {error}");
        assert_eq!(error.offset, offset as u64, "{name}");
        let text = error.to_string();
        assert!(text.contains(&format!("byte {offset}: ")), "{text}");
        assert!(text.contains(&format!("opcode {name})")), "{text}");
        assert!(text.contains("may be malicious") && text.contains("Nothing was run"), "{text}");
        // The same words for whoever reads a snapshot, and whatever comes before the opcode.
        let text = snapshot::read(&cat(&[before, bytes, b"."])[..]).unwrap_err().to_string();
        assert!(text.contains(name) && text.contains("Nothing was run"), "{text}");
        // What the opcode would need need not be there.
        assert!(read(&cat(&[&bytes[opcode..], b"."])).unwrap_err().contains("Nothing was run"), "{name}");
    }
}

#[test]
fn opcodes_without_use_are_refused() {
    for (byte, name) in [(0x96, "BYTEARRAY8"), (0x98, "READONLY_BUFFER")] {
        let bytes = [0x80, 5, b'N', byte, 0, 0, 0, 0, 0, 0, 0, 0, b'.'];
        let text = read(&bytes).unwrap_err();
        assert_eq!(text, format!("byte 3: opcode {name} is not supported: memory snapshots hold only plain data"));
    }
}

#[test]
fn bytes_that_are_no_opcode_are_refused() {
    let known = b"(.012FIJKLMNPQRSTUVXabc}degh]ijlopqrst)uGBC";
    let mut unknown = 0;
    for byte in (0..=255_u8).filter(|byte| !known.contains(byte) && !(0x80..=0x98).contains(byte)) {
        let text = read(&[b'N', byte, b'.']).unwrap_err();
        let expected = format!("byte 1: 0x{byte:02x} is not a pickle opcode; the file is damaged or not a pickle");
        assert_eq!(text, expected);
        unknown += 1;
    }
    assert_eq!(unknown, 256 - known.len() - 0x19);
    assert_eq!(read(b"\x80\x06N.").unwrap_err(), "byte 0: pickle protocol 6 is not known; expected 0 to 5");
}

#[test]
fn damaged_structure_is_refused_where_it_is() {
    for (bytes, offset, words) in [
        (&b"."[..], 0, "STOP finds too few values"),
        (b"N0.", 2, "STOP finds too few values"),
        (b"N00.", 2, "POP finds too few values"),
        (b"1.", 0, "POP_MARK finds no MARK"),
        (b"]e.", 1, "APPENDS finds no MARK"),
        (b"(e.", 1, "APPENDS finds too few values"),
        (b"Na.", 1, "APPEND finds too few values"),
        (b"NNa.", 2, "APPEND is applied to a value of another type"),
        (b"N(Ne.", 3, "APPENDS is applied to a value of another type"),
        (b"N\x94}(h\0h\0e.", 8, "APPENDS is applied to a value of another type"),
        (b"](NNu.", 4, "SETITEMS is applied to a value of another type"),
        (b"}(Nu.", 3, "SETITEMS finds a key without a value"),
        (b"(Nd.", 2, "DICT finds a key without a value"),
        (b"}Ns.", 2, "SETITEM finds too few values"),
        (b"NNNs.", 3, "SETITEM is applied to a value of another type"),
        (b"](N\x90.", 3, "ADDITEMS is applied to a value of another type"),
        (b"\x85.", 0, "TUPLE1 finds too few values"),
        (b"N\x86.", 1, "TUPLE2 finds too few values"),
        (b"N(NN\x87.", 4, "TUPLE3 finds too few values"),
        (b"\x94.", 0, "MEMOIZE finds too few values"),
        (b"q\0.", 0, "BINPUT finds too few values"),
        (b"2.", 0, "DUP finds too few values"),
        (b"h\x05.", 0, "memo entry 5, which does not exist"),
        (b"j\xff\xff\xff\xff.", 0, "memo entry 4294967295, which does not exist"),
        (b"g77\n.", 0, "memo entry 77, which does not exist"),
        (b"g-1\n.", 0, "the argument of GET is malformed"),
        (b"Np1x\n.", 1, "the argument of PUT is malformed"),
        (b"I1_0\n.", 0, "the argument of INT is malformed"),
        (b"L\n.", 0, "the argument of LONG is malformed"),
        (b"L-L\n.", 0, "the argument of LONG is malformed"),
        (b"Fx\n.", 0, "the argument of FLOAT is malformed"),
        (b"S'a\n.", 0, "the argument of STRING is malformed"),
        (b"V\\u12\n.", 0, "the argument of UNICODE is malformed"),
        (b"V\\U00110000\n.", 0, "the argument of UNICODE is malformed"),
        (b"\x8b\xff\xff\xff\xff.", 0, "the argument of LONG4 is malformed"),
    ] {
        let text = read(bytes).unwrap_err();
        let place = format!("byte {offset}: ");
        assert!(text.starts_with(&place) && text.contains(words), "{}: {text}", bytes.escape_ascii());
    }
}

#[test]
fn a_missing_memo_entry_inside_a_run_is_named_with_its_own_place() {
    //                0    1      3 4 5    7
    let text = read(b"K\x01\x94](h\0h\x09h\0e.").unwrap_err();
    assert_eq!(text, "byte 7: the pickle refers to memo entry 9, which does not exist; the file is damaged");
}

// Integers.

#[test]
fn integers_of_any_width_are_read() {
    let expected = |bytes: &[u8]| -> Value {
        // Two's complement, little end first.
        let negative = bytes.last().is_some_and(|&last| last >= 0x80);
        let fill = if negative { 0xff } else { 0 };
        let mut low = [fill; 16];
        for (slot, byte) in low.iter_mut().zip(bytes) {
            *slot = *byte;
        }
        let low = i128::from_le_bytes(low);
        let beyond = bytes.iter().skip(16).any(|&byte| byte != fill) || (low < 0) != negative;
        if beyond { Value::BigInt } else { Value::Int(low) }
    };
    for length in 0..=255_usize {
        for (body, top) in [
            (0x00, 0x00),
            (0x00, 0x01),
            (0x00, 0x7f),
            (0x00, 0x80),
            (0xff, 0xff),
            (0xff, 0x00),
            (0xff, 0x7f),
            (0xff, 0x80),
            (0x5a, 0x01),
            (0xa5, 0xfe),
        ] {
            let mut bytes = vec![body; length];
            if let Some(last) = bytes.last_mut() {
                *last = top;
            }
            let long1 = cat(&[&[0x8a, u8::try_from(length).unwrap()], &bytes, b"."]);
            assert_eq!(read(&long1), Ok(expected(&bytes)), "LONG1 {length} {body:02x} {top:02x}");
            let long4 = cat(&[&[0x8b, u8::try_from(length).unwrap(), 0, 0, 0], &bytes, b"."]);
            assert_eq!(read(&long4), Ok(expected(&bytes)), "LONG4 {length} {body:02x} {top:02x}");
        }
    }
    // Sign bytes alone, far beyond 128 bits, change nothing.
    for (low, fill) in [(5_i128, 0), (-5, 0xff), (i128::MAX, 0), (i128::MIN, 0xff)] {
        let mut bytes = low.to_le_bytes().to_vec();
        bytes.resize(300_000, fill);
        let length = u32::try_from(bytes.len()).unwrap();
        assert_eq!(read(&cat(&[b"\x8b", &length.to_le_bytes(), &bytes, b"."])), Ok(Value::Int(low)));
        *bytes.last_mut().unwrap() = 0x55;
        assert_eq!(read(&cat(&[b"\x8b", &length.to_le_bytes(), &bytes, b"."])), Ok(Value::BigInt));
    }
    for (bytes, value) in [
        (&b"\x8a\x09\xff\xff\xff\xff\xff\xff\xff\xff\0."[..], i128::from(u64::MAX)),
        (b"\x8a\x08\xff\xff\xff\xff\xff\xff\xff\xff.", -1),
        (b"\x8a\x08\0\0\0\0\0\0\0\x80.", i128::from(i64::MIN)),
        (b"\x8a\x09\0\0\0\0\0\0\0\x80\0.", 1 << 63),
        (b"\x8a\0.", 0),
        (b"J\xff\xff\xff\xff.", -1),
        (b"J\0\0\0\x80.", i128::from(i32::MIN)),
        (b"M\xff\xff.", 65_535),
        (b"K\xff.", 255),
    ] {
        assert_eq!(read(bytes), Ok(Value::Int(value)), "{}", bytes.escape_ascii());
    }
    for value in [0, 1, -1, 127, 128, -128, -129, 255, 256, i128::from(u64::MAX), i128::MAX, i128::MIN] {
        let bytes = long_bytes(value);
        let length = u8::try_from(bytes.len()).unwrap();
        assert_eq!(read(&cat(&[&[0x8a, length], &bytes, b"."])), Ok(Value::Int(value)));
    }
}

#[test]
fn integers_in_text_form_are_read() {
    for (text, value) in [
        ("I0\n", Value::from(0)),
        ("I1\n", Value::from(1)),
        ("I00\n", Value::from(false)),
        ("I01\n", Value::from(true)),
        ("I-17\n", Value::from(-17)),
        ("I9223372036854775808\n", Value::Int(1 << 63)),
        ("L0L\n", Value::from(0)),
        ("L01L\n", Value::from(1)),
        ("L18446744073709551615L\n", Value::from(u64::MAX)),
        ("L18446744073709551615\n", Value::from(u64::MAX)),
        ("L-170141183460469231731687303715884105728L\n", Value::Int(i128::MIN)),
        ("L170141183460469231731687303715884105728L\n", Value::BigInt),
        ("L-170141183460469231731687303715884105729L\n", Value::BigInt),
    ] {
        assert_eq!(read(&cat(&[text.as_bytes(), b"."])), Ok(value), "{text:?}");
    }
    let digits = [b"L".as_slice(), &vec![b'9'; 400_000], b"L\n."].concat();
    assert_eq!(read(&digits), Ok(Value::BigInt));
}

// The memo.

#[test]
fn memo_entries_may_come_in_any_order() {
    let mut bytes = vec![b']'];
    let order = [7_u8, 0, 3, 1, 255, 2, 4, 6, 5];
    for index in order {
        bytes.extend([b'K', index, b'q', index, b'a']);
    }
    bytes.push(b'(');
    for index in order.iter().rev() {
        bytes.extend([b'h', *index]);
    }
    bytes.extend(b"e.");
    let all = order.iter().chain(order.iter().rev());
    assert_eq!(read(&bytes), Ok(ints(all.map(|&index| i32::from(index)))));
}

#[test]
fn the_largest_memo_index_allocates_nothing() {
    assert_eq!(read(b"](K\x07r\xff\xff\xff\xff0j\xff\xff\xff\xffe."), Ok(ints([7])));
    assert_eq!(read(b"](K\x07p18446744073709551615\n0g18446744073709551615\ne."), Ok(ints([7])));
    assert_eq!(
        read(b"K\x07p18446744073709551616\n.").unwrap_err(),
        "byte 2: the argument of PUT is malformed; the file is damaged"
    );
}

#[test]
fn memoize_takes_the_number_of_entries_as_python_does() {
    // Entries 5 and 0 by PUT: MEMOIZE is number 2.
    assert_eq!(read(b"]K\x05q\x05aK\x06q\x00aK\x07\x94a(h\x05h\0h\x02e."), Ok(ints([5, 6, 7, 5, 6, 7])));
    // Entry 1 by PUT: MEMOIZE is number 1 too, and replaces it.
    assert_eq!(read(b"]K\x05q\x01aK\x06\x94a(h\x01e."), Ok(ints([5, 6, 6])));
    // Putting an entry again makes no new one.
    assert_eq!(read(b"]K\x05q\0aK\x06q\0aK\x07\x94a(h\0h\x01e."), Ok(ints([5, 6, 7, 6, 7])));
    assert_eq!(read(b"]K\x05q\x09aK\x06q\x09aK\x07\x94a(h\x09h\x01e."), Ok(ints([5, 6, 7, 6, 7])));
}

#[test]
fn an_overwritten_memo_entry_is_seen_by_runs_that_were_remembered() {
    let expected = Value::List(vec![ints([1, 1]), ints([1, 1]), ints([2, 2])]);
    // By every way to write an entry; the outer list stays below.
    for (name, first, second) in
        [("BINPUT", &b"q\0"[..], &b"q\0"[..]), ("LONG_BINPUT", b"\x94", b"r\0\0\0\0"), ("PUT", b"\x94", b"p0\n")]
    {
        let bytes = cat(&[b"](K\x01", first, b"0](h\0h\0e](h\0h\0eK\x02", second, b"0](h\0h\0ee."]);
        assert_eq!(read(&bytes), Ok(expected.clone()), "{name}");
        let (tree, _) = decode(&bytes[..], Tree::with_runs()).unwrap();
        assert_eq!(tree.recalled, 1, "{name}: the second run is equal to the first, the third is not");
    }
    // MEMOIZE after a PUT out of order hits entry 1 a second time.
    let bytes = b"](K\x01q\x010](h\x01h\x01e](h\x01h\x01eK\x02\x940](h\x01h\x01ee.";
    assert_eq!(read(bytes), Ok(expected), "MEMOIZE");
}

// Runs of memo references.

/// `[[x0, x1, …], …]`: many lists over few values, with repetitions, written with sharing.
fn many_runs(lists: usize, length: usize) -> Value {
    let inner = |which: usize| {
        let item = |i: usize| Value::dict([("n", Value::from(i64::try_from((which * 7 + i) % 300).unwrap()))]);
        Value::List((0..length + which % 3).map(item).collect())
    };
    Value::List((0..lists).map(|i| inner(i % 17)).collect())
}

/// Writes the lists of `value` as separate objects that share their items.
fn separate(value: &Value, options: Options, prefix: usize) -> Vec<u8> {
    let Value::List(lists) = value else { panic!() };
    let mut writer = Writer::new(options);
    writer.op(&cat(&[b"B", &u32::try_from(prefix).unwrap().to_le_bytes(), &vec![0; prefix], b"0"]));
    writer.op(b"](");
    for list in lists {
        let Value::List(items) = list else { panic!() };
        let batch = match options.batch {
            Batch::Thousand => 1000,
            Batch::All => items.len(),
            Batch::One => 1,
        };
        writer.op(b"]");
        writer.memoize();
        for items in items.chunks(batch) {
            writer.op(b"(");
            items.iter().for_each(|item| writer.value(item));
            writer.op(b"e");
        }
    }
    writer.op(b"e");
    writer.finish()
}

#[test]
fn equal_runs_are_recalled_and_equal_the_plain_decode() {
    let value = many_runs(400, 40);
    for memo in [Memo::Memoize, Memo::BinPut, Memo::LongBinPut, Memo::Put] {
        let options = Options { memo, frame: None, ..Options::shared() };
        let bytes = separate(&value, options, 0);
        assert!(read(&bytes) == Ok(value.clone()), "{memo:?}");
        let (tree, _) = decode(&bytes[..], Tree::with_runs()).unwrap();
        assert!(tree.recalled > 300, "{memo:?}: {}", tree.recalled);
    }
}

#[test]
fn runs_are_read_the_same_across_frames_and_buffers() {
    let value = many_runs(60, 40);
    for frame in [None, Some(1), Some(5), Some(64), Some(1000)] {
        let bytes = separate(&value, Options { frame, ..Options::shared() }, 0);
        assert!(read(&bytes) == Ok(value.clone()), "FRAMEs of {frame:?}");
        for sizes in [&[1][..], &[7], &[2, 31, 5, 255]] {
            let (tree, root) = decode(Dribble::new(&bytes, sizes), Tree::with_runs()).unwrap();
            assert!(tree.value(root) == Some(value.clone()), "{frame:?} in pieces of {sizes:?}");
        }
    }
    // The end of the reader's buffer at every place of a run.
    const BUFFER: usize = 256 * 1024;
    let value = many_runs(6, 4);
    let length = separate(&value, Options { frame: None, ..Options::shared() }, 0).len();
    for place in 0..length {
        let bytes = separate(&value, Options { frame: None, ..Options::shared() }, BUFFER - place);
        let (tree, root) = decode(&bytes[..], Tree::with_runs()).unwrap();
        assert_eq!(tree.value(root), Some(value.clone()), "with {place} bytes before the end of the buffer");
    }
}

#[test]
fn runs_in_batches_and_runs_longer_than_the_buffer_are_read() {
    let value = Value::List((0..5).map(|_| Value::List(vec!["frame".into(); 2500])).collect());
    for batch in [Batch::Thousand, Batch::All, Batch::One] {
        let bytes = separate(&value, Options { batch, frame: None, ..Options::shared() }, 0);
        assert!(read(&bytes) == Ok(value.clone()), "{batch:?}");
    }
    // 5 bytes each: 350,000 bytes, twice.
    let mut bytes = b"](K\x01r\0\x01\0\x000".to_vec();
    for _ in 0..2 {
        bytes.extend(b"](");
        bytes.extend(b"j\0\x01\0\0".repeat(70_000));
        bytes.extend(b"e");
    }
    bytes.extend(b"e.");
    let expected = Value::List(vec![ints(std::iter::repeat_n(1, 70_000)); 2]);
    assert!(read(&bytes) == Ok(expected));
}

#[test]
fn equal_runs_into_lists_that_hold_something_are_appended() {
    let bytes =
        b"](K\x01\x94K\x02\x9400](h\0h\x01e](h\0h\x01e(h\0h\x01e]K\x09a(h\0h\x01e](K\x08e(h\0h\x01e](h\0h\x01ee.";
    let expected = [&[1, 2][..], &[1, 2, 1, 2], &[9, 1, 2], &[8, 1, 2], &[1, 2]];
    assert_eq!(read(bytes), Ok(Value::List(expected.iter().map(|list| ints(list.iter().copied())).collect())));
    let (tree, _) = decode(&bytes[..], Tree::with_runs()).unwrap();
    assert_eq!(tree.recalled, 2);
}

#[test]
fn references_that_are_no_run_are_left_alone() {
    // In a tuple, in a dict, before other values, under a value that is no list.
    let one = b"K\x01\x940";
    for (bytes, value) in [
        (&b"(h\0h\0t."[..], Value::Tuple(vec![1.into(), 1.into()])),
        (b"}(h\0h\0u.", Value::Dict(vec![(1.into(), 1.into())])),
        (b"](h\0K\x02h\0e.", ints([1, 2, 1])),
        (b"](K\x02h\0e.", ints([2, 1])),
        (b"\x8f(h\0\x90.", Value::Set(vec![1.into()])),
        (b"](h\0h\0l.", Value::List(vec![1.into(), 1.into()])),
    ] {
        assert_eq!(read(&cat(&[one, bytes])), Ok(value), "{}", bytes.escape_ascii());
    }
    let text = read(&cat(&[one, b"}(h\0e."])).unwrap_err();
    assert!(text.contains("APPENDS is applied to a value of another type"), "{text}");
    let text = read(&cat(&[one, b"(h\0e."])).unwrap_err();
    assert!(text.contains("APPENDS finds too few values"), "{text}");
}

// Hostile files.

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
    for opcode in [b'X', b'B', b'T'] {
        let text = read(&cat(&[&[opcode, 0xff, 0xff, 0xff, 0xff], &tail])).unwrap_err();
        assert!(text.contains("the file is truncated"), "{text}");
    }
    let text = read(&cat(&[b"\x8b\xff\xff\xff\x7f", &tail])).unwrap_err();
    assert!(text.contains("the file is truncated"), "{text}");
}

#[test]
fn a_million_nested_lists_are_no_recursion() {
    const DEPTH: usize = 1_000_000;
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
    let text = snapshot::read(&bytes[..]).unwrap_err().to_string();
    assert!(text.contains("a list whose first item is a list"), "{text}");

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
        assert_eq!(result.is_err(), matches!(name, "segments" | "device_traces"), "{name}");
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
    for protocol in 0..=5 {
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

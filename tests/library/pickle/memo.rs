//! The memo, and the cache of runs of references to it.

use super::{Dribble, cat, ints, read};
use crate::support::pickle::{Batch, Memo, Options, Tree, Value, Writer, decode, write};

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
    for (name, first, second) in [("BINPUT", &b"q\0"[..], &b"q\0"[..]), ("LONG_BINPUT", b"\x94", b"r\0\0\0\0")] {
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
    for memo in [Memo::Memoize, Memo::BinPut, Memo::LongBinPut] {
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
    ] {
        assert_eq!(read(&cat(&[one, bytes])), Ok(value), "{}", bytes.escape_ascii());
    }
    assert_reads!(read(&cat(&[one, b"}(h\0e."])).unwrap_err() => str!["byte 8: APPENDS is applied to a value of another type; the file is damaged"]);
    assert_reads!(read(&cat(&[one, b"(h\0e."])).unwrap_err() => str!["byte 7: APPENDS finds too few values on the stack; the file is damaged"]);
}

// Dictionaries that are like an earlier one.

/// Dictionaries with the same keys, and with numbers, texts and lists of their own.
fn many_alike(count: usize) -> Value {
    let one = |i: usize| {
        let number = i64::try_from(i).unwrap();
        Value::dict([
            ("kind", Value::from(if i.is_multiple_of(3) { "one" } else { "other" })),
            ("number", (number * number * 97).into()),
            ("text", "N/A".into()),
            ("list", Value::List((0..3 + i % 5).map(|item| format!("item {item}").as_str().into()).collect())),
            ("last", (-number).into()),
        ])
    };
    Value::List((0..count).map(one).collect())
}

#[test]
fn dictionaries_alike_are_recognized_and_equal_the_plain_decode() {
    let value = many_alike(300);
    for frame in [None, Some(64), Some(1000)] {
        let bytes = write(&value, Options { frame, ..Options::shared() });
        assert!(read(&bytes) == Ok(value.clone()), "{frame:?}");
        let (tree, _) = decode(&bytes[..], Tree::with_runs()).unwrap();
        assert!(frame == Some(64) || tree.alike > 150, "{frame:?}: {}", tree.alike);
        for sizes in [&[1][..], &[7], &[2, 31, 5, 255]] {
            let (tree, root) = decode(Dribble::new(&bytes, sizes), Tree::with_runs()).unwrap();
            assert!(tree.value(root) == Some(value.clone()), "{frame:?} in pieces of {sizes:?}");
        }
    }
}

/// From an opcode on that differs, the rest of a dictionary is read as any other.
#[test]
fn a_dictionary_may_differ_from_an_earlier_one_anywhere() {
    let first = [
        &b"}\x94("[..],
        b"h\0",
        b"K\x01",
        b"h\x01",
        b"M\x01\x01",
        b"h\x02",
        b"\x8c\x01v\x94",
        b"h\x03",
        b"K\x05",
        b"u",
    ];
    let others = [
        &b"h\0"[..],
        b"h\x03",
        b"K\x07",
        b"N",
        b"]",
        b"\x8c\x01w",
        b"\x8c\x01w\x94",
        b"]\x94(h\0e",
        b"K\x01K\x02\x86",
        b"}(h\0h\x01u",
    ];
    for at in 1..first.len() - 1 {
        for other in others {
            let mut second = first;
            second[at] = other;
            // The end of the input is far, and what is below stays as it was.
            let dicts = cat(&[&first.concat(), &first.concat(), &second.concat(), &first.concat()]);
            let bytes = cat(&[
                b"](\x8c\x01a\x94\x8c\x01b\x94\x8c\x01c\x94\x8c\x01d\x94",
                &dicts,
                b"h\0h\x04h\x05h\x06h\x07K\x01K\x02K\x03K\x04e.",
            ]);
            read(&bytes).unwrap();
            let (tree, _) = decode(&bytes[..], Tree::with_runs()).unwrap();
            assert!(tree.alike >= 2, "{at}: {other:?}");
        }
    }
}

#[test]
fn an_overwritten_memo_entry_is_seen_by_dictionaries_alike() {
    let dict = b"}\x94(h\0K\x01u";
    let padding = b"K\0K\0K\0K\0K\0";
    for overwrite in [&b"q\0"[..], b"r\0\0\0\0"] {
        let bytes = cat(&[b"](\x8c\x01a\x94", dict, dict, b"\x8c\x01b", overwrite, dict, padding, b"e."]);
        let Ok(Value::List(items)) = read(&bytes) else { panic!("{overwrite:?}") };
        let expected = ["a", "a", "b"].map(|key| Value::dict([(key, 1.into())]));
        assert_eq!([&items[1], &items[2], &items[4]], expected.each_ref());
        let (tree, _) = decode(&bytes[..], Tree::with_runs()).unwrap();
        assert_eq!(tree.alike, 1, "the second dictionary is like the first, the third is not");
    }
}

//! Opcodes that run code, opcodes without use, and damaged structure are refused by name and place.

use super::{cat, read};
use crate::support::pickle::{Tree, decode};
use ptmem::pickle::ErrorKind;
use ptmem::snapshot;

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
        assert!(text.contains("may be malicious") && text.contains("No code was run"), "{text}");
        // The message is the same in every reader, whatever comes before the opcode.
        let text = snapshot::read(&cat(&[before, bytes, b"."])[..]).unwrap_err().to_string();
        assert!(text.contains(name) && text.contains("No code was run"), "{text}");
        // It is refused even without its arguments on the stack.
        assert!(read(&cat(&[&bytes[opcode..], b"."])).unwrap_err().contains("No code was run"), "{name}");
    }
}

#[test]
fn opcodes_without_use_are_refused() {
    // Those of protocols 0 and 1 among them.
    for (byte, name) in [(0x96, "BYTEARRAY8"), (0x98, "READONLY_BUFFER"), (b'I', "INT"), (b'l', "LIST"), (b'2', "DUP")]
    {
        let bytes = [0x80, 5, b'N', byte, 0, 0, 0, 0, 0, 0, 0, 0, b'.'];
        let text = read(&bytes).unwrap_err();
        let why = "memory snapshots hold only plain data, in pickle protocol 2 or later";
        assert_eq!(text, format!("byte 3: opcode {name} is not supported: {why}"));
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
    assert_eq!(read(b"\x80\x06N.").unwrap_err(), "byte 0: pickle protocol 6 is not known; expected 2 to 5");
}

#[test]
fn damaged_structure_is_refused_where_it_is() {
    for (bytes, offset, words) in [
        (&b"."[..], 0, "STOP finds too few values"),
        (b"N0.", 2, "STOP finds too few values"),
        (b"N00.", 2, "POP finds too few values"),
        (b"]e.", 1, "APPENDS finds no MARK"),
        (b"(e.", 1, "APPENDS finds too few values"),
        (b"Na.", 1, "APPEND finds too few values"),
        (b"NNa.", 2, "APPEND is applied to a value of another type"),
        (b"N(Ne.", 3, "APPENDS is applied to a value of another type"),
        (b"N\x94}(h\0h\0e.", 8, "APPENDS is applied to a value of another type"),
        (b"](NNu.", 4, "SETITEMS is applied to a value of another type"),
        (b"}(Nu.", 3, "SETITEMS finds a key without a value"),
        (b"}Ns.", 2, "SETITEM finds too few values"),
        (b"NNNs.", 3, "SETITEM is applied to a value of another type"),
        (b"](N\x90.", 3, "ADDITEMS is applied to a value of another type"),
        (b"\x85.", 0, "TUPLE1 finds too few values"),
        (b"N\x86.", 1, "TUPLE2 finds too few values"),
        (b"N(NN\x87.", 4, "TUPLE3 finds too few values"),
        (b"\x94.", 0, "MEMOIZE finds too few values"),
        (b"q\0.", 0, "BINPUT finds too few values"),
        (b"h\x05.", 0, "memo entry 5, which does not exist"),
        (b"j\xff\xff\xff\xff.", 0, "memo entry 4294967295, which does not exist"),
        (b"\x8b\xff\xff\xff\xff.", 0, "LONG4 has a length below zero"),
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

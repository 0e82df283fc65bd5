//! Integers of any width.

use super::{cat, read};
use crate::support::pickle::{Value, long_bytes};

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
        // Nobody writes more bytes than the sign needs.
        if bytes.len() > 16 { Value::BigInt } else { Value::Int(low) }
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
    let bytes = vec![0x55; 300_000];
    let length = u32::try_from(bytes.len()).unwrap();
    assert_eq!(read(&cat(&[b"\x8b", &length.to_le_bytes(), &bytes, b"."])), Ok(Value::BigInt));
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

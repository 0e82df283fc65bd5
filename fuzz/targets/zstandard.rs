//! Device code in Zstandard: any bytes as a frame, and frames of the reference's encoder, whole and damaged.

#![no_main]

include!("simulated.rs");

mod damage;

use code::zstd::unpack;
use damage::Damage;
use libfuzzer_sys::fuzz_target;
use zstd::{bulk, zstd_safe};

/// Most bytes that a frame may give.
const MOST: usize = 1 << 20;

fuzz_target!(|bytes: &[u8]| {
    let Some((&level, bytes)) = bytes.split_first() else { return };
    if level == 0 {
        agrees_with_the_reference(bytes);
        return;
    }
    let (damage, bytes) = Damage::take(bytes);
    let mut frame = bulk::compress(bytes, i32::from(level % 23) - 3).expect("everything can be packed");
    assert_eq!(unpack(&frame, MOST).as_deref(), Some(bytes), "what was packed is unpacked");
    damage.apply(&mut frame);
    agrees_with_the_reference(&frame);
});

/// Where both decoders accept the input, they give the same bytes. Each accepts some damage that the other refuses.
fn agrees_with_the_reference(frame: &[u8]) {
    let unpacked = unpack(frame, MOST);
    assert!(unpacked.as_ref().is_none_or(|bytes| bytes.len() <= MOST));
    // The reference also knows frames without contents, and several in a row.
    let Ok(length) = zstd_safe::find_frame_compressed_size(frame) else { return };
    let is_skipped = frame.get(1..4) == Some(&[0x2A, 0x4D, 0x18]);
    if is_skipped {
        return;
    }
    if let Ok(expected) = bulk::decompress(&frame[..length], MOST) {
        assert!(unpacked.is_none_or(|unpacked| unpacked == expected), "{frame:?}");
    }
}

//! Device code in LZ4: any bytes as a block, and blocks of another encoder, whole and damaged.

#![no_main]

include!("simulated.rs");

mod damage;

use code::lz4::unpack;
use damage::Damage;
use libfuzzer_sys::fuzz_target;
use lz4_flex::block;

/// Most bytes that a block may give.
const MOST: usize = 1 << 20;

fuzz_target!(|bytes: &[u8]| {
    let Some((&packs, bytes)) = bytes.split_first() else { return };
    if packs == 0 {
        agrees_with_another_reader(bytes);
        return;
    }
    let (damage, bytes) = Damage::take(bytes);
    let mut packed = block::compress(bytes);
    assert_eq!(unpack(&packed, MOST).as_deref(), Some(bytes), "what was packed is unpacked");
    damage.apply(&mut packed);
    agrees_with_another_reader(&packed);
});

/// Where both decoders accept the input, they give the same bytes. Each accepts some damage that the other refuses.
fn agrees_with_another_reader(packed: &[u8]) {
    let unpacked = unpack(packed, MOST);
    assert!(unpacked.as_ref().is_none_or(|bytes| bytes.len() <= MOST));
    if let Ok(expected) = block::decompress(packed, MOST) {
        assert!(unpacked.is_none_or(|unpacked| unpacked == expected), "{packed:?}");
    }
}

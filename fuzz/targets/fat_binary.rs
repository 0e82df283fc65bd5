//! Fat binaries: any bytes, and fat binaries of random entries, packed and not, whole and damaged.

#![no_main]

include!("simulated.rs");

mod damage;
mod made;

use code::fat_binary::entries_by_choice;
use damage::Damage;
use libfuzzer_sys::arbitrary::{Result, Unstructured};
use libfuzzer_sys::fuzz_target;

const HEADER: usize = 16;
const ENTRY: usize = 64;

fuzz_target!(|bytes: &[u8]| {
    let Some((&is_made, bytes)) = bytes.split_first() else { return };
    if is_made == 0 {
        read(bytes);
        return;
    }
    let (damage, bytes) = Damage::take(bytes);
    let Ok(mut file) = file(&mut Unstructured::new(bytes)) else { return };
    assert!(entries_by_choice(&file).is_some(), "a whole file is read");
    damage.apply(&mut file);
    read(&file);
});

fn file(choices: &mut Unstructured<'_>) -> Result<Vec<u8>> {
    let mut file = [&0xBA55_ED50_u32.to_le_bytes()[..], &[1, 0, HEADER as u8, 0], &[0; 8]].concat();
    for _ in 0..choices.int_in_range(0..=4)? {
        let code = if choices.ratio(7, 8)? { made::elf(choices)? } else { made::some(choices, 400)? };
        let packing = choices.int_in_range(0..=3)?;
        let (flags, packed) = match packing {
            0 => (0x2000, lz4_flex::block::compress(&code)),
            1 => {
                (0x8000, zstd::bulk::compress(&code, choices.int_in_range(1..=19)?).expect("everything can be packed"))
            }
            _ => (0, code.clone()),
        };
        let flags = flags | if choices.arbitrary()? { 0x10_0000_u64 } else { 0 };
        let kind: u16 = if choices.ratio(7, 8)? { 2 } else { 1 };
        let padded = packed.len().next_multiple_of(8);
        let mut entry = [0; ENTRY];
        entry[..2].copy_from_slice(&kind.to_le_bytes());
        entry[4..8].copy_from_slice(&(ENTRY as u32).to_le_bytes());
        entry[8..16].copy_from_slice(&(padded as u64).to_le_bytes());
        entry[16..20].copy_from_slice(&(if packing < 2 { packed.len() as u32 } else { 0 }).to_le_bytes());
        entry[28..32].copy_from_slice(&choices.choose(&[70_u32, 80, 86, 90, 120])?.to_le_bytes());
        entry[40..48].copy_from_slice(&flags.to_le_bytes());
        entry[56..].copy_from_slice(&(code.len() as u64).to_le_bytes());
        file.extend(entry);
        file.extend(&packed);
        file.resize(file.len() + padded - packed.len(), 0);
    }
    let size = (file.len() - HEADER) as u64;
    file[8..16].copy_from_slice(&size.to_le_bytes());
    Ok(file)
}

fn read(file: &[u8]) {
    for entry in entries_by_choice(file).unwrap_or_default() {
        if let Some(code) = entry.unpacked() {
            let _ = code::cubin::parameters(&code);
        }
    }
    // A program registers an address, whose header states the length.
    if little_endian::number_at::<8>(file, 8).is_some_and(|size| size <= file.len().saturating_sub(HEADER) as u64) {
        let wrapper = [0, file.as_ptr() as u64];
        let at = ffi::In::at_address(wrapper.as_ptr() as u64);
        let _ = code::fat_binary::resources(at, c"kernel");
        let _ = code::fat_binary::parameters(at);
    }
}

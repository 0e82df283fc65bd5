//! Machine code: any bytes as an ELF file, and ELF files of random sections, whole and damaged.

#![no_main]

include!("simulated.rs");

mod damage;
mod made;

use damage::Damage;
use libfuzzer_sys::arbitrary::Unstructured;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Some((&is_made, bytes)) = bytes.split_first() else { return };
    if is_made == 0 {
        read(bytes);
        return;
    }
    let (damage, bytes) = Damage::take(bytes);
    let Ok(mut file) = made::elf(&mut Unstructured::new(bytes)) else { return };
    assert!(code::cubin::parameters(&file).is_some(), "a whole file is read");
    damage.apply(&mut file);
    read(&file);
});

fn read(file: &[u8]) {
    let _ = code::cubin::resources(file, c"kernel", 80);
    let _ = code::cubin::resources(file, c"other", 90);
    let found = code::cubin::parameters(file);
    if let Some(found) = &found {
        let count: usize = found.values().map(|parameters| parameters.len()).sum();
        assert!(count <= file.len() / 4, "entries of four bytes and more");
    }
    // The driver is given an address alone, and trusts the length that the file states.
    if length(file).is_some_and(|length| length <= file.len()) {
        let module = code::Module::at(file.as_ptr() as u64);
        let _ = module.map(|module| module.parameters(c"kernel"));
    }
}

fn length(file: &[u8]) -> Option<usize> {
    let sections = little_endian::number_at::<8>(file, 0x28)? as usize;
    sections.checked_add(64 * little_endian::number_at::<2>(file, 0x3C)? as usize)
}

//! Files of device code that are made of random choices, so that they get past the headers.

use libfuzzer_sys::arbitrary::{Result, Unstructured};

#[path = "../../crates/simulate/library/src/code/elf_file.rs"]
mod elf_file;

const NAMES: [&str; 10] = [
    ".strtab",
    ".symtab",
    ".nv.info",
    ".nv.info.kernel",
    ".nv.info.other",
    ".nv.shared.kernel",
    ".nv.info.",
    ".text.kernel",
    "",
    ".nv.infokernel",
];

/// First bytes of entries of information: registers, parameters, those without contents.
const ENTRIES: [[u8; 4]; 5] = [[4, 0x2F, 8, 0], [4, 0x17, 12, 0], [4, 0x45, 12, 0], [3, 0x1B, 0xFF, 0], [4, 1, 0, 1]];

/// An ELF file.
pub fn elf(choices: &mut Unstructured<'_>) -> Result<Vec<u8>> {
    let mut sections = Vec::new();
    for _ in 0..choices.int_in_range(0..=12)? {
        sections.push((*choices.choose(&NAMES)?, contents(choices)?));
    }
    Ok(elf_file::with_sections(&sections))
}

/// Contents of a section.
fn contents(choices: &mut Unstructured<'_>) -> Result<Vec<u8>> {
    match choices.int_in_range(0..=3)? {
        0 => Ok(b"\0kernel\0other\0".to_vec()),
        // A table of symbols.
        1 => {
            let mut symbols = vec![0; choices.int_in_range(0..=6)? * 24];
            for symbol in symbols.chunks_exact_mut(24) {
                symbol[0] = choices.int_in_range(0..=16)?;
            }
            Ok(symbols)
        }
        2 => {
            let mut information = Vec::new();
            for _ in 0..choices.int_in_range(0..=8)? {
                let entry = choices.choose(&ENTRIES)?;
                information.extend(entry);
                let length = if entry[0] == 4 { usize::from(u16::from_le_bytes([entry[2], entry[3]])) } else { 0 };
                information.extend(choices.bytes(length.min(choices.len()))?);
            }
            Ok(information)
        }
        _ => some(choices, 600),
    }
}

/// Maximum number of bytes.
pub fn some(choices: &mut Unstructured<'_>, most: usize) -> Result<Vec<u8>> {
    let length = choices.int_in_range(0..=most.min(choices.len()))?;
    Ok(choices.bytes(length)?.to_vec())
}

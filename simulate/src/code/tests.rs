//! Device code in all its packings.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::{Resources, cubin, fat_binary, lz4, occupancy, zstd};
use crate::ffi::In;

/// The text that the samples were packed from.
fn text() -> String {
    (0..600_usize)
        .map(|index| {
            let value = (index * index * 7 + index / 3) % 1013;
            if index % 5 == 0 {
                format!("{}\n", "x".repeat(value % 90))
            } else {
                format!("{value} registers of kernel {}\n", index % 17)
            }
        })
        .collect()
}

#[test]
fn zstandard_is_unpacked() {
    let packed = include_bytes!("samples/text.zst");
    assert_eq!(zstd::unpack(packed, 1 << 16).unwrap(), text().as_bytes());
    assert!(zstd::unpack(packed, 1000).is_none(), "more than was announced");
}

#[test]
fn lz4_is_unpacked() {
    let packed = include_bytes!("samples/text.lz4");
    assert_eq!(lz4::unpack(packed, 1 << 16).unwrap(), text().as_bytes());
    assert!(lz4::unpack(packed, 1000).is_none(), "more than was announced");
}

/// No input makes the readers panic: each sample cut short, and with each byte changed.
#[test]
fn damaged_code_is_refused_or_misread_but_never_panics() {
    for sample in [&include_bytes!("samples/text.zst")[..], include_bytes!("samples/text.lz4")] {
        for index in 0..sample.len() {
            let mut damaged = sample.to_vec();
            damaged[index] ^= 0x55;
            for bytes in [&sample[..index], &damaged] {
                let _ = zstd::unpack(bytes, 1 << 16);
                let _ = lz4::unpack(bytes, 1 << 16);
                let _ = cubin::resources(bytes, c"kernel", 80);
            }
        }
    }
}

/// An ELF file with sections of these names and contents.
fn elf(sections: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let mut bytes = b"\x7FELF\x02\x01".to_vec();
    bytes.resize(64, 0);
    let mut headers = alloc::vec![0; 64];
    let mut names = alloc::vec![0];
    for (name, contents) in sections {
        let mut header = [0; 64];
        header[..4].copy_from_slice(&(names.len() as u32).to_le_bytes());
        header[24..32].copy_from_slice(&(bytes.len() as u64).to_le_bytes());
        header[32..40].copy_from_slice(&(contents.len() as u64).to_le_bytes());
        headers.extend(header);
        names.extend(name.as_bytes());
        names.push(0);
        bytes.extend(contents);
    }
    let at_names = bytes.len() as u64;
    bytes.extend(names);
    let mut header = [0; 64];
    header[24..32].copy_from_slice(&at_names.to_le_bytes());
    headers.extend(header);
    let at_headers = bytes.len() as u64;
    bytes[0x28..0x30].copy_from_slice(&at_headers.to_le_bytes());
    bytes[0x3C..0x3E].copy_from_slice(&(sections.len() as u16 + 2).to_le_bytes());
    bytes[0x3E..0x40].copy_from_slice(&(sections.len() as u16 + 1).to_le_bytes());
    bytes.extend(headers);
    bytes
}

#[test]
fn registers_and_shared_memory_of_a_kernel_are_found() {
    let mut symbols = alloc::vec![0; 48];
    symbols[24..28].copy_from_slice(&1_u32.to_le_bytes());
    // One entry without contents, then the registers of the symbol 1.
    let information = [[1, 2, 3, 0], [4, 0x2F, 8, 0], [1, 0, 0, 0], [42, 0, 0, 0]].concat();
    let code = elf(&[
        (".strtab", b"\0kernel\0".to_vec()),
        (".symtab", symbols),
        (".nv.info", information),
        (".nv.shared.kernel", alloc::vec![0; 3000]),
    ]);
    let found = cubin::resources(&code, c"kernel", 80).unwrap();
    assert_eq!((found.registers, found.shared), (42, 3000));
    // Newer code counts the KiB that the system keeps of each block.
    assert_eq!(cubin::resources(&code, c"kernel", 90).unwrap().shared, 1976);
    assert!(cubin::resources(&code, c"kern", 80).is_none());
}

#[test]
fn parameters_of_kernels_are_found_in_the_order_of_their_declaration() {
    // One entry without contents, then the parameters 1 and 0: of 8 bytes, and of 25,768.
    let small =
        [alloc::vec![4, 0x17, 12, 0], alloc::vec![0, 0, 0, 0, 1, 0, 0, 0], (8_u32 << 18).to_le_bytes().to_vec()];
    let large = [alloc::vec![4, 0x45, 12, 0], alloc::vec![0; 8], 25_768_u32.to_le_bytes().to_vec()];
    let information = [alloc::vec![3, 0x1B, 0xFF, 0], small.concat(), large.concat()].concat();
    let code = elf(&[(".nv.info", alloc::vec![1, 2, 3, 0]), (".nv.info.kernel", information)]);
    let found = cubin::parameters(&code).unwrap();
    let sizes: Vec<usize> = found[&cubin::hash(c"kernel")].iter().map(|parameter| parameter.size).collect();
    assert_eq!(sizes, [25_768, 8]);
    assert_eq!(found.len(), 1);
}

/// A fat binary with one entry of such sizes, which has no machine code, and what stands for it in a program.
fn fat_binary(entry_header: u32, entry: u64) -> (Vec<u8>, [u64; 2]) {
    let mut bytes = 0xBA55_ED50_u32.to_le_bytes().to_vec();
    bytes.extend([1, 0, 16, 0]);
    bytes.extend(64_u64.to_le_bytes());
    bytes.extend([1, 0, 0, 0]);
    bytes.extend(entry_header.to_le_bytes());
    bytes.extend(entry.to_le_bytes());
    bytes.resize(16 + 64, 0);
    let wrapper = [0, bytes.as_ptr() as u64];
    (bytes, wrapper)
}

/// Sizes of nothing, and sizes past the end of all addresses, must not make the reader go on for ever.
#[test]
fn a_fat_binary_whose_entries_lead_nowhere_is_refused() {
    for (header, entry, is_read) in [(64, 0, true), (0, 64, true), (0, 0, false), (64, u64::MAX - 63, false)] {
        let (_bytes, wrapper) = fat_binary(header, entry);
        let read = fat_binary::entries_by_choice(In::at_address(wrapper.as_ptr() as u64));
        assert_eq!(read.is_some(), is_read, "{header} {entry}");
    }
}

fn kernel(registers: i32, shared: i32) -> Resources {
    Resources { registers, shared, capability: 80 }
}

/// An A100: blocks as NVIDIA's calculator gives them.
#[test]
fn threads_registers_and_shared_memory_limit_the_blocks_of_a_processor() {
    for (resources, threads, dynamic, blocks) in [
        (kernel(30, 44), 256, 0, 8),
        (kernel(33, 44), 256, 0, 6),
        (kernel(128, 0), 256, 0, 2),
        (kernel(32, 0), 32, 0, 32),
        (kernel(32, 16_384), 256, 0, 8),
        (kernel(32, 32_768), 256, 0, 4),
        (kernel(32, 0), 256, 163 * 1024, 1),
        (kernel(32, 0), 256, 164 * 1024, 0),
        (kernel(255, 0), 1024, 0, 0),
    ] {
        assert_eq!(occupancy::active_blocks(resources, threads, dynamic), blocks, "{} {threads}", resources.registers);
    }
    assert_eq!(occupancy::threads_per_block(kernel(255, 0)), 256);
}

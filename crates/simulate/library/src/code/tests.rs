//! Device code in all its packings.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

#[path = "elf_file.rs"]
mod elf_file;

use super::{Resources, cubin, fat_binary, lz4, occupancy, zstd};

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

/// Frames need no checksum: where the literals change, their bits often no longer end with the stream.
#[test]
fn damaged_literals_are_refused() {
    let sample = include_bytes!("samples/text.zst");
    let refused = (60..600).filter(|&index| {
        let mut damaged = sample.to_vec();
        damaged[index] ^= 0x55;
        zstd::unpack(&damaged, 1 << 16).is_none()
    });
    let count = refused.count();
    assert!(count > 200, "{count} of 540");
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

#[test]
fn registers_and_shared_memory_of_a_kernel_are_found() {
    let mut symbols = alloc::vec![0; 48];
    symbols[24..28].copy_from_slice(&1_u32.to_le_bytes());
    // One entry without contents, then the registers of the symbol 1.
    let information = [[1, 2, 3, 0], [4, 0x2F, 8, 0], [1, 0, 0, 0], [42, 0, 0, 0]].concat();
    let code = elf_file::with_sections(&[
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
    let code = elf_file::with_sections(&[(".nv.info", alloc::vec![1, 2, 3, 0]), (".nv.info.kernel", information)]);
    let found = cubin::parameters(&code).unwrap();
    let sizes: Vec<usize> = found[&cubin::hash(c"kernel")].iter().map(|parameter| parameter.size).collect();
    assert_eq!(sizes, [25_768, 8]);
    assert_eq!(found.len(), 1);
}

/// A fat binary with one entry of such a kind and sizes.
fn fat_binary(kind: u8, entry_header: u32, entry: u64) -> Vec<u8> {
    let mut bytes = 0xBA55_ED50_u32.to_le_bytes().to_vec();
    bytes.extend([1, 0, 16, 0]);
    bytes.extend(64_u64.to_le_bytes());
    bytes.extend([kind, 0, 0, 0]);
    bytes.extend(entry_header.to_le_bytes());
    bytes.extend(entry.to_le_bytes());
    bytes.resize(16 + 64, 0);
    bytes
}

/// Sizes of nothing, and sizes past the end of all addresses, must not make the reader go on for ever; code never reaches
/// out of its fat binary.
#[test]
fn a_fat_binary_whose_entries_lead_nowhere_is_refused() {
    for (kind, header, entry, is_read) in [
        (1, 64, 0, true),
        (1, 0, 64, true),
        (2, 64, 0, true),
        (1, 0, 0, false),
        (1, 64, u64::MAX - 63, false),
        (1, 64, u64::MAX, false),
        (2, 64, 1, false),
        (2, 60, 8, false),
    ] {
        let read = fat_binary::entries_by_choice(&fat_binary(kind, header, entry)).is_some();
        assert_eq!(read, is_read, "{kind} {header} {entry}");
    }
}

/// Sections at the same offset would be read again for each.
#[test]
fn a_file_whose_sections_overlap_is_refused() {
    let mut code = elf_file::with_sections(&[(".nv.info.a", alloc::vec![0; 400]), (".nv.info.b", alloc::vec![0; 400])]);
    assert_eq!(cubin::parameters(&code).unwrap().len(), 2);
    let headers = u64::from_le_bytes(code[0x28..0x30].try_into().unwrap()) as usize;
    for section in [1, 2] {
        let at = headers + section * 64 + 24;
        let whole = [0_u64.to_le_bytes(), (code.len() as u64 - 100).to_le_bytes()].concat();
        code[at..at + 16].copy_from_slice(&whole);
    }
    assert!(cubin::parameters(&code).is_none());
}

/// Tables of one symbol take no bits: 98,000 repetitions of 32,771 bytes each from a block of some bytes.
#[test]
fn a_block_of_zstandard_gives_no_more_than_blocks_may() {
    let raw = [&[8 << 3, 0, 0][..], b"8 bytes!"].concat();
    // No literals, 0xFFFF + 0x7F00 sequences, each with the same three symbols; then a stream without bits.
    let block = [0, 0xFF, 0xFF, 0xFF, 0b0101_0100, 0, 0, 51, 1];
    let header = [(block.len() as u8) << 3 | 2 << 1 | 1, 0, 0];
    let frame = [&[0x28, 0xB5, 0x2F, 0xFD, 0x20, 1][..], &raw, &header, &block].concat();
    assert!(zstd::unpack(&frame, usize::MAX).is_none());
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

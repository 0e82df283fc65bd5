//! Stand-ins for NVIDIA's libraries, so that PyTorch runs without their packages.
//!
//! PyTorch's libraries name the files that they need. The loader wants each of them to be there; the functions come from the
//! preloaded library. So a stand-in is a shared object without any function that in turn needs the preloaded library:
//! a search by the handle of the stand-in then finds its functions.

/// Names of NVIDIA's libraries that PyTorch 2.0 to 2.15 needs, for all releases of CUDA.
pub const SONAMES: &[&str] = &[
    "libcublas.so.11",
    "libcublas.so.12",
    "libcublas.so.13",
    "libcublasLt.so.11",
    "libcublasLt.so.12",
    "libcublasLt.so.13",
    "libcudart.so.11.0",
    "libcudart.so.12",
    "libcudart.so.13",
    "libcudnn.so.8",
    "libcudnn.so.9",
    "libcufft.so.10",
    "libcufft.so.11",
    "libcufft.so.12",
    "libcufile.so.0",
    "libcupti.so.11.7",
    "libcupti.so.11.8",
    "libcupti.so.12",
    "libcupti.so.13",
    "libcurand.so.10",
    "libcusolver.so.11",
    "libcusolver.so.12",
    "libcusparse.so.11",
    "libcusparse.so.12",
    "libcusparseLt.so.0",
    "libnccl.so.2",
    "libnvToolsExt.so.1",
    "libnvidia-ml.so.1",
    "libnvrtc.so.11.2",
    "libnvrtc.so.12",
    "libnvrtc.so.13",
    "libnvshmem_host.so.3",
];

/// Name under which the preloaded library is found.
const NEEDED: &str = "libcuda.so.1";

const HEADER: u16 = 64;
const PROGRAM_HEADER: u16 = 56;
const PROGRAM_HEADERS: u16 = 2;
const DYNAMIC_ENTRY: u64 = 16;
const DYNAMIC_ENTRIES: u64 = 7;
const SYMBOL: u64 = 24;

const ELF_MAGIC: [u8; 8] = [0x7F, b'E', b'L', b'F', 2, 1, 1, 0]; // 64 bits, little endian, version 1
const SHARED_OBJECT: u16 = 3;
const X86_64: u16 = 62;
const AARCH64: u16 = 183;
const MACHINE: u16 = if cfg!(target_arch = "aarch64") { AARCH64 } else { X86_64 };
const LOAD: u32 = 1;
const DYNAMIC: u32 = 2;
const READ_WRITE: u32 = 6;
/// Largest page of the machines: segments are aligned to it.
const PAGE: u64 = 0x1_0000;

/// A shared object with a name and no functions.
#[must_use]
pub fn stand_in(soname: &str) -> Vec<u8> {
    let dynamic_at = u64::from(HEADER + PROGRAM_HEADER * PROGRAM_HEADERS);
    let symbols_at = dynamic_at + DYNAMIC_ENTRY * DYNAMIC_ENTRIES;
    let strings_at = symbols_at + SYMBOL;
    let mut strings = vec![0];
    let soname_at = append_string(&mut strings, soname);
    let needed_at = append_string(&mut strings, NEEDED);
    let size = strings_at + strings.len() as u64;

    let mut file = header();
    append_segment(&mut file, LOAD, 0, size, PAGE);
    append_segment(&mut file, DYNAMIC, dynamic_at, DYNAMIC_ENTRY * DYNAMIC_ENTRIES, 8);
    let dynamic = [
        (1, needed_at),             // DT_NEEDED
        (14, soname_at),            // DT_SONAME
        (5, strings_at),            // DT_STRTAB
        (6, symbols_at),            // DT_SYMTAB
        (10, strings.len() as u64), // DT_STRSZ
        (11, SYMBOL),               // DT_SYMENT
        (0, 0),                     // DT_NULL
    ];
    for (tag, value) in dynamic {
        append(&mut file, &[tag, value]);
    }
    // The table of symbols begins with one that is undefined, and has no other.
    append(&mut file, &[0; 3]);
    file.extend(strings);
    file
}

fn append_string(strings: &mut Vec<u8>, text: &str) -> u64 {
    let at = strings.len() as u64;
    strings.extend(text.as_bytes());
    strings.push(0);
    at
}

fn append(file: &mut Vec<u8>, words: &[u64]) {
    words.iter().for_each(|word| file.extend(word.to_le_bytes()));
}

fn header() -> Vec<u8> {
    let mut file = ELF_MAGIC.to_vec();
    append(&mut file, &[0]);
    file.extend(SHARED_OBJECT.to_le_bytes());
    file.extend(MACHINE.to_le_bytes());
    file.extend(1_u32.to_le_bytes());
    append(&mut file, &[0, u64::from(HEADER), 0]); // entry, program headers, no section headers
    file.extend(0_u32.to_le_bytes());
    let sizes = [HEADER, PROGRAM_HEADER, PROGRAM_HEADERS, 0, 0, 0];
    sizes.iter().for_each(|size| file.extend(size.to_le_bytes()));
    file
}

/// Adds a program header: the file is mapped as it lies, at offsets from wherever the loader puts it.
fn append_segment(file: &mut Vec<u8>, kind: u32, at: u64, size: u64, alignment: u64) {
    file.extend(kind.to_le_bytes());
    file.extend(READ_WRITE.to_le_bytes());
    append(file, &[at, at, at, size, size, alignment]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stand_in_carries_its_name_and_needs_the_library() {
        let file = stand_in("libcublas.so.12");
        assert_eq!(&file[..4], b"\x7FELF");
        let strings = b"\0libcublas.so.12\0libcuda.so.1\0";
        assert!(file.ends_with(strings));
        let end = u64::from(HEADER + 2 * PROGRAM_HEADER) + 7 * DYNAMIC_ENTRY + SYMBOL;
        assert_eq!(file.len() as u64, end + strings.len() as u64);
    }
}

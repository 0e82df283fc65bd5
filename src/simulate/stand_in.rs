//! Stand-ins for NVIDIA's libraries, so that PyTorch runs without their packages.
//!
//! PyTorch's libraries name the files that they need. The loader wants each of them to be there; the functions come
//! from the preloaded library. So a stand-in is a shared object without any function that in turn needs the preloaded
//! library: a search by the handle of the stand-in then finds its functions. Functions that the preloaded library does
//! not know, because the release is newer than ptmem, are in a library of their own, which a stand-in needs as well.

/// Names of NVIDIA's libraries that PyTorch 2.0 to 2.15 and its extensions need or load, for all releases of CUDA, one a
/// line. Others are read from PyTorch's libraries.
pub const SONAMES: &str = include_str!("nvidia/libraries.txt");

/// Name under which the preloaded library is found.
pub const PRELOADED: &str = "libcuda.so.1";

const HEADER: u16 = 64;
const PROGRAM_HEADER: u16 = 56;
const PROGRAM_HEADERS: u16 = 3;
const DYNAMIC_ENTRY: u64 = 16;
const SYMBOL: u64 = 24;

const ELF_MAGIC: [u8; 8] = [0x7F, b'E', b'L', b'F', 2, 1, 1, 0]; // 64 bits, little endian, version 1
const SHARED_OBJECT: u16 = 3;
const X86_64: u16 = 62;
const AARCH64: u16 = 183;
const MACHINE: u16 = if cfg!(target_arch = "aarch64") { AARCH64 } else { X86_64 };
const LOAD: u32 = 1;
const DYNAMIC: u32 = 2;
const READ_WRITE: u32 = 6;
const READ_EXECUTE: u32 = 5;
/// A global function.
const FUNCTION: u8 = 0x12;
/// Largest page of the machines: segments are aligned to it.
const PAGE: u64 = 0x1_0000;
/// Code of every function: it returns 0. `xor eax, eax; ret` or `mov w0, 0; ret`.
const RETURN_ZERO: &[u8] =
    if cfg!(target_arch = "aarch64") { &[0, 0, 0x80, 0x52, 0xC0, 3, 0x5F, 0xD6] } else { &[0x31, 0xC0, 0xC3] };

/// A shared object.
#[derive(Debug, Clone, Copy)]
pub struct StandIn<'a> {
    /// Its name.
    pub soname: &'a str,
    /// Libraries in which the loader goes on to search.
    pub needed: &'a [&'a str],
    /// Functions that it has, all of which return 0.
    pub functions: &'a [&'a str],
}

/// Places of the parts of the file.
struct Places {
    dynamic: u64,
    symbols: u64,
    hashes: u64,
    strings: u64,
    code: u64,
}

impl StandIn<'_> {
    /// The file.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        let mut strings = vec![0];
        let soname_at = append_string(&mut strings, self.soname);
        let needed: Vec<u64> = self.needed.iter().map(|name| append_string(&mut strings, name)).collect();
        let names: Vec<u64> = self.functions.iter().map(|name| append_string(&mut strings, name)).collect();
        let hashes = self.hash_table();
        let places = self.places(hashes.len() as u64, strings.len() as u64);
        let dynamic_size = places.symbols - places.dynamic;

        let mut file = header();
        append_segment(&mut file, LOAD, READ_WRITE, 0..places.code, 0);
        append_segment(&mut file, DYNAMIC, READ_WRITE, places.dynamic..places.dynamic + dynamic_size, 0);
        // The code is mapped at the next page, which nothing writes to.
        append_segment(&mut file, LOAD, READ_EXECUTE, places.code..places.code + RETURN_ZERO.len() as u64, PAGE);
        for library in needed {
            append(&mut file, &[1, library]); // DT_NEEDED
        }
        for (tag, value) in [
            (14, soname_at),            // DT_SONAME
            (4, places.hashes),         // DT_HASH
            (5, places.strings),        // DT_STRTAB
            (6, places.symbols),        // DT_SYMTAB
            (10, strings.len() as u64), // DT_STRSZ
            (11, SYMBOL),               // DT_SYMENT
            (0, 0),                     // DT_NULL
        ] {
            append(&mut file, &[tag, value]);
        }
        append(&mut file, &[0; 3]); // The table of symbols begins with one that is undefined.
        for name in names {
            append_function(&mut file, name, places.code + PAGE);
        }
        file.extend(hashes);
        file.extend(strings);
        file.extend(RETURN_ZERO);
        file
    }

    fn places(&self, hashes_size: u64, strings_size: u64) -> Places {
        let dynamic = u64::from(HEADER + PROGRAM_HEADER * PROGRAM_HEADERS);
        let symbols = dynamic + DYNAMIC_ENTRY * (self.needed.len() as u64 + 7);
        let hashes = symbols + SYMBOL * (self.functions.len() as u64 + 1);
        let strings = hashes + hashes_size;
        Places { dynamic, symbols, hashes, strings, code: strings + strings_size }
    }

    /// The table by which the loader finds a symbol: chains of those with the same hash, after the ELF specification.
    fn hash_table(&self) -> Vec<u8> {
        let buckets = self.functions.len().max(1);
        let mut first = vec![0_u32; buckets];
        let mut next = vec![0_u32; self.functions.len() + 1];
        for (index, name) in (1..).zip(self.functions) {
            let bucket = &mut first[hash(name) as usize % buckets];
            next[index as usize] = std::mem::replace(bucket, index);
        }
        let mut table = low_half(buckets as u64).to_vec();
        table.extend(low_half(next.len() as u64));
        table.extend(first.iter().chain(&next).flat_map(|index| index.to_le_bytes()));
        table
    }
}

/// Hash of a name in the tables of ELF files.
fn hash(name: &str) -> u32 {
    name.bytes().fold(0, |hash: u32, byte| {
        let hash = (hash << 4).wrapping_add(byte.into());
        let high = hash & 0xF000_0000;
        (hash ^ (high >> 24)) & !high
    })
}

/// A number in 4 bytes, in which all numbers of a stand-in have room.
fn low_half(number: u64) -> [u8; 4] {
    let [a, b, c, d, ..] = number.to_le_bytes();
    [a, b, c, d]
}

fn append_function(file: &mut Vec<u8>, name: u64, address: u64) {
    file.extend(low_half(name));
    file.extend([FUNCTION, 0, 1, 0]); // visible, and in any section
    append(file, &[address, RETURN_ZERO.len() as u64]);
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

/// Adds a program header: a range of the file is mapped at its offset and some more, from wherever the loader puts it.
fn append_segment(file: &mut Vec<u8>, kind: u32, access: u32, range: std::ops::Range<u64>, further: u64) {
    let alignment = if kind == LOAD { PAGE } else { 8 };
    let address = range.start + further;
    let size = range.end - range.start;
    file.extend(kind.to_le_bytes());
    file.extend(access.to_le_bytes());
    append(file, &[range.start, address, address, size, size, alignment]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_those_of_the_specification() {
        assert_eq!(hash("printf"), 0x0779_05A6);
        assert_eq!(hash(""), 0);
    }

    #[test]
    fn each_function_is_in_the_chain_of_its_bucket() {
        let functions = ["cudaOfTomorrow", "cublasOfTomorrow", "cudnnOfTomorrow"];
        let stand_in = StandIn { soname: "libcublas.so.19", needed: &[PRELOADED], functions: &functions };
        let table: Vec<u32> =
            stand_in.hash_table().chunks(4).map(|word| u32::from_le_bytes(word.try_into().unwrap())).collect();
        let buckets = table[0] as usize;
        let first = &table[2..2 + buckets];
        let next = &table[2 + buckets..];
        assert_eq!((first.len(), next.len()), (3, 4));
        for (index, name) in (1..).zip(functions) {
            let mut at = first[hash(name) as usize % first.len()];
            while at != index {
                assert_ne!(at, 0, "{name} is not found");
                at = next[at as usize];
            }
        }
        assert!(stand_in.bytes().ends_with(RETURN_ZERO));
    }
}

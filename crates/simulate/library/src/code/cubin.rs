//! Machine code for one kind of card: an ELF file, whose tables name the resources of each kernel.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::ffi::CStr;

use super::kernel::{Parameter, Resources};
use crate::little_endian::number_at;
use crate::sys::memory;

/// Format and number of the entry of `.nv.info` that holds the registers of a function.
const REGISTER_COUNT: [u8; 4] = [4, 0x2F, 8, 0];
/// Format and number of an entry that describes a parameter of a kernel.
const PARAMETER: [u8; 4] = [4, 0x17, 12, 0];
/// The same where a parameter takes more than 16 KiB.
const LARGE_PARAMETER: [u8; 4] = [4, 0x45, 12, 0];
const INFORMATION: &str = ".nv.info.";
/// From this compute capability on, the shared memory of a kernel includes what the system keeps of each block.
const FIRST_WITH_RESERVE: i32 = 90;
const RESERVE: i32 = 1024;

/// An ELF file of 64 bits.
struct Elf<'a> {
    bytes: &'a [u8],
    sections: &'a [u8],
    names: usize,
}

/// Parts of a section header that are needed.
#[derive(Clone, Copy)]
struct CubinSection {
    name: usize,
    offset: usize,
    size: usize,
}

const MAGIC: &[u8] = b"\x7FELF\x02\x01";
/// Bytes of the header of a file.
const FILE_HEADER: usize = 64;

/// The file at an address, up to its table of sections, which comes after them. `None` if it is not such a file.
pub(super) fn at(address: u64) -> Option<&'static [u8]> {
    if !memory::bytes(address, MAGIC.len()).starts_with(MAGIC) {
        return None;
    }
    let header = memory::bytes(address, FILE_HEADER);
    let sections = number::<8>(header, 0x28)?;
    let count = number::<2>(header, 0x3C)?;
    Some(memory::bytes(address, sections.checked_add(count * Elf::HEADER)?))
}

fn number<const SIZE: usize>(bytes: &[u8], at: usize) -> Option<usize> {
    number_at::<SIZE>(bytes, at).map(|number| number as usize)
}

impl<'a> Elf<'a> {
    /// Size of a section header and of a symbol.
    const HEADER: usize = 64;
    const SYMBOL: usize = 24;

    fn new(bytes: &'a [u8]) -> Option<Self> {
        if !bytes.starts_with(MAGIC) {
            return None;
        }
        let at = number::<8>(bytes, 0x28)?;
        let count = number::<2>(bytes, 0x3C)?;
        let sections = bytes.get(at..at.checked_add(count * Self::HEADER)?)?;
        let unnamed = Self { bytes, sections, names: 0 };
        let names = unnamed.section(number::<2>(bytes, 0x3E)?)?.offset;
        Some(Self { names, ..unnamed })
    }

    fn section(&self, index: usize) -> Option<CubinSection> {
        let header = self.sections.get(index.checked_mul(Self::HEADER)?..)?;
        Some(CubinSection {
            name: number::<4>(header, 0)?,
            offset: number::<8>(header, 24)?,
            size: number::<8>(header, 32)?,
        })
    }

    fn find(&self, prefix: &str, name: &CStr) -> Option<CubinSection> {
        let count = self.sections.len() / Self::HEADER;
        (0..count).filter_map(|index| self.section(index)).find(|section| {
            let found = self.bytes.get(self.names.saturating_add(section.name)..).unwrap_or_default();
            found.strip_prefix(prefix.as_bytes()).is_some_and(|rest| rest.starts_with(name.to_bytes_with_nul()))
        })
    }

    fn contents(&self, prefix: &str) -> Option<&'a [u8]> {
        let section = self.find(prefix, c"")?;
        self.bytes.get(section.offset..section.offset.checked_add(section.size)?)
    }

    /// Index of the symbol with a name.
    fn symbol(&self, name: &CStr) -> Option<usize> {
        let symbols = self.contents(".symtab")?;
        let names = self.contents(".strtab")?;
        symbols.chunks_exact(Self::SYMBOL).position(|symbol| {
            let at = number::<4>(symbol, 0).unwrap_or_default();
            names.get(at..).is_some_and(|found| found.starts_with(name.to_bytes_with_nul()))
        })
    }

    /// Registers of each thread of a function.
    fn registers(&self, symbol: usize) -> Option<i32> {
        let entries = Entries(self.contents(".nv.info")?);
        let mut counts = entries.filter(|entry| entry.starts_with(&REGISTER_COUNT));
        let of_function = counts.find(|entry| number::<4>(entry, 4) == Some(symbol))?;
        number::<4>(of_function, 8).map(|count| count as i32)
    }

    /// Name and contents of the section with information about a kernel. None for all other sections.
    fn information(&self, section: CubinSection) -> Option<(&'a [u8], &'a [u8])> {
        let name = self.bytes.get(self.names.checked_add(section.name)?..)?.strip_prefix(INFORMATION.as_bytes())?;
        Some((name, self.bytes.get(section.offset..section.offset.checked_add(section.size)?)?))
    }
}

/// Entries of a section of information, each with its header of four bytes.
struct Entries<'a>(&'a [u8]);

impl<'a> Iterator for Entries<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        // Only entries of format 4 have contents behind their header; the rest has it there.
        let length = if *self.0.first()? == 4 { number::<2>(self.0, 2)? } else { 0 };
        let (entry, rest) = self.0.split_at_checked(4 + length)?;
        self.0 = rest;
        Some(entry)
    }
}

/// Parameters of kernels by [`hash`] of the kernel's name: the names of one file can take megabytes.
pub(crate) type ParametersByName = BTreeMap<u64, Box<[Parameter]>>;

/// FNV-1a: names are those of the program, nobody tries to make two of them equal.
pub(crate) fn hash(name: &CStr) -> u64 {
    name.to_bytes()
        .iter()
        .fold(0xCBF2_9CE4_8422_2325, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01B3))
}

/// Parameters of all kernels in a file, in the order of their declaration. `None` if it is not such a file.
pub(crate) fn parameters(bytes: &[u8]) -> Option<ParametersByName> {
    let elf = Elf::new(bytes)?;
    let sections = (0..elf.sections.len() / Elf::HEADER).filter_map(|index| elf.section(index));
    // Sections of one file lie side by side. Where they overlap, 65,535 of them could each be as long as the file.
    let mut left = bytes.len();
    let mut found = ParametersByName::new();
    for (named, information) in sections.filter_map(|section| elf.information(section)) {
        let name = CStr::from_bytes_until_nul(named).ok()?;
        left = left.checked_sub(name.count_bytes() + information.len())?;
        found.insert(hash(name), parameters_in(information));
    }
    Some(found)
}

fn parameters_in(information: &[u8]) -> Box<[Parameter]> {
    let mut found: Vec<(usize, Parameter)> = Entries(information).filter_map(parameter).collect();
    found.sort_by_key(|(place, _)| *place);
    found.into_iter().map(|(_, parameter)| parameter).collect()
}

/// A parameter and its place in the declaration.
fn parameter(entry: &[u8]) -> Option<(usize, Parameter)> {
    let last = number::<4>(entry, 12)?;
    let size = match *entry.first_chunk()? {
        PARAMETER => last >> 18,
        LARGE_PARAMETER => last,
        _ => return None,
    };
    Some((number::<2>(entry, 8)?, Parameter { size }))
}

/// Resources of a kernel. `None` if the code does not contain it.
pub(crate) fn resources(bytes: &[u8], name: &CStr, capability: i32) -> Option<Resources> {
    let elf = Elf::new(bytes)?;
    let registers = elf.registers(elf.symbol(name)?)?;
    let shared = elf.find(".nv.shared.", name).map_or(0, |section| section.size as i32);
    let reserve = if capability >= FIRST_WITH_RESERVE { RESERVE } else { 0 };
    Some(Resources { registers, shared: (shared - reserve).max(0), capability })
}

//! Machine code for one kind of card: an ELF file, whose tables name the resources of each kernel.

use core::ffi::CStr;

use super::Resources;

/// Format and number of the entry of `.nv.info` that holds the registers of a function.
const REGISTER_COUNT: [u8; 4] = [4, 0x2F, 8, 0];
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
struct Section {
    name: usize,
    offset: usize,
    size: usize,
}

fn number<const SIZE: usize>(bytes: &[u8], at: usize) -> Option<usize> {
    let bytes = bytes.get(at..at.checked_add(SIZE)?)?;
    Some(bytes.iter().rev().fold(0, |number, &byte| number << 8 | usize::from(byte)))
}

impl<'a> Elf<'a> {
    /// Size of a section header and of a symbol.
    const HEADER: usize = 64;
    const SYMBOL: usize = 24;

    fn new(bytes: &'a [u8]) -> Option<Self> {
        if !bytes.starts_with(b"\x7FELF\x02\x01") {
            return None;
        }
        let at = number::<8>(bytes, 0x28)?;
        let count = number::<2>(bytes, 0x3C)?;
        let sections = bytes.get(at..at.checked_add(count * Self::HEADER)?)?;
        let unnamed = Self { bytes, sections, names: 0 };
        let names = unnamed.section(number::<2>(bytes, 0x3E)?)?.offset;
        Some(Self { names, ..unnamed })
    }

    fn section(&self, index: usize) -> Option<Section> {
        let header = self.sections.get(index.checked_mul(Self::HEADER)?..)?;
        Some(Section {
            name: number::<4>(header, 0)?,
            offset: number::<8>(header, 24)?,
            size: number::<8>(header, 32)?,
        })
    }

    fn find(&self, prefix: &str, name: &CStr) -> Option<Section> {
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
        let mut rest = self.contents(".nv.info")?;
        while let Some(header) = rest.get(..4) {
            // Only entries of format 4 have contents behind their header; the rest has it there.
            let length = if header[0] == 4 { number::<2>(header, 2)? } else { 0 };
            if header == REGISTER_COUNT && number::<4>(rest, 4)? == symbol {
                return number::<4>(rest, 8).map(|count| count as i32);
            }
            rest = rest.get(4 + length..)?;
        }
        None
    }
}

/// Resources of a kernel. None where the code does not have it.
pub(super) fn resources(bytes: &[u8], name: &CStr, capability: i32) -> Option<Resources> {
    let elf = Elf::new(bytes)?;
    let registers = elf.registers(elf.symbol(name)?)?;
    let shared = elf.find(".nv.shared.", name).map_or(0, |section| section.size as i32);
    let reserve = if capability >= FIRST_WITH_RESERVE { RESERVE } else { 0 };
    Some(Resources { registers, shared: (shared - reserve).max(0), capability })
}

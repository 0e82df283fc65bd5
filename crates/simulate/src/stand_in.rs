//! Stand-ins for NVIDIA's libraries, so that PyTorch runs without their packages.
//!
//! PyTorch's libraries name the files that they need. The loader wants each of them to be there; the functions come
//! from the preloaded library. So a stand-in is a shared object without any function that in turn needs the preloaded
//! library: a search by the handle of the stand-in then finds its functions. Functions that the preloaded library does
//! not know, because the release is newer than ptmem, are in a library of their own, which a stand-in needs as well.

use std::ops::Range;

use object::write::elf::{FileHeader, ProgramHeader, Sym, Writer};
use object::{Endianness, elf};

/// Names of NVIDIA's libraries that PyTorch 2.0 to 2.15 and its extensions need or load, for all releases of CUDA, one a
/// line. Others are read from PyTorch's libraries.
pub(crate) const SONAMES: &str = include_str!("nvidia/libraries.txt");

/// Name under which the preloaded library is found.
pub(crate) const PRELOADED: &str = "libcuda.so.1";

const MACHINE: elf::Machine = if cfg!(target_arch = "aarch64") { elf::EM_AARCH64 } else { elf::EM_X86_64 };
const HEADER: FileHeader = FileHeader {
    os_abi: elf::ELFOSABI_NONE,
    abi_version: 0,
    e_type: elf::ET_DYN,
    e_machine: MACHINE,
    e_entry: 0,
    e_flags: elf::FileFlags(0),
};
/// Largest page of the machines: segments are aligned to it.
const PAGE: u64 = 0x1_0000;
/// Bytes of an entry of the table of symbols.
const SYMBOL: u64 = 24;
/// Code of every function: it returns 0. `xor eax, eax; ret` or `mov w0, 0; ret`.
const RETURN_ZERO: &[u8] =
    if cfg!(target_arch = "aarch64") { &[0, 0, 0x80, 0x52, 0xC0, 3, 0x5F, 0xD6] } else { &[0x31, 0xC0, 0xC3] };

/// A shared object.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StandIn<'a> {
    /// Its name.
    pub soname: &'a str,
    /// Libraries in which the loader goes on to search.
    pub needed: &'a [&'a str],
    /// Functions that it has, all of which return 0.
    pub functions: &'a [&'a str],
}

impl StandIn<'_> {
    /// The file.
    ///
    /// # Errors
    /// If it is larger than a file of the format can be.
    pub(crate) fn bytes(&self) -> Result<Vec<u8>, object::write::Error> {
        let mut file = Vec::new();
        let mut writer = Writer::new_single_phase(Endianness::Little, true, &mut file);
        writer.write_file_header(&HEADER)?;
        writer.write_program_headers_placeholder(3);
        let code = writer.offset();
        writer.write(RETURN_ZERO);
        // The first symbol is none.
        let symbol_count = u32::try_from(self.functions.len()).map_or(u32::MAX, |count| count + 1);
        let hashes = writer.write_hash(symbol_count, symbol_count, |symbol| self.hash(symbol));
        let symbols = writer.write_null_dynamic_symbol();
        for name in self.functions {
            let name = writer.add_dynamic_string(name.as_bytes());
            let name = writer.dynamic_string_offset(Some(name));
            writer.write_dynamic_symbol(&function(name, code));
        }
        let soname = writer.add_dynamic_string(self.soname.as_bytes());
        let needed: Vec<_> = self.needed.iter().map(|name| writer.add_dynamic_string(name.as_bytes())).collect();
        let (strings, strings_size) = writer.write_dynstr()?;
        let dynamic = writer.write_align_dynamic();
        for library in needed {
            writer.write_dynamic_string(elf::DT_NEEDED, library)?;
        }
        writer.write_dynamic_string(elf::DT_SONAME, soname)?;
        for (tag, value) in [
            (elf::DT_HASH, hashes),
            (elf::DT_STRTAB, strings),
            (elf::DT_SYMTAB, symbols),
            (elf::DT_STRSZ, strings_size.into()),
            (elf::DT_SYMENT, SYMBOL),
            (elf::DT_NULL, 0),
        ] {
            writer.write_dynamic(tag, value)?;
        }
        let end = writer.offset();
        let mut headers = Vec::new();
        let segments = [
            segment(elf::PT_LOAD, elf::PF_R | elf::PF_X, 0..dynamic, 0),
            // The loader writes to this part, which is mapped at a page of its own.
            segment(elf::PT_LOAD, elf::PF_R | elf::PF_W, dynamic..end, PAGE),
            segment(elf::PT_DYNAMIC, elf::PF_R | elf::PF_W, dynamic..end, PAGE),
        ];
        writer.write_headers_to(&mut headers, &segments)?;
        file[..headers.len()].copy_from_slice(&headers);
        Ok(file)
    }

    /// The hash by which the loader finds a symbol; the first of all is none.
    fn hash(&self, symbol: u32) -> Option<u32> {
        let name = self.functions.get(symbol.checked_sub(1)? as usize)?;
        Some(elf::hash(name.as_bytes()))
    }
}

/// A global function, by the place of its name and its address.
fn function(name: u32, address: u64) -> Sym {
    Sym {
        section: None,
        st_name: name,
        st_info: elf::STB_GLOBAL | elf::STT_FUNC,
        st_other: elf::SymbolOther(0),
        st_shndx: elf::SymbolSection(1), // any
        st_value: address,
        st_size: RETURN_ZERO.len() as u64,
    }
}

/// A range of the file is mapped at its offset and some more, from wherever the loader puts it.
fn segment(kind: elf::ProgramType, access: elf::ProgramFlags, range: Range<u64>, further: u64) -> ProgramHeader {
    let address = range.start + further;
    let size = range.end - range.start;
    ProgramHeader {
        p_type: kind,
        p_flags: access,
        p_offset: range.start,
        p_vaddr: address,
        p_paddr: address,
        p_filesz: size,
        p_memsz: size,
        p_align: if kind == elf::PT_LOAD { PAGE } else { 8 },
    }
}

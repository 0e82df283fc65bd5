//! Libraries and functions that a shared object wants, read from its ELF tables.

use std::collections::BTreeSet;
use std::io::{Read, Seek};

use object::Object as _;
use object::read::elf::ElfFile64;
use object::read::{NameOrOrdinal, ReadCache};

/// Libraries and functions that a shared object wants from others.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct LibraryImports {
    /// Names of libraries.
    pub libraries: BTreeSet<String>,
    /// Names of functions and variables.
    pub functions: BTreeSet<String>,
}

impl LibraryImports {
    /// Reads a shared object. Only its tables are read, not its code.
    ///
    /// # Errors
    ///
    /// If it is not a 64-bit ELF file, or its tables contradict each other.
    pub(crate) fn read(file: impl Read + Seek) -> Result<Self, object::Error> {
        let cache = ReadCache::new(file);
        let file: ElfFile64<'_, object::Endianness, _> = ElfFile64::parse(&cache)?;
        let mut imports = Self::default();
        for library in file.import_libraries()? {
            imports.libraries.insert(text(library?.name()));
        }
        for import in file.imports()? {
            imports.functions.extend(name(import?.name()));
        }
        Ok(imports)
    }

    /// Adds what another object wants.
    pub(crate) fn merge(&mut self, other: Self) {
        self.libraries.extend(other.libraries);
        self.functions.extend(other.functions);
    }

    /// Libraries of NVIDIA's.
    pub(crate) fn of_nvidia(&self) -> impl Iterator<Item = &str> {
        self.libraries.iter().map(String::as_str).filter(|name| is_of_nvidia(name))
    }

    /// Functions of NVIDIA's that are not among those of [`LIBRARY`](super::LIBRARY).
    ///
    /// # Errors
    ///
    /// None in practice: the library was compiled with ptmem.
    pub(crate) fn unknown(&self) -> Result<Vec<&str>, object::Error> {
        let known = exports(super::LIBRARY)?;
        let wanted = self.functions.iter().filter(|name| is_function_of_nvidia(name) && !known.contains(*name));
        Ok(wanted.map(String::as_str).collect())
    }
}

/// Names that a shared object defines.
fn exports(bytes: &[u8]) -> Result<BTreeSet<String>, object::Error> {
    let file: ElfFile64<'_, object::Endianness, _> = ElfFile64::parse(bytes)?;
    let mut names = BTreeSet::new();
    for export in file.exports()? {
        names.extend(name(export?.name()));
    }
    Ok(names)
}

fn name(name: NameOrOrdinal<&[u8]>) -> Option<String> {
    match name {
        NameOrOrdinal::Name(name) => Some(text(name)),
        NameOrOrdinal::Ordinal(_) => None,
    }
}

fn text(name: &[u8]) -> String {
    String::from_utf8_lossy(name).into_owned()
}

/// Beginnings of the names of NVIDIA's libraries for CUDA, behind `lib`.
const LIBRARY_STEMS: &str = include_str!("nvidia/library_stems.txt");

/// Beginnings of the names of their functions, but for those of the driver.
const FUNCTION_PREFIXES: &str = include_str!("nvidia/function_prefixes.txt");

/// Whether a library is one of NVIDIA's for CUDA, by its name.
fn is_of_nvidia(soname: &str) -> bool {
    let stem = soname.strip_prefix("lib").unwrap_or(soname);
    LIBRARY_STEMS.lines().any(|known| stem.starts_with(known))
}

/// Whether a function is one of NVIDIA's, by its name.
fn is_function_of_nvidia(name: &str) -> bool {
    let of_driver = name.strip_prefix("cu").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_uppercase()));
    of_driver || FUNCTION_PREFIXES.lines().any(|prefix| name.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_and_functions_of_nvidia_are_told_by_their_names() {
        for name in ["libcudart.so.13", "libcublasLt.so.12", "libnccl.so.2", "libnvrtc.so.13", "libcudnn.so.9"] {
            assert!(is_of_nvidia(name), "{name}");
        }
        for name in ["libcurl.so.4", "libc.so.6", "libtorch_cuda.so", "libgomp.so.1", "libcap.so.2"] {
            assert!(!is_of_nvidia(name), "{name}");
        }
        assert!(is_function_of_nvidia("cuMemCreate") && is_function_of_nvidia("ncclAllReduce"));
        assert!(!is_function_of_nvidia("current_time") && !is_function_of_nvidia("custom"));
    }

    #[test]
    #[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
    fn functions_that_the_library_has_are_known() {
        let functions = ["cudaMalloc", "cudaOfTomorrow", "ncclAllReduce", "printf"].map(str::to_owned).into();
        let imports = LibraryImports { functions, ..LibraryImports::default() };
        assert_eq!(imports.unknown().unwrap(), ["cudaOfTomorrow"]);
    }
}

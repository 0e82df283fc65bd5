//! The dynamic loader: which libraries are loaded, and where a name is found.

use core::ffi::{CStr, c_int, c_void};
use core::ptr;

use super::c::{self, LoadedObject};

/// Address of the next definition of a name, after this library's own.
pub(crate) fn next_definition(name: &CStr) -> *mut c_void {
    // SAFETY: the name ends in NUL.
    unsafe { c::dlsym(c::RTLD_NEXT, name.as_ptr()) }
}

/// Address of a name of the process. This library is preloaded, so its names come first.
pub(crate) fn definition(name: &CStr) -> *mut c_void {
    // SAFETY: the name ends in NUL; NULL is RTLD_DEFAULT.
    unsafe { c::dlsym(ptr::null_mut(), name.as_ptr()) }
}

/// Major version in the file name of a loaded library: 12 for `libcudart` and `…/libcudart.so.12`.
pub(crate) fn loaded_version(stem: &'static str) -> Option<u32> {
    let mut search = LoaderSearch { stem, found: None };
    // SAFETY: the visitor gets the search that lives until the call returns.
    unsafe { c::dl_iterate_phdr(visit, (&raw mut search).cast()) };
    search.found
}

struct LoaderSearch {
    stem: &'static str,
    found: Option<u32>,
}

extern "C" fn visit(object: *const LoadedObject, _size: usize, data: *mut c_void) -> c_int {
    // SAFETY: dl_iterate_phdr passes a description of an object, which lives during the call.
    let object = unsafe { &*object };
    // SAFETY: dl_iterate_phdr passes on the data of `loaded_version`, which nobody else uses meanwhile.
    let search = unsafe { &mut *data.cast::<LoaderSearch>() };
    if object.name.is_null() {
        return 0;
    }
    // SAFETY: the loader's names end in NUL.
    let Ok(path) = unsafe { CStr::from_ptr(object.name) }.to_str() else { return 0 };
    search.found = version_in(path, search.stem);
    search.found.is_some().into()
}

/// The stem is followed by nothing or by a hash (`libcudart-d0da41ae.so.11.0`).
fn version_in(path: &str, stem: &str) -> Option<u32> {
    let file = path.rsplit('/').next()?;
    let (name, version) = file.split_once(".so.")?;
    let hash = name.strip_prefix(stem)?;
    let number = version.split('.').next()?;
    if hash.is_empty() || hash.starts_with('-') { number.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_from_file_names() {
        assert_eq!(version_in("/x/libcudart.so.12", "libcudart"), Some(12));
        assert_eq!(version_in("libcudart.so.11.0", "libcudart"), Some(11));
        assert_eq!(version_in("/x/libcudart-d0da41ae.so.11.0", "libcudart"), Some(11));
        assert_eq!(version_in("/x/libcudart.so", "libcudart"), None);
        assert_eq!(version_in("/x/libcudartx.so.3", "libcudart"), None);
    }
}

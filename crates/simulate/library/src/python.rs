//! The hook for Python: a folder that every Python of the run must search first.

use alloc::ffi::CString;
use alloc::vec::Vec;
use core::ffi::CStr;

use crate::settings::settings;
use crate::sys::{self, loader};

/// Variable with Python's search path.
const PATH: &CStr = c"PYTHONPATH";

/// Variable that the hook sets in a Python where it ran before PyTorch was imported.
const RAN: &CStr = c"PTMEM_SIMULATE_HOOK";

/// Puts the folder of the hook back in front of Python's path, before Python reads it: scripts overwrite `PYTHONPATH`.
/// The state of the hook in the parent process does not apply to this one.
pub(crate) fn keep_hook_first() {
    sys::set_environment(RAN, None);
    let hook = settings().hook;
    let path = sys::environment_bytes(PATH).map_or(&[][..], CStr::to_bytes);
    if let Some(path) = with_first(hook.as_bytes(), path) {
        sys::set_environment(PATH, Some(&path));
    }
}

/// A path with an entry in front; `None` if it is there already.
fn with_first(entry: &[u8], path: &[u8]) -> Option<CString> {
    if entry.is_empty() || path.split(|&byte| byte == b':').next() == Some(entry) {
        return None;
    }
    let mut entries = Vec::from(entry);
    if !path.is_empty() {
        entries.push(b':');
        entries.extend_from_slice(path);
    }
    CString::new(entries).ok()
}

/// True in a Python that did not run the hook, for example because it ignores its environment.
pub(crate) fn lacks_hook() -> bool {
    !loader::definition(c"Py_IsInitialized").is_null() && sys::environment(RAN).is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_of_the_hook_comes_first_once() {
        assert_eq!(with_first(b"/hook", b"").as_deref(), Some(c"/hook"));
        assert_eq!(with_first(b"/hook", b"src").as_deref(), Some(c"/hook:src"));
        assert_eq!(with_first(b"/hook", b"src:/hook").as_deref(), Some(c"/hook:src:/hook"));
        assert_eq!(with_first(b"/hook", b"/hook"), None);
        assert_eq!(with_first(b"/hook", b"/hook:src"), None);
        assert_eq!(with_first(b"", b"src"), None);
    }
}

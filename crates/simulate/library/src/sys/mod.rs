//! The part of the C library that this crate needs, behind safe functions.
//!
//! The crate has no standard library: it is compiled for the machine, not for one C library, and finds the C
//! library of the process that it is loaded into. So a ptmem that is linked with musl can carry it as well.

pub(crate) mod c;
pub(crate) mod exit;
#[cfg(not(test))]
mod heap;
pub(crate) mod loader;
pub(crate) mod lock;
pub(crate) mod memory;
pub(crate) mod message;
pub(crate) mod thread;

use core::ffi::CStr;

/// Asks the kernel to end this process when the one that started it is killed, if that is `parent`. Programs keep this
/// when they start another in their place.
pub(crate) fn end_with(parent: i32) {
    // SAFETY: neither call touches memory of this process.
    unsafe {
        if parent > 0 && c::getppid() == parent {
            c::prctl(c::PR_SET_PDEATHSIG, c::SIGTERM);
            // It may have been killed just before.
            if c::getppid() != parent {
                c::raise(c::SIGTERM);
            }
        }
    }
}

/// Value of an environment variable, if it is text.
pub(crate) fn environment(name: &CStr) -> Option<&'static str> {
    environment_bytes(name)?.to_str().ok()
}

/// Value of an environment variable.
pub(crate) fn environment_bytes(name: &CStr) -> Option<&'static CStr> {
    // SAFETY: the name ends in NUL. The value is read before the program changes its environment: on first use.
    let value = unsafe { c::getenv(name.as_ptr()) };
    // SAFETY: getenv returns NULL or a string that ends in NUL.
    (!value.is_null()).then(|| unsafe { CStr::from_ptr(value) })
}

/// Sets an environment variable, or removes it. Only for the start of a process, before it has threads.
pub(crate) fn set_environment(name: &CStr, value: Option<&CStr>) {
    // SAFETY: both end in NUL, and no other thread reads the environment yet.
    unsafe {
        match value {
            Some(value) => c::setenv(name.as_ptr(), value.as_ptr(), 1),
            None => c::unsetenv(name.as_ptr()),
        };
    }
}

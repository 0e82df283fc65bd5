//! The part of the C library that this crate needs, behind safe functions.
//!
//! The crate has no standard library: it is compiled for the machine, not for one C library, and finds the C
//! library of the process that it is loaded into. So a ptmem that is linked with musl can carry it as well.

pub(crate) mod c;
#[cfg(not(test))]
mod heap;
pub(crate) mod loader;
pub(crate) mod lock;
pub(crate) mod memory;
pub(crate) mod message;
pub(crate) mod thread;

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
pub(crate) fn environment(name: &core::ffi::CStr) -> Option<&'static str> {
    // SAFETY: the name ends in NUL. The value is read before the program changes its environment: on first use.
    let value = unsafe { c::getenv(name.as_ptr()) };
    if value.is_null() {
        return None;
    }
    // SAFETY: getenv returns NULL or a string that ends in NUL.
    unsafe { core::ffi::CStr::from_ptr(value) }.to_str().ok()
}

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

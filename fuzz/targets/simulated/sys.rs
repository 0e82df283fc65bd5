//! The C library, without the heap that the library brings.

#[path = "../../../simulate/src/sys/c.rs"]
pub(crate) mod c;
#[path = "../../../simulate/src/sys/lock.rs"]
pub(crate) mod lock;
#[path = "../../../simulate/src/sys/memory.rs"]
pub(crate) mod memory;

/// Nobody has set anything.
pub(crate) fn environment(_: &core::ffi::CStr) -> Option<&'static str> {
    None
}

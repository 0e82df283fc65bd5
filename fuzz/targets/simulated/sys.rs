//! The C library, without the heap that the library brings.

#[path = "../../../crates/simulate/library/src/sys/c.rs"]
pub(crate) mod c;
#[path = "../../../crates/simulate/library/src/sys/lock.rs"]
pub(crate) mod lock;
#[path = "../../../crates/simulate/library/src/sys/memory.rs"]
pub(crate) mod memory;

/// Nobody has set anything.
pub(crate) fn environment(_: &core::ffi::CStr) -> Option<&'static str> {
    None
}

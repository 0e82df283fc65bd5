//! The exit status of a process that was recorded.
//!
//! Python writes a recording before the exit status is final. The C library knows it: `exit` passes it to a handler, and `_exit`,
//! by which forked processes of `multiprocessing` end, is replaced here.

use alloc::boxed::Box;
use core::ffi::c_int;

use crate::ffi::Text;
use crate::sys::exit;

/// Has this process write its exit status to a file when it ends.
#[unsafe(no_mangle)]
pub extern "C" fn ptmem_simulate_note_exit(file: Text) {
    if let Some(file) = file.get() {
        exit::write_status_to(Box::leak(Box::<core::ffi::CStr>::from(file)));
    }
}

/// In place of that of the C library.
#[unsafe(no_mangle)]
pub extern "C" fn _exit(status: c_int) -> ! {
    exit::write_status(status);
    exit::end_at_once(status)
}

/// The same function by its name in C.
#[unsafe(no_mangle)]
pub extern "C" fn _Exit(status: c_int) -> ! {
    _exit(status)
}

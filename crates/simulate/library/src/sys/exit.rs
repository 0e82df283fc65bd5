//! The end of this process.

use core::ffi::{CStr, c_char, c_int, c_void};
use core::sync::atomic::{AtomicI32, AtomicPtr, Ordering};
use core::{hint, ptr};

use super::c;

/// Path of the file for the exit status; NULL without one.
static FILE: AtomicPtr<c_char> = AtomicPtr::new(ptr::null_mut());
/// The process whose status that is: a forked one has the same memory.
static PROCESS: AtomicI32 = AtomicI32::new(0);

/// Has this process write its exit status, which is a byte, to a file when it ends.
pub(crate) fn write_status_to(file: &'static CStr) {
    // SAFETY: neither call touches memory of this process, and `at_exit` ignores its second argument.
    unsafe {
        PROCESS.store(c::getpid(), Ordering::Relaxed);
        c::on_exit(at_exit, ptr::null_mut());
    }
    FILE.store(file.as_ptr().cast_mut(), Ordering::Relaxed);
}

extern "C" fn at_exit(status: c_int, _: *mut c_void) {
    write_status(status);
}

/// Writes the status, if that was requested. Takes no lock and no memory: a process that was forked while another thread held a
/// lock would wait forever.
pub(crate) fn write_status(status: c_int) {
    let file = FILE.load(Ordering::Relaxed);
    // A parent sees the lowest byte.
    let byte = status as u8;
    // SAFETY: the path ends in NUL and lives as long as the process; the byte is alive during the call.
    unsafe {
        if file.is_null() || c::getpid() != PROCESS.load(Ordering::Relaxed) {
            return;
        }
        let descriptor = c::open(file, c::O_WRONLY | c::O_CLOEXEC);
        if descriptor >= 0 {
            c::write(descriptor, (&raw const byte).cast(), 1);
            c::close(descriptor);
        }
    }
}

/// Ends the process without anything else that it has for its end.
pub(crate) fn end_at_once(status: c_int) -> ! {
    loop {
        // SAFETY: the call touches no memory of this process.
        unsafe { c::syscall(c::EXIT_GROUP, status) };
        hint::spin_loop();
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::CString;
    use std::{fs, process};

    use super::*;

    #[test]
    fn the_status_is_the_byte_that_a_parent_sees() {
        let file = std::env::temp_dir().join(format!("ptmem-exit-status-{}", process::id()));
        fs::write(&file, "").unwrap();
        write_status_to(Box::leak(CString::new(file.to_str().unwrap()).unwrap().into_boxed_c_str()));
        write_status(0x103);
        assert_eq!(fs::read(&file).unwrap(), [3]);
        fs::remove_file(&file).unwrap();
    }
}

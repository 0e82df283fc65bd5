//! Messages on standard error: one write each, so that lines of several processes do not mix.

use alloc::string::String;
use core::fmt::{Arguments, Write};

use super::c;

/// Writes one line with the name of the tool before it.
pub(crate) fn print(text: Arguments<'_>) {
    let mut line = String::from("ptmem simulate: ");
    if line.write_fmt(text).is_ok() {
        line.push('\n');
        // SAFETY: the bytes are those of a string that is alive.
        unsafe { c::write(c::STDERR, line.as_ptr().cast(), line.len()) };
    }
}

#[cfg(not(test))]
#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    print(format_args!("internal error: {info}"));
    // SAFETY: abort takes nothing and does not return.
    unsafe { c::abort() }
}

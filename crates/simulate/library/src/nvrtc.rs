//! NVRTC: source becomes an empty program.

use crate::calls::calls;
use crate::ffi::{Handle, Opaque, Out, StaticText};
use crate::handles::new_handle;
use crate::version;

const SUCCESS: i32 = 0;

#[unsafe(no_mangle)]
pub extern "C" fn nvrtcVersion(major: Out<i32>, minor: Out<i32>) -> i32 {
    major.set(version::cuda() / 1000);
    minor.set(version::cuda() % 1000 / 10);
    SUCCESS
}

#[unsafe(no_mangle)]
pub extern "C" fn nvrtcGetErrorString(_code: i32) -> StaticText {
    c"an answer of the simulated NVRTC".into()
}

#[unsafe(no_mangle)]
pub extern "C" fn nvrtcCreateProgram(program: Out<Handle>) -> i32 {
    program.set(new_handle());
    SUCCESS
}

/// Programs, logs and names are the one byte that ends a text.
fn one_byte(size: Out<usize>) -> i32 {
    size.set(1);
    SUCCESS
}

fn end_of_text(text: Out<u8>) -> i32 {
    text.set(0);
    SUCCESS
}

calls! { i32;
    nvrtcGetCUBINSize(_program: Handle, size: Out<usize>) = one_byte(size);
    nvrtcGetPTXSize(_program: Handle, size: Out<usize>) = one_byte(size);
    nvrtcGetProgramLogSize(_program: Handle, size: Out<usize>) = one_byte(size);
    nvrtcGetCUBIN(_program: Handle, code: Out<u8>) = end_of_text(code);
    nvrtcGetPTX(_program: Handle, code: Out<u8>) = end_of_text(code);
    nvrtcGetProgramLog(_program: Handle, log: Out<u8>) = end_of_text(log);
}

#[unsafe(no_mangle)]
pub extern "C" fn nvrtcGetLoweredName(_program: Handle, name: Opaque, lowered: Out<Opaque>) -> i32 {
    lowered.set(name);
    SUCCESS
}

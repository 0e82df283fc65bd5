//! Handles and versions.

use super::SUCCESS;
use crate::ffi::{Handle, Out, StaticText};
use crate::handles::Registry;
use crate::version;

/// Streams by cuDNN handle.
static HANDLES: Registry<Handle> = Registry::new();

#[unsafe(no_mangle)]
pub extern "C" fn cudnnCreate(handle: Out<Handle>) -> i32 {
    handle.set(HANDLES.insert(0));
    SUCCESS
}

#[unsafe(no_mangle)]
pub extern "C" fn cudnnDestroy(handle: Handle) -> i32 {
    HANDLES.remove(handle);
    SUCCESS
}

#[unsafe(no_mangle)]
pub extern "C" fn cudnnSetStream(handle: Handle, stream: Handle) -> i32 {
    HANDLES.with(handle, |kept| *kept = stream);
    SUCCESS
}

#[unsafe(no_mangle)]
pub extern "C" fn cudnnGetStream(handle: Handle, stream: Out<Handle>) -> i32 {
    stream.set(HANDLES.get(handle).unwrap_or_default());
    SUCCESS
}

#[unsafe(no_mangle)]
pub extern "C" fn cudnnGetVersion() -> usize {
    version::cudnn() as usize
}

#[unsafe(no_mangle)]
pub extern "C" fn cudnnGetCudartVersion() -> usize {
    version::cuda() as usize
}

/// Major release, minor release and patch, by their number.
#[unsafe(no_mangle)]
pub extern "C" fn cudnnGetProperty(kind: i32, value: Out<i32>) -> i32 {
    let version = version::cudnn();
    let major_unit = if version >= 90_000 { 10_000 } else { 1_000 };
    value.set(match kind {
        0 => version / major_unit,
        1 => version % major_unit / 100,
        _ => version % 100,
    });
    SUCCESS
}

#[unsafe(no_mangle)]
pub extern "C" fn cudnnGetErrorString(code: i32) -> StaticText {
    if code == SUCCESS { c"CUDNN_STATUS_SUCCESS".into() } else { c"the simulated cuDNN cannot do this".into() }
}

#[unsafe(no_mangle)]
pub extern "C" fn cudnnGetLastErrorString(text: Out<u8>, room: usize) {
    text.set_text("", room);
}

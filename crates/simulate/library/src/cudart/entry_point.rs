//! Functions of the driver by name: those of this library, or the names that it only answers.

use alloc::ffi::CString;

use super::noted;
use crate::cuda_error::CudaError;
use crate::ffi::{Opaque, Out, Text};
use crate::sys::loader;
use crate::version;

/// Query results of `cudaGetDriverEntryPoint`.
const FOUND: i32 = 0;
const NOT_FOUND: i32 = 1;

/// Finds a function: the name itself or with the suffix that NVIDIA's headers give its newest form.
pub(crate) fn find(name: Text) -> Option<Opaque> {
    let name = name.get()?;
    for suffix in ["", "_v2", "_v3"] {
        let mut full = name.to_bytes().to_vec();
        full.extend_from_slice(suffix.as_bytes());
        let found = loader::definition(&CString::new(full).ok()?);
        if !found.is_null() {
            return Some(found);
        }
    }
    None
}

fn entry_point(name: Text, function: Out<Opaque>, status: Option<Out<i32>>) -> CudaError {
    let found = find(name);
    function.set(found.unwrap_or(core::ptr::null()));
    match status {
        Some(status) => status.set(if found.is_some() { FOUND } else { NOT_FOUND }),
        None if found.is_none() => return noted(Err(CudaError::NotFound)),
        None => {}
    }
    CudaError::Success
}

/// CUDA 11 has no place for the status.
#[unsafe(no_mangle)]
pub extern "C" fn cudaGetDriverEntryPoint(
    name: Text,
    function: Out<Opaque>,
    _flags: u64,
    status: Out<i32>,
) -> CudaError {
    entry_point(name, function, (version::cuda() >= 12_000).then_some(status))
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaGetDriverEntryPointByVersion(
    name: Text,
    function: Out<Opaque>,
    _version: u32,
    _flags: u64,
    status: Out<i32>,
) -> CudaError {
    entry_point(name, function, Some(status))
}

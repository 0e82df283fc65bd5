//! Memory and events shared between processes: a handle names an allocation, and whoever opens it gets addresses of their own.
//!
//! The memory belongs to the process that allocated it; values are not shared.

use super::noted;
use crate::cuda_error::CudaError;
use crate::device::{addresses, memory};
use crate::ffi::{Handle, Out};
use crate::streams;

/// The 64 bytes that processes send each other: an address and a size.
#[repr(C)]
pub struct Shared([u64; 8]);

#[unsafe(no_mangle)]
pub extern "C" fn cudaIpcGetMemHandle(handle: Out<Shared>, address: u64) -> CudaError {
    let Some((start, size)) = memory::find(address) else { return noted(Err(CudaError::InvalidValue)) };
    handle.set(Shared([start, size, 0, 0, 0, 0, 0, 0]));
    CudaError::Success
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaIpcOpenMemHandle(address: Out<u64>, Shared(words): Shared, _flags: u32) -> CudaError {
    let device = addresses::device_at(words[0]).ok_or(CudaError::InvalidValue);
    noted(device.and_then(|device| memory::take_addresses(device, words[1])).map(|opened| address.set(opened)))
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaIpcCloseMemHandle(address: u64) -> CudaError {
    noted(memory::give_addresses_back(address).map(|_| ()))
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaIpcGetEventHandle(handle: Out<Shared>, event: Handle) -> CudaError {
    CudaError::after(handle.set(Shared([event, 0, 0, 0, 0, 0, 0, 0])))
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaIpcOpenEventHandle(event: Out<Handle>, _handle: Shared) -> CudaError {
    CudaError::after(event.set(streams::create_event()))
}

//! Memory and events shared between processes: refused, because no other process can see the addresses.

use super::noted;
use crate::cuda_error::CudaError;
use crate::ffi::{Handle, Opaque, Out};

fn refuse() -> CudaError {
    noted(Err(CudaError::NotSupported))
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaIpcGetMemHandle(_handle: Opaque, _address: u64) -> CudaError {
    refuse()
}

/// The 64 bytes of the handle are passed in memory, so they do not appear as an argument.
#[unsafe(no_mangle)]
pub extern "C" fn cudaIpcOpenMemHandle(_address: Out<u64>) -> CudaError {
    refuse()
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaIpcCloseMemHandle(_address: u64) -> CudaError {
    refuse()
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaIpcGetEventHandle(_handle: Opaque, _event: Handle) -> CudaError {
    refuse()
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaIpcOpenEventHandle(_event: Out<Handle>) -> CudaError {
    refuse()
}

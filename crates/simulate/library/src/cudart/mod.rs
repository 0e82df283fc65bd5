//! The CUDA runtime, `libcudart`.

mod device;
mod entry_point;
mod event;
mod graph;
mod ipc;
mod kernel;
mod library;
mod memory;
mod pool;
mod properties;
mod stream;

pub(crate) use entry_point::find as find_entry_point;

use crate::cuda_error::CudaError;
use crate::device::thread;
use crate::ffi::Out;

/// The code of a result. The runtime keeps the last error of each thread.
pub(crate) fn noted(result: Result<(), CudaError>) -> CudaError {
    if let Err(error) = result {
        thread(|state| state.last_error.set(Some(error)));
    }
    result.into()
}

/// Address of any variable of device code.
pub(crate) fn symbol_address(address: Out<u64>) -> CudaError {
    memory::cudaGetSymbolAddress(address, core::ptr::null())
}

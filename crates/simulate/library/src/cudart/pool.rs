//! `cudaMallocAsync` and its pools.

use super::noted;
use crate::calls::calls;
use crate::cuda_error::CudaError;
use crate::device::{self, pool};
use crate::ffi::{Handle, In, Out};

#[unsafe(no_mangle)]
pub extern "C" fn cudaMallocAsync(address: Out<u64>, size: u64, _stream: Handle) -> CudaError {
    let result = if size == 0 { Ok(0) } else { pool::allocate(device::current(), size) };
    address.set(result.unwrap_or_default());
    noted(result.map(|_| ()))
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaMallocFromPoolAsync(address: Out<u64>, size: u64, _pool: Handle, stream: Handle) -> CudaError {
    cudaMallocAsync(address, size, stream)
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaFreeAsync(address: u64, _stream: Handle) -> CudaError {
    noted(if address == 0 { Ok(()) } else { pool::free(address) })
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaDeviceGetDefaultMemPool(handle: Out<Handle>, device: i32) -> CudaError {
    noted(device::checked(device).map(|device| handle.set(pool::handle(device))))
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaDeviceGetMemPool(handle: Out<Handle>, device: i32) -> CudaError {
    cudaDeviceGetDefaultMemPool(handle, device)
}

/// The attributes are 4 bytes for the reuse policies (1 to 3) and 8 for sizes.
#[unsafe(no_mangle)]
pub extern "C" fn cudaMemPoolGetAttribute(handle: Handle, attribute: i32, value: Out<u64>) -> CudaError {
    let found = pool::attribute(handle, attribute);
    if attribute <= 3 {
        value.cast::<i32>().set(found as i32);
    } else {
        value.set(found);
    }
    CudaError::Success
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaMemPoolSetAttribute(handle: Handle, attribute: i32, value: In<u64>) -> CudaError {
    if attribute > 3 {
        pool::set_attribute(handle, attribute, value.at(0).unwrap_or_default());
    }
    CudaError::Success
}

calls! { CudaError;
    cudaMemPoolTrimTo(handle: Handle, keep: u64) = CudaError::after(pool::trim(handle, keep));
    /// Memory that graphs hold by themselves: none, because a launch of a graph does nothing.
    cudaDeviceGetGraphMemAttribute(_device: i32, _attribute: i32, value: Out<u64>) = CudaError::after(value.set(0));
}

//! Device code that is loaded at run time (`cudaLibrary…`).

use crate::cuda_error::CudaError;
use crate::ffi::{Handle, Opaque, Out};
use crate::handles::new_handle;

#[unsafe(no_mangle)]
pub extern "C" fn cudaLibraryLoadData(library: Out<Handle>, _code: Opaque) -> CudaError {
    library.set(new_handle());
    CudaError::Success
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaLibraryLoadFromFile(library: Out<Handle>, _path: Opaque) -> CudaError {
    library.set(new_handle());
    CudaError::Success
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaLibraryGetKernel(kernel: Out<Handle>, _library: Handle, _name: Opaque) -> CudaError {
    kernel.set(new_handle());
    CudaError::Success
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaLibraryGetKernelCount(count: Out<u32>, _library: Handle) -> CudaError {
    count.set(0);
    CudaError::Success
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaLibraryUnload(_library: Handle) -> CudaError {
    CudaError::Success
}

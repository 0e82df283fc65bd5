//! Device code that is loaded at run time (`cudaLibrary…`).

use crate::calls::calls;
use crate::cuda_error::CudaError;
use crate::ffi::{Handle, Opaque, Out};
use crate::handles::new_handle;

calls! { CudaError;
    cudaLibraryLoadData(library: Out<Handle>, _code: Opaque) = CudaError::after(library.set(new_handle()));
    cudaLibraryLoadFromFile(library: Out<Handle>, _path: Opaque) = CudaError::after(library.set(new_handle()));
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaLibraryGetKernel(kernel: Out<Handle>, _library: Handle, _name: Opaque) -> CudaError {
    CudaError::after(kernel.set(new_handle()))
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaLibraryGetKernelCount(count: Out<u32>, _library: Handle) -> CudaError {
    CudaError::after(count.set(0))
}

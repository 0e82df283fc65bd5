//! Kernels: they are registered and launched, and nearly all do nothing.

use core::ffi::c_void;

use crate::calls::calls;
use crate::card;
use crate::code::{self, occupancy};
use crate::cuda_error::CudaError;
use crate::device::{LaunchConfiguration, thread};
use crate::ffi::{Handle, In, Opaque, Out, Text};
use crate::kernels;
use crate::ledger::{self, CountedFact};
use crate::streams;
use crate::version;

/// Offset of the stream in `cudaLaunchConfig_t`, after two `dim3` and a size.
const STREAM_IN_CONFIGURATION: usize = 32;

/// The caller keeps the result as the handle of its device code.
#[unsafe(no_mangle)]
pub extern "C" fn __cudaRegisterFatBinary(code: *mut c_void) -> *mut c_void {
    code
}

#[unsafe(no_mangle)]
pub extern "C" fn __cudaRegisterFatBinaryEnd(_code: Opaque) {}

#[unsafe(no_mangle)]
pub extern "C" fn __cudaUnregisterFatBinary(_code: Opaque) {}

#[unsafe(no_mangle)]
pub extern "C" fn __cudaRegisterFunction(handle: Opaque, function: Opaque, _device_function: Opaque, name: Text) {
    let Some(name) = name.get() else { return };
    code::register(function, name, handle);
}

#[unsafe(no_mangle)]
pub extern "C" fn __cudaRegisterVar() {}

#[unsafe(no_mangle)]
pub extern "C" fn __cudaInitModule(_code: Opaque) -> u8 {
    1
}

/// `dim3` as C passes it: three words in two registers.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Dim3([u32; 3]);

#[unsafe(no_mangle)]
pub extern "C" fn __cudaPushCallConfiguration(grid: Dim3, block: Dim3, shared: usize, stream: Handle) -> u32 {
    let configuration = LaunchConfiguration { grid: grid.0, block: block.0, shared, stream };
    thread(|state| state.launches.borrow_mut().push(configuration));
    0
}

#[unsafe(no_mangle)]
pub extern "C" fn __cudaPopCallConfiguration(
    grid: Out<[u32; 3]>,
    block: Out<[u32; 3]>,
    shared: Out<usize>,
    stream: Out<Handle>,
) -> CudaError {
    let configuration = thread(|state| state.launches.borrow_mut().pop()).unwrap_or_default();
    grid.set(configuration.grid);
    block.set(configuration.block);
    shared.set(configuration.shared);
    stream.set(configuration.stream);
    CudaError::Success
}

fn launched(kernel: Opaque, arguments: In<u64>, stream: Handle) -> CudaError {
    kernels::launched(kernel, arguments, stream);
    ledger::count(CountedFact::Launches);
    streams::note_work(stream);
    CudaError::Success
}

/// Exports functions that launch a kernel.
macro_rules! launches {
    ($($name:ident)*) => {
        $(
            #[unsafe(no_mangle)]
            pub extern "C" fn $name(
                kernel: Opaque,
                _grid: Dim3,
                _block: Dim3,
                arguments: In<u64>,
                _shared: usize,
                stream: Handle,
            ) -> CudaError {
                launched(kernel, arguments, stream)
            }
        )*
    };
}

// Code compiled for CUDA 13 uses the name with two underscores.
launches!(cudaLaunchKernel __cudaLaunchKernel cudaLaunchCooperativeKernel);

#[unsafe(no_mangle)]
pub extern "C" fn cudaLaunchKernelExC(configuration: In<u8>, kernel: Opaque, arguments: In<u64>) -> CudaError {
    let stream = configuration.field(STREAM_IN_CONFIGURATION).unwrap_or_default();
    launched(kernel, arguments, stream)
}

calls! { CudaError;
    /// The function itself serves as handle of its kernel.
    __cudaGetKernel(kernel: Out<Opaque>, function: Opaque) = CudaError::after(kernel.set(function));
    cudaGetFuncBySymbol(kernel: Out<Opaque>, function: Opaque) = __cudaGetKernel(kernel, function);
}

/// `cudaFuncAttributes`: three sizes, of which the first is that of shared memory; then threads, registers, versions of
/// the code, and the shared memory that a launch can ask for.
#[unsafe(no_mangle)]
pub extern "C" fn cudaFuncGetAttributes(attributes: Out<u8>, function: Opaque) -> CudaError {
    attributes.clear(if version::cuda() >= 12_000 { 144 } else { 56 });
    let resources = code::resources(function);
    let fields = [
        (0, resources.shared),
        (24, occupancy::threads_per_block(resources)),
        (28, resources.registers),
        (32, resources.capability),
        (36, resources.capability),
        (44, card::SHARED_PER_BLOCK - resources.shared),
    ];
    for (offset, value) in fields {
        attributes.field::<i32>(offset).set(value);
    }
    CudaError::Success
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaOccupancyMaxActiveBlocksPerMultiprocessor(
    blocks: Out<i32>,
    function: Opaque,
    threads: i32,
    shared: usize,
) -> CudaError {
    blocks.set(occupancy::active_blocks(code::resources(function), threads, shared));
    CudaError::Success
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
    blocks: Out<i32>,
    function: Opaque,
    threads: i32,
    shared: usize,
    _flags: u32,
) -> CudaError {
    cudaOccupancyMaxActiveBlocksPerMultiprocessor(blocks, function, threads, shared)
}

//! Device code, its functions and their launches: what Triton and NVRTC users need.

use alloc::sync::Arc;

use crate::calls::calls;
use crate::card;
use crate::code::{Module, Parameter};
use crate::cuda_error::CudaError;
use crate::ffi::{Handle, In, Opaque, Out, Text};
use crate::handles::{Registry, new_handle};
use crate::kernels;
use crate::ledger::{self, CountedFact};
use crate::streams;

/// Offset of the stream in `CUlaunchConfig`, after seven words and padding.
const STREAM_IN_CONFIGURATION: usize = 32;
/// Registers that any function is said to use.
const REGISTERS_PER_THREAD: i32 = 32;
/// Blocks of any function that fit on a processor.
const ACTIVE_BLOCKS: i32 = 2;

/// Bytes of a linked program that has no code.
static EMPTY_PROGRAM: [u8; 16] = [0; 16];

/// Modules, with the known facts about their code.
static MODULES: Registry<Option<Arc<Module>>> = Registry::new();
/// Parameters of functions, where their code is known. Programs that NVRTC compiles have none here.
static FUNCTIONS: Registry<Option<Arc<[Parameter]>>> = Registry::new();

fn make(handle: Out<Handle>) -> CudaError {
    handle.set(new_handle());
    CudaError::Success
}

#[unsafe(no_mangle)]
pub extern "C" fn cuModuleLoad(module: Out<Handle>, _path: Opaque) -> CudaError {
    make(module)
}

#[unsafe(no_mangle)]
pub extern "C" fn cuModuleLoadData(module: Out<Handle>, code: Opaque) -> CudaError {
    CudaError::after(module.set(MODULES.insert(Module::at(code.addr() as u64).map(Arc::new))))
}

calls! { CudaError;
    cuModuleLoadDataEx(module: Out<Handle>, code: Opaque) = cuModuleLoadData(module, code);
    cuModuleUnload(module: Handle) = CudaError::after(MODULES.remove(module));
}

#[unsafe(no_mangle)]
pub extern "C" fn cuModuleGetFunction(function: Out<Handle>, module: Handle, name: Text) -> CudaError {
    let module = MODULES.get(module).flatten();
    let parameters = name.get().and_then(|name| module?.parameters(name));
    function.set(FUNCTIONS.insert(parameters.map(Into::into)));
    CudaError::Success
}

#[unsafe(no_mangle)]
pub extern "C" fn cuModuleGetGlobal_v2(
    address: Out<u64>,
    size: Out<usize>,
    _module: Handle,
    _name: Opaque,
) -> CudaError {
    size.set(0);
    crate::cudart::symbol_address(address)
}

#[unsafe(no_mangle)]
pub extern "C" fn cuLinkCreate_v2(_count: u32, _options: Opaque, _values: Opaque, state: Out<Handle>) -> CudaError {
    make(state)
}

#[unsafe(no_mangle)]
pub extern "C" fn cuLinkComplete(_state: Handle, code: Out<Opaque>, size: Out<usize>) -> CudaError {
    code.set(EMPTY_PROGRAM.as_ptr().cast());
    size.set(EMPTY_PROGRAM.len());
    CudaError::Success
}

#[unsafe(no_mangle)]
pub extern "C" fn cuFuncGetAttribute(value: Out<i32>, attribute: i32, _function: Handle) -> CudaError {
    value.set(match attribute {
        0 => card::THREADS_PER_BLOCK,
        4 => REGISTERS_PER_THREAD,
        8 => card::SHARED_PER_BLOCK,
        _ => 0,
    });
    CudaError::Success
}

#[unsafe(no_mangle)]
pub extern "C" fn cuKernelGetAttribute(value: Out<i32>, attribute: i32, kernel: Handle, _device: i32) -> CudaError {
    cuFuncGetAttribute(value, attribute, kernel)
}

#[unsafe(no_mangle)]
pub extern "C" fn cuOccupancyMaxActiveBlocksPerMultiprocessor(
    blocks: Out<i32>,
    _function: Handle,
    _threads: i32,
    _shared: usize,
) -> CudaError {
    blocks.set(ACTIVE_BLOCKS);
    CudaError::Success
}

#[unsafe(no_mangle)]
pub extern "C" fn cuOccupancyMaxActiveClusters(
    clusters: Out<i32>,
    _function: Handle,
    _configuration: Opaque,
) -> CudaError {
    clusters.set(crate::settings::settings().processors);
    CudaError::Success
}

fn launched(function: Handle, arguments: In<u64>, stream: Handle) -> CudaError {
    ledger::count(CountedFact::Launches);
    streams::note_work(stream);
    match FUNCTIONS.get(function).flatten() {
        Some(parameters) => kernels::launched_with(&parameters, arguments, stream),
        None => kernels::launched_unknown(stream),
    }
    CudaError::Success
}

#[unsafe(no_mangle)]
pub extern "C" fn cuLaunchKernel(
    function: Handle,
    _grid_x: u32,
    _grid_y: u32,
    _grid_z: u32,
    _block_x: u32,
    _block_y: u32,
    _block_z: u32,
    _shared: u32,
    stream: Handle,
    arguments: In<u64>,
) -> CudaError {
    launched(function, arguments, stream)
}

#[unsafe(no_mangle)]
pub extern "C" fn cuLaunchCooperativeKernel(
    function: Handle,
    _grid_x: u32,
    _grid_y: u32,
    _grid_z: u32,
    _block_x: u32,
    _block_y: u32,
    _block_z: u32,
    _shared: u32,
    stream: Handle,
    arguments: In<u64>,
) -> CudaError {
    launched(function, arguments, stream)
}

#[unsafe(no_mangle)]
pub extern "C" fn cuLaunchKernelEx(configuration: In<u8>, function: Handle, arguments: In<u64>) -> CudaError {
    launched(function, arguments, configuration.field(STREAM_IN_CONFIGURATION).unwrap_or_default())
}

/// A tensor map describes an access to memory that no kernel makes.
#[unsafe(no_mangle)]
pub extern "C" fn cuTensorMapEncodeTiled(map: Out<u8>) -> CudaError {
    CudaError::after(map.clear(128))
}

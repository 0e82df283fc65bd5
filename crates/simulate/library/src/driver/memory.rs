//! Memory, copies and fills.

use super::context;
use crate::calls::calls;
use crate::cuda_error::CudaError;
use crate::device::host::{self, HostKind};
use crate::device::{self, addresses, copy, memory, virtual_memory};
use crate::ffi::{Handle, In, Out};
use crate::streams;

const HOST: u32 = 1;
const DEVICE: u32 = 2;

#[unsafe(no_mangle)]
pub extern "C" fn cuMemAlloc_v2(address: Out<u64>, size: u64) -> CudaError {
    memory::allocate(device::current(), size).map(|found| address.set(found)).into()
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemFree_v2(address: u64) -> CudaError {
    memory::free(address).into()
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemGetInfo_v2(free: Out<u64>, total: Out<u64>) -> CudaError {
    let sizes = memory::sizes(device::current());
    free.set(sizes.free);
    total.set(sizes.total);
    CudaError::Success
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemGetAddressRange_v2(start: Out<u64>, size: Out<u64>, address: u64) -> CudaError {
    let Some((at, length)) = memory::find(address).or_else(|| virtual_memory::find(address)) else {
        return CudaError::InvalidValue;
    };
    start.set(at);
    size.set(length);
    CudaError::Success
}

/// Attribute of a pointer: the value has the size that the attribute says.
#[unsafe(no_mangle)]
pub extern "C" fn cuPointerGetAttribute(value: Out<u64>, attribute: i32, address: u64) -> CudaError {
    let on_device = addresses::is_device(address);
    let host = host::kind_at(address);
    if !on_device && host.is_none() {
        return CudaError::InvalidValue;
    }
    let ordinal = virtual_memory::device_at(address).unwrap_or_else(device::current);
    match attribute {
        1 => value.set(context::of_device(ordinal)),
        2 => value.cast::<u32>().set(if on_device { DEVICE } else { HOST }),
        3 | 4 => value.set(address),
        7 => value.set(address >> 21), // identity of the allocation
        8 => value.cast::<u32>().set((host == Some(HostKind::Managed)).into()),
        9 => value.cast::<i32>().set(ordinal as i32),
        11 => value.set(memory::find(address).map_or(address, |(start, _)| start)),
        12 => value.set(memory::find(address).map_or(0, |(_, size)| size)),
        13 => value.cast::<u32>().set(1), // mapped
        _ => value.cast::<u32>().set(0),
    }
    CudaError::Success
}

/// Several attributes, each in a place of its own. Memory unknown to CUDA has none, which is not an error here.
#[unsafe(no_mangle)]
pub extern "C" fn cuPointerGetAttributes(
    count: u32,
    attributes: In<i32>,
    values: In<Out<u64>>,
    address: u64,
) -> CudaError {
    for index in 0..count as usize {
        let (Some(attribute), Some(value)) = (attributes.at(index), values.at(index)) else { break };
        if cuPointerGetAttribute(value, attribute, address) != CudaError::Success {
            value.cast::<u32>().set(0);
        }
    }
    CudaError::Success
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemcpy(to: u64, from: u64, size: u64) -> CudaError {
    CudaError::after(copy::copy(to, from, size))
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemcpyAsync(to: u64, from: u64, size: u64, stream: Handle) -> CudaError {
    streams::note_work(stream);
    cuMemcpy(to, from, size)
}

calls! { CudaError;
    cuMemcpyHtoD_v2(to: u64, from: u64, size: u64) = cuMemcpy(to, from, size);
    cuMemcpyDtoH_v2(to: u64, from: u64, size: u64) = cuMemcpy(to, from, size);
    cuMemcpyDtoD_v2(to: u64, from: u64, size: u64) = cuMemcpy(to, from, size);
    cuMemcpyHtoDAsync_v2(to: u64, from: u64, size: u64, stream: Handle) = cuMemcpyAsync(to, from, size, stream);
    cuMemcpyDtoHAsync_v2(to: u64, from: u64, size: u64, stream: Handle) = cuMemcpyAsync(to, from, size, stream);
    cuMemcpyDtoDAsync_v2(to: u64, from: u64, size: u64, stream: Handle) = cuMemcpyAsync(to, from, size, stream);
    cuMemsetD8_v2(at: u64, byte: u8, count: u64) = CudaError::after(copy::fill(at, byte, count));
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemsetD8Async(at: u64, byte: u8, count: u64, stream: Handle) -> CudaError {
    streams::note_work(stream);
    cuMemsetD8_v2(at, byte, count)
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemsetD32_v2(at: u64, word: u32, count: u64) -> CudaError {
    CudaError::after(copy::fill_words(at, word, count))
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemsetD32Async(at: u64, word: u32, count: u64, stream: Handle) -> CudaError {
    streams::note_work(stream);
    cuMemsetD32_v2(at, word, count)
}

//! Device and host memory, copies and fills.

use super::noted;
use crate::calls::calls;
use crate::cuda_error::CudaError;
use crate::device::host::{self, HostKind};
use crate::device::{self, addresses, copy, memory, virtual_memory};
use crate::ffi::{Handle, Opaque, Out};
use crate::streams;
use crate::version;

const DEVICE_MEMORY: i32 = 2;
const PITCH: u64 = 512;
const SYMBOL_SPACE: u64 = addresses::GRAIN;

/// Writes an address, or NULL and the error.
fn place(address: Out<u64>, result: Result<u64, CudaError>) -> CudaError {
    address.set(result.unwrap_or_default());
    noted(result.map(|_| ()))
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaMalloc(address: Out<u64>, size: u64) -> CudaError {
    place(address, memory::allocate(device::current(), size))
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaFree(address: u64) -> CudaError {
    match host::free(address) {
        Some(()) => CudaError::Success,
        None => noted(memory::free(address)),
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaMallocManaged(address: Out<u64>, size: u64, _flags: u32) -> CudaError {
    place(address, host::allocate(size, HostKind::Managed))
}

/// Rows begin at multiples of [`PITCH`].
#[unsafe(no_mangle)]
pub extern "C" fn cudaMallocPitch(address: Out<u64>, pitch: Out<u64>, width: u64, height: u64) -> CudaError {
    let row = width.checked_next_multiple_of(PITCH);
    pitch.set(row.unwrap_or_default());
    let size = row.and_then(|row| row.checked_mul(height)).ok_or(CudaError::OutOfMemory);
    place(address, size.and_then(|size| memory::allocate(device::current(), size)))
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaMemGetInfo(free: Out<u64>, total: Out<u64>) -> CudaError {
    let sizes = memory::sizes(device::current());
    free.set(sizes.free);
    total.set(sizes.total);
    CudaError::Success
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaHostAlloc(address: Out<u64>, size: u64, _flags: u32) -> CudaError {
    place(address, host::allocate(size, HostKind::Allocated))
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaMallocHost(address: Out<u64>, size: u64) -> CudaError {
    place(address, host::allocate(size, HostKind::Allocated))
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaFreeHost(address: u64) -> CudaError {
    if address == 0 {
        return CudaError::Success;
    }
    noted(host::free(address).ok_or(CudaError::InvalidValue))
}

calls! { CudaError;
    cudaHostRegister(address: u64, size: u64, _flags: u32) = CudaError::after(host::register(address, size));
    cudaHostUnregister(address: u64) = noted(host::unregister(address));
    cudaHostGetDevicePointer(address: Out<u64>, host: u64, _flags: u32) = CudaError::after(address.set(host));
}

/// The first fields of `cudaPointerAttributes` (kind, device, both addresses) are the same in all releases.
#[unsafe(no_mangle)]
pub extern "C" fn cudaPointerGetAttributes(attributes: Out<u8>, address: u64) -> CudaError {
    attributes.clear(if version::is_cuda_13() { 88 } else { 24 });
    if addresses::is_device(address) {
        attributes.field::<i32>(0).set(DEVICE_MEMORY);
        attributes.field::<i32>(4).set(virtual_memory::device_at(address).unwrap_or_default() as i32);
        attributes.field::<u64>(8).set(address);
        return CudaError::Success;
    }
    let known = host::kind_at(address);
    let kind = match known {
        Some(HostKind::Managed) => HostKind::Managed as i32,
        Some(HostKind::Allocated | HostKind::Registered) => HostKind::Allocated as i32,
        None => 0,
    };
    attributes.field::<i32>(0).set(kind);
    attributes.field::<i32>(4).set(if known.is_some() { device::current() as i32 } else { -2 });
    attributes.field::<u64>(8).set(if known.is_some() { address } else { 0 });
    attributes.field::<u64>(16).set(address);
    CudaError::Success
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaMemcpy(to: u64, from: u64, size: u64, _kind: i32) -> CudaError {
    CudaError::after(copy::copy(to, from, size))
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaMemcpyAsync(to: u64, from: u64, size: u64, _kind: i32, stream: Handle) -> CudaError {
    streams::note_work(stream);
    copy::copy(to, from, size);
    CudaError::Success
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaMemcpyPeer(to: u64, _to_device: i32, from: u64, _from_device: i32, size: u64) -> CudaError {
    CudaError::after(copy::copy(to, from, size))
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaMemcpyPeerAsync(
    to: u64,
    _to_device: i32,
    from: u64,
    _from_device: i32,
    size: u64,
    stream: Handle,
) -> CudaError {
    streams::note_work(stream);
    copy::copy(to, from, size);
    CudaError::Success
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaMemcpy2DAsync(
    to: u64,
    to_pitch: u64,
    from: u64,
    from_pitch: u64,
    width: u64,
    height: u64,
    _kind: i32,
    stream: Handle,
) -> CudaError {
    streams::note_work(stream);
    copy::copy_rows(to, to_pitch, from, from_pitch, width, height);
    CudaError::Success
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaMemcpy2D(
    to: u64,
    to_pitch: u64,
    from: u64,
    from_pitch: u64,
    width: u64,
    height: u64,
    _kind: i32,
) -> CudaError {
    copy::copy_rows(to, to_pitch, from, from_pitch, width, height);
    CudaError::Success
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaMemset(at: u64, byte: i32, size: u64) -> CudaError {
    CudaError::after(copy::fill(at, byte as u8, size))
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaMemsetAsync(at: u64, byte: i32, size: u64, stream: Handle) -> CudaError {
    streams::note_work(stream);
    copy::fill(at, byte as u8, size);
    CudaError::Success
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaMemset2D(at: u64, pitch: u64, byte: i32, width: u64, height: u64) -> CudaError {
    CudaError::after((0..height).for_each(|row| copy::fill(at + row * pitch, byte as u8, width)))
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaMemset2DAsync(
    at: u64,
    pitch: u64,
    byte: i32,
    width: u64,
    height: u64,
    stream: Handle,
) -> CudaError {
    streams::note_work(stream);
    cudaMemset2D(at, pitch, byte, width, height)
}

/// All variables of device code share one address past the end of the device's memory.
#[unsafe(no_mangle)]
pub extern "C" fn cudaGetSymbolAddress(address: Out<u64>, _symbol: Opaque) -> CudaError {
    let end = addresses::end_of_device(device::current());
    address.set(end - SYMBOL_SPACE);
    CudaError::Success
}

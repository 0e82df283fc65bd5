//! Virtual memory.

use crate::cuda_error::CudaError;
use crate::device::{self, addresses, virtual_memory};
use crate::ffi::{Handle, In, Opaque, Out};

/// Offsets in `CUmemAllocationProp`.
const HANDLE_TYPES: usize = 4;
const LOCATION: usize = 8;
const DEVICE: usize = 12;
const PROPERTIES: usize = 32;
/// Kind of memory, and of its place.
const PINNED: i32 = 1;
const ON_DEVICE: i32 = 1;
/// Handles for memory shared between machines.
const FABRIC: i32 = 8;

#[unsafe(no_mangle)]
pub extern "C" fn cuMemGetAllocationGranularity(granularity: Out<u64>, _properties: Opaque, _option: i32) -> CudaError {
    CudaError::after(granularity.set(addresses::GRAIN))
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemAddressReserve(
    address: Out<u64>,
    size: u64,
    _alignment: u64,
    _wish: u64,
    _flags: u64,
) -> CudaError {
    virtual_memory::reserve(size).map(|found| address.set(found)).into()
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemAddressFree(address: u64, _size: u64) -> CudaError {
    virtual_memory::unreserve(address).into()
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemCreate(handle: Out<Handle>, size: u64, properties: In<u8>, _flags: u64) -> CudaError {
    if properties.field::<i32>(HANDLE_TYPES) == Some(FABRIC) {
        return CudaError::NotSupported;
    }
    let number = properties.field::<i32>(DEVICE).unwrap_or_default();
    let created = device::checked(number).and_then(|device| virtual_memory::create(device, size));
    created.map(|found| handle.set(found)).into()
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemRelease(handle: Handle) -> CudaError {
    virtual_memory::release(handle).into()
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemMap(address: u64, size: u64, _offset: u64, handle: Handle, _flags: u64) -> CudaError {
    virtual_memory::map(address, size, handle).into()
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemUnmap(address: u64, size: u64) -> CudaError {
    virtual_memory::unmap(address, size).into()
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemRetainAllocationHandle(handle: Out<Handle>, address: u64) -> CudaError {
    virtual_memory::retain(address).map(|found| handle.set(found)).into()
}

/// Memory on a device, that no other process can open: 32 bytes.
#[unsafe(no_mangle)]
pub extern "C" fn cuMemGetAllocationPropertiesFromHandle(properties: Out<u8>, handle: Handle) -> CudaError {
    let described = virtual_memory::device_of(handle).map(|device| {
        properties.clear(PROPERTIES);
        properties.field::<i32>(0).set(PINNED);
        properties.field::<i32>(LOCATION).set(ON_DEVICE);
        properties.field::<i32>(DEVICE).set(device as i32);
    });
    described.ok_or(CudaError::InvalidValue).into()
}

//! Devices.

use crate::calls::calls;
use crate::card;
use crate::cuda_error::CudaError;
use crate::device;
use crate::ffi::Out;
use crate::settings::settings;

calls! { CudaError;
    cuDeviceGet(found: Out<i32>, number: i32) = device::checked(number).map(|device| found.set(device as i32)).into();
    cuDeviceGetCount(count: Out<i32>) = CudaError::after(count.set(device::count() as i32));
}

#[unsafe(no_mangle)]
pub extern "C" fn cuDeviceGetName(text: Out<u8>, room: i32, number: i32) -> CudaError {
    let room = usize::try_from(room).unwrap_or_default();
    device::checked(number).map(|_| text.set_text(settings().name, room)).into()
}

#[unsafe(no_mangle)]
pub extern "C" fn cuDeviceGetUuid(uuid: Out<u8>, number: i32) -> CudaError {
    device::checked(number).map(|device| uuid.set_bytes(&card::uuid(device))).into()
}

#[unsafe(no_mangle)]
pub extern "C" fn cuDeviceGetUuid_v2(uuid: Out<u8>, number: i32) -> CudaError {
    cuDeviceGetUuid(uuid, number)
}

#[unsafe(no_mangle)]
pub extern "C" fn cuDeviceGetAttribute(value: Out<i32>, attribute: i32, number: i32) -> CudaError {
    device::checked(number).map(|device| value.set(card::attribute(attribute, device))).into()
}

#[unsafe(no_mangle)]
pub extern "C" fn cuDeviceTotalMem_v2(size: Out<u64>, number: i32) -> CudaError {
    device::checked(number).map(|_| size.set(settings().memory)).into()
}

#[unsafe(no_mangle)]
pub extern "C" fn cuDeviceCanAccessPeer(can: Out<i32>, number: i32, peer: i32) -> CudaError {
    let both = device::checked(number).and_then(|_| device::checked(peer));
    both.map(|_| can.set((number != peer).into())).into()
}

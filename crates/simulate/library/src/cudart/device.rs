//! Devices: count, selection and properties; errors; versions.

use core::ffi::CStr;

use super::noted;
use crate::cuda_error::CudaError;
use crate::device::{self, thread};
use crate::ffi::{Answer, Out};
use crate::streams;
use crate::version;

#[unsafe(no_mangle)]
pub extern "C" fn cudaGetDeviceCount(count: Out<i32>) -> CudaError {
    count.set(device::count() as i32);
    CudaError::Success
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaGetDevice(device: Out<i32>) -> CudaError {
    device.set(device::current() as i32);
    CudaError::Success
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaSetDevice(device: i32) -> CudaError {
    noted(device::make_current(device))
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaDeviceSynchronize() -> CudaError {
    noted(streams::synchronize_device(device::current()))
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaDriverGetVersion(version: Out<i32>) -> CudaError {
    version.set(version::cuda());
    CudaError::Success
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaRuntimeGetVersion(version: Out<i32>) -> CudaError {
    version.set(version::cuda());
    CudaError::Success
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaDeviceCanAccessPeer(can: Out<i32>, device: i32, peer: i32) -> CudaError {
    let both = device::checked(device).and_then(|_| device::checked(peer));
    can.set((both.is_ok() && device != peer).into());
    noted(both.map(|_| ()))
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaDeviceEnablePeerAccess(peer: i32, _flags: u32) -> CudaError {
    noted(device::checked(peer).map(|_| ()))
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaDeviceGetStreamPriorityRange(least: Out<i32>, greatest: Out<i32>) -> CudaError {
    least.set(0);
    greatest.set(streams::HIGHEST_PRIORITY);
    CudaError::Success
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaDeviceGetPCIBusId(text: Out<u8>, room: i32, device: i32) -> CudaError {
    match device::checked(device) {
        Ok(device) => {
            let bus = alloc::format!("0000:{:02x}:00.0", device + 1);
            text.set_text(&bus, usize::try_from(room).unwrap_or_default());
            CudaError::Success
        }
        Err(error) => noted(Err(error)),
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaDeviceGetLimit(value: Out<usize>, _limit: i32) -> CudaError {
    value.set(1024);
    CudaError::Success
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaDeviceSetLimit(_limit: i32, _value: usize) -> CudaError {
    CudaError::Success
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaGetLastError() -> CudaError {
    thread(|state| state.last_error.take()).unwrap_or(CudaError::Success)
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaPeekAtLastError() -> CudaError {
    thread(|state| state.last_error.get()).unwrap_or(CudaError::Success)
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaGetErrorName(code: i32) -> Answer {
    described(code, CudaError::runtime_name)
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaGetErrorString(code: i32) -> Answer {
    described(code, CudaError::description)
}

fn described(code: i32, words: fn(CudaError) -> &'static CStr) -> Answer {
    CudaError::from_code(code).map_or(c"unrecognized error code", words).into()
}

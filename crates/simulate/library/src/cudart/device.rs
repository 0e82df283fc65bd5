//! Devices: count, selection and properties; errors; versions.

use core::ffi::CStr;

use super::noted;
use crate::calls::calls;
use crate::cuda_error::CudaError;
use crate::device::{self, thread};
use crate::ffi::{Out, StaticText};
use crate::streams;
use crate::version;

calls! { CudaError;
    cudaGetDeviceCount(count: Out<i32>) = CudaError::after(count.set(device::count() as i32));
    cudaGetDevice(device: Out<i32>) = CudaError::after(device.set(device::current() as i32));
    cudaSetDevice(device: i32) = noted(device::make_current(device));
    cudaDeviceSynchronize() = noted(streams::synchronize_device(device::current()));
    cudaDriverGetVersion(version: Out<i32>) = CudaError::after(version.set(version::cuda()));
    cudaRuntimeGetVersion(version: Out<i32>) = CudaError::after(version.set(version::cuda()));
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

calls! { CudaError;
    cudaDeviceGetLimit(value: Out<usize>, _limit: i32) = CudaError::after(value.set(1024));
    cudaGetLastError() = thread(|state| state.last_error.take()).unwrap_or(CudaError::Success);
    cudaPeekAtLastError() = thread(|state| state.last_error.get()).unwrap_or(CudaError::Success);
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaGetErrorName(code: i32) -> StaticText {
    described(code, CudaError::runtime_name)
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaGetErrorString(code: i32) -> StaticText {
    described(code, CudaError::description)
}

fn described(code: i32, words: fn(CudaError) -> &'static CStr) -> StaticText {
    CudaError::from_code(code).map_or(c"unrecognized error code", words).into()
}

//! Contexts: each device has only its primary one.

use core::ffi::CStr;

use crate::calls::calls;
use crate::cuda_error::CudaError;
use crate::cudart::find_entry_point;
use crate::device;
use crate::ffi::{Handle, Opaque, Out, Text};
use crate::version;

/// Handle of the context of the first device.
const FIRST_CONTEXT: Handle = 0x9000;
/// Granted limits: stack, heap, and the like.
const LIMIT: usize = 1024;

fn device_of(context: Handle) -> Result<usize, CudaError> {
    let device = context.checked_sub(FIRST_CONTEXT).ok_or(CudaError::InvalidContext)?;
    device::checked(i32::try_from(device).unwrap_or(-1)).map_err(|_| CudaError::InvalidContext)
}

/// Handle of the context of a device.
pub(super) fn of_device(device: usize) -> Handle {
    FIRST_CONTEXT + device as Handle
}

fn current() -> Handle {
    of_device(device::current())
}

calls! { CudaError;
    cuDriverGetVersion(number: Out<i32>) = CudaError::after(number.set(version::cuda()));
    cuCtxGetCurrent(context: Out<Handle>) = CudaError::after(context.set(current()));
}

/// NULL leaves the thread without a context; here it keeps that of its device.
#[unsafe(no_mangle)]
pub extern "C" fn cuCtxSetCurrent(context: Handle) -> CudaError {
    if context == 0 {
        return CudaError::Success;
    }
    device_of(context).and_then(|device| device::make_current(device as i32)).into()
}

calls! { CudaError;
    cuCtxPushCurrent_v2(context: Handle) = cuCtxSetCurrent(context);
    cuCtxPopCurrent_v2(context: Out<Handle>) = CudaError::after(context.set(current()));
    cuCtxGetDevice(number: Out<i32>) = CudaError::after(number.set(device::current() as i32));
    cuCtxSynchronize() = crate::streams::synchronize_device(device::current()).into();
    cuCtxGetLimit(value: Out<usize>, _limit: i32) = CudaError::after(value.set(LIMIT));
}

#[unsafe(no_mangle)]
pub extern "C" fn cuDevicePrimaryCtxGetState(number: i32, flags: Out<u32>, active: Out<i32>) -> CudaError {
    let found = device::checked(number);
    if found.is_ok() {
        flags.set(0);
        active.set(1);
    }
    found.map(|_| ()).into()
}

#[unsafe(no_mangle)]
pub extern "C" fn cuDevicePrimaryCtxRetain(context: Out<Handle>, number: i32) -> CudaError {
    device::checked(number).map(|device| context.set(of_device(device))).into()
}

calls! { CudaError;
    cuGetErrorString(code: i32, text: Out<*const core::ffi::c_char>) = describe(code, text, CudaError::description);
    cuGetErrorName(code: i32, text: Out<*const core::ffi::c_char>) = describe(code, text, CudaError::driver_name);
}

fn describe(code: i32, text: Out<*const core::ffi::c_char>, words: fn(CudaError) -> &'static CStr) -> CudaError {
    let Some(error) = CudaError::from_code(code) else { return CudaError::InvalidValue };
    text.set(words(error).as_ptr());
    CudaError::Success
}

#[unsafe(no_mangle)]
pub extern "C" fn cuGetProcAddress_v2(
    name: Text,
    function: Out<Opaque>,
    _version: i32,
    _flags: u64,
    status: Out<i32>,
) -> CudaError {
    let found = find_entry_point(name);
    function.set(found.unwrap_or(core::ptr::null()));
    status.set(found.is_none().into());
    found.map(|_| ()).ok_or(CudaError::NotFound).into()
}

//! Streams and events: the same objects as in the runtime.

use crate::cuda_error::CudaError;
use crate::device::copy;
use crate::ffi::{Handle, Out};
use crate::streams;

#[unsafe(no_mangle)]
pub extern "C" fn cuStreamCreate(stream: Out<Handle>, flags: u32) -> CudaError {
    stream.set(streams::create(flags, 0));
    CudaError::Success
}

#[unsafe(no_mangle)]
pub extern "C" fn cuStreamDestroy_v2(stream: Handle) -> CudaError {
    streams::destroy(stream).into()
}

#[unsafe(no_mangle)]
pub extern "C" fn cuStreamSynchronize(stream: Handle) -> CudaError {
    streams::synchronize(stream).into()
}

#[unsafe(no_mangle)]
pub extern "C" fn cuStreamWaitEvent(stream: Handle, event: Handle, _flags: u32) -> CudaError {
    streams::wait_on_stream(stream, event).into()
}

#[unsafe(no_mangle)]
pub extern "C" fn cuStreamIsCapturing(stream: Handle, status: Out<i32>) -> CudaError {
    streams::capture(stream).map(|capture| status.set(capture.is_some().into())).into()
}

#[unsafe(no_mangle)]
pub extern "C" fn cuStreamGetCtx(stream: Handle, context: Out<Handle>) -> CudaError {
    streams::describe(stream).map(|(_, _, device)| context.set(super::context::of_device(device))).into()
}

#[unsafe(no_mangle)]
pub extern "C" fn cuStreamWriteValue32(stream: Handle, address: u64, value: u32, _flags: u32) -> CudaError {
    streams::note_work(stream);
    let bytes = value.to_ne_bytes();
    copy::copy(address, bytes.as_ptr() as u64, bytes.len() as u64);
    CudaError::Success
}

#[unsafe(no_mangle)]
pub extern "C" fn cuEventCreate(event: Out<Handle>, _flags: u32) -> CudaError {
    event.set(streams::create_event());
    CudaError::Success
}

#[unsafe(no_mangle)]
pub extern "C" fn cuEventRecord(event: Handle, stream: Handle) -> CudaError {
    streams::record(event, stream).into()
}

#[unsafe(no_mangle)]
pub extern "C" fn cuEventQuery(event: Handle) -> CudaError {
    streams::query(event).into()
}

#[unsafe(no_mangle)]
pub extern "C" fn cuEventSynchronize(event: Handle) -> CudaError {
    streams::wait(event).into()
}

#[unsafe(no_mangle)]
pub extern "C" fn cuEventDestroy_v2(event: Handle) -> CudaError {
    streams::destroy_event(event).into()
}

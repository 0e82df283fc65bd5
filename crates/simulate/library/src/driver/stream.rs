//! Streams and events: the same objects as in the runtime.

use crate::calls::calls;
use crate::cuda_error::CudaError;
use crate::device::copy;
use crate::ffi::{Handle, Out};
use crate::streams;

calls! { CudaError;
    cuStreamCreate(stream: Out<Handle>, flags: u32) = CudaError::after(stream.set(streams::create(flags, 0)));
    cuStreamDestroy_v2(stream: Handle) = streams::destroy(stream).into();
    cuStreamSynchronize(stream: Handle) = streams::synchronize(stream).into();
    cuStreamWaitEvent(stream: Handle, event: Handle, _flags: u32) = streams::wait_on_stream(stream, event).into();
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

calls! { CudaError;
    cuEventCreate(event: Out<Handle>, _flags: u32) = CudaError::after(event.set(streams::create_event()));
    cuEventRecord(event: Handle, stream: Handle) = streams::record(event, stream).into();
    cuEventQuery(event: Handle) = streams::query(event).into();
    cuEventSynchronize(event: Handle) = streams::wait(event).into();
    cuEventDestroy_v2(event: Handle) = streams::destroy_event(event).into();
}

//! Events.

use super::noted;
use crate::cuda_error::CudaError;
use crate::ffi::{Handle, Out};
use crate::ledger::{self, Fact};
use crate::streams;

/// Time between any two events. It is long, so that code that repeats a measurement until it is long enough
/// ends at once; it is the same for all, so that the first of several candidates wins.
const MILLISECONDS: f32 = 100.0;

#[unsafe(no_mangle)]
pub extern "C" fn cudaEventCreate(event: Out<Handle>) -> CudaError {
    event.set(streams::create_event());
    CudaError::Success
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaEventCreateWithFlags(event: Out<Handle>, _flags: u32) -> CudaError {
    cudaEventCreate(event)
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaEventDestroy(event: Handle) -> CudaError {
    noted(streams::destroy_event(event))
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaEventRecord(event: Handle, stream: Handle) -> CudaError {
    noted(streams::record(event, stream))
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaEventRecordWithFlags(event: Handle, stream: Handle, _flags: u32) -> CudaError {
    noted(streams::record(event, stream))
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaEventQuery(event: Handle) -> CudaError {
    noted(streams::query(event))
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaEventSynchronize(event: Handle) -> CudaError {
    noted(streams::wait(event))
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaEventElapsedTime(milliseconds: Out<f32>, _start: Handle, _end: Handle) -> CudaError {
    ledger::count(Fact::ElapsedTimes);
    milliseconds.set(MILLISECONDS);
    CudaError::Success
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaEventElapsedTime_v2(milliseconds: Out<f32>, start: Handle, end: Handle) -> CudaError {
    cudaEventElapsedTime(milliseconds, start, end)
}

//! Events.

use super::noted;
use crate::calls::calls;
use crate::cuda_error::CudaError;
use crate::ffi::{Handle, Out};
use crate::ledger::{self, CountedFact};
use crate::streams;

/// Time between any two events. It is long, so that code that repeats a measurement until it is long enough
/// ends at once; it is the same for all, so that the first of several candidates wins. The last line of
/// `ptmem simulate` states it.
const MILLISECONDS: f32 = 100.0;

calls! { CudaError;
    cudaEventCreate(event: Out<Handle>) = CudaError::after(event.set(streams::create_event()));
    cudaEventCreateWithFlags(event: Out<Handle>, _flags: u32) = cudaEventCreate(event);
    cudaEventDestroy(event: Handle) = noted(streams::destroy_event(event));
    cudaEventRecord(event: Handle, stream: Handle) = noted(streams::record(event, stream));
    cudaEventRecordWithFlags(event: Handle, stream: Handle, _flags: u32) = noted(streams::record(event, stream));
    cudaEventQuery(event: Handle) = noted(streams::query(event));
    cudaEventSynchronize(event: Handle) = noted(streams::wait(event));
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaEventElapsedTime(milliseconds: Out<f32>, _start: Handle, _end: Handle) -> CudaError {
    ledger::count(CountedFact::ElapsedTimes);
    milliseconds.set(MILLISECONDS);
    CudaError::Success
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaEventElapsedTime_v2(milliseconds: Out<f32>, start: Handle, end: Handle) -> CudaError {
    cudaEventElapsedTime(milliseconds, start, end)
}

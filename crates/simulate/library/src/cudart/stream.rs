//! Streams, callbacks and captures.

use core::ffi::c_void;

use super::noted;
use crate::calls::calls;
use crate::cuda_error::CudaError;
use crate::device::thread;
use crate::ffi::{Handle, Out};
use crate::streams;
use crate::version;

/// A function of the program that a stream calls.
type Callback = extern "C" fn(Handle, CudaError, *mut c_void);
type HostFunction = extern "C" fn(*mut c_void);

const CAPTURE_NONE: i32 = 0;
const CAPTURE_ACTIVE: i32 = 1;

calls! { CudaError;
    cudaStreamCreate(stream: Out<Handle>) = cudaStreamCreateWithPriority(stream, 0, 0);
    cudaStreamCreateWithFlags(stream: Out<Handle>, flags: u32) = cudaStreamCreateWithPriority(stream, flags, 0);
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaStreamCreateWithPriority(stream: Out<Handle>, flags: u32, priority: i32) -> CudaError {
    CudaError::after(stream.set(streams::create(flags, priority)))
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaStreamDestroy(stream: Handle) -> CudaError {
    noted(streams::destroy(stream))
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaStreamGetPriority(stream: Handle, priority: Out<i32>) -> CudaError {
    noted(streams::describe(stream).map(|(found, _, _)| priority.set(found)))
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaStreamGetFlags(stream: Handle, flags: Out<u32>) -> CudaError {
    noted(streams::describe(stream).map(|(_, found, _)| flags.set(found)))
}

calls! { CudaError;
    cudaStreamQuery(stream: Handle) = noted(streams::synchronize(stream));
    cudaStreamSynchronize(stream: Handle) = noted(streams::synchronize(stream));
    cudaStreamWaitEvent(stream: Handle, event: Handle, _flags: u32) = noted(streams::wait_on_stream(stream, event));
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaStreamAddCallback(stream: Handle, call: Callback, data: *mut c_void, _flags: u32) -> CudaError {
    CudaError::after(call(stream, CudaError::Success, data))
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaLaunchHostFunc(stream: Handle, call: HostFunction, data: *mut c_void) -> CudaError {
    streams::note_work(stream);
    call(data);
    CudaError::Success
}

calls! { CudaError;
    cudaStreamBeginCapture(stream: Handle, _mode: i32) = noted(streams::begin_capture(stream, None));
    cudaStreamBeginCaptureToGraph(stream: Handle, graph: Handle) = noted(streams::begin_capture(stream, Some(graph)));
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaStreamEndCapture(stream: Handle, graph: Out<Handle>) -> CudaError {
    noted(streams::end_capture(stream).map(|ended| graph.set(ended)))
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaStreamIsCapturing(stream: Handle, status: Out<i32>) -> CudaError {
    noted(
        streams::capture(stream)
            .map(|capture| status.set(if capture.is_some() { CAPTURE_ACTIVE } else { CAPTURE_NONE })),
    )
}

/// Places for the results of `cudaStreamGetCaptureInfo`, of which the older forms have fewer.
struct CaptureInfo {
    status: Out<i32>,
    id: Out<u64>,
    rest: Option<CaptureGraph>,
}

struct CaptureGraph {
    graph: Out<Handle>,
    dependencies: Out<u64>,
    count: Out<usize>,
}

fn capture_info(stream: Handle, info: &CaptureInfo) -> CudaError {
    let capture = match streams::capture(stream) {
        Ok(capture) => capture,
        Err(error) => return noted(Err(error)),
    };
    info.status.set(if capture.is_some() { CAPTURE_ACTIVE } else { CAPTURE_NONE });
    info.id.set(capture.map_or(0, |capture| capture.id));
    if let Some(rest) = &info.rest {
        rest.graph.set(capture.map_or(0, |capture| capture.graph));
        rest.dependencies.set(0);
        rest.count.set(0);
    }
    CudaError::Success
}

/// CUDA 13 has all seven arguments, CUDA 11 the first three.
#[unsafe(no_mangle)]
pub extern "C" fn cudaStreamGetCaptureInfo(
    stream: Handle,
    status: Out<i32>,
    id: Out<u64>,
    graph: Out<Handle>,
    dependencies: Out<u64>,
    edges: Out<u64>,
    count: Out<usize>,
) -> CudaError {
    if version::is_cuda_13() {
        return cudaStreamGetCaptureInfo_v3(stream, status, id, graph, dependencies, edges, count);
    }
    capture_info(stream, &CaptureInfo { status, id, rest: None })
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaStreamGetCaptureInfo_v2(
    stream: Handle,
    status: Out<i32>,
    id: Out<u64>,
    graph: Out<Handle>,
    dependencies: Out<u64>,
    count: Out<usize>,
) -> CudaError {
    let rest = CaptureGraph { graph, dependencies, count };
    capture_info(stream, &CaptureInfo { status, id, rest: Some(rest) })
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaStreamGetCaptureInfo_v3(
    stream: Handle,
    status: Out<i32>,
    id: Out<u64>,
    graph: Out<Handle>,
    dependencies: Out<u64>,
    edges: Out<u64>,
    count: Out<usize>,
) -> CudaError {
    edges.set(0);
    let rest = CaptureGraph { graph, dependencies, count };
    capture_info(stream, &CaptureInfo { status, id, rest: Some(rest) })
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaThreadExchangeStreamCaptureMode(mode: Out<i32>) -> CudaError {
    let before = thread(|state| state.capture_mode.replace(mode.get().unwrap_or_default()));
    mode.set(before);
    CudaError::Success
}

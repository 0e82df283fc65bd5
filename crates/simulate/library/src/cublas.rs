//! cuBLAS and cuBLASLt: handles with their state, versions, and one algorithm for each product. Each handle differs
//! from the others, because PyTorch keeps one workspace for each handle and stream.

use crate::calls::calls;
use crate::ffi::{Handle, Opaque, Out, StaticText};
use crate::handles::Registry;
use crate::version;

const SUCCESS: i32 = 0;
const NOT_INITIALIZED: i32 = 1;
/// Size of `cublasLtMatmulHeuristicResult_t`: the algorithm (64 bytes), its workspace, its state, a measure and a
/// reserve.
const HEURISTIC_RESULT: usize = 96;

#[derive(Clone, Copy, Default)]
struct Blas {
    stream: Handle,
    math_mode: i32,
    pointer_mode: i32,
}

static HANDLES: Registry<Blas> = Registry::new();

fn code(found: Option<()>) -> i32 {
    if found.is_some() { SUCCESS } else { NOT_INITIALIZED }
}

/// Version in the numbers of cuBLAS: that of CUDA's major release.
fn blas_version() -> i32 {
    version::cuda() / 1000 * 10_000
}

#[unsafe(no_mangle)]
pub extern "C" fn cublasCreate_v2(handle: Out<Handle>) -> i32 {
    handle.set(HANDLES.insert(Blas::default()));
    SUCCESS
}

#[unsafe(no_mangle)]
pub extern "C" fn cublasDestroy_v2(handle: Handle) -> i32 {
    code(HANDLES.remove(handle).map(|_| ()))
}

#[unsafe(no_mangle)]
pub extern "C" fn cublasGetVersion_v2(_handle: Handle, number: Out<i32>) -> i32 {
    number.set(blas_version());
    SUCCESS
}

#[unsafe(no_mangle)]
pub extern "C" fn cublasGetProperty(kind: i32, value: Out<i32>) -> i32 {
    value.set(if kind == 0 { version::cuda() / 1000 } else { 0 });
    SUCCESS
}

#[unsafe(no_mangle)]
pub extern "C" fn cublasSetStream_v2(handle: Handle, stream: Handle) -> i32 {
    code(HANDLES.with(handle, |blas| blas.stream = stream))
}

#[unsafe(no_mangle)]
pub extern "C" fn cublasGetStream_v2(handle: Handle, stream: Out<Handle>) -> i32 {
    code(HANDLES.with(handle, |blas| stream.set(blas.stream)))
}

calls! { i32;
    cublasSetMathMode(handle: Handle, mode: i32) = code(HANDLES.with(handle, |blas| blas.math_mode = mode));
    cublasGetMathMode(handle: Handle, mode: Out<i32>) = code(HANDLES.with(handle, |blas| mode.set(blas.math_mode)));
    cublasSetPointerMode_v2(handle: Handle, mode: i32) = code(HANDLES.with(handle, |blas| blas.pointer_mode = mode));
}

#[unsafe(no_mangle)]
pub extern "C" fn cublasGetPointerMode_v2(handle: Handle, mode: Out<i32>) -> i32 {
    code(HANDLES.with(handle, |blas| mode.set(blas.pointer_mode)))
}

#[unsafe(no_mangle)]
pub extern "C" fn cublasGetStatusString(status: i32) -> StaticText {
    let text = if status == SUCCESS { c"success" } else { c"the simulated cuBLAS has no such handle" };
    text.into()
}

#[unsafe(no_mangle)]
pub extern "C" fn cublasGetStatusName(status: i32) -> StaticText {
    let text = if status == SUCCESS { c"CUBLAS_STATUS_SUCCESS" } else { c"CUBLAS_STATUS_NOT_INITIALIZED" };
    text.into()
}

#[unsafe(no_mangle)]
pub extern "C" fn cublasLtGetVersion() -> usize {
    blas_version() as usize
}

#[unsafe(no_mangle)]
pub extern "C" fn cublasLtGetCudartVersion() -> usize {
    version::cuda() as usize
}

calls! { i32;
    cublasLtCreate(handle: Out<Handle>) = cublasCreate_v2(handle);
    cublasLtDestroy(handle: Handle) = cublasDestroy_v2(handle);
}

/// One algorithm without a workspace of its own: the caller brings the workspace, whatever the algorithm.
#[unsafe(no_mangle)]
pub extern "C" fn cublasLtMatmulAlgoGetHeuristic(
    _handle: Handle,
    _operation: Opaque,
    _a: Opaque,
    _b: Opaque,
    _c: Opaque,
    _d: Opaque,
    _preference: Opaque,
    wanted: i32,
    results: Out<u8>,
    count: Out<i32>,
) -> i32 {
    if wanted > 0 {
        results.clear(HEURISTIC_RESULT);
    }
    count.set(wanted.min(1));
    SUCCESS
}

//! Which releases of NVIDIA's libraries the program was built for.
//!
//! Structures changed between them, so this decides how they are written. The hook in the child's Python knows the
//! releases exactly; without it, the names of the loaded libraries give the major version.

use crate::settings::version_of;
use crate::sys::loader::loaded_version;
use crate::sys::lock::Lazy;

static CUDA: Lazy<i32> = Lazy::new(find_cuda);
static CUDNN: Lazy<i32> = Lazy::new(find_cudnn);

/// Version of the CUDA runtime, 12080 for 12.8.
pub(crate) fn cuda() -> i32 {
    *CUDA.get()
}

/// True if structures are those of CUDA 13.
pub(crate) fn is_cuda_13() -> bool {
    cuda() >= 13_000
}

/// Version of cuDNN, as `cudnnGetVersion` gives it: 8902 or 91002.
pub(crate) fn cudnn() -> i32 {
    *CUDNN.get()
}

fn find_cuda() -> i32 {
    version_of(c"PTMEM_SIMULATE_CUDA").unwrap_or_else(|| match loaded_version("libcudart") {
        Some(11) => 11_080,
        Some(12) | None => 12_080,
        Some(_) => 13_000,
    })
}

fn find_cudnn() -> i32 {
    version_of(c"PTMEM_SIMULATE_CUDNN").unwrap_or_else(|| match loaded_version("libcudnn") {
        Some(8) => 8_902,
        _ => 92_000,
    })
}

//! C++ functions that say nothing about who allocates.

use super::operator::{bare_name, without_namespace};

/// Parts of names of functions that say nothing about who allocates.
const INSIDE: [&str; 14] = [
    "unwind::unwind",
    "CapturedTraceback::gather",
    "gather_with_cpp",
    "CUDACachingAllocator",
    "CUDAAllocator",
    "wrap_kernel_functor_unboxed_",
    "KernelFunction",
    "Dispatcher::",
    "at::detail::empty_",
    "_empty_generic",
    "_empty_strided_generic",
    "THPVariable",
    "pybind11::",
    "error_code::",
];

/// Beginnings of the names of functions of the interpreter, the C library and the loader.
const BEGINNINGS: [&str; 37] = [
    "_Py",
    "Py",
    "py_",
    "pymain_",
    "pyrun_",
    "_start",
    "start_thread",
    "main",
    "__libc_",
    "__clone",
    "clone",
    "pthread_",
    "execute_native_thread_routine",
    "run_mod",
    "run_eval_code_obj",
    "cfunction_",
    "method_",
    "slot_",
    "type_call",
    "object_",
    "builtin_",
    "do_call_core",
    "vectorcall_",
    "function_code_fastcall",
    "partial_",
    "context_run",
    "property_",
    "gen_send",
    "call_function",
    "classmethod_",
    "trace_call_function",
    "thread_run",
    "thread_PyThread",
    "bounded_lru_cache_wrapper",
    "lru_cache_call",
    "wrapper_CUDA",
    "0x",
];

/// Frames that are the same below every allocation, or belong to the interpreter or the loader.
pub(super) fn is_noise(name: &str) -> bool {
    let bare = without_namespace(bare_name(name));
    let unknown = bare.is_empty() || bare == "??" || bare.starts_with('<');
    unknown
        || INSIDE.iter().any(|noise| name.contains(noise))
        || BEGINNINGS.iter().any(|noise| bare.starts_with(noise) && !bare.contains("::"))
}

//! Products of cuBLAS: nothing is computed, and what the result's memory held before may have changed.

use crate::ffi::Opaque;
use crate::kernels;

const SUCCESS: i32 = 0;

/// Exports functions that write to the memory after the arguments that are named first.
macro_rules! results_after {
    ($skipped:tt, $($name:ident)*) => {
        $(result_after!($name, $skipped);)*
    };
}

macro_rules! result_after {
    ($name:ident, [$($skipped:ident)*]) => {
        #[unsafe(no_mangle)]
        pub extern "C" fn $name($($skipped: Opaque,)* result: u64) -> i32 {
            let _ = ($($skipped,)*);
            kernels::wrote(result);
            SUCCESS
        }
    };
}

results_after!([a b c d e f],
    cublasCdotc_v2 cublasCdotu_v2 cublasDdot_v2 cublasSdot_v2 cublasZdotc_v2 cublasZdotu_v2);
results_after!([a b c d e f g h], cublasDotEx cublasDotcEx);
results_after!([a b c d e f g h i j],
    cublasCgemv_v2 cublasDgemv_v2 cublasSgemv_v2 cublasZgemv_v2 cublasLtMatmul);
results_after!([a b c d e f g h i j k l],
    cublasCgemm_v2 cublasDgemm_v2 cublasHgemm cublasSgemm_v2 cublasZgemm_v2);
results_after!([a b c d e f g h i j k l m n],
    cublasGemmEx cublasSgemmEx cublasCgemmEx
    cublasCgemmStridedBatched cublasDgemmStridedBatched cublasHgemmStridedBatched cublasSgemmStridedBatched
    cublasZgemmStridedBatched);
results_after!([a b c d e f g h i j k l m n o p], cublasGemmStridedBatchedEx);

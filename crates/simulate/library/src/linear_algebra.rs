//! cuSOLVER and cuSPARSE: sizes of workspaces, which are all 0. The true sizes are not known, so what an operation
//! would take for a moment is missing from a recording; its results are there.

use crate::ffi::{Opaque, Out, StaticText};
use crate::settings::settings;

const SUCCESS: i32 = 0;

/// Exports a function that writes sizes of 0 after the arguments that are named first.
macro_rules! sizes_after {
    ($name:ident, $kind:ty, [$($skipped:ident)*], [$($size:ident)*]) => {
        #[unsafe(no_mangle)]
        pub extern "C" fn $name($($skipped: Opaque,)* $($size: Out<$kind>),*) -> i32 {
            let _ = ($($skipped,)*);
            $($size.set(0);)*
            SUCCESS
        }
    };
}

/// Exports functions that write one size after the arguments that are named first.
macro_rules! size_after {
    ($kind:ty, $skipped:tt, $($name:ident)*) => {
        $(sizes_after!($name, $kind, $skipped, [size]);)*
    };
}

/// The same with two sizes, of memory on the device and on the host.
macro_rules! two_sizes_after {
    ($skipped:tt, $($name:ident)*) => {
        $(sizes_after!($name, u64, $skipped, [on_device on_host]);)*
    };
}

size_after!(i32, [a b c],
    cusolverDnCgesvd_bufferSize cusolverDnDgesvd_bufferSize cusolverDnSgesvd_bufferSize cusolverDnZgesvd_bufferSize);
size_after!(i32, [a b c d],
    cusolverDnCsytrf_bufferSize cusolverDnDsytrf_bufferSize cusolverDnSsytrf_bufferSize cusolverDnZsytrf_bufferSize);
size_after!(i32, [a b c d e],
    cusolverDnCgeqrf_bufferSize cusolverDnDgeqrf_bufferSize cusolverDnSgeqrf_bufferSize cusolverDnZgeqrf_bufferSize
    cusolverDnCgetrf_bufferSize cusolverDnDgetrf_bufferSize cusolverDnSgetrf_bufferSize cusolverDnZgetrf_bufferSize
    cusolverDnCpotrf_bufferSize cusolverDnDpotrf_bufferSize cusolverDnSpotrf_bufferSize cusolverDnZpotrf_bufferSize);
size_after!(i32, [a b c d e f g],
    cusolverDnCheevd_bufferSize cusolverDnZheevd_bufferSize cusolverDnDsyevd_bufferSize cusolverDnSsyevd_bufferSize
    cusolverDnCheevj_bufferSize cusolverDnZheevj_bufferSize cusolverDnDsyevj_bufferSize cusolverDnSsyevj_bufferSize
    cusolverDnCheevjBatched_bufferSize cusolverDnZheevjBatched_bufferSize
    cusolverDnDsyevjBatched_bufferSize cusolverDnSsyevjBatched_bufferSize
    cusolverDnCungqr_bufferSize cusolverDnZungqr_bufferSize cusolverDnDorgqr_bufferSize cusolverDnSorgqr_bufferSize);
size_after!(i32, [a b c d e f g h i j k],
    cusolverDnCunmqr_bufferSize cusolverDnZunmqr_bufferSize cusolverDnDormqr_bufferSize cusolverDnSormqr_bufferSize
    cusolverDnCgesvdjBatched_bufferSize cusolverDnDgesvdjBatched_bufferSize
    cusolverDnSgesvdjBatched_bufferSize cusolverDnZgesvdjBatched_bufferSize
    cusparseCbsrsv2_bufferSize cusparseDbsrsv2_bufferSize cusparseSbsrsv2_bufferSize cusparseZbsrsv2_bufferSize);
size_after!(i32, [a b c d e f g h i j k l],
    cusolverDnCgesvdj_bufferSize cusolverDnDgesvdj_bufferSize cusolverDnSgesvdj_bufferSize cusolverDnZgesvdj_bufferSize);
size_after!(i32, [a b c d e f g h i j k l m],
    cusparseCbsrsm2_bufferSize cusparseDbsrsm2_bufferSize cusparseSbsrsm2_bufferSize cusparseZbsrsm2_bufferSize);
size_after!(i32, [a b c d e f g h i j k l m n o p],
    cusolverDnCgesvdaStridedBatched_bufferSize cusolverDnDgesvdaStridedBatched_bufferSize
    cusolverDnSgesvdaStridedBatched_bufferSize cusolverDnZgesvdaStridedBatched_bufferSize);
// No size, but the check of the arguments, which the host reads: 0 is that they are valid.
size_after!(i32, [a b c d e f],
    cublasCgeqrfBatched cublasDgeqrfBatched cublasSgeqrfBatched cublasZgeqrfBatched);
size_after!(i32, [a b c d e f g h i],
    cublasCgetrsBatched cublasDgetrsBatched cublasSgetrsBatched cublasZgetrsBatched
    cublasCgelsBatched cublasDgelsBatched cublasSgelsBatched cublasZgelsBatched);
size_after!(u64, [a b c d e f], cusparseXcoosort_bufferSizeExt cusparseXcsrsort_bufferSizeExt);
size_after!(u64, [a b c d e f g h i], cusparseSpMV_bufferSize cusparseSpSV_bufferSize);
size_after!(u64, [a b c d e f g h i j], cusparseSDDMM_bufferSize cusparseSpMM_bufferSize cusparseSpSM_bufferSize);
size_after!(u64, [a b c d e f g h i j k l m n o p q r s],
    cusparseCcsrgeam2_bufferSizeExt cusparseDcsrgeam2_bufferSizeExt
    cusparseScsrgeam2_bufferSizeExt cusparseZcsrgeam2_bufferSizeExt);
two_sizes_after!([a b c d e f g h], cusolverDnXpotrf_bufferSize);
two_sizes_after!([a b c d e f g h i j], cusolverDnXgeqrf_bufferSize);
two_sizes_after!([a b c d e f g h i j k],
    cusolverDnXsyevBatched_bufferSize cusolverDnXsyevd_bufferSize cusolverDnXsytrs_bufferSize);
two_sizes_after!([a b c d e f g h i j k l m n o p q], cusolverDnXgeev_bufferSize);

// The work of a sparse product is asked once for its size, without a buffer, and once to do it. The buffer, which comes
// last, is not looked at.
size_after!(u64, [a b c d e f g h i j k], cusparseSpGEMM_workEstimation cusparseSpGEMM_compute);

/// The number of values of a sparse result depends on values: it is the fill, usually none.
#[unsafe(no_mangle)]
pub extern "C" fn cusparseSpMatGetSize(_matrix: Opaque, rows: Out<i64>, columns: Out<i64>, values: Out<i64>) -> i32 {
    rows.set(0);
    columns.set(0);
    values.set(settings().fill.into());
    SUCCESS
}

#[unsafe(no_mangle)]
pub extern "C" fn cusparseGetErrorString(_code: i32) -> StaticText {
    c"an answer of the simulated cuSPARSE".into()
}

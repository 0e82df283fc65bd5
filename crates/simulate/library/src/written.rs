//! Functions of cuBLAS, cuDNN, cuSOLVER and the rest that compute nothing: what lies where their arguments point to may
//! have changed.

use crate::kernels;

const SUCCESS: i32 = 0;

/// Exports functions that take these arguments, none of them a floating-point number. Any may be the address of
/// something that is written.
macro_rules! writes {
    ($arguments:tt, $($name:ident)*) => {
        $(function!($name, kernels::wrote, $arguments);)*
    };
}

/// The same where addresses are those of arrays of addresses.
macro_rules! writes_through {
    ($arguments:tt, $($name:ident)*) => {
        $(function!($name, kernels::wrote_through, $arguments);)*
    };
}

macro_rules! function {
    ($name:ident, $wrote:path, [$($argument:ident)*]) => {
        #[unsafe(no_mangle)]
        pub extern "C" fn $name($($argument: u64),*) -> i32 {
            [$($argument),*].into_iter().for_each($wrote);
            SUCCESS
        }
    };
}

writes!([a b c d],
    cudnnSpatialTfGridGeneratorBackward cudnnSpatialTfGridGeneratorForward cufftXtExec);
writes!([a b c d e f g h],
    cudnnPoolingForward cusolverDnCgetrf cusolverDnDgetrf cusolverDnSgetrf cusolverDnZgetrf cusolverDnCpotrf
    cusolverDnDpotrf cusolverDnSpotrf cusolverDnZpotrf);
writes!([a b c d e f g h i],
    cudnnSpatialTfSamplerForward cusolverDnCgeqrf cusolverDnDgeqrf cusolverDnSgeqrf cusolverDnZgeqrf
    cusolverDnCpotrs cusolverDnDpotrs cusolverDnSpotrs cusolverDnZpotrs cusolverDnCsytrf cusolverDnDsytrf
    cusolverDnSsytrf cusolverDnZsytrf);
writes!([a b c d e f g h i j],
    cusolverDnCgetrs cusolverDnDgetrs cusolverDnSgetrs cusolverDnZgetrs cusolverDnCungqr cusolverDnDorgqr
    cusolverDnSorgqr cusolverDnZungqr cusolverDnCheevd cusolverDnDsyevd cusolverDnSsyevd cusolverDnZheevd);
writes!([a b c d e f g h i j k],
    cusolverDnCheevj cusolverDnDsyevj cusolverDnSsyevj cusolverDnZheevj cusparseLtMatmul);
writes!([a b c d e f g h i j k l],
    cusolverDnCheevjBatched cusolverDnDsyevjBatched cusolverDnSsyevjBatched cusolverDnZheevjBatched cublasCtrsm_v2
    cublasDtrsm_v2 cublasStrsm_v2 cublasZtrsm_v2 cusolverDnXpotrs);
writes!([a b c d e f g h i j k l m],
    cudnnBatchNormalizationForwardInference cudnnCTCLoss cudnnCTCLoss_v8 cudnnConvolutionBackwardData
    cudnnConvolutionBackwardFilter cudnnConvolutionForward cusolverDnXpotrf);
writes!([a b c d e f g h i j k l m n],
    cusolverDnCunmqr cusolverDnDormqr cusolverDnSormqr cusolverDnZunmqr cudnnSpatialTfSamplerBackward);
writes!([a b c d e f g h i j k l m n o],
    cudnnRNNBackwardWeights cusolverDnXgeqrf);
writes!([a b c d e f g h i j k l m n o p],
    cusolverDnCgesvd cusolverDnDgesvd cusolverDnSgesvd cusolverDnZgesvd cusolverDnCgesvdj cusolverDnDgesvdj
    cusolverDnSgesvdj cusolverDnZgesvdj cusolverDnCgesvdjBatched cusolverDnDgesvdjBatched cusolverDnSgesvdjBatched
    cusolverDnZgesvdjBatched cudnnRNNBackwardWeights_v8 cusolverDnXsyevd cusolverDnXsytrs);
writes!([a b c d e f g h i j k l m n o p q],
    cusolverDnXsyevBatched);
writes!([a b c d e f g h i j k l m n o p q r],
    cudnnConvolutionBiasActivationForward);
writes!([a b c d e f g h i j k l m n o p q r s],
    cudnnRNNForwardInference);
writes!([a b c d e f g h i j k l m n o p q r s t],
    cudnnRNNForward);
writes!([a b c d e f g h i j k l m n o p q r s t u],
    cudnnRNNForwardTraining cusolverDnCgesvdaStridedBatched cusolverDnDgesvdaStridedBatched
    cusolverDnSgesvdaStridedBatched cusolverDnZgesvdaStridedBatched);
writes!([a b c d e f g h i j k l m n o p q r s t u v],
    cudnnRNNBackwardData_v8 cusolverDnXgeev);
writes!([a b c d e f g h i j k l m n o p q r s t u v w],
    cudnnBatchNormalizationForwardTrainingEx);
writes!([a b c d e f g h i j k l m n o p q r s t u v w x y z],
    cudnnRNNBackwardData);
writes!([a b c d e f g h i j k l m n o p q r s t u v w x y z aa bb cc],
    cudnnBatchNormalizationBackwardEx);
writes_through!([a b c d e f g],
    cublasCgetrfBatched cublasDgetrfBatched cublasSgetrfBatched cublasZgetrfBatched cusolverDnCpotrfBatched
    cusolverDnDpotrfBatched cusolverDnSpotrfBatched cusolverDnZpotrfBatched);
writes_through!([a b c d e f g h i j],
    cusolverDnCpotrsBatched cusolverDnDpotrsBatched cusolverDnSpotrsBatched cusolverDnZpotrsBatched);
writes_through!([a b c d e f g h i j k l m],
    cublasCtrsmBatched cublasDtrsmBatched cublasStrsmBatched cublasZtrsmBatched);
writes_through!([a b c d e f g h i j k l m n o],
    cublasCgemmBatched cublasDgemmBatched cublasSgemmBatched cublasZgemmBatched);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::blocks;
    use crate::device::values::{self, ValueTrust};

    /// Eight bytes that are known, in a block of their own.
    fn known(at: u64) {
        blocks::report_memory_usage(at as *const _, 512, 0, 0, 0);
        values::repeat(at, &[0], 8, ValueTrust::Known);
    }

    fn trust(at: u64) -> ValueTrust {
        values::trust_if_set(at, 8).unwrap()
    }

    #[test]
    fn what_a_library_may_have_written_is_doubtful() {
        let [matrix, information, other] = [0x1000_6000_0000, 0x1000_6000_1000, 0x1000_6000_2000];
        [matrix, information, other].into_iter().for_each(known);
        cusolverDnSpotrf(1, 0, 2, matrix, 2, 0, 0, information);
        assert_eq!(
            [trust(matrix), trust(information), trust(other)],
            [ValueTrust::Doubtful, ValueTrust::Doubtful, ValueTrust::Known]
        );
    }

    #[test]
    fn so_is_what_an_array_of_addresses_points_to() {
        let [array, matrix, other] = [0x1000_6100_0000, 0x1000_6100_1000, 0x1000_6100_2000_u64];
        [array, matrix, other].into_iter().for_each(known);
        values::set(array, matrix.to_le_bytes().as_ptr() as u64, 8);
        cublasSgetrfBatched(1, 2, array, 2, 0, 0, 1);
        assert_eq!([trust(matrix), trust(other)], [ValueTrust::Doubtful, ValueTrust::Known]);
    }
}

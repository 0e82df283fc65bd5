//! Sizes of workspaces in the older interface: always that of the settings.

use super::SUCCESS;
use crate::ffi::{Handle, Opaque, Out};
use crate::ledger::{self, CountedFact};
use crate::settings::settings;

/// Writes the workspace of a plan.
pub(super) fn planned(size: Out<u64>) -> i32 {
    ledger::count(CountedFact::CudnnPlans);
    size.set(settings().cudnn_workspace);
    SUCCESS
}

/// Batch normalisation keeps nothing beyond its tensors.
fn nothing(size: Out<u64>) -> i32 {
    size.set(0);
    SUCCESS
}

/// Exports a function that ignores the arguments that are named first and has the others answered.
macro_rules! answered_by {
    ($answer:ident($($given:ident: $kind:ty),*), [$($ignored:ident)*], $name:ident) => {
        #[unsafe(no_mangle)]
        pub extern "C" fn $name($($ignored: Opaque,)* $($given: $kind),*) -> i32 {
            let _ = ($($ignored,)*);
            $answer($($given),*)
        }
    };
}

/// Exports functions that write a size after the arguments that are named first.
macro_rules! size_after {
    ($answer:ident, $ignored:tt, $($name:ident)*) => {
        $(answered_by!($answer(size: Out<u64>), $ignored, $name);)*
    };
}

/// Exports functions that name algorithms after the arguments that are named first.
macro_rules! algorithms_after {
    ($ignored:tt, $($name:ident)*) => {
        $(answered_by!(one_algorithm(wanted: i32, count: Out<i32>, results: Out<u8>), $ignored, $name);)*
    };
}

/// Algorithms with their measures: `cudnnConvolution…AlgoPerf_t` is algorithm, status, time, memory, determinism,
/// mathematics and a reserve, in 48 bytes. One algorithm is named: the implicit product of matrices, which all
/// convolutions have.
fn one_algorithm(wanted: i32, count: Out<i32>, results: Out<u8>) -> i32 {
    if wanted > 0 {
        results.clear(48);
        results.field::<u64>(16).set(settings().cudnn_workspace);
        results.field::<i32>(24).set(1);
    }
    count.set(wanted.min(1));
    SUCCESS
}

algorithms_after!([a b c d e],
    cudnnGetConvolutionForwardAlgorithm_v7 cudnnGetConvolutionBackwardDataAlgorithm_v7
    cudnnGetConvolutionBackwardFilterAlgorithm_v7);
// The searches that `torch.backends.cudnn.benchmark` makes.
algorithms_after!([a b c d e f g h],
    cudnnFindConvolutionForwardAlgorithmEx cudnnFindConvolutionBackwardDataAlgorithmEx
    cudnnFindConvolutionBackwardFilterAlgorithmEx);
size_after!(planned, [a b c d e f],
    cudnnGetConvolutionForwardWorkspaceSize cudnnGetConvolutionBackwardDataWorkspaceSize
    cudnnGetConvolutionBackwardFilterWorkspaceSize);
size_after!(planned, [a b c d e], cudnnGetCTCLossWorkspaceSize_v8);
size_after!(planned, [a b c d e f g h], cudnnGetCTCLossWorkspaceSize);
size_after!(nothing, [a b c d e], cudnnGetBatchNormalizationTrainingExReserveSpaceSize);
size_after!(nothing, [a b c d e f g h], cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize);
size_after!(nothing, [a b c d e f g h i j], cudnnGetBatchNormalizationBackwardExWorkspaceSize);

/// States of the random numbers of dropout: one of 48 bytes for each thread of the device.
#[unsafe(no_mangle)]
pub extern "C" fn cudnnDropoutGetStatesSize(_handle: Handle, size: Out<u64>) -> i32 {
    let threads = settings().processors as u64 * crate::card::limits().threads_per_processor as u64;
    size.set(threads * 48);
    SUCCESS
}

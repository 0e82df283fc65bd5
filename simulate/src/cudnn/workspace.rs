//! Sizes of workspaces in the older interface: that of the settings, whatever is asked for.

use super::SUCCESS;
use crate::ffi::{Handle, Opaque, Out};
use crate::ledger::{self, Fact};
use crate::settings::settings;

/// Writes the workspace of a plan.
pub(super) fn planned(size: Out<u64>) -> i32 {
    ledger::count(Fact::CudnnPlans);
    size.set(settings().cudnn_workspace);
    SUCCESS
}

/// Batch normalisation keeps nothing beyond its tensors.
fn nothing(size: Out<u64>) -> i32 {
    size.set(0);
    SUCCESS
}

#[unsafe(no_mangle)]
pub extern "C" fn cudnnGetConvolutionForwardWorkspaceSize(
    _handle: Handle,
    _input: Handle,
    _filter: Handle,
    _convolution: Handle,
    _output: Handle,
    _algorithm: i32,
    size: Out<u64>,
) -> i32 {
    planned(size)
}

#[unsafe(no_mangle)]
pub extern "C" fn cudnnGetConvolutionBackwardDataWorkspaceSize(
    _handle: Handle,
    _filter: Handle,
    _gradient: Handle,
    _convolution: Handle,
    _result: Handle,
    _algorithm: i32,
    size: Out<u64>,
) -> i32 {
    planned(size)
}

#[unsafe(no_mangle)]
pub extern "C" fn cudnnGetConvolutionBackwardFilterWorkspaceSize(
    _handle: Handle,
    _input: Handle,
    _gradient: Handle,
    _convolution: Handle,
    _result: Handle,
    _algorithm: i32,
    size: Out<u64>,
) -> i32 {
    planned(size)
}

/// Algorithms with their measures: `cudnnConvolution…AlgoPerf_t` is algorithm, status, time, memory, determinism, mathematics and
/// a reserve, in 48 bytes. One algorithm is named: the implicit product of matrices, which all convolutions have.
fn one_algorithm(wanted: i32, count: Out<i32>, results: Out<u8>) -> i32 {
    if wanted > 0 {
        results.clear(48);
        results.field::<u64>(16).set(settings().cudnn_workspace);
        results.field::<i32>(24).set(1);
    }
    count.set(wanted.min(1));
    SUCCESS
}

#[unsafe(no_mangle)]
pub extern "C" fn cudnnGetConvolutionForwardAlgorithm_v7(
    _handle: Handle,
    _input: Handle,
    _filter: Handle,
    _convolution: Handle,
    _output: Handle,
    wanted: i32,
    count: Out<i32>,
    results: Out<u8>,
) -> i32 {
    one_algorithm(wanted, count, results)
}

#[unsafe(no_mangle)]
pub extern "C" fn cudnnGetConvolutionBackwardDataAlgorithm_v7(
    _handle: Handle,
    _filter: Handle,
    _gradient: Handle,
    _convolution: Handle,
    _result: Handle,
    wanted: i32,
    count: Out<i32>,
    results: Out<u8>,
) -> i32 {
    one_algorithm(wanted, count, results)
}

#[unsafe(no_mangle)]
pub extern "C" fn cudnnGetConvolutionBackwardFilterAlgorithm_v7(
    _handle: Handle,
    _input: Handle,
    _gradient: Handle,
    _convolution: Handle,
    _result: Handle,
    wanted: i32,
    count: Out<i32>,
    results: Out<u8>,
) -> i32 {
    one_algorithm(wanted, count, results)
}

/// The searches that `torch.backends.cudnn.benchmark` makes.
#[unsafe(no_mangle)]
pub extern "C" fn cudnnFindConvolutionForwardAlgorithmEx(
    _handle: Handle,
    _input: Handle,
    _x: Opaque,
    _filter: Handle,
    _w: Opaque,
    _convolution: Handle,
    _output: Handle,
    _y: Opaque,
    wanted: i32,
    count: Out<i32>,
    results: Out<u8>,
) -> i32 {
    one_algorithm(wanted, count, results)
}

#[unsafe(no_mangle)]
pub extern "C" fn cudnnFindConvolutionBackwardDataAlgorithmEx(
    _handle: Handle,
    _filter: Handle,
    _w: Opaque,
    _gradient: Handle,
    _dy: Opaque,
    _convolution: Handle,
    _result: Handle,
    _dx: Opaque,
    wanted: i32,
    count: Out<i32>,
    results: Out<u8>,
) -> i32 {
    one_algorithm(wanted, count, results)
}

#[unsafe(no_mangle)]
pub extern "C" fn cudnnFindConvolutionBackwardFilterAlgorithmEx(
    _handle: Handle,
    _input: Handle,
    _x: Opaque,
    _gradient: Handle,
    _dy: Opaque,
    _convolution: Handle,
    _result: Handle,
    _dw: Opaque,
    wanted: i32,
    count: Out<i32>,
    results: Out<u8>,
) -> i32 {
    one_algorithm(wanted, count, results)
}

#[unsafe(no_mangle)]
pub extern "C" fn cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize(
    _handle: Handle,
    _mode: i32,
    _operation: i32,
    _x: Handle,
    _z: Handle,
    _y: Handle,
    _scale: Handle,
    _activation: Handle,
    size: Out<u64>,
) -> i32 {
    nothing(size)
}

#[unsafe(no_mangle)]
pub extern "C" fn cudnnGetBatchNormalizationBackwardExWorkspaceSize(
    _handle: Handle,
    _mode: i32,
    _operation: i32,
    _x: Handle,
    _y: Handle,
    _dy: Handle,
    _dz: Handle,
    _dx: Handle,
    _scale: Handle,
    _activation: Handle,
    size: Out<u64>,
) -> i32 {
    nothing(size)
}

#[unsafe(no_mangle)]
pub extern "C" fn cudnnGetBatchNormalizationTrainingExReserveSpaceSize(
    _handle: Handle,
    _mode: i32,
    _operation: i32,
    _activation: Handle,
    _x: Handle,
    size: Out<u64>,
) -> i32 {
    nothing(size)
}

/// States of the random numbers of dropout: one of 48 bytes for each thread of the device.
#[unsafe(no_mangle)]
pub extern "C" fn cudnnDropoutGetStatesSize(_handle: Handle, size: Out<u64>) -> i32 {
    let threads = settings().processors as u64 * crate::card::limits().threads_per_processor as u64;
    size.set(threads * 48);
    SUCCESS
}

#[unsafe(no_mangle)]
pub extern "C" fn cudnnGetCTCLossWorkspaceSize(
    _handle: Handle,
    _probabilities: Handle,
    _gradients: Handle,
    _labels: Opaque,
    _label_lengths: Opaque,
    _input_lengths: Opaque,
    _algorithm: i32,
    _loss: Handle,
    size: Out<u64>,
) -> i32 {
    planned(size)
}

#[unsafe(no_mangle)]
pub extern "C" fn cudnnGetCTCLossWorkspaceSize_v8(
    _handle: Handle,
    _algorithm: i32,
    _loss: Handle,
    _probabilities: Handle,
    _gradients: Handle,
    size: Out<u64>,
) -> i32 {
    planned(size)
}

//! Calls for recurrent networks.

use super::descriptor::{describe_dense, extents};
use super::network::{Network, NetworkSequence, TWO_BIASES, Weight};
use super::workspace::planned;
use super::{BAD_PARAMETER, SUCCESS, element_size};
use crate::ffi::{Handle, In, Opaque, Out};
use crate::handles::Registry;

const BIDIRECTIONAL: i32 = 1;

static NETWORKS: Registry<Network> = Registry::new();
static SEQUENCES: Registry<NetworkSequence> = Registry::new();

#[unsafe(no_mangle)]
pub extern "C" fn cudnnCreateRNNDescriptor(descriptor: Out<Handle>) -> i32 {
    descriptor.set(NETWORKS.insert(Network::default()));
    SUCCESS
}

#[unsafe(no_mangle)]
pub extern "C" fn cudnnDestroyRNNDescriptor(descriptor: Handle) -> i32 {
    NETWORKS.remove(descriptor);
    SUCCESS
}

#[unsafe(no_mangle)]
pub extern "C" fn cudnnSetRNNDescriptor_v8(
    descriptor: Handle,
    _algorithm: i32,
    cell: i32,
    biases: i32,
    direction: i32,
    _input_mode: i32,
    kind: i32,
    _precision: i32,
    _mathematics: i32,
    input: i32,
    hidden: i32,
    projection: i32,
    layers: i32,
) -> i32 {
    let network = Network {
        cell,
        biases,
        bidirectional: direction == BIDIRECTIONAL,
        kind,
        input: input as u64,
        hidden: hidden as u64,
        projection: if projection == hidden { 0 } else { projection as u64 },
        layers: layers as u64,
    };
    NETWORKS.with(descriptor, |found| *found = network).map_or(BAD_PARAMETER, |()| SUCCESS)
}

/// The older form, whose input size and type come with each call.
#[unsafe(no_mangle)]
pub extern "C" fn cudnnSetRNNDescriptor_v6(
    _handle: Handle,
    descriptor: Handle,
    hidden: i32,
    layers: i32,
    _dropout: Handle,
    _input_mode: i32,
    direction: i32,
    cell: i32,
    _algorithm: i32,
    _precision: i32,
) -> i32 {
    let bidirectional = direction == BIDIRECTIONAL;
    let network = Network {
        cell,
        biases: TWO_BIASES,
        bidirectional,
        hidden: hidden as u64,
        layers: layers as u64,
        ..Network::default()
    };
    NETWORKS.with(descriptor, |found| *found = network).map_or(BAD_PARAMETER, |()| SUCCESS)
}

#[unsafe(no_mangle)]
pub extern "C" fn cudnnSetRNNProjectionLayers(
    _handle: Handle,
    descriptor: Handle,
    projection: i32,
    _output: i32,
) -> i32 {
    NETWORKS.with(descriptor, |network| network.projection = projection as u64);
    SUCCESS
}

#[unsafe(no_mangle)]
pub extern "C" fn cudnnCreateRNNDataDescriptor(descriptor: Out<Handle>) -> i32 {
    descriptor.set(SEQUENCES.insert(NetworkSequence::default()));
    SUCCESS
}

#[unsafe(no_mangle)]
pub extern "C" fn cudnnDestroyRNNDataDescriptor(descriptor: Handle) -> i32 {
    SEQUENCES.remove(descriptor);
    SUCCESS
}

#[unsafe(no_mangle)]
pub extern "C" fn cudnnSetRNNDataDescriptor(
    descriptor: Handle,
    _kind: i32,
    _layout: i32,
    steps: i32,
    batch: i32,
) -> i32 {
    let sequence = NetworkSequence { steps: steps as u64, batch: batch as u64 };
    SEQUENCES.with(descriptor, |found| *found = sequence);
    SUCCESS
}

#[unsafe(no_mangle)]
pub extern "C" fn cudnnGetRNNWeightSpaceSize(_handle: Handle, descriptor: Handle, size: Out<u64>) -> i32 {
    let network = NETWORKS.get(descriptor).unwrap_or_default();
    size.set(network.elements() * element_size(network.kind));
    SUCCESS
}

#[unsafe(no_mangle)]
pub extern "C" fn cudnnGetRNNTempSpaceSizes(
    _handle: Handle,
    descriptor: Handle,
    mode: i32,
    sequence: Handle,
    workspace: Out<u64>,
    reserve: Out<u64>,
) -> i32 {
    let network = NETWORKS.get(descriptor).unwrap_or_default();
    let training = mode == 1;
    let sequence = SEQUENCES.get(sequence).unwrap_or_default();
    reserve.set(if training { network.reserve(sequence) } else { 0 });
    planned(workspace)
}

/// Notes the input size that the older form learns only now.
fn with_input(descriptor: Handle, input: Handle) -> Network {
    let extents = extents(input);
    let noted = NETWORKS.with(descriptor, |network| {
        network.input = extents.sizes.get(1).copied().unwrap_or_default() as u64;
        network.kind = extents.kind;
        *network
    });
    noted.unwrap_or_default()
}

#[unsafe(no_mangle)]
pub extern "C" fn cudnnGetRNNParamsSize(
    _handle: Handle,
    descriptor: Handle,
    input: Handle,
    size: Out<u64>,
    kind: i32,
) -> i32 {
    size.set(with_input(descriptor, input).elements() * element_size(kind));
    SUCCESS
}

#[unsafe(no_mangle)]
pub extern "C" fn cudnnGetRNNWorkspaceSize(
    _handle: Handle,
    _descriptor: Handle,
    _steps: i32,
    _inputs: Opaque,
    size: Out<u64>,
) -> i32 {
    planned(size)
}

#[unsafe(no_mangle)]
pub extern "C" fn cudnnGetRNNTrainingReserveSize(
    _handle: Handle,
    descriptor: Handle,
    steps: i32,
    inputs: In<Handle>,
    size: Out<u64>,
) -> i32 {
    let first = inputs.at(0).unwrap_or_default();
    let batch = extents(first).sizes.first().copied().unwrap_or_default() as u64;
    let network = with_input(descriptor, first);
    size.set(network.reserve(NetworkSequence { steps: steps as u64, batch }));
    SUCCESS
}

fn place(network: Network, weights: u64, found: Option<&Weight>, descriptor: Handle, address: Out<u64>) {
    match found {
        Some(Weight { offset, rows, columns }) => {
            describe_dense(descriptor, network.kind, &[1, *rows as i32, *columns as i32]);
            address.set(weights + offset * element_size(network.kind));
        }
        None => address.set(0),
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn cudnnGetRNNWeightParams(
    _handle: Handle,
    descriptor: Handle,
    pseudo_layer: i32,
    _size: u64,
    weights: u64,
    number: i32,
    matrix: Handle,
    matrix_address: Out<u64>,
    bias: Handle,
    bias_address: Out<u64>,
) -> i32 {
    let network = NETWORKS.get(descriptor).unwrap_or_default();
    let found = network.matrix(pseudo_layer as u64, number as u64);
    place(network, weights, Some(&found), matrix, matrix_address);
    let found = network.bias(pseudo_layer as u64, number as u64);
    place(network, weights, found.as_ref(), bias, bias_address);
    SUCCESS
}

#[unsafe(no_mangle)]
pub extern "C" fn cudnnGetRNNLinLayerMatrixParams(
    _handle: Handle,
    descriptor: Handle,
    pseudo_layer: i32,
    input: Handle,
    _filter: Handle,
    weights: u64,
    number: i32,
    matrix: Handle,
    address: Out<u64>,
) -> i32 {
    let network = with_input(descriptor, input);
    let found = network.matrix(pseudo_layer as u64, number as u64);
    place(network, weights, Some(&found), matrix, address);
    SUCCESS
}

#[unsafe(no_mangle)]
pub extern "C" fn cudnnGetRNNLinLayerBiasParams(
    _handle: Handle,
    descriptor: Handle,
    pseudo_layer: i32,
    input: Handle,
    _filter: Handle,
    weights: u64,
    number: i32,
    bias: Handle,
    address: Out<u64>,
) -> i32 {
    let network = with_input(descriptor, input);
    let found = network.bias(pseudo_layer as u64, number as u64);
    place(network, weights, found.as_ref(), bias, address);
    SUCCESS
}

//! Recurrent networks: where their weights lie, and how much memory they ask for.
//!
//! The place of the weights is one that PyTorch accepts: first the matrices of all layers, then their biases. What a
//! training step keeps for its backward pass is estimated: the gates and states of each step.

use super::descriptor::{describe_dense, extents};
use super::workspace::planned;
use super::{BAD_PARAMETER, SUCCESS, element_size};
use crate::ffi::{Handle, In, Opaque, Out};
use crate::handles::Registry;

const LSTM: i32 = 2;
const GRU: i32 = 3;
const BIDIRECTIONAL: i32 = 1;
/// Bias modes: 0 is none, 2 is one for input and one for state.
const TWO_BIASES: i32 = 2;

#[derive(Clone, Copy, Default)]
struct Network {
    cell: i32,
    biases: i32,
    bidirectional: bool,
    kind: i32,
    input: u64,
    hidden: u64,
    projection: u64,
    layers: u64,
}

/// Steps, batch and type of a sequence.
#[derive(Clone, Copy, Default)]
struct Sequence {
    steps: u64,
    batch: u64,
}

static NETWORKS: Registry<Network> = Registry::new();
static SEQUENCES: Registry<Sequence> = Registry::new();

/// A matrix or bias within the weights: offset and extents in elements.
struct Weight {
    offset: u64,
    rows: u64,
    columns: u64,
}

impl Network {
    /// Matrices of a layer that take the input; as many take the state.
    fn gates(self) -> u64 {
        match self.cell {
            LSTM => 4,
            GRU => 3,
            _ => 1,
        }
    }

    fn directions(self) -> u64 {
        if self.bidirectional { 2 } else { 1 }
    }

    /// Size of the state that a layer gives on.
    fn state(self) -> u64 {
        if self.projection > 0 { self.projection } else { self.hidden }
    }

    fn has_projection(self) -> bool {
        self.projection > 0 && self.projection != self.hidden
    }

    fn layer_input(self, pseudo_layer: u64) -> u64 {
        if pseudo_layer < self.directions() { self.input } else { self.state() * self.directions() }
    }

    /// Elements of the matrices of a pseudo layer: a layer in one direction.
    fn matrices(self, pseudo_layer: u64) -> u64 {
        let projection = if self.has_projection() { self.hidden * self.projection } else { 0 };
        self.gates() * self.hidden * (self.layer_input(pseudo_layer) + self.state()) + projection
    }

    fn biases(self) -> u64 {
        if self.biases == 0 { 0 } else { 2 * self.gates() * self.hidden }
    }

    fn pseudo_layers(self) -> u64 {
        self.layers * self.directions()
    }

    fn all_matrices(self) -> u64 {
        (0..self.pseudo_layers()).map(|layer| self.matrices(layer)).sum()
    }

    fn elements(self) -> u64 {
        self.all_matrices() + self.pseudo_layers() * self.biases()
    }

    /// The matrix with a number: first those of the input, then those of the state, then the projection.
    fn matrix(self, pseudo_layer: u64, number: u64) -> Weight {
        let before: u64 = (0..pseudo_layer).map(|layer| self.matrices(layer)).sum();
        let input = self.layer_input(pseudo_layer);
        let gates = self.gates();
        let of_input = gates * self.hidden * input;
        if number < gates {
            return Weight { offset: before + number * self.hidden * input, rows: self.hidden, columns: input };
        }
        if number < 2 * gates {
            let offset = before + of_input + (number - gates) * self.hidden * self.state();
            return Weight { offset, rows: self.hidden, columns: self.state() };
        }
        let offset = before + of_input + gates * self.hidden * self.state();
        Weight { offset, rows: self.projection, columns: self.hidden }
    }

    fn bias(self, pseudo_layer: u64, number: u64) -> Option<Weight> {
        if self.biases == 0 || number >= 2 * self.gates() {
            return None;
        }
        let offset = self.all_matrices() + pseudo_layer * self.biases() + number * self.hidden;
        Some(Weight { offset, rows: self.hidden, columns: 1 })
    }

    /// Bytes that a training step keeps: the gates and both states of each element of the sequence.
    fn reserve(self, sequence: Sequence) -> u64 {
        let values = (self.gates() + 2) * self.hidden * self.pseudo_layers();
        sequence.steps * sequence.batch * values * element_size(self.kind)
    }
}

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
    descriptor.set(SEQUENCES.insert(Sequence::default()));
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
    let sequence = Sequence { steps: steps as u64, batch: batch as u64 };
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
    size.set(network.reserve(Sequence { steps: steps as u64, batch }));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matrices_and_biases_fill_the_weights_without_gaps() {
        let network = Network {
            cell: LSTM,
            biases: TWO_BIASES,
            bidirectional: true,
            input: 5,
            hidden: 3,
            layers: 2,
            ..Network::default()
        };
        let mut end = 0;
        for layer in 0..4 {
            for number in 0..8 {
                let weight = network.matrix(layer, number);
                assert_eq!(weight.offset, end);
                end += weight.rows * weight.columns;
            }
        }
        assert_eq!(end, network.all_matrices());
        for layer in 0..4 {
            for number in 0..8 {
                let weight = network.bias(layer, number).unwrap();
                assert_eq!(weight.offset, end);
                end += weight.rows;
            }
        }
        assert_eq!(end, network.elements());
        // torch.nn.LSTM(5, 3, 2, bidirectional=True) has as many parameters.
        assert_eq!(end, 2 * (4 * 3 * (5 + 3) + 24) + 2 * (4 * 3 * (6 + 3) + 24));
    }
}

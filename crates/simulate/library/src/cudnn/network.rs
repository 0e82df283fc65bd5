//! Recurrent networks: where their weights lie, and how much a training step keeps.
//!
//! The place of the weights is one that PyTorch accepts: first the matrices of all layers, then their biases. What a
//! training step keeps for its backward pass is estimated: the gates and states of each step.

use super::element_size;

const LSTM: i32 = 2;
const GRU: i32 = 3;
/// Bias modes: 0 is none, 2 is one for input and one for state.
pub(super) const TWO_BIASES: i32 = 2;

#[derive(Clone, Copy, Default)]
pub(super) struct Network {
    pub(super) cell: i32,
    pub(super) biases: i32,
    pub(super) bidirectional: bool,
    pub(super) kind: i32,
    pub(super) input: u64,
    pub(super) hidden: u64,
    pub(super) projection: u64,
    pub(super) layers: u64,
}

/// Steps, batch and type of a sequence.
#[derive(Clone, Copy, Default)]
pub(super) struct NetworkSequence {
    pub(super) steps: u64,
    pub(super) batch: u64,
}

/// A matrix or bias within the weights: offset and extents in elements.
pub(super) struct Weight {
    pub(super) offset: u64,
    pub(super) rows: u64,
    pub(super) columns: u64,
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

    pub(super) fn elements(self) -> u64 {
        self.all_matrices() + self.pseudo_layers() * self.biases()
    }

    /// The matrix with a number: first those of the input, then those of the state, then the projection.
    pub(super) fn matrix(self, pseudo_layer: u64, number: u64) -> Weight {
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

    pub(super) fn bias(self, pseudo_layer: u64, number: u64) -> Option<Weight> {
        if self.biases == 0 || number >= 2 * self.gates() {
            return None;
        }
        let offset = self.all_matrices() + pseudo_layer * self.biases() + number * self.hidden;
        Some(Weight { offset, rows: self.hidden, columns: 1 })
    }

    /// Bytes that a training step keeps: the gates and both states of each element of the sequence.
    pub(super) fn reserve(self, sequence: NetworkSequence) -> u64 {
        let values = (self.gates() + 2) * self.hidden * self.pseudo_layers();
        sequence.steps * sequence.batch * values * element_size(self.kind)
    }
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

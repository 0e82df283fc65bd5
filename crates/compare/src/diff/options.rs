//! How two profiles are compared.

use super::phases::PhaseOptions;

/// Options of a comparison.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DiffOptions {
    /// The similarity, from 0 to 1, from which stacks count as the same although the code has changed.
    pub match_ratio: f64,
    /// Options for phases.
    pub phases: PhaseOptions,
}

/// Default of [`DiffOptions::match_ratio`].
/// Needed for `changes/moved-and-fused`.
const MATCH_RATIO: f64 = 0.75;

impl Default for DiffOptions {
    fn default() -> Self {
        Self { match_ratio: MATCH_RATIO, phases: PhaseOptions::default() }
    }
}

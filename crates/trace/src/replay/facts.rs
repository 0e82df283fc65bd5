//! What a replay finds out, and why it cannot.

use std::collections::BTreeMap;

use ptmem_base::device::DeviceId;
use ptmem_base::diagnostic::Diagnostic;
use ptmem_base::pattern::Pattern;
use ptmem_snapshot::snapshot::Action;

use super::allocation::Allocation;
use super::figures::Figures;
use super::layout::Layout;
use super::left_out::Benchmarks;
use super::lifetimes;
use super::private_pools::PrivatePool;
use crate::tags::DeviceTags;
use crate::trace::Trace;

/// The history of one device, replayed.
#[derive(Debug)]
pub struct Replay {
    /// The figures.
    pub figures: Figures,
    /// Number of events by action.
    pub actions: BTreeMap<Action, u64>,
    /// All that happened, move by move.
    pub trace: Trace,
    /// Every use of a block that the snapshot knows of.
    pub allocations: Vec<Allocation>,
    /// The address of each of them, where [`WantedResults::layout`] asks for it.
    pub addresses: Vec<u64>,
    /// Where blocks and segments lie, where [`WantedResults::layout`] asks for it.
    pub layout: Option<Layout>,
    /// The private pools of the final state, without names.
    pub private_pools: Vec<PrivatePool>,
    /// Notes and warnings about it.
    pub diagnostics: Vec<Diagnostic>,
    /// True if all is left out that was to be ignored.
    pub ignores: bool,
}

/// Why a history cannot be replayed.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum ReplayError {
    /// More events or blocks than positions.
    #[error("{device} has more than {MOST} events or blocks; split the recording (max_entries)", MOST = lifetimes::MOST_EVENTS)]
    TooLong {
        /// Device ordinal.
        device: DeviceId,
    },
    /// A sum that no memory could hold.
    #[error("the {what} bytes of {device} add up to more than 2^64-1; the file is damaged")]
    Overflow {
        /// Device ordinal.
        device: DeviceId,
        /// Which figure.
        what: &'static str,
    },
}

/// Results of a replay other than the figures.
#[derive(Clone, Copy, Default)]
pub struct WantedResults<'n> {
    /// The tags of allocations that their events do not state.
    pub tags: Option<&'n DeviceTags>,
    /// Whether to keep the addresses of blocks and segments.
    pub layout: bool,
    /// The phases whose allocations do not count if they are freed within them.
    pub ignore: &'n [Pattern],
    /// The stacks that measure kernels, where the devices of a snapshot share them.
    pub benchmarks: Option<&'n Benchmarks>,
}

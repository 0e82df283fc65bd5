//! Facts about the devices of a run: cards, PyTorch's counters, modules.

use ptmem_base::device::DeviceId;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// What Python's garbage collector freed of a device: reference cycles held it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct CollectedBlocks {
    /// Device ordinal.
    pub device: DeviceId,
    /// Addresses of the blocks that it freed right after the dump.
    pub blocks: Vec<u64>,
    /// The numbers of frees, since the process began, before and after each of its runs.
    pub frees: Vec<[u64; 2]>,
    /// The number of frees at the dump.
    pub freed: u64,
}

/// The outermost calls of modules (`nn.Module`) while a device was recorded: those that no other module makes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutermostCalls {
    /// Device ordinal.
    pub device: DeviceId,
    /// Classes of the modules.
    pub modules: Vec<String>,
    /// For each call, in order, the number of allocations before it, since the process began, and the index of its module.
    pub begins: Vec<[u64; 2]>,
    /// The number of allocations at the dump.
    pub allocated: u64,
}

/// The modules (`nn.Module`) that allocated on a device, the purposes of the memory, and the shapes of its tensors. Each
/// number is an index into these three lists; the entries at index 0 are empty and mean none.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct DeviceModules {
    /// Device ordinal.
    pub device: DeviceId,
    /// Paths from the outermost module.
    pub names: Vec<String>,
    /// Purposes of the memory.
    #[serde(default)]
    pub purposes: Vec<String>,
    /// Types and shapes of the tensors that were made in it.
    #[serde(default)]
    pub shapes: Vec<String>,
    /// Runs of allocations in the order of events: how many, and the number.
    pub allocations: Vec<[u64; 2]>,
    /// Addresses of blocks from before the history, and the number.
    pub blocks: Vec<[u64; 2]>,
}

/// A card, and the known memory on it that is not PyTorch's.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CardFacts {
    /// Device ordinal.
    pub device: DeviceId,
    /// Name that the driver gives.
    pub name: String,
    /// Compute capability.
    pub capability: [u32; 2],
    /// Streaming multiprocessors.
    pub processors: u64,
    /// NCCL's communicators: the number of ranks, and how many communicators have as many.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub communicators: Vec<[u64; 2]>,
    /// Bytes in use at the dump that PyTorch's allocator had not reserved; `None` on a simulated card, which has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub others: Option<u64>,
    /// Bytes of the card.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<u64>,
}

impl CardFacts {
    /// The kind of card, which one run has as the other.
    #[must_use]
    pub fn kind(&self) -> (&str, [u32; 2], u64) {
        (&self.name, self.capability, self.processors)
    }
}

/// PyTorch's counters of a device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceCounters {
    /// Device ordinal.
    pub device: DeviceId,
    /// Where the recorded part begins.
    pub start: StatedCounters,
    /// At the dump.
    pub dump: StatedCounters,
}

/// PyTorch's counters at a moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StatedCounters {
    /// Values, by PyTorch's names: `allocated_bytes` …
    pub current: BTreeMap<String, u64>,
    /// The highest values since the process began, or since the program reset them.
    pub peak: BTreeMap<String, u64>,
    /// Allocations and frees since the process began.
    pub calls: [u64; 2],
}

//! The cards to simulate, and how they answer.

use crate::card::Card;
use crate::compute::Compute;

/// Name of the environment variable that carries [`Settings::text`].
pub const SETTINGS_VARIABLE: &str = "PTMEM_SIMULATE";

/// Most devices that a run can have.
pub const MOST_GPUS: u32 = 64;

/// Largest memory of a device: the size of its address range.
pub const LARGEST_MEMORY: u64 = (512 << 30) - (1 << 30);

/// Answer to a call that the library cannot answer.
#[derive(clap::ValueEnum, Debug, Clone, Copy, PartialEq, Eq, strum::Display)]
#[strum(serialize_all = "kebab-case")]
pub enum Unsupported {
    /// Return success.
    Allow,
    /// Return success, with one warning per function.
    Warn,
    /// Return an error code.
    Error,
}

/// When an event counts as complete.
#[derive(clap::ValueEnum, Debug, Clone, Copy, PartialEq, Eq, strum::Display)]
#[strum(serialize_all = "kebab-case")]
pub enum Events {
    /// As soon as they are recorded.
    Ready,
    /// After some queries, or when the program waits for them.
    Late,
}

/// Order in which a card gives out addresses. Which free block PyTorch takes depends on it, and so reserved bytes.
#[derive(clap::ValueEnum, Debug, Clone, Copy, PartialEq, Eq, strum::Display)]
#[strum(serialize_all = "kebab-case")]
pub enum Addresses {
    /// The lowest free address first.
    Up,
    /// Downwards, as Linux maps memory.
    Down,
}

/// The cards to simulate, and how they answer.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The card.
    pub card: Card,
    /// Number of cards.
    pub gpus: u32,
    /// Memory of each, in bytes.
    pub memory: u64,
    /// Byte that unknown values read as.
    pub fill: u8,
    /// Memory that may hold values.
    pub compute: Compute,
    /// Share of the elements, in percent, that pass a condition on values that are not known.
    pub keep: u32,
    /// When events are complete.
    pub events: Events,
    /// Order of addresses.
    pub addresses: Addresses,
    /// Answer to unknown calls.
    pub unsupported: Unsupported,
    /// Workspace of every cuDNN plan, in bytes.
    pub cudnn_workspace: u64,
}

impl Settings {
    /// The settings as the library reads them; `hook` is the folder of the hook for Python, `ledger` the path of the file of
    /// counters, `parent` the process that starts the command.
    #[must_use]
    pub fn text(&self, hook: &str, ledger: &str, parent: u32) -> String {
        let Card { name, capability, processors, l2_cache, .. } = self.card;
        [
            format!("name={name}"),
            format!("capability={capability}"),
            format!("processors={processors}"),
            format!("l2-cache={l2_cache}"),
            format!("memory={}", self.memory),
            format!("gpus={}", self.gpus),
            format!("context={}", self.card.context()),
            format!("fill={}", self.fill),
            format!("compute={}", self.compute.bytes()),
            format!("keep={}", self.keep),
            format!("events={}", self.events),
            format!("addresses={}", self.addresses),
            format!("unsupported={}", self.unsupported),
            format!("cudnn-workspace={}", self.cudnn_workspace),
            format!("hook={hook}"),
            format!("ledger={ledger}"),
            format!("parent={parent}"),
        ]
        .join(";")
    }
}

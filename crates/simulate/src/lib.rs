//! Simulated GPUs: which cards there are, what a child process needs to run on one, and what happened in it.
//!
//! A part of `ptmem` that promises nothing by itself: the crate `ptmem` is for others.
//!
//! The library that answers the calls is a crate of its own (`library/`), which the build script compiles. `python/` has the hook
//! for the child's Python; `facts.py` and `watch/` belong to the Python package as well, which links to them.

mod arguments;
mod card;
mod compiled;
mod compute;
#[path = "../library/src/fact.rs"]
mod fact;
mod folder;
mod imports;
mod job;
mod ledger;
mod report;
mod run;
#[cfg(unix)]
mod signals;
#[cfg(not(unix))]
#[path = "signals_elsewhere.rs"]
mod signals;
mod stand_in;
mod stand_ins;
mod summary;

use std::io::Write as _;
use std::path::Path;

use anyhow::Result;

pub use arguments::{SimulateArguments, StandInsArguments, StepRange};
pub use card::Card;
pub use compiled::empty_caches;
pub use compute::Compute;
pub use folder::offline_trackers;
pub use run::run;
pub use stand_ins::run as add_stand_ins;

/// Beginnings of the names of packages with NVIDIA's libraries, which PyTorch requires. Other packages of NVIDIA, such as
/// nvidia-ml-py, are modules that a program may import; cuda-toolkit is only a list of these.
pub const PACKAGES: &str = include_str!("nvidia/package_prefixes.txt");

/// Writes a file as a whole or not at all; the program has its own names for some.
pub type WriteFile<'a> = &'a (dyn Fn(&Path, &[u8]) -> Result<()> + Sync);

/// Prints a line for people, apart from the output of the command.
fn eprint_line(text: &str) {
    // Failing to print a line is not an error of the run.
    let _ = writeln!(anstream::stderr(), "ptmem simulate: {text}");
}

/// The library for the system that ptmem was built for. Empty where there is none.
pub const LIBRARY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/libptmem-simulate.so"));

/// The folder of the package that the Python package has as well: passes of training, modules, purposes and shapes of memory.
pub const PYTHON_WATCH: &str = "ptmem_simulate_watch";

/// Files for the child's Python by their paths: the code that runs when it starts, and the modules beside it. The head
/// of each describes it.
pub const PYTHON: [(&str, &str); 25] = [
    ("sitecustomize.py", include_str!("../python/hook.py")),
    ("ptmem_simulate_answers.py", include_str!("../python/answers.py")),
    ("ptmem_simulate_facts.py", include_str!("../python/facts.py")),
    ("ptmem_simulate_outermost.py", include_str!("../python/outermost.py")),
    ("ptmem_simulate_ran.py", include_str!("../python/ran.py")),
    ("ptmem_simulate_opened.py", include_str!("../python/opened.py")),
    ("ptmem_simulate_ranges.py", include_str!("../python/ranges.py")),
    ("ptmem_simulate_ranks.py", include_str!("../python/ranks.py")),
    ("ptmem_simulate_sent.py", include_str!("../python/sent.py")),
    ("ptmem_simulate_one_rank.py", include_str!("../python/one_rank.py")),
    ("ptmem_simulate_guesses.py", include_str!("../python/guesses.py")),
    ("ptmem_simulate_guards.py", include_str!("../python/guards.py")),
    ("ptmem_simulate_values.py", include_str!("../python/values.py")),
    ("ptmem_simulate_draws.py", include_str!("../python/draws.py")),
    ("ptmem_simulate_host.py", include_str!("../python/host.py")),
    ("ptmem_simulate_calls.py", include_str!("../python/calls.py")),
    ("ptmem_simulate_operators.py", include_str!("../python/operators.py")),
    ("ptmem_simulate_watch/__init__.py", include_str!("../python/watch/__init__.py")),
    ("ptmem_simulate_watch/attribution.py", include_str!("../python/watch/attribution.py")),
    ("ptmem_simulate_watch/belongings.py", include_str!("../python/watch/belongings.py")),
    ("ptmem_simulate_watch/marks.py", include_str!("../python/watch/marks.py")),
    ("ptmem_simulate_watch/modules.py", include_str!("../python/watch/modules.py")),
    ("ptmem_simulate_watch/passes.py", include_str!("../python/watch/passes.py")),
    ("ptmem_simulate_watch/purposes.py", include_str!("../python/watch/purposes.py")),
    ("ptmem_simulate_watch/shapes.py", include_str!("../python/watch/shapes.py")),
];

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

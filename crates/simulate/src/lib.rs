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
mod embedded;
mod folder;
mod imports;
mod job;
mod ledger;
mod output;
mod ranks;
mod report;
mod run;
mod settings;
#[cfg(unix)]
mod signals;
#[cfg(not(unix))]
#[path = "signals_elsewhere.rs"]
mod signals;
mod stand_in;
mod stand_ins;
mod summary;

pub use arguments::{SimulateArguments, StandInsArguments, StepRange};
pub use card::Card;
pub use compiled::empty_caches;
pub use compute::Compute;
pub use embedded::{LIBRARY, PYTHON, PYTHON_WATCH};
pub use folder::offline_trackers;
pub use output::WriteFile;
pub use run::run;
pub use settings::{Addresses, Events, LARGEST_MEMORY, MOST_GPUS, SETTINGS_VARIABLE, Settings, Unsupported};
pub use stand_ins::run as add_stand_ins;

/// Beginnings of the names of packages with NVIDIA's libraries, which PyTorch requires. Other packages of NVIDIA, such as
/// nvidia-ml-py, are modules that a program may import; cuda-toolkit is only a list of these.
pub const PACKAGES: &str = include_str!("nvidia/package_prefixes.txt");

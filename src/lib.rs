//! `ptmem` keeps PyTorch GPU memory regressions out of a code base.
//!
//! It reads CUDA memory snapshots (`torch.cuda.memory._dump_snapshot`), rebuilds what the caching
//! allocator did, and compares a before with an after. Data flows one way:
//!
//! ```text
//! bytes -> container -> pickle -> snapshot -> replay -> profile -> diff -> verdict -> report
//!                        \-> phase -^         \        \-> tree ----------^
//!                                              \--------^
//! ```
//!
//! A profile can be saved as text and read in place of the snapshot ([`profile::saved`]); limits may come from a
//! configuration file ([`config`]).
//!
//! Each stage is a module with one input and one output type that imports only what stands to its left.
//! Nothing in the library prints, exits, or touches files; readers take anything that is
//! [`std::io::Read`].

#![warn(clippy::disallowed_methods)]

pub mod config;
pub mod container;
pub mod diagnostic;
pub mod diff;
mod interner;
pub mod leak;
pub mod pattern;
pub mod phase;
pub mod pickle;
pub mod profile;
pub mod replay;
pub mod report;
pub mod sides;
pub mod simulate;
pub mod snapshot;
pub mod stack;
mod text;
pub mod tree;
pub mod units;
pub mod verdict;

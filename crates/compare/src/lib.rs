//! Compares what call stacks hold in a before and an after, finds memory that does not come back, and gives verdicts.
//!
//! A part of `ptmem` that promises nothing by itself: the crate `ptmem` is for others.

#![warn(clippy::disallowed_methods)]

pub mod align;
pub mod budget;
pub mod config;
pub mod diff;
pub mod history;
pub mod leak;
pub mod patch;
pub mod picture;
pub mod scale;
pub mod tracks;
pub mod tree;
pub mod verdict;

use ptmem_base::{diagnostic, interner, pattern, python, sides, text, units};
use ptmem_snapshot::snapshot;
use ptmem_trace::{phase, profile, replay, stack, tags, trace};

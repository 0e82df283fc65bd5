//! Judges comparisons, snapshots and leaks by limits: the configuration, growth that was accepted, and the verdict.
//!
//! A part of `ptmem` that promises nothing by itself: the crate `ptmem` is for others.

#![warn(clippy::disallowed_methods)]

pub mod config;
pub mod verdict;

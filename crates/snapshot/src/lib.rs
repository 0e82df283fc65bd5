//! Reads CUDA memory snapshots of PyTorch safely, whatever they are wrapped in, and writes smaller ones.
//!
//! A part of `ptmem` that promises nothing by itself: the crate `ptmem` is for others.

#![warn(clippy::disallowed_methods)]

pub mod input;
pub mod pickle;
pub mod snapshot;

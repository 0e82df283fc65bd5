//! Compares what call stacks hold in a before and an after: corresponding places of two histories, and the pairs of devices,
//! metrics and stacks.
//!
//! A part of `ptmem` that promises nothing by itself: the crate `ptmem` is for others.

#![warn(clippy::disallowed_methods)]

pub mod align;
pub mod budget;
pub mod diff;
pub mod leak;
pub mod patch;
pub mod tracks;
pub mod tree;

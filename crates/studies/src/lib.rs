//! Studies several recordings, or the steps of one: memory that does not come back, memory over time, runs with several
//! numbers.
//!
//! A part of `ptmem` that promises nothing by itself: the crate `ptmem` is for others.

#![warn(clippy::disallowed_methods)]

pub mod allocator;
pub mod fit;
pub mod history;
pub mod leak;

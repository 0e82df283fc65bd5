//! Studies several recordings, or the steps of one: memory that does not come back, memory over time and over a number.
//!
//! A part of `ptmem` that promises nothing by itself: the crate `ptmem` is for others.

#![warn(clippy::disallowed_methods)]

pub mod allocator;
pub mod history;
pub mod leak;
pub mod scale;

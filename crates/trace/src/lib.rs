//! What happened on each device of a snapshot, and what each call stack held at any moment: the figures of `ptmem`, without any
//! verdict on them.
//!
//! A part of `ptmem` that promises nothing by itself: the crate `ptmem` is for others.

#![warn(clippy::disallowed_methods)]

pub mod phase;
pub mod profile;
pub mod replay;
pub mod stack;
pub mod tags;
pub mod trace;

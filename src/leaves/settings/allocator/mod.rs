//! The requests that a recording made to the allocator, to repeat them under other settings, and the memory that its segments
//! hold without use.

// Requests are only repeated on simulated GPUs.
#![cfg_attr(not(feature = "simulate"), allow(dead_code, unused_imports))]

mod pinned;
mod pools;
mod recording;
mod requests;
mod space;
mod study;
#[cfg(test)]
mod tests;

pub(super) use pinned::{Pin, Pinned, PinnedSegment, pinned};
pub(super) use recording::{RequestHistory, missing};
pub(super) use requests::{Earlier, curve};
pub(super) use study::{SelfCheck, SettingsOutcome, SettingsStudy, Trial, advice};

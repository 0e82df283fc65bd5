//! What happened on a device, move by move; folded where it repeats.

pub mod fold;

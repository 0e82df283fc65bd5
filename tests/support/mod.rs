//! What tests share.

pub mod pickle;

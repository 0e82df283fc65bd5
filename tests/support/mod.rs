//! What tests share.

pub mod edit;
pub mod pickle;

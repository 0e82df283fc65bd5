//! What tests share.

pub mod edit;
pub mod fixtures;
pub mod pickle;
pub mod program;
pub mod readers;
pub mod tool;

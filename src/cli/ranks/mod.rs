//! Inputs of a distributed job: a directory or a glob with a file for each rank.

mod find;
mod name;

pub(super) use find::{Found, find, plain};

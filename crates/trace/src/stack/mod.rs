//! The identity of call stacks across code changes, and their names.
//!
//! Snapshots of two commits never have equal stacks: lines move, functions are renamed, checkouts have other folders,
//! C++ text changes with the compiler. Stacks are therefore grouped by a key that keeps only what identifies the code;
//! groups without an equal key on the other side are paired by similarity; and every group has a label that names the
//! line of the user's code.

mod calls;
mod category;
mod checkout;
mod checkpoint;
mod classify;
mod code;
mod difference;
mod exact;
mod facts;
mod group_by;
mod grouper;
mod key;
mod label;
mod languages;
mod operator;
mod order;
mod pairing;
mod path;
mod qualified;
mod rules;
mod texts;
mod token;

pub use ptmem_base::label::{Label, More};

pub use category::{CATEGORIES, OTHER, Pass};
pub use checkout::Checkout;
pub use checkpoint::CheckpointedCode;
pub use classify::Owner;
pub(crate) use classify::is_benchmark;
pub use code::SnapshotCode;
pub use exact::{CppDigest, ExactKeys, is_python};
pub use facts::Facts;
pub use group_by::{GroupBy, folded_module};
pub use grouper::Grouper;
pub use key::Key;
pub use label::tell_apart;
pub use languages::Languages;
pub use order::{InOrder, pair_in_order};
pub use pairing::{ComparedFunctions, GroupFigures, Paired, StackGroup, pair};
pub use rules::{CategoryRule, Rules};
pub use texts::{FunctionsOfTexts, names_by_texts};
pub use token::{Digest, Lines, Token};

#[cfg(test)]
mod tests;

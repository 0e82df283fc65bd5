//! Which edit of a change made the memory grow: from the rows of a comparison to the lines that the change edits.

mod attribute;
mod edit;
mod figure;
mod growth;
mod innermost;
mod marks;
mod share;
mod words;

pub use figure::Grown;
pub use share::{Cause, EditEvidence, EditShare, Figure, Lead};

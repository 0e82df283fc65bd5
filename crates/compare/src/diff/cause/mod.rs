//! Which edit of a change made the memory grow: from the rows of a comparison to the lines that the change edits.

mod attribute;
mod growth;
mod marks;
mod words;

pub use attribute::{Cause, How, Share};

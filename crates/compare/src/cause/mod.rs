//! Which edit of a change made the memory grow: from the rows of a comparison to the lines that the change edits.

mod attribute;
mod edits;
mod growth;
mod marks;
mod tokens;
mod words;

pub use attribute::{Cause, How, Share};
pub use edits::{Edit, Kind};
pub(crate) use edits::{of_code, of_configuration};

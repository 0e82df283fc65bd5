//! The line of the checkout that a row is about.

use super::super::place::{self, Place};
use super::super::source::Excerpt;
use crate::Options;
use crate::snapshot::StackId;
use crate::stack::Code;

/// A line of the checkout.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Site {
    /// The file and the line.
    pub(crate) place: Place,
    /// The source there, where it is known.
    pub(crate) excerpt: Option<Excerpt>,
}

impl Site {
    /// The innermost line of the user on a stack, where the checkout has its file.
    pub(super) fn new(code: &Code<'_>, stack: StackId, options: &Options) -> Option<Self> {
        let frame = code.user_site(stack).filter(|&frame| options.checkout.contains_key(code.file(frame)))?;
        let place = place::place(code, frame, options)?;
        let excerpt = Excerpt::new(&place, code.function(frame), options);
        Some(Self { place, excerpt })
    }
}

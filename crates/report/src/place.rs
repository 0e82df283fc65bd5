//! Lines of the user's code, as reports that point at them need them.

use std::rc::Rc;

use super::Options;
/// A line of the user's code: its path from the root of the checkout where it is known there, else as people see it.
pub(super) use crate::diff::CodeLine as Place;
use crate::diff::{Diff, Sides};
use crate::snapshot::{FrameId, StackId};
use crate::stack::Code;
use crate::tree::{self, Frame};

/// A frame of a stack, and its place where it has one.
#[derive(Debug)]
pub(super) struct PlacedFrame {
    pub(super) frame: Frame,
    pub(super) place: Option<Place>,
}

/// The path of a frame: from the root of the checkout where it is known there, else as people see it.
pub(super) fn path<'c>(code: &'c Code<'_>, frame: FrameId, options: &'c Options) -> &'c str {
    options.checkout.get(code.file(frame)).map_or_else(|| code.path(frame), String::as_str)
}

/// The place of a frame in the checkout.
pub(super) fn place(code: &Code<'_>, frame: FrameId, options: &Options) -> Option<Place> {
    Some(Place { path: path(code, frame, options).to_owned(), line: code.line(frame)? })
}

/// The innermost line of the user on a stack.
pub(super) fn user_place(code: &Code<'_>, stack: StackId, options: &Options) -> Option<Place> {
    place(code, code.user_site(stack)?, options)
}

/// The frames of a stack, outermost first.
pub(super) fn placed_frames(code: &Code<'_>, stack: StackId, options: &Options) -> Vec<PlacedFrame> {
    // Frames with a path are those that identify the stack, in the opposite order.
    let mut ids = code.shown_frames(stack);
    ids.reverse();
    let mut ids = ids.into_iter();
    let mut placed = Vec::new();
    for frame in tree::frames(code, stack) {
        let id = if frame.path.is_some() { ids.next() } else { None };
        placed.push(PlacedFrame { place: id.and_then(|id| place(code, id, options)), frame });
    }
    placed
}

/// Facts about frames, kept for comparisons that share them.
#[derive(Default)]
pub(super) struct Codes<'a> {
    last: Option<(&'a Diff, Rc<Sides<Code<'a>>>)>,
}

impl<'a> Codes<'a> {
    /// Facts about the frames of a comparison.
    pub(super) fn of(&mut self, diff: &'a Diff) -> Rc<Sides<Code<'a>>> {
        match &self.last {
            Some((last, codes)) if last.shares_frames(diff) => Rc::clone(codes),
            _ => {
                let codes = Rc::new(diff.codes());
                self.last = Some((diff, Rc::clone(&codes)));
                codes
            }
        }
    }
}

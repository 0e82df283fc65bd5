//! Lines of the user's code, as reports that point at them need them.

use std::rc::Rc;

use ptmem_compare::diff::{Diff, Sides};
use ptmem_compare::tree::{self, CallFrame};
use ptmem_snapshot::snapshot::{FrameId, StackId};
use ptmem_trace::stack::SnapshotCode;

use super::RenderOptions;
/// A line of user code: its path relative to the checkout if it is known there, otherwise as it is shown.
pub(super) use ptmem_compare::diff::CodeLine as Place;

/// The path of a frame: relative to the checkout if it is known there, otherwise as it is shown.
pub(super) fn path<'c>(code: &'c SnapshotCode<'_>, frame: FrameId, options: &'c RenderOptions) -> &'c str {
    options.checkout.get(code.file(frame)).map_or_else(|| code.path(frame), String::as_str)
}

/// The place of a frame in the checkout.
pub(super) fn place(code: &SnapshotCode<'_>, frame: FrameId, options: &RenderOptions) -> Option<Place> {
    Some(Place { path: path(code, frame, options).to_owned(), line: code.line(frame)? })
}

/// The innermost line of the user on a stack.
pub(super) fn user_place(code: &SnapshotCode<'_>, stack: StackId, options: &RenderOptions) -> Option<Place> {
    place(code, code.user_site(stack)?, options)
}

/// The frames of a stack, outermost first, each with its place where it has one.
pub(super) fn placed_frames(
    code: &SnapshotCode<'_>,
    stack: StackId,
    options: &RenderOptions,
) -> Vec<(CallFrame, Option<Place>)> {
    // Frames with a path are those that identify the stack, in the opposite order.
    let mut ids = code.shown_frames(stack).into_iter().rev();
    let frames = tree::frames(code, stack, false).into_iter().map(|frame| {
        let id = if frame.path.is_some() { ids.next() } else { None };
        (frame, id.and_then(|id| place(code, id, options)))
    });
    frames.collect()
}

/// Facts about frames, kept for comparisons that share them.
#[derive(Default)]
pub(super) struct Codes<'a> {
    last: Option<(&'a Diff, Rc<Sides<SnapshotCode<'a>>>)>,
}

impl<'a> Codes<'a> {
    /// Facts about the frames of a comparison.
    pub(super) fn of(&mut self, diff: &'a Diff) -> Rc<Sides<SnapshotCode<'a>>> {
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

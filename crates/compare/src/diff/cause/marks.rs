//! The edits that the frames of one side pass through.

use std::collections::BTreeMap;

use ptmem_base::sides::Side;
use ptmem_snapshot::snapshot::{FrameId, StackId};
use ptmem_trace::profile::Profile;
use ptmem_trace::stack::{Code, Owner};

use super::How;
use crate::patch::Patch;
use crate::patch::{Edit, Kind};

/// The edits of a frame, as indices.
#[derive(Debug, Clone, Copy, Default)]
struct Mark {
    /// Of its line, or of its package.
    line: Option<(usize, How)>,
    /// Of the function or class around it.
    scope: Option<usize>,
}

/// The edits of every frame of one side.
pub(super) struct Marks<'p> {
    code: Code<'p>,
    of: Vec<Mark>,
}

impl<'p> Marks<'p> {
    pub(super) fn new(
        profile: &'p Profile,
        side: Side,
        edits: &[Edit],
        patch: &Patch,
        checkout: &BTreeMap<String, String>,
    ) -> Self {
        let code = profile.code();
        let frames = (0..code.tables().frames().len()).map(FrameId::from_index);
        let of = frames.map(|frame| mark(&code, frame, side, edits, patch, checkout)).collect();
        Self { code, of }
    }

    /// The innermost edited line or package that a stack passes through.
    pub(super) fn line(&self, stack: StackId) -> Option<(usize, How)> {
        self.code.python(stack).find_map(|frame| self.of[frame.index()].line)
    }

    /// The innermost edited function or class that it passes through.
    pub(super) fn scope(&self, stack: StackId) -> Option<usize> {
        self.code.python(stack).find_map(|frame| self.of[frame.index()].scope)
    }

    /// All edits whose line, package, function or class it passes through, innermost first.
    pub(super) fn all(&self, stack: StackId) -> Vec<usize> {
        let frames = self.code.python(stack).map(|frame| self.of[frame.index()]);
        let mut all: Vec<usize> = Vec::new();
        for mark in frames {
            for edit in [mark.line.map(|(edit, _)| edit), mark.scope].into_iter().flatten() {
                if !all.contains(&edit) {
                    all.push(edit);
                }
            }
        }
        all
    }
}

fn mark(
    code: &Code<'_>,
    frame: FrameId,
    side: Side,
    edits: &[Edit],
    patch: &Patch,
    checkout: &BTreeMap<String, String>,
) -> Mark {
    if code.owner(frame) == Owner::Library {
        let package = code.path(frame).split('/').next().map(normal).unwrap_or_default();
        let of = |edit: &Edit| matches!(&edit.kind, Kind::Dependency(name, _) if normal(name) == package);
        let found = edits.iter().position(of).map(|edit| (edit, How::Package));
        return Mark { line: found, scope: None };
    }
    let file = code.file(frame);
    let path = match (checkout.get(file), side) {
        (Some(path), _) => Some(path.as_str()),
        // A file of the before may have another name in the checkout, or be gone.
        (None, Side::Before) => patch.find(side, file),
        (None, Side::After) => None,
    };
    let (Some(line), Some(path)) = (code.line(frame), path) else { return Mark::default() };
    let mut lines: Option<(u32, usize)> = None;
    let mut scopes: Option<(u32, bool, usize)> = None;
    for (index, edit) in edits.iter().enumerate().filter(|(_, edit)| edit.path.of(side).as_deref() == Some(path)) {
        for range in edit.lines.of(side).iter().filter(|range| range.contains(&line)) {
            let found = (range.end() - range.start(), index);
            lines = lines.filter(|&least| least <= found).or(Some(found));
        }
        let body = edit.body.of(side).as_ref().filter(|body| body.contains(&line) && edit.kind == Kind::Code);
        if let Some(body) = body {
            let found = (body.end() - body.start(), !edit.may_keep(), index);
            scopes = scopes.filter(|&least| least <= found).or(Some(found));
        }
    }
    Mark { line: lines.map(|(_, edit)| (edit, How::Line)), scope: scopes.map(|(_, _, edit)| edit) }
}

/// The name of a package as it is imported.
fn normal(name: &str) -> String {
    name.to_ascii_lowercase().replace('-', "_")
}

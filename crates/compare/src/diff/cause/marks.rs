//! The edits that the frames of one side pass through.

use std::collections::BTreeMap;

use ptmem_base::sides::Side;
use ptmem_snapshot::snapshot::{FrameId, StackId};
use ptmem_trace::profile::Profile;
use ptmem_trace::stack::{Owner, SnapshotCode};
use rustc_hash::FxHashMap;

use super::EditEvidence;
use crate::patch::{Edit, EditKind, Patch};

/// The way by which a stack leads to an edit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct WayToEdit {
    /// The edit, as an index.
    pub(super) edit: usize,
    pub(super) how: EditEvidence,
    /// The edited statement that the stack passes through, as an index.
    pub(super) statement: Option<usize>,
}

impl WayToEdit {
    pub(super) fn new(edit: usize, how: EditEvidence) -> Self {
        Self { edit, how, statement: None }
    }
}

/// The edits of a frame, as indices.
#[derive(Debug, Clone, Copy, Default)]
struct FrameEdits {
    /// Of its line, or of its package.
    line: Option<WayToEdit>,
    /// Of the function or class around it.
    scope: Option<usize>,
}

/// The edits of every frame of one side.
pub(super) struct Marks<'p> {
    code: SnapshotCode<'p>,
    of: Vec<FrameEdits>,
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
        let edits = EditsOfSide::new(side, edits);
        let frames = (0..code.tables().frames().len()).map(FrameId::from_index);
        let of = frames.map(|frame| edits.mark(&code, frame, patch.path(side, code.file(frame), checkout))).collect();
        Self { code, of }
    }

    /// Whether a frame is in the line, package, function or class of an edit.
    pub(super) fn marks(&self, edit: usize) -> bool {
        let has = |mark: &FrameEdits| mark.scope == Some(edit) || mark.line.is_some_and(|line| line.edit == edit);
        self.of.iter().any(has)
    }

    /// Whether a stack has Python frames.
    pub(super) fn has_python(&self, stack: StackId) -> bool {
        self.code.python(stack).next().is_some()
    }

    /// The innermost edited line or package that a stack passes through.
    pub(super) fn line(&self, stack: StackId) -> Option<WayToEdit> {
        self.code.python(stack).find_map(|frame| self.of[frame.index()].line)
    }

    /// The innermost frame of a stack that is in the line or package of an edit, in words.
    pub(super) fn frame(&self, stack: StackId, edit: usize) -> Option<String> {
        let is_of = |frame: &FrameId| self.of[frame.index()].line.is_some_and(|way| way.edit == edit);
        self.code.python(stack).find(is_of).map(|frame| self.code.text(frame))
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
            for edit in [mark.line.map(|line| line.edit), mark.scope].into_iter().flatten() {
                if !all.contains(&edit) {
                    all.push(edit);
                }
            }
        }
        all
    }
}

/// The edits of one side, by what a frame names of them.
struct EditsOfSide<'e> {
    side: Side,
    /// Those of each file.
    files: FxHashMap<&'e str, Vec<(usize, &'e Edit)>>,
    /// Those of each package, by the name that it is imported by.
    packages: FxHashMap<String, usize>,
    /// Files and submodules whose lines are not read.
    whole: FxHashMap<&'e str, usize>,
}

impl<'e> EditsOfSide<'e> {
    fn new(side: Side, edits: &'e [Edit]) -> Self {
        let mut all =
            Self { side, files: FxHashMap::default(), packages: FxHashMap::default(), whole: FxHashMap::default() };
        for (index, edit) in edits.iter().enumerate() {
            if let Some(path) = edit.whole_file() {
                all.whole.entry(path).or_insert(index);
            } else if let Some(path) = edit.path.of(side) {
                all.files.entry(path).or_default().push((index, edit));
            }
            if let EditKind::Dependency(name, _) = &edit.kind {
                all.packages.entry(normal(name)).or_insert(index);
            }
        }
        all
    }

    /// The edits of a frame, given the path of its file in the checkout.
    fn mark(&self, code: &SnapshotCode<'_>, frame: FrameId, path: Option<&str>) -> FrameEdits {
        if code.owner(frame) == Owner::Library {
            let package = code.path(frame).split('/').next().map(normal).unwrap_or_default();
            let edit = self.packages.get(&package).copied();
            return FrameEdits { line: edit.map(|edit| WayToEdit::new(edit, EditEvidence::Package)), scope: None };
        }
        if let Some(edit) = self.whole_around(code.path(frame)) {
            return FrameEdits { line: Some(WayToEdit::new(edit, EditEvidence::Package)), scope: None };
        }
        let of_file = path.and_then(|path| self.files.get(path));
        let (Some(line), Some(of_file)) = (code.line(frame), of_file) else { return FrameEdits::default() };
        let mut lines: Option<(u32, usize, usize)> = None;
        let mut scopes: Option<(u32, bool, usize)> = None;
        for &(index, edit) in of_file {
            for (at, edited) in edit.statements.of(self.side).iter().enumerate() {
                let found = (edited.lines.end() - edited.lines.start(), index, at);
                if edited.lines.contains(&line) {
                    lines = lines.filter(|&least| least <= found).or(Some(found));
                }
            }
            let body =
                edit.body.of(self.side).as_ref().filter(|body| body.contains(&line) && edit.kind == EditKind::Code);
            if let Some(body) = body {
                let found = (body.end() - body.start(), !edit.may_keep(), index);
                scopes = scopes.filter(|&least| least <= found).or(Some(found));
            }
        }
        let line =
            lines.map(|(_, edit, statement)| WayToEdit { edit, how: EditEvidence::Line, statement: Some(statement) });
        FrameEdits { line, scope: scopes.map(|(_, _, edit)| edit) }
    }

    /// The archive, notebook or submodule that a path lies in, or which it is.
    fn whole_around(&self, path: &str) -> Option<usize> {
        let mut ends = path.match_indices(['/', ' ']).map(|(end, _)| end).chain([path.len()]);
        ends.find_map(|end| self.whole.get(&path[..end])).copied()
    }
}

/// The name of a package as it is imported.
fn normal(name: &str) -> String {
    name.to_ascii_lowercase().replace('-', "_")
}

//! The edits that the frames of one side pass through.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use ptmem_base::sides::Side;
use ptmem_snapshot::snapshot::{FrameId, StackId};
use ptmem_trace::profile::Profile;
use ptmem_trace::stack::{Owner, SnapshotCode};
use rustc_hash::{FxHashMap, FxHashSet};

use super::innermost::Innermost;
use super::share::{EditEvidence, WayToEdit};
use crate::patch::{Edit, EditKind, Patch};

/// The edits of a frame, as indices.
#[derive(Debug, Clone, Copy, Default)]
struct FrameEdits {
    /// The edit of its line or package.
    line: Option<WayToEdit>,
    /// The edit by which a graph of its line is recorded now.
    graph: Option<WayToEdit>,
    /// The edit of the function or class around it.
    scope: Option<usize>,
    /// The last edit of that above the line of the frame.
    above: Option<usize>,
}

/// The edits of every frame of one side.
pub(super) struct Marks<'p> {
    code: SnapshotCode<'p>,
    of: Vec<FrameEdits>,
    /// The edits that some frame has.
    marked: FxHashSet<usize>,
    /// Those among them that may keep something: a package may do anything.
    keepers: FxHashSet<usize>,
}

impl<'p> Marks<'p> {
    pub(super) fn new(
        profile: &'p Profile,
        side: Side,
        all: &[Edit],
        patch: &Patch,
        checkout: &BTreeMap<String, String>,
    ) -> Self {
        let code = profile.code();
        let edits = EditsOfSide::new(side, all);
        let paths = code.of_files(|file| patch.path(side, file, checkout)).into_iter().enumerate();
        let mark = |(frame, path)| edits.mark(&code, FrameId::from_index(frame), path);
        let of: Vec<FrameEdits> = paths.map(mark).collect();
        let marked: FxHashSet<usize> =
            of.iter().flat_map(|mark| mark.line.map(|line| line.edit).into_iter().chain(mark.scope)).collect();
        let keepers = marked.iter().copied().filter(|&edit| all[edit].may_keep() || all[edit].is_unread());
        let keepers = keepers.collect();
        Self { code, of, marked, keepers }
    }

    /// Whether a frame is in the line, package, function or class of an edit.
    pub(super) fn marks(&self, edit: usize) -> bool {
        self.marked.contains(&edit)
    }

    /// Whether a stack has Python frames.
    pub(super) fn has_python(&self, stack: StackId) -> bool {
        self.code.python(stack).next().is_some()
    }

    /// The innermost edited line or package that a stack passes through.
    pub(super) fn line(&self, stack: StackId) -> Option<WayToEdit> {
        self.code.python(stack).find_map(|frame| self.of[frame.index()].line)
    }

    /// The innermost edit that removes what switched gradients off around a stack.
    pub(super) fn graph(&self, stack: StackId) -> Option<WayToEdit> {
        self.code.python(stack).find_map(|frame| self.of[frame.index()].graph)
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

    /// The next edit above the line that a stack passes through, of the innermost function or class that has one.
    pub(super) fn above(&self, stack: StackId) -> Option<usize> {
        self.code.python(stack).find_map(|frame| self.of[frame.index()].above)
    }

    /// The innermost edited line or package that a stack passes through, or else the innermost edited function or class.
    pub(super) fn edit(&self, stack: StackId) -> Option<usize> {
        self.line(stack).map(|way| way.edit).or_else(|| self.scope(stack))
    }

    /// The innermost edit which may keep something whose line, package, function or class it passes through, or else the innermost
    /// one: all stacks pass through the outermost function.
    pub(super) fn keeper(&self, stack: StackId, edits: &[Edit]) -> Option<usize> {
        let frames = self.code.python(stack).map(|frame| self.of[frame.index()]);
        let all = frames.flat_map(|mark| [mark.line.map(|line| line.edit), mark.scope].into_iter().flatten());
        let mut all = all.filter(|edit| edits[*edit].kind != EditKind::Log);
        let innermost = all.next()?;
        let keeper = std::iter::once(innermost).chain(all).find(|edit| self.keepers.contains(edit));
        Some(keeper.unwrap_or(innermost))
    }
}

/// The edits of a file on one side, by its lines.
struct EditsOfFile {
    /// Their statements, the shortest first, and then those whose own text differs: the lines behind the first, whether it does not,
    /// the edit and the statement.
    lines: Innermost<(u32, bool, usize, usize)>,
    /// The statements of edits that remove what switches gradients off, the shortest first: the lines behind the first, the edit and
    /// the statement. Empty where the change switches them off as well, perhaps around the same code.
    graphs: Innermost<(u32, usize, usize)>,
    /// The functions and classes around those that may hold something, the shortest first, and then those that may keep it.
    scopes: Innermost<(u32, bool, usize)>,
    /// From each edit to the end of its function or class: those of the shortest one first, then the last, and then those that are
    /// on this line.
    below: Innermost<(u32, Reverse<u32>, bool, usize)>,
}

impl EditsOfFile {
    fn new(side: Side, edits: &[(usize, &Edit)], adds_no_grad: bool) -> Self {
        let length = |lines: &RangeInclusive<u32>| lines.end().saturating_sub(*lines.start());
        let lines = edits.iter().flat_map(|&(index, edit)| {
            let statements = edit.statements.of(side).iter().enumerate();
            statements.map(move |(at, edited)| {
                (edited.lines.clone(), (length(&edited.lines), edited.line.is_none(), index, at))
            })
        });
        let graphs = edits.iter().filter(|(_, edit)| edit.is_of_gradients() && !adds_no_grad);
        let graphs = graphs.flat_map(|&(index, edit)| {
            let statements = edit.statements.of(side).iter().enumerate();
            statements.map(move |(at, edited)| (edited.lines.clone(), (length(&edited.lines), index, at)))
        });
        let of_code = edits.iter().filter(|(_, edit)| edit.kind == EditKind::Code && !edit.holds_nothing());
        let scopes = of_code.clone().filter_map(|&(index, edit)| {
            let body = edit.body.of(side).clone()?;
            Some((body.clone(), (length(&body), !edit.may_keep(), index)))
        });
        let below = of_code.filter(|(_, edit)| edit.can_matter()).filter_map(|&(index, edit)| {
            let body = edit.body.of(side).clone()?;
            let own = edit.line.of(side).as_ref().map(|(line, _)| *line);
            let line = own.or(edit.near.filter(|_| side == Side::After))?;
            Some((line..=*body.end(), (length(&body), Reverse(line), own.is_none(), index)))
        });
        Self {
            lines: Innermost::new(lines),
            graphs: Innermost::new(graphs),
            scopes: Innermost::new(scopes),
            below: Innermost::new(below),
        }
    }
}

/// The edits of one side, by what a frame names of them.
struct EditsOfSide<'e> {
    /// Those of each file.
    files: FxHashMap<&'e str, EditsOfFile>,
    /// Those of each package, by the name that it is imported by.
    packages: FxHashMap<String, usize>,
    /// Files and submodules whose lines are not read.
    whole: FxHashMap<&'e str, usize>,
}

impl<'e> EditsOfSide<'e> {
    fn new(side: Side, edits: &'e [Edit]) -> Self {
        let mut all = Self { files: FxHashMap::default(), packages: FxHashMap::default(), whole: FxHashMap::default() };
        let mut files: FxHashMap<&str, Vec<(usize, &Edit)>> = FxHashMap::default();
        for (index, edit) in edits.iter().enumerate() {
            if let Some(path) = edit.whole_file() {
                all.whole.entry(path).or_insert(index);
            } else if let Some(path) = edit.path.of(side) {
                files.entry(path).or_default().push((index, edit));
            }
            if let EditKind::Dependency(name, _) = &edit.kind {
                all.packages.entry(normal(name)).or_insert(index);
            }
        }
        let adds_no_grad = edits.iter().any(Edit::adds_no_grad);
        let of_files = files.into_iter().map(|(path, edits)| (path, EditsOfFile::new(side, &edits, adds_no_grad)));
        all.files = of_files.collect();
        all
    }

    /// The edits of a frame, given the path of its file in the checkout.
    fn mark(&self, code: &SnapshotCode<'_>, frame: FrameId, path: Option<&str>) -> FrameEdits {
        if code.owner(frame) == Owner::Library {
            let package = code.path(frame).split('/').next().map(normal).unwrap_or_default();
            let edit = self.packages.get(&package).copied();
            let line = edit.map(|edit| WayToEdit::new(edit, EditEvidence::Package));
            return FrameEdits { line, ..FrameEdits::default() };
        }
        if let Some(edit) = self.whole_around(code.path(frame)) {
            return FrameEdits { line: Some(WayToEdit::new(edit, EditEvidence::Package)), ..FrameEdits::default() };
        }
        let of_file = path.and_then(|path| self.files.get(path));
        let (Some(line), Some(of_file)) = (code.line(frame), of_file) else { return FrameEdits::default() };
        let of_line = of_file.lines.around(line).map(|(_, _, edit, statement)| (edit, statement));
        let of_graph = of_file.graphs.around(line).map(|(_, edit, statement)| (edit, statement));
        let scope = of_file.scopes.around(line);
        let above = of_file.below.around(line).filter(|above| scope.is_some_and(|scope| scope.0 == above.0));
        FrameEdits {
            line: of_line.map(WayToEdit::of_line),
            graph: of_graph.map(WayToEdit::of_line),
            scope: scope.map(|(_, _, edit)| edit),
            above: above.map(|(.., edit)| edit),
        }
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

//! Questions about the frames and stacks of one snapshot: the owner of the code, its name, and the frames that identify
//! a stack.

use std::collections::BTreeSet;
use std::sync::Arc;

use ptmem_snapshot::snapshot::{FrameId, FunctionsOfFile, StackId, Tables};

use super::classify::Owner;
use super::facts::{Facts, FrameFacts, written};
use super::rules::Rules;
use super::token::{Digest, Lines, Token, legible};

/// The frames of a snapshot.
#[derive(Debug, Clone)]
pub struct SnapshotCode<'t> {
    pub(super) tables: &'t Tables,
    pub(super) facts: Arc<Facts>,
}

impl<'t> SnapshotCode<'t> {
    /// Looks at all frames of a snapshot, given the names of functions within their classes that are known.
    pub fn new(tables: &'t Tables, rules: &Rules, names: &[FunctionsOfFile]) -> Self {
        Self { tables, facts: Arc::new(Facts::new(tables, rules, names)) }
    }

    /// The same where the facts about the frames of these tables are known already.
    pub fn with(tables: &'t Tables, facts: &Arc<Facts>) -> Self {
        Self { tables, facts: Arc::clone(facts) }
    }

    /// The facts, for another look at the same tables.
    pub fn facts(&self) -> Arc<Facts> {
        Arc::clone(&self.facts)
    }

    /// The category of the user that a stack belongs to.
    pub(super) fn own_category(&self, stack: StackId) -> Option<&str> {
        let all = self.tables.stack(stack).iter().chain(self.tables.forward(stack));
        let first = all.filter_map(|frame| self.own_categories()[frame.index()]).min()?;
        self.facts.categories.get(first).map(|rule| &*rule.name)
    }

    /// For each frame, the first category of the user that matches it.
    fn own_categories(&self) -> &[Option<usize>] {
        self.facts.own_category.get_or_init(|| {
            let frames = (0..self.facts.frames.len()).map(FrameId::from_index);
            frames.map(|frame| self.own_category_of(frame)).collect()
        })
    }

    fn own_category_of(&self, frame: FrameId) -> Option<usize> {
        let rules = &self.facts.categories;
        rules.first()?;
        let texts = if self.owner(frame) == Owner::Cpp {
            // The operation alone: a saved profile keeps nothing else of C++ frames.
            let operation = self.known(frame).symbol.as_deref()?.operation()?;
            vec![format!("aten::{operation}"), operation.to_owned()]
        } else {
            let [plain, path] = [self.function(frame), self.path(frame)];
            vec![plain.to_owned(), path.to_owned(), self.text_at(frame, None), format!("{plain} ({path})")]
        };
        rules.iter().position(|rule| rule.matches(&texts))
    }

    /// For each category of the user, whether it is the first that matches some frame.
    pub fn used_categories(&self) -> Vec<bool> {
        let mut used = vec![false; self.facts.categories.len()];
        for category in self.own_categories().iter().flatten() {
            used[*category] = true;
        }
        used
    }

    /// The paths of all files, as the patterns of `own` and `foreign` see them.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.facts.files.iter().map(|file| &*file.path)
    }

    /// The tables that the frames come from.
    pub fn tables(&self) -> &'t Tables {
        self.tables
    }

    pub(super) fn known(&self, frame: FrameId) -> &FrameFacts {
        &self.facts.frames[frame.index()]
    }

    /// Whose code a frame is.
    pub fn owner(&self, frame: FrameId) -> Owner {
        self.known(frame).owner
    }

    /// The function of a frame, without its line.
    pub fn token(&self, frame: FrameId) -> Token {
        self.known(frame).token
    }

    /// All functions in Python, with the lines on which they call or allocate.
    pub fn lines(&self) -> Lines {
        let mut lines = Lines::default();
        for known in self.facts.frames.iter().filter(|known| known.owner != Owner::Cpp) {
            lines.entry(known.token).or_default().extend(known.line);
        }
        lines
    }

    /// The line of a frame, where the file says one.
    pub fn line(&self, frame: FrameId) -> Option<u32> {
        self.known(frame).line
    }

    /// The file of a frame as people see it, as much of it as anybody reads.
    pub fn path(&self, frame: FrameId) -> &str {
        legible(&self.facts.files[self.known(frame).file].shown)
    }

    /// The file of a frame as it was recorded, with `/` between its parts.
    pub fn file(&self, frame: FrameId) -> &str {
        &self.facts.files[self.known(frame).file].path
    }

    /// What `value` returns for the file of each frame: it is asked once for each file.
    pub fn of_files<T: Copy>(&self, value: impl FnMut(&str) -> T) -> Vec<T> {
        let of_files: Vec<T> = self.facts.files.iter().map(|file| &*file.path).map(value).collect();
        self.facts.frames.iter().map(|known| of_files[known.file]).collect()
    }

    /// The text of the file of a frame, where the recorder added it.
    pub fn source(&self, frame: FrameId) -> Option<&str> {
        self.tables.source(self.tables.frame(frame).filename)
    }

    /// The files of the user as people see them, each with the one that was recorded.
    pub fn shown_user_files(&self) -> impl Iterator<Item = (&str, &str)> {
        let users = self.facts.frames.iter().filter(|known| known.owner == Owner::User);
        let files: BTreeSet<usize> = users.map(|known| known.file).collect();
        files.into_iter().map(|file| &self.facts.files[file]).map(|file| (legible(&file.shown), &*file.path))
    }

    /// The innermost frame of the user.
    pub fn user_site(&self, stack: StackId) -> Option<FrameId> {
        self.innermost(stack, Owner::User)
    }

    /// The function of a frame, as much of it as anybody reads.
    pub fn function(&self, frame: FrameId) -> &'t str {
        legible(written(self.tables.string(self.tables.frame(frame).name)))
    }

    /// A frame as `function (path:line)`.
    pub fn text(&self, frame: FrameId) -> String {
        self.text_at(frame, self.line(frame))
    }

    /// A frame as `function (path:line)`, with another line, or without one and with the qualified name of the function, which
    /// says which `forward` of a file it is.
    pub fn text_at(&self, frame: FrameId, line: Option<u32>) -> String {
        let function = self.function(frame);
        let path = self.path(frame);
        let qualified = self.known(frame).qualified.map(|index| legible(&self.facts.qualified.items()[index]));
        match line {
            Some(line) => format!("{function} ({path}:{line})"),
            None => format!("{} ({path})", qualified.unwrap_or(function)),
        }
    }

    /// The innermost function of the user as `function (path)`: without a line and a class, so that it is the same on both sides
    /// of a comparison.
    pub fn function_label(&self, stack: StackId) -> String {
        let site = self.user_site(stack).or_else(|| self.site(stack));
        let label = site.map(|site| format!("{} ({})", self.function(site), self.path(site)));
        label.unwrap_or_else(|| self.label(stack))
    }

    /// The Python frames of a stack, innermost first. PyTorch's order is valid within a language only. Frames of the
    /// forward pass replace those of the backward pass, which has none; the source of generated code follows inside of
    /// it.
    pub fn python(&self, stack: StackId) -> impl Iterator<Item = FrameId> + Clone + '_ {
        let all = self.tables.stack(stack).iter().chain(self.tables.forward(stack)).copied();
        let all = all.flat_map(|frame| self.tables.frame(frame).original.into_iter().chain([frame]));
        all.filter(|&frame| self.owner(frame) != Owner::Cpp)
    }

    /// The C++ frames of a stack, innermost first.
    pub fn cpp(&self, stack: StackId) -> impl Iterator<Item = FrameId> + Clone + '_ {
        self.tables.stack(stack).iter().copied().filter(|&frame| self.owner(frame) == Owner::Cpp)
    }

    /// The Python frames that identify a stack, innermost first: those of user and library code, and PyTorch's frames
    /// inside all of them. In between, PyTorch only passes calls on, differently in every release.
    pub fn identifying_frames(&self, stack: StackId) -> Vec<FrameId> {
        let identifying = self.identifying(self.python(stack));
        if identifying.is_empty() { self.python(stack).collect() } else { identifying }
    }

    /// Those of some Python frames.
    pub(super) fn identifying(&self, frames: impl Iterator<Item = FrameId>) -> Vec<FrameId> {
        let mut inside = true;
        let mut identifying = Vec::new();
        for frame in frames {
            let known = self.known(frame);
            match known.owner {
                Owner::User | Owner::Library => {
                    inside = false;
                    identifying.push(frame);
                }
                // PyTorch walks nested modules by recursion, as deep as the user nests them.
                _ if inside && !known.passes_through => {
                    let again = identifying.last().is_some_and(|&last| self.token(last) == known.token);
                    identifying.extend((!again).then_some(frame));
                }
                _ => {}
            }
        }
        identifying
    }

    /// The same for people: of a notebook without the frames of its kernel, which are the same around every cell.
    pub fn shown_frames(&self, stack: StackId) -> Vec<FrameId> {
        let mut frames = self.identifying_frames(stack);
        let outermost = frames.iter().rposition(|&frame| self.facts.files[self.known(frame).file].is_cell);
        frames.truncate(outermost.map_or(frames.len(), |cell| cell + 1));
        frames
    }

    /// The functions that identify a stack, innermost first. Without a Python function, or if those are of the forward
    /// pass or of a checkpoint, the operation of the C++ frames is included.
    pub fn tokens(&self, stack: StackId) -> Vec<Token> {
        self.tokens_of(stack, &self.identifying_frames(stack))
    }

    /// The same where the identifying frames are known already.
    pub(super) fn tokens_of(&self, stack: StackId, identifying: &[FrameId]) -> Vec<Token> {
        if self.is_workspace(stack) {
            return self.operation(stack).tokens();
        }
        let python = identifying.iter().map(|&frame| self.token(frame));
        if identifying.is_empty() || !self.tables.forward(stack).is_empty() || self.checkpoint(stack).is_some() {
            return self.operation(stack).tokens().into_iter().chain(python).collect();
        }
        python.collect()
    }

    /// The frame to blame: the innermost one of user code, otherwise of a library, of PyTorch, or any. The backward
    /// pass of a compiled graph has none: its frames are the compiler's, which calls every graph in the same way. Nor has
    /// that of a checkpoint, whose frames are the same for every node, or the workspace of a cuBLAS handle: the first
    /// product gets it, whichever that is.
    pub fn site(&self, stack: StackId) -> Option<FrameId> {
        if self.is_compiled_backward(stack) || self.checkpoint(stack).is_some() || self.is_workspace(stack) {
            return None;
        }
        let owners = [Owner::User, Owner::Library, Owner::PyTorch].into_iter();
        let mut innermost = owners.filter_map(|owner| self.innermost(stack, owner));
        innermost.next().or_else(|| self.python(stack).next())
    }

    /// The innermost Python frame of an owner.
    fn innermost(&self, stack: StackId, owner: Owner) -> Option<FrameId> {
        self.python(stack).find(|&frame| self.owner(frame) == owner)
    }

    /// True for a frame that only passes calls on.
    pub(super) fn passes_through(&self, frame: FrameId) -> bool {
        self.known(frame).passes_through
    }

    pub(super) fn file_digest(&self, frame: FrameId) -> &Digest {
        &self.facts.files[self.known(frame).file].digest
    }
}

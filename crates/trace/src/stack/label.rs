//! Names of stacks for people: the line of the user, the library code that it calls, and the operator.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use ptmem_base::label::Label;
use ptmem_snapshot::snapshot::{FrameId, StackId};

use super::calls::COMPILED;
use super::classify::Owner;
use super::operator::Operation;
use super::{GroupBy, Grouper, Key, SnapshotCode};

/// A label in its parts: `backward: SITE > INSIDE OPERATION from CALLER`.
#[derive(Debug, Clone, Default)]
struct Name {
    is_backward: bool,
    /// The frame to blame; empty without Python frames.
    site: String,
    /// Frames inside of it, by the number of frames in between.
    inside: BTreeMap<usize, String>,
    /// The operator or autograd node, led by what separates it.
    operation: String,
    /// Frames that call it, innermost first.
    callers: Vec<String>,
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_backward { "backward: " } else { "" })?;
        f.write_str(&self.site)?;
        self.inside.values().try_for_each(|frame| write!(f, " > {frame}"))?;
        f.write_str(&self.operation)?;
        self.callers.iter().try_for_each(|caller| write!(f, " from {caller}"))
    }
}

impl SnapshotCode<'_> {
    /// The name of a stack: `function (path:line)` of the frame to blame, then ` > function (path:line)` of the library
    /// code that it calls, if any, and the operator where one is known; led by `backward` where autograd runs it.
    /// Without Python frames the C++ operation.
    #[must_use]
    pub fn label(&self, stack: StackId) -> String {
        self.name(stack).to_string()
    }

    /// The same in two parts.
    #[must_use]
    pub fn label_parts(&self, stack: StackId) -> Label {
        let name = self.name(stack);
        let operation = name.operation.clone();
        Label { place: Name { operation: String::new(), ..name }.to_string(), operation }
    }

    fn name(&self, stack: StackId) -> Name {
        let operation = self.operation(stack);
        let site = self.site(stack);
        let inside = match site {
            Some(site) => self.library_site(stack, site),
            None if self.is_compiled_backward(stack) => self.python(stack).find(|&frame| !self.passes_through(frame)),
            None => {
                let checkpoint = self.checkpoint(stack).filter(|_| !operation.is_workspace);
                let callers = checkpoint.map(|frame| self.checkpointed(frame)).into_iter().collect();
                return Name { operation: operation.label(), callers, ..Name::default() };
            }
        };
        let inside = inside.map(|frame| (self.depth(stack, site, frame), self.text_within(stack, frame)));
        // The node says more where the frames are those of the forward pass.
        let has_forward = !self.tables().forward(stack).is_empty();
        Name {
            is_backward: operation.backward || self.is_run_by_autograd(stack),
            site: site.map_or_else(|| COMPILED.to_owned(), |site| self.text_within(stack, site)),
            inside: inside.into_iter().collect(),
            operation: operation_of_python(&operation, has_forward),
            callers: Vec::new(),
        }
    }

    /// The innermost frame of a library below the frame to blame, where that is the user's: with the user's line alone,
    /// all stacks of a model that lives in a library would have one name.
    fn library_site(&self, stack: StackId, site: FrameId) -> Option<FrameId> {
        let is_user = self.owner(site) == Owner::User;
        let mut inside = self.python(stack).take_while(|&frame| frame != site);
        inside.find(|&frame| is_user && self.owner(frame) == Owner::Library)
    }

    /// The number of frames from one inside of the frame to blame up to that, or to the outermost one where there is
    /// none.
    fn depth(&self, stack: StackId, site: Option<FrameId>, inside: FrameId) -> usize {
        self.python(stack).take_while(|&frame| Some(frame) != site).skip_while(|&frame| frame != inside).count()
    }

    /// A frame as `function (path:line)`; of a lambda or a comprehension also the function around it.
    fn text_within(&self, stack: StackId, frame: FrameId) -> String {
        let text = self.text(frame);
        match self.function_around(stack, frame) {
            Some(around) => format!("{}.{text}", self.function(around)),
            None => text,
        }
    }

    /// The function around a lambda or a comprehension, where it is on the stack: of its callers in the same file the
    /// one whose line is nearest.
    fn function_around(&self, stack: StackId, frame: FrameId) -> Option<FrameId> {
        if !is_nested(self.function(frame)) {
            return None;
        }
        let line = self.line(frame)?;
        let outside = self.python(stack).skip_while(|&inside| inside != frame).skip(1);
        let around =
            outside.filter(|&caller| self.file(caller) == self.file(frame) && !is_nested(self.function(caller)));
        around.min_by_key(|&caller| self.line(caller).map_or(u32::MAX, |of_caller| of_caller.abs_diff(line)))
    }

    /// The frames that call the frame to blame, innermost first.
    fn callers_of_site(&self, stack: StackId) -> Vec<FrameId> {
        let site = self.site(stack).or_else(|| self.checkpoint(stack));
        let outside = self.python(stack).skip_while(|&frame| Some(frame) != site).skip(1);
        outside.filter(|&frame| matches!(self.owner(frame), Owner::User | Owner::Library)).collect()
    }

    /// The frames inside of the frame to blame, innermost first.
    fn inside_of_site(&self, stack: StackId) -> Vec<FrameId> {
        let site = self.site(stack);
        if site.is_none() && self.checkpoint(stack).is_some() {
            return Vec::new();
        }
        self.python(stack).take_while(|&frame| Some(frame) != site).collect()
    }
}

/// Functions without a name of their own.
fn is_nested(function: &str) -> bool {
    matches!(function, "<lambda>" | "<listcomp>" | "<setcomp>" | "<dictcomp>" | "<genexpr>")
}

/// The operation that follows Python frames.
fn operation_of_python(operation: &Operation<'_>, has_forward: bool) -> String {
    match operation.node.filter(|_| has_forward) {
        Some(node) => format!(" {node}"),
        None => operation.operators().map(|operators| format!(" {operators}")).unwrap_or_default(),
    }
}

/// A stack while its name is made different from others.
struct AlikeStack<'c> {
    code: &'c SnapshotCode<'c>,
    stack: StackId,
    name: Name,
    callers: Vec<FrameId>,
    inside: Vec<FrameId>,
}

impl<'c> AlikeStack<'c> {
    fn new(code: &'c SnapshotCode<'c>, stack: StackId) -> Self {
        let name = code.name(stack);
        Self { code, stack, name, callers: code.callers_of_site(stack), inside: code.inside_of_site(stack) }
    }

    /// A part of the stack as a text, where it has that part.
    fn text(&self, part: Distinction) -> Option<String> {
        let frame = match part {
            Distinction::Caller(depth) => *self.callers.get(depth)?,
            Distinction::Inside(depth) => *self.inside.get(depth)?,
            Distinction::Operation => {
                return self.name.site.is_empty().then(|| self.code.operation(self.stack).whole_label());
            }
        };
        Some(self.code.text_within(self.stack, frame))
    }

    fn add(&mut self, part: Distinction, text: String) {
        match part {
            Distinction::Caller(_) => self.name.callers.push(text),
            Distinction::Inside(depth) => {
                self.name.inside.insert(self.inside.len() - depth, text);
            }
            Distinction::Operation => self.name.operation = text,
        }
    }
}

/// A part of a stack that may distinguish it from others with the same label.
#[derive(Debug, Clone, Copy)]
enum Distinction {
    /// A frame that calls the one to blame, the innermost first.
    Caller(usize),
    /// A frame inside of the one to blame, the innermost first.
    Inside(usize),
    /// The operation with both the node and the operator, which a name without Python frames shortens.
    Operation,
}

/// Distinguishes stacks with one label by the first frames in which they differ: their callers, otherwise their
/// callees. Stacks with equal frames are numbered. Returns a label for each.
pub(super) fn distinct_labels(label: &str, stacks: &[(&Grouper<'_>, StackId)]) -> Vec<String> {
    let mut labels = vec![label.to_owned(); stacks.len()];
    if stacks.iter().all(|(grouper, _)| matches!(grouper.by(), GroupBy::Stack | GroupBy::Frames)) {
        let mut alike: Vec<_> = stacks.iter().map(|(grouper, stack)| AlikeStack::new(grouper.code(), *stack)).collect();
        let most_callers = alike.iter().map(|one| one.callers.len()).max().unwrap_or(0);
        let most_inside = alike.iter().map(|one| one.inside.len()).max().unwrap_or(0);
        let mut groups = vec![(0..alike.len()).collect()];
        let frames = (0..most_callers).map(Distinction::Caller).chain((0..most_inside).map(Distinction::Inside));
        for part in frames.chain([Distinction::Operation]) {
            groups = split(&mut alike, groups, part);
        }
        labels = alike.iter().map(|one| one.name.to_string()).collect();
    }
    number(&mut labels);
    labels
}

/// Gives distinct labels to things that share one: readers and limits identify rows by their labels. `stack` returns
/// the key and the stack of a thing that has one.
pub fn tell_apart<'g, T>(
    all: &mut [T],
    label: impl Fn(&mut T) -> &mut String,
    stack: impl Fn(&T) -> Option<(Key, &'g Grouper<'g>, StackId)>,
) {
    let mut by_label: BTreeMap<String, Vec<(Key, usize)>> = BTreeMap::new();
    for (index, one) in all.iter_mut().enumerate() {
        if let Some((key, ..)) = stack(one) {
            by_label.entry(label(one).clone()).or_default().push((key, index));
        }
    }
    for (shared, mut alike) in by_label.into_iter().filter(|(_, alike)| alike.len() > 1) {
        alike.sort_unstable();
        let stacks = alike.iter().filter_map(|(_, index)| stack(&all[*index]));
        let stacks: Vec<_> = stacks.map(|(_, grouper, stack)| (grouper, stack)).collect();
        for ((_, index), distinct) in alike.iter().zip(distinct_labels(&shared, &stacks)) {
            *label(&mut all[*index]) = distinct;
        }
    }
}

/// Adds a text to the names that are still the same, where they differ in it. Returns the groups, by index, of those
/// that are the same afterwards.
fn split(alike: &mut [AlikeStack<'_>], groups: Vec<Vec<usize>>, part: Distinction) -> Vec<Vec<usize>> {
    let mut left = Vec::new();
    for group in groups {
        let mut by_text: BTreeMap<Option<String>, Vec<usize>> = BTreeMap::new();
        for &index in &group {
            by_text.entry(alike[index].text(part)).or_default().push(index);
        }
        if by_text.len() == 1 {
            left.push(group);
            continue;
        }
        for (text, indices) in by_text {
            if let Some(text) = text {
                indices.iter().for_each(|&index| alike[index].add(part, text.clone()));
            }
            left.extend((indices.len() > 1).then_some(indices));
        }
    }
    left
}

/// Numbers labels that are the same: the first keeps its own.
pub(crate) fn number(labels: &mut [String]) {
    let mut seen: HashMap<String, usize> = HashMap::new();
    for label in labels {
        let count = seen.entry(label.clone()).or_default();
        *count += 1;
        if *count > 1 {
            label.push_str(&format!(" #{count}"));
        }
    }
}

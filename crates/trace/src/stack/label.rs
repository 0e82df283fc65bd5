//! Names of stacks for people: the line of the user, the library code that it calls, and the operator.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use ptmem_base::label::Label;
use ptmem_snapshot::snapshot::{FrameId, StackId};

use super::calls::COMPILED;
use super::classify::Owner;
use super::operator::Operation;
use super::token::UNNAMED;
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
    pub fn label(&self, stack: StackId) -> String {
        self.name(stack).to_string()
    }

    /// The same in two parts.
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
        if !UNNAMED.contains(&self.function(frame)) {
            return None;
        }
        let line = self.line(frame)?;
        let outside = self.python(stack).skip_while(|&inside| inside != frame).skip(1);
        let around = outside
            .filter(|&caller| self.file(caller) == self.file(frame) && !UNNAMED.contains(&self.function(caller)));
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

/// The operation that follows Python frames.
fn operation_of_python(operation: &Operation<'_>, has_forward: bool) -> String {
    match operation.node.filter(|_| has_forward) {
        Some(node) => format!(" {node}"),
        None => operation.operators().map(|operators| format!(" {operators}")).unwrap_or_default(),
    }
}

/// The longest part of a label that distinguishes it, in bytes: with more, labels are numbered. Otherwise the labels of nested
/// calls, each one deeper than the last, take memory with the square of their number.
const MOST_DISTINGUISHING: usize = 512;

/// The most frames of a stack, of its callers and inside of them, that are looked at to distinguish its label.
const DEEPEST: usize = 256;

/// A stack while its name is made different from others.
struct AlikeStack<'c> {
    code: &'c SnapshotCode<'c>,
    stack: StackId,
    callers: Vec<FrameId>,
    inside: Vec<FrameId>,
    /// The parts that distinguish it.
    parts: Vec<Distinction>,
}

impl<'c> AlikeStack<'c> {
    fn new(code: &'c SnapshotCode<'c>, stack: StackId) -> Self {
        let parts = Vec::new();
        Self { code, stack, callers: code.callers_of_site(stack), inside: code.inside_of_site(stack), parts }
    }

    fn frame(&self, part: Distinction) -> Option<FrameId> {
        match part {
            Distinction::Caller(depth) => self.callers.get(depth).copied(),
            Distinction::Inside(depth) => self.inside.get(depth).copied(),
            Distinction::Operation => None,
        }
    }

    /// A part of the stack as a text, where it has that part.
    fn text(&self, part: Distinction) -> Option<String> {
        if matches!(part, Distinction::Operation) {
            let has_site = !self.code.name(self.stack).site.is_empty();
            return (!has_site).then(|| self.code.operation(self.stack).whole_label());
        }
        self.frame(part).map(|frame| self.code.text_within(self.stack, frame))
    }

    /// True if a part is the same text as that of another stack without a look at the texts. The function around a lambda
    /// may differ.
    fn shares(&self, other: &Self, part: Distinction) -> bool {
        let frame = self.frame(part);
        std::ptr::eq(self.code, other.code)
            && frame.is_some_and(|frame| !UNNAMED.contains(&self.code.function(frame)))
            && frame == other.frame(part)
    }

    /// The name with the parts that distinguish it.
    fn label(&self) -> String {
        let mut name = self.code.name(self.stack);
        for &part in &self.parts {
            let text = self.text(part).unwrap_or_default();
            match part {
                Distinction::Caller(_) => name.callers.push(text),
                Distinction::Inside(depth) => {
                    name.inside.insert(self.inside.len() - depth, text);
                }
                Distinction::Operation => name.operation = text,
            }
        }
        name.to_string()
    }
}

/// Stacks with names that are the same so far.
struct AlikeGroup {
    /// Indices of the stacks.
    stacks: Vec<usize>,
    /// The length of the parts that distinguish them from others.
    distinguishing: usize,
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
        let mut groups = vec![AlikeGroup { stacks: (0..alike.len()).collect(), distinguishing: 0 }];
        let callers = (0..most_callers.min(DEEPEST)).map(Distinction::Caller);
        let frames = callers.chain((0..most_inside.min(DEEPEST)).map(Distinction::Inside));
        for part in frames.chain([Distinction::Operation]) {
            groups = split(&mut alike, groups, part);
        }
        labels = alike.iter().map(AlikeStack::label).collect();
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

/// Adds a part to the names that are still the same, where they differ in it. Returns the groups of those that are the
/// same afterwards, and may become longer.
fn split(alike: &mut [AlikeStack<'_>], groups: Vec<AlikeGroup>, part: Distinction) -> Vec<AlikeGroup> {
    let mut left = Vec::new();
    for group in groups {
        let first = &alike[group.stacks[0]];
        if group.stacks.iter().all(|&index| alike[index].shares(first, part)) {
            left.push(group);
            continue;
        }
        let mut by_text: BTreeMap<Option<String>, Vec<usize>> = BTreeMap::new();
        for &index in &group.stacks {
            by_text.entry(alike[index].text(part)).or_default().push(index);
        }
        if by_text.len() == 1 {
            left.push(group);
            continue;
        }
        for (text, stacks) in by_text {
            if text.is_some() {
                stacks.iter().for_each(|&index| alike[index].parts.push(part));
            }
            let distinguishing = group.distinguishing + text.map_or(0, |text| text.len());
            let may_grow = stacks.len() > 1 && distinguishing < MOST_DISTINGUISHING;
            left.extend(may_grow.then_some(AlikeGroup { stacks, distinguishing }));
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

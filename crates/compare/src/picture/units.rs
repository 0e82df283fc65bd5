//! The units of a picture: each stack of a single snapshot, and in a comparison the stacks that are the same on both
//! sides.

use std::collections::HashMap;

use super::Pictured;
use crate::sides::{Side, Sides};
use crate::snapshot::StackId;
use crate::stack::{Code, GroupBy, Grouper};
use crate::trace::{ClassTags, Origin};
use crate::tree::{self, Frame, module_frames};

/// The stacks of one or both sides, numbered as they come.
pub(super) struct Units<'p> {
    groupers: Sides<Option<Grouper<'p>>>,
    /// Whether frames that only pass calls on are shown.
    internals: bool,
    /// Whether stacks with the same key, which holds for both sides, are one unit.
    by_key: bool,
    /// Keys of the before whose group has another key in the after, since its code changed.
    moved: HashMap<String, String>,
    of_key: HashMap<String, u32>,
    of_stack: Sides<HashMap<StackId, u32>>,
    /// Where the frames of each unit are found: together they can take far more than the file.
    paths: Vec<Path>,
}

/// The way to the frames of a unit.
enum Path {
    Stack(Side, StackId),
    /// Memory that has only a name.
    Named(String),
    /// A module, within those that it is part of.
    Module(String),
}

impl<'p> Units<'p> {
    /// No units yet, and the rules that distinguish them.
    pub(super) fn new(pictured: &Pictured<'p>) -> Self {
        let groupers = pictured.profiles.map(|profile| profile.map(crate::profile::Profile::grouper));
        let mut units = Self {
            internals: pictured.internals,
            by_key: pictured.rows.is_some(),
            groupers,
            moved: HashMap::new(),
            of_key: HashMap::new(),
            of_stack: Sides::default(),
            paths: Vec::new(),
        };
        for row in pictured.rows.unwrap_or_default() {
            let (Some(before), Some(after)) = (row.stack.before, row.stack.after) else { continue };
            if let Some((before, after)) = units.key(Side::Before, before).zip(units.key(Side::After, after))
                && before != after
            {
                units.moved.insert(before, after);
            }
        }
        // A row is called after its stack in the after: so is its place in the picture.
        let is_by_module = units.groupers.after.as_ref().is_some_and(|grouper| grouper.by() == GroupBy::Module);
        for row in pictured.rows.unwrap_or_default().iter().filter(|_| !is_by_module) {
            match (row.stack.after, row.stack.before) {
                (Some(stack), _) => _ = units.of_stack(Side::After, stack),
                (None, Some(stack)) => _ = units.of_stack(Side::Before, stack),
                (None, None) => {}
            }
        }
        units
    }

    /// The key of a group; `None` where frames alone do not distinguish groups.
    fn key(&self, side: Side, stack: StackId) -> Option<String> {
        let grouper = self.groupers.of(side).as_ref()?;
        (!grouper.by().is_tag()).then(|| grouper.key(stack).0)
    }

    /// The number of the unit that memory belongs to: its module where they are what is grouped by, else its stack.
    pub(super) fn of(&mut self, side: Side, owner: Origin, tags: ClassTags) -> u32 {
        if let Some(label) = self.module(side, tags) {
            return self.named(label.clone(), Path::Module(label));
        }
        match owner {
            Origin::Stack(stack) => self.of_stack(side, stack),
            Origin::Bucket(bucket) => self.of_label(bucket.label()),
        }
    }

    /// The label of the module of some memory, where modules are what is grouped by.
    fn module(&self, side: Side, tags: ClassTags) -> Option<String> {
        let grouper = self.groupers.of(side).as_ref().filter(|grouper| grouper.by() == GroupBy::Module)?;
        Some(grouper.tagged(tags.module).1)
    }

    pub(super) fn of_stack(&mut self, side: Side, stack: StackId) -> u32 {
        if let Some(&unit) = self.of_stack.of(side).get(&stack) {
            return unit;
        }
        let unit = self.of_new_stack(side, stack);
        self.of_stack.of_mut(side).insert(stack, unit);
        unit
    }

    fn of_new_stack(&mut self, side: Side, stack: StackId) -> u32 {
        let path = Path::Stack(side, stack);
        let Some(key) = self.by_key.then(|| self.key(side, stack)).flatten() else { return self.push(path) };
        let key = if side == Side::Before { self.moved.get(&key).cloned().unwrap_or(key) } else { key };
        self.named(key, path)
    }

    fn code(&self, side: Side) -> Option<&Code<'p>> {
        self.groupers.of(side).as_ref().map(Grouper::code)
    }

    fn named(&mut self, key: String, path: Path) -> u32 {
        if let Some(&unit) = self.of_key.get(&key) {
            return unit;
        }
        let unit = self.push(path);
        self.of_key.insert(key, unit);
        unit
    }

    /// The unit of memory without a stack, or of a row that sums several others.
    pub(super) fn of_label(&mut self, label: &str) -> u32 {
        self.named(label.to_owned(), Path::Named(label.to_owned()))
    }

    fn push(&mut self, path: Path) -> u32 {
        self.paths.push(path);
        u32::try_from(self.paths.len() - 1).unwrap_or(u32::MAX)
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.paths.len()
    }

    /// The frames of a unit, the outermost first.
    pub(super) fn frames(&self, unit: u32) -> Vec<Frame> {
        match &self.paths[unit as usize] {
            Path::Stack(side, stack) => {
                let code = self.code(*side);
                code.map(|code| tree::frames_with(code, *stack, self.internals)).unwrap_or_default()
            }
            Path::Named(name) => vec![Frame::named(name)],
            Path::Module(path) => module_frames(path),
        }
    }
}

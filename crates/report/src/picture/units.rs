//! The units of a picture: each stack of a single snapshot, and in a comparison the stacks that are the same on both
//! sides.

use std::collections::HashMap;

use ptmem_base::sides::{Side, Sides};
use ptmem_compare::diff::Row;
use ptmem_compare::tree::{self, CallFrame, module_frames};
use ptmem_snapshot::snapshot::StackId;
use ptmem_trace::profile::Profile;
use ptmem_trace::stack::{GroupBy, Grouper};
use ptmem_trace::trace::{ClassTags, Origin};

use super::pictured::Pictured;

/// The stacks of one or both sides, numbered as they come.
pub(super) struct Units<'p> {
    pub(super) groupers: Sides<Option<Grouper<'p>>>,
    /// Whether frames that only pass calls on are shown.
    internals: bool,
    /// Whether stacks with the same key, which holds for both sides, are one unit.
    by_key: bool,
    /// Whether memory of the same module is one unit.
    by_module: bool,
    /// Keys of the before whose group has another key in the after, since its code changed.
    moved: HashMap<String, String>,
    of_key: HashMap<String, u32>,
    of_stack: HashMap<(Side, StackId), u32>,
    /// Where the frames of each unit are found: together they can take far more than the file.
    paths: Vec<Path>,
}

/// The way to the frames of a unit.
enum Path {
    Stack(Side, StackId),
    /// Memory that has only a name: a module, within those that it is part of, where these are the units.
    Named(String),
}

impl<'p> Units<'p> {
    /// No units yet but those of the rows, and the rules that distinguish them.
    pub(super) fn new(pictured: &Pictured<'p>) -> Self {
        let groupers = pictured.profiles.map(|profile| profile.map(Profile::grouper));
        let mut units = Self {
            internals: pictured.internals,
            by_key: pictured.rows.is_some(),
            by_module: groupers.after.as_ref().is_some_and(|grouper| grouper.by() == GroupBy::Module),
            groupers,
            moved: HashMap::new(),
            of_key: HashMap::new(),
            of_stack: HashMap::new(),
            paths: Vec::new(),
        };
        let rows = pictured.rows.filter(|_| !units.by_module).unwrap_or_default();
        for row in rows {
            let keys = row.stack.each().map(|(side, stack)| units.key(side, (*stack)?));
            if let [Some(before), Some(after)] = keys
                && before != after
            {
                units.moved.insert(before, after);
            }
            // A row is called after its stack in the after: so is its place in the picture.
            if row.stack.after.or(row.stack.before).is_some() {
                units.of_row(row);
            }
        }
        units
    }

    /// The key of the group of a stack; `None` where each stack is a unit, or where frames alone do not distinguish groups.
    fn key(&self, side: Side, stack: StackId) -> Option<String> {
        let grouper = self.groupers.of(side).as_ref()?;
        (self.by_key && !grouper.by().is_tag()).then(|| grouper.key(stack).0)
    }

    /// The key in the after of a group of either side, where it is there.
    pub(super) fn shared<'k>(&'k self, side: Side, key: &'k str) -> &'k str {
        let moved = self.moved.get(key).filter(|_| side == Side::Before);
        moved.map_or(key, String::as_str)
    }

    /// The number of the unit that memory belongs to: its module when grouping by modules, otherwise its stack.
    pub(super) fn of(&mut self, side: Side, owner: Origin, tags: ClassTags) -> u32 {
        let grouper = self.groupers.of(side).as_ref().filter(|_| self.by_module);
        match (grouper.map(|grouper| grouper.tagged(tags.module).1), owner) {
            (Some(module), _) => self.of_label(&module),
            (None, Origin::Stack(stack)) => self.of_stack(side, stack),
            (None, Origin::Bucket(bucket)) => self.of_label(bucket.label()),
        }
    }

    pub(super) fn of_stack(&mut self, side: Side, stack: StackId) -> u32 {
        if let Some(&unit) = self.of_stack.get(&(side, stack)) {
            return unit;
        }
        let key = self.key(side, stack).map(|key| self.shared(side, &key).to_owned());
        let unit = self.number(key, Path::Stack(side, stack));
        self.of_stack.insert((side, stack), unit);
        unit
    }

    /// The unit of a row: that of its stack in the after, if it is there.
    pub(super) fn of_row(&mut self, row: &Row) -> u32 {
        match (row.stack.after, row.stack.before) {
            (Some(stack), _) => self.of_stack(Side::After, stack),
            (None, Some(stack)) => self.of_stack(Side::Before, stack),
            (None, None) => self.of_label(&row.label),
        }
    }

    /// The unit of memory without a stack, or of a row that sums several others.
    pub(super) fn of_label(&mut self, label: &str) -> u32 {
        self.number(Some(label.to_owned()), Path::Named(label.to_owned()))
    }

    /// The unit of a key, or a new one.
    fn number(&mut self, key: Option<String>, path: Path) -> u32 {
        let next = u32::try_from(self.paths.len()).unwrap_or(u32::MAX);
        let number = key.map_or(next, |key| *self.of_key.entry(key).or_insert(next));
        if number == next {
            self.paths.push(path);
        }
        number
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.paths.len()
    }

    /// The frames of a unit, the outermost first.
    pub(super) fn frames(&self, unit: usize) -> Vec<CallFrame> {
        match &self.paths[unit] {
            Path::Stack(side, stack) => {
                let grouper = self.groupers.of(*side).as_ref();
                grouper.map(|of| tree::frames(of.code(), *stack, self.internals)).unwrap_or_default()
            }
            Path::Named(path) if self.by_module => module_frames(path),
            Path::Named(name) => vec![CallFrame::named(name)],
        }
    }
}

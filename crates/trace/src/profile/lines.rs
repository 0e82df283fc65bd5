//! The lines that a group of stacks sums, where it is named after one of several.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::{GroupMember, Held, StackTotal};
use crate::stack::{GroupBy, Label, More, SnapshotCode};

/// One of the lines of a group, with its operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line<H> {
    /// Its label; in a comparison as in the after, where it exists there.
    pub label: String,
    /// Held at the moment of the list.
    pub held: H,
}

/// The lines that a group sums.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Lines<H> {
    /// Each line, the largest first; empty if there is only one.
    pub all: Vec<Line<H>>,
    /// The number of others, besides the one that the group is named after.
    pub more: More,
}

/// A line of one profile.
pub type HeldLine = Line<Held>;

/// The lines of a group of one profile.
pub type HeldLines = Lines<Held>;

impl<H: Default> Lines<H> {
    /// From what each line holds, the least by `order` first.
    pub fn new<O: Ord>(by_label: BTreeMap<Label, H>, order: fn(&H) -> O) -> Self {
        if by_label.len() <= 1 {
            return Self::default();
        }
        let more = More::of(by_label.keys());
        Self { all: lines_of(by_label, order), more }
    }
}

/// Lines by their labels, the least by `order` first.
pub fn lines_of<L: Ord + ToString, H, O: Ord>(held: BTreeMap<L, H>, order: fn(&H) -> O) -> Vec<Line<H>> {
    let lines = held.into_iter().map(|(label, held)| Line { label: label.to_string(), held });
    let mut lines: Vec<Line<H>> = lines.collect();
    lines.sort_by_key(|line| order(&line.held));
    lines
}

/// The order of lines of one profile: the largest first.
pub(super) fn largest_first(held: &Held) -> Reverse<Held> {
    Reverse(*held)
}

impl StackTotal {
    /// The number of modules that the group sums, where there are several.
    pub fn more_modules(&self) -> More {
        if self.modules > 1 { More::Modules(self.modules) } else { More::None }
    }

    /// The lines that hold something at the requested moment, where the grouping sums those of one function.
    pub fn lines(&self, by: GroupBy, code: &SnapshotCode<'_>) -> HeldLines {
        self.lines_by(by, code, |member| member.at)
    }

    /// The same at the moment whose bytes `held` reads.
    pub fn lines_by(&self, by: GroupBy, code: &SnapshotCode<'_>, held: fn(&GroupMember) -> Held) -> HeldLines {
        if by == GroupBy::Module {
            return HeldLines { more: self.more_modules(), ..HeldLines::default() };
        }
        let holding = self.members.iter().filter(|member| by == GroupBy::Stack && held(member).bytes > 0);
        let mut by_label: BTreeMap<Label, Held> = BTreeMap::new();
        for member in holding {
            *by_label.entry(code.label_parts(member.stack)).or_default() += held(member);
        }
        HeldLines::new(by_label, largest_first)
    }
}

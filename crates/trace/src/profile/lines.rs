//! The lines that a group of stacks sums, where it is named after one of several.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::{Held, Member, StackTotal};
use crate::stack::{Code, GroupBy, Label, More};

/// One of the lines of a group, with its operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldLine {
    /// Its label.
    pub label: String,
    /// Held at the moment of the list.
    pub held: Held,
}

/// The lines that a group sums.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HeldLines {
    /// Each of them, the largest first; none where there are not several.
    pub all: Vec<HeldLine>,
    /// How many there are beside the one that the group is named after.
    pub more: More,
}

impl StackTotal {
    /// The number of modules that the group sums, where there are several.
    pub fn more_modules(&self) -> More {
        if self.modules > 1 { More::Modules(self.modules) } else { More::None }
    }

    /// The lines that hold something at the moment that was asked for, where the grouping sums those of one function.
    #[must_use]
    pub fn lines(&self, by: GroupBy, code: &Code<'_>) -> HeldLines {
        self.lines_by(by, code, |member| member.at)
    }

    /// The same at the moment whose bytes `held` reads.
    #[must_use]
    pub fn lines_by(&self, by: GroupBy, code: &Code<'_>, held: fn(&Member) -> Held) -> HeldLines {
        if by == GroupBy::Module {
            return HeldLines { more: self.more_modules(), ..HeldLines::default() };
        }
        let holding = self.members.iter().filter(|member| by == GroupBy::Stack && held(member).bytes > 0);
        let mut by_label: BTreeMap<Label, Held> = BTreeMap::new();
        for member in holding {
            let sum = by_label.entry(code.label_parts(member.stack)).or_default();
            *sum = sum.plus(held(member));
        }
        if by_label.len() <= 1 {
            return HeldLines::default();
        }
        let more = More::of(by_label.keys());
        let all = lines_of(by_label);
        HeldLines { all, more }
    }
}

/// Lines by their labels, the largest first.
pub(super) fn lines_of<L: Ord + ToString>(held: BTreeMap<L, Held>) -> Vec<HeldLine> {
    let lines = held.into_iter().map(|(label, held)| HeldLine { label: label.to_string(), held });
    let mut lines: Vec<HeldLine> = lines.collect();
    lines.sort_by_key(|line| Reverse(line.held));
    lines
}

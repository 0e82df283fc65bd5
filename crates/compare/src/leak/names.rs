//! Names of leaks.

use crate::snapshot::StackId;
use crate::stack::{GroupBy, Grouper, Label, More};

/// Names of one leak that are listed beside the first.
const MOST_NAMES: usize = 4;

/// The names of the stacks that leak as one.
#[derive(Debug, Default)]
pub(super) struct Names {
    /// That of the leak: of its largest stack.
    pub(super) label: Option<String>,
    /// Those of other stacks, without repetition.
    pub(super) also: Vec<String>,
    /// How many lines or operators there are beside the first.
    pub(super) more: More,
}

impl Names {
    /// From the stacks, the largest first. Those of a tag go by its name.
    pub(super) fn new(grouper: &Grouper<'_>, stacks: &[StackId]) -> Self {
        if grouper.by().is_tag() {
            return Self::default();
        }
        let mut labels: Vec<String> = Vec::new();
        for label in stacks.iter().map(|&stack| grouper.label(stack)) {
            if labels.len() <= MOST_NAMES && !labels.contains(&label) {
                labels.push(label);
            }
        }
        let also = labels.split_off(labels.len().min(1));
        let parts: Vec<Label> = match grouper.by() {
            GroupBy::Stack => stacks.iter().map(|&stack| grouper.code().label_parts(stack)).collect(),
            _ => Vec::new(),
        };
        Self { label: labels.pop(), also, more: More::of(parts.iter()) }
    }
}

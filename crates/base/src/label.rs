//! The number of lines and operators that a row sums, besides the one that it is named after.

use std::collections::BTreeSet;
use std::fmt;

use crate::text::count;

/// The label of a stack in two parts.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Label {
    /// The frames that it names.
    pub place: String,
    /// The operator, after any part that distinguishes it; empty if unknown.
    pub operation: String,
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.place, self.operation)
    }
}

/// The number of further lines, or operators of one line, that a row sums. It follows the label without being part of
/// it: the number may change from commit to commit, and patterns match with and without it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum More {
    /// The row is one line with one operator.
    #[default]
    None,
    /// As many lines, whatever their operators.
    Lines(usize),
    /// As many operators of the same line.
    Operators(usize),
    /// The row is as many modules of one kind, all of them counted.
    Modules(usize),
}

impl More {
    /// From the labels that a row sums.
    pub fn of<'l>(labels: impl Iterator<Item = &'l Label> + Clone) -> Self {
        let places: BTreeSet<&str> = labels.clone().map(|label| &*label.place).collect();
        let operations: BTreeSet<&str> = labels.map(|label| &*label.operation).collect();
        match (places.len(), operations.len()) {
            (0 | 1, 0 | 1) => Self::None,
            (0 | 1, operations) => Self::Operators(operations - 1),
            (places, _) => Self::Lines(places - 1),
        }
    }
}

/// ` (+3 more lines)`, with a space before it; nothing where there are none.
impl fmt::Display for More {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => Ok(()),
            Self::Lines(number) => write!(f, " (+{})", count(*number as u64, LINE[0], LINE[1])),
            Self::Operators(number) => write!(f, " (+{})", count(*number as u64, OPERATOR[0], OPERATOR[1])),
            Self::Modules(number) => write!(f, " ({})", count(*number as u64, MODULE[0], MODULE[1])),
        }
    }
}

/// One further line, and several.
const LINE: [&str; 2] = ["more line", "more lines"];

/// One further operator, and several.
const OPERATOR: [&str; 2] = ["more operator", "more operators"];

/// One module, and several.
const MODULE: [&str; 2] = ["module", "modules"];

/// A label as it may be pasted, without the [`More`] behind it.
pub fn without_more(text: &str) -> &str {
    let Some((label, more)) = text.rsplit_once(" (") else { return text };
    let Some((number, noun)) = more.strip_suffix(')').and_then(|more| more.split_once(' ')) else { return text };
    let (number, nouns) = match number.strip_prefix('+') {
        Some(number) => (number, [LINE, OPERATOR].as_flattened()),
        None => (number, &MODULE[..]),
    };
    let is_number = !number.is_empty() && number.chars().all(|c| c.is_ascii_digit() || c == ',');
    if is_number && nouns.contains(&noun) { label } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn label(place: &str, operation: &str) -> Label {
        Label { place: place.to_owned(), operation: operation.to_owned() }
    }

    #[test]
    fn further_lines_and_operators_are_counted() {
        let cases: [(&[Label], &str); 4] = [
            (&[label("a", " aten::mm")], ""),
            (&[label("a", " aten::mm"), label("b", " aten::mm")], " (+1 more line)"),
            (&[label("a", ""), label("a", " aten::mm"), label("a", " aten::t")], " (+2 more operators)"),
            (&[label("a", ""), label("a", " aten::mm"), label("b", ""), label("c", "")], " (+2 more lines)"),
        ];
        for (labels, more) in cases {
            assert_eq!(More::of(labels.iter()).to_string(), more);
        }
    }

    #[test]
    fn a_pasted_label_loses_what_stands_behind_it() {
        for more in [More::Lines(1), More::Lines(1_234), More::Operators(2), More::Modules(24), More::None] {
            assert_eq!(without_more(&format!("forward (model.py:7) aten::mm{more}")), "forward (model.py:7) aten::mm");
        }
        for text in [
            "f (a.py:7)",
            "f (+x more lines)",
            "f (+1 more stack)",
            "f (24 layers)",
            "f (modules)",
            "f (+ more lines)",
            "f (+1 more line) x",
            "f (+1 more line",
        ] {
            assert_eq!(without_more(text), text);
        }
    }
}

//! The values of a report, with their types, and phrases made of them.
//!
//! A renderer asks a [`Value`] for its text with `to_string()`: one definition for every format. Only what a format
//! lays out in its own way (labels, standings, frames) it takes from the value itself.

use std::fmt;

use crate::diff::Kind;
use crate::sides::Sides;
use crate::stack::More;
use crate::text::{count, thousands};
use crate::tree::Frame;
use crate::units::{Delta, Size, format_percent, format_share};

use super::Mark;

/// One value: what a cell of a table holds.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    /// An empty cell.
    Nothing,
    /// A figure that cannot be known.
    Unknown,
    /// A figure of a device, rank or phase that is not there.
    Missing,
    /// Bytes.
    Size(u64),
    /// Bytes gained or lost.
    Change(i128),
    /// A change in percent of what was there before.
    Percent {
        /// Bytes gained.
        delta: i128,
        /// Bytes before.
        before: u64,
    },
    /// A part in percent of the whole.
    Share {
        /// Bytes of the part.
        part: u64,
        /// Bytes of the whole.
        whole: u64,
    },
    /// A number of things.
    Count(u64),
    /// A number of things before and after.
    Counts(Sides<u64>),
    /// A size before and after.
    Sizes(Sides<u64>),
    /// The number of an occurrence or a device, which is not counted in thousands.
    Number(u64),
    /// A number out of a total, as `10/12`.
    Tally {
        /// The number.
        part: u64,
        /// The total.
        whole: u64,
    },
    /// The lowest and the highest of several sizes.
    SizeRange(u64, u64),
    /// The lowest and the highest of several changes.
    ChangeRange(i128, i128),
    /// On how many ranks something is the same.
    Ranks {
        /// On how many.
        same: usize,
        /// Total number.
        of: usize,
    },
    /// The event after which a moment lies; none at the start of the recording.
    Event(Option<u32>),
    /// Events between a moment and what happened to several blocks.
    Distance(Distance),
    /// The bound of an error.
    Error(Exactness),
    /// The direction in which a stack changed.
    Direction {
        /// The direction.
        kind: Kind,
        /// Whether the code changed between both sides.
        moved: bool,
        /// True if it changed through lines that the change of the code touches.
        is_touched: bool,
    },
    /// The finding of the checks.
    Mark {
        /// Their finding.
        mark: Mark,
        /// The limit, where the row is about the figure that it limits.
        limit: Option<String>,
    },
    /// The name of a stack, a phase, a rank, a file.
    Label(Label),
    /// Frames that call one another, the outermost first.
    Frames(Vec<TreeFrame>),
    /// A text that is no figure.
    Text(String),
}

/// Events between a moment and what happened to several blocks, within the recording or outside of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Distance {
    /// The fewest; none where it happened to no block within the recording.
    pub(crate) nearest: Option<u64>,
    /// The most; none where it happened to some block outside of the recording.
    pub(crate) farthest: Option<u64>,
}

impl fmt::Display for Distance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.nearest, self.farthest) {
            (None, _) => f.write_str("not recorded"),
            (Some(nearest), None) => write!(f, "{} or more", count(nearest, "event", "events")),
            (Some(one), Some(other)) if one == other => f.write_str(&count(one, "event", "events")),
            (Some(nearest), Some(farthest)) => write!(f, "{} to {} events", thousands(nearest), thousands(farthest)),
        }
    }
}

/// The bound of the error of figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exactness {
    /// All of them are exact.
    Exact,
    /// The baseline alone may be off, by at most these bytes.
    Baseline(u64),
    /// All of them may be off, by at most these bytes.
    Within(u64),
    /// Nobody knows by how much.
    Unreliable,
}

/// A name from the input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Label {
    /// The name, as it came: a renderer escapes it.
    pub(crate) text: String,
    /// Its kind.
    pub(crate) kind: LabelKind,
    /// Number of lines and operators that a stack sums beside those of its name. They are no part of the name.
    pub(crate) more: More,
}

/// Kinds of names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LabelKind {
    /// A stack, a function, a phase, a path: code.
    Code,
    /// A device, a rank, a row for several others: words.
    Words,
}

/// A frame of a call tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TreeFrame {
    /// Function, file and line.
    pub(crate) frame: Frame,
    /// Whether it is what was searched for.
    pub(crate) marked: bool,
}

impl Value {
    /// The name of a stack, a function, a phase or a path.
    pub(crate) fn code(text: impl Into<String>) -> Self {
        Self::stack(text, More::default())
    }

    /// The name of a stack that sums further lines.
    pub(crate) fn stack(text: impl Into<String>, more: More) -> Self {
        Self::Label(Label { text: text.into(), kind: LabelKind::Code, more })
    }

    /// The name of a device or a rank, or of a row for several others.
    pub(crate) fn words(text: impl Into<String>) -> Self {
        Self::Label(Label { text: text.into(), kind: LabelKind::Words, more: More::default() })
    }

    /// Bytes, where they are known.
    pub(crate) fn size(bytes: Option<u64>) -> Self {
        bytes.map_or(Self::Unknown, Self::Size)
    }

    /// Bytes gained, where they are known.
    pub(crate) fn change(delta: Option<i128>) -> Self {
        delta.map_or(Self::Unknown, Self::Change)
    }

    /// The change in percent, where both are known.
    pub(crate) fn percent(delta: Option<i128>, before: Option<u64>) -> Self {
        match delta.zip(before) {
            Some((delta, before)) => Self::Percent { delta, before },
            None => Self::Nothing,
        }
    }

    /// The finding of the checks, where there are any.
    pub(crate) fn mark(mark: Option<Mark>) -> Self {
        mark.map_or(Self::Nothing, |mark| Self::Mark { mark, limit: None })
    }

    /// The text with an arrow between both sides, for formats that are not read in a terminal.
    pub(crate) fn with_arrow(&self) -> String {
        match self {
            Self::Counts(_) | Self::Sizes(_) => self.to_string().replace("->", "→"),
            _ => self.to_string(),
        }
    }

    /// The lowest and the highest of what is known of several changes.
    pub(crate) fn change_range(values: impl Iterator<Item = Option<i128>> + Clone) -> Self {
        match (values.clone().flatten().min(), values.flatten().max()) {
            (Some(lowest), Some(highest)) => Self::ChangeRange(lowest, highest),
            _ => Self::Unknown,
        }
    }

    /// The lowest and the highest of what is known of several sizes.
    pub(crate) fn size_range(values: impl Iterator<Item = Option<u64>> + Clone) -> Self {
        match (values.clone().flatten().min(), values.flatten().max()) {
            (Some(lowest), Some(highest)) => Self::SizeRange(lowest, highest),
            _ => Self::Unknown,
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing => Ok(()),
            Self::Unknown => f.write_str("unknown"),
            Self::Missing => f.write_str("missing"),
            Self::Size(bytes) => Size(*bytes).fmt(f),
            Self::Change(delta) => Delta(*delta).fmt(f),
            Self::Percent { delta, before } => f.write_str(&format_percent(*delta, *before).unwrap_or_default()),
            Self::Share { part, whole } => f.write_str(&format_share(*part, *whole).unwrap_or_default()),
            Self::Count(count) => f.write_str(&thousands(*count)),
            Self::Counts(Sides { before, after }) => pair(f, thousands(*before), thousands(*after), "->"),
            Self::Sizes(Sides { before, after }) => pair(f, Size(*before), Size(*after), "->"),
            Self::Number(number) => number.fmt(f),
            Self::Tally { part, whole } => write!(f, "{part}/{whole}"),
            Self::SizeRange(lowest, highest) => pair(f, Size(*lowest), Size(*highest), "to"),
            Self::ChangeRange(lowest, highest) => pair(f, Delta(*lowest), Delta(*highest), "to"),
            Self::Ranks { same: 0, .. } => Ok(()),
            Self::Ranks { same, of } if same == of => f.write_str("all"),
            Self::Ranks { same, of } => write!(f, "{same} of {of}"),
            Self::Event(None) => f.write_str("start"),
            Self::Event(Some(event)) => f.write_str(&thousands(u64::from(*event))),
            Self::Distance(distance) => distance.fmt(f),
            Self::Error(exactness) => exactness.fmt(f),
            Self::Direction { kind, moved, is_touched } => {
                f.write_str(if (*kind, *moved) == (Kind::Same, true) { "moved" } else { kind.name() })?;
                f.write_str(if *moved && *kind != Kind::Same { ", moved" } else { "" })?;
                f.write_str(if *is_touched { ", changed here" } else { "" })
            }
            Self::Mark { mark, .. } => f.write_str(mark.word()),
            Self::Label(label) => write!(f, "{}{}", label.text, label.more),
            Self::Frames(frames) => {
                let texts: Vec<_> = frames.iter().map(|frame| frame.frame.text()).collect();
                f.write_str(&texts.join(" > "))
            }
            Self::Text(text) => f.write_str(text),
        }
    }
}

/// Two values with a word between them, or one where both read the same.
fn pair<T: fmt::Display + PartialEq>(f: &mut fmt::Formatter<'_>, first: T, second: T, between: &str) -> fmt::Result {
    if first == second { write!(f, "{first}") } else { write!(f, "{first} {between} {second}") }
}

impl fmt::Display for Exactness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exact => Ok(()),
            Self::Baseline(error) => write!(f, "baseline ± {}", Size(*error)),
            Self::Within(error) => write!(f, "± {}", Size(*error)),
            Self::Unreliable => f.write_str("not reliable"),
        }
    }
}

/// Words and values in a row, such as `400 of 993.36 MiB in total`.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Phrase(pub(crate) Vec<Value>);

impl Phrase {
    /// Adds what follows.
    pub(crate) fn and(mut self, value: impl Into<Value>) -> Self {
        self.0.push(value.into());
        self
    }

    /// A number of things with its noun: `1 event`, `2 events`.
    pub(crate) fn count(number: u64, one: &str, many: &str) -> Self {
        let noun = if number == 1 { one } else { many };
        Self::from(Value::Count(number)).and(format!(" {noun}"))
    }
}

impl fmt::Display for Phrase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|value| value.fmt(f))
    }
}

impl<T: Into<Value>> From<T> for Phrase {
    fn from(value: T) -> Self {
        Self(vec![value.into()])
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_read_the_same_in_every_format() {
        let cases = [
            (Value::Nothing, ""),
            (Value::size(None), "unknown"),
            (Value::Size(1536), "1.50 KiB"),
            (Value::Change(-512), "-512 B"),
            (Value::percent(Some(5), Some(10)), "+50.0 %"),
            (Value::percent(Some(5), Some(0)), ""),
            (Value::percent(None, Some(1)), ""),
            (Value::Share { part: 1, whole: 4 }, "25.0 %"),
            (Value::Count(1_234), "1,234"),
            (Value::Number(1_234), "1234"),
            (Value::Counts(Sides { before: 3, after: 3 }), "3"),
            (Value::Counts(Sides { before: 0, after: 1_000 }), "0 -> 1,000"),
            (Value::Tally { part: 10, whole: 12 }, "10/12"),
            (Value::change_range([Some(-1), None, Some(2)].into_iter()), "-1 B to +2 B"),
            (Value::size_range([Some(7)].into_iter()), "7 B"),
            (Value::size_range([None].into_iter()), "unknown"),
            (Value::Ranks { same: 0, of: 4 }, ""),
            (Value::Ranks { same: 1, of: 4 }, "1 of 4"),
            (Value::Ranks { same: 4, of: 4 }, "all"),
            (Value::Event(None), "start"),
            (Value::Error(Exactness::Baseline(1)), "baseline ± 1 B"),
            (Value::Direction { kind: Kind::Grew, moved: false, is_touched: false }, "grew"),
            (Value::Direction { kind: Kind::Grew, moved: true, is_touched: true }, "grew, moved, changed here"),
            (Value::Direction { kind: Kind::Same, moved: true, is_touched: false }, "moved"),
            (Value::Distance(Distance { nearest: Some(1), farthest: Some(1_000) }), "1 to 1,000 events"),
            (Value::Distance(Distance { nearest: Some(1), farthest: None }), "1 event or more"),
            (Value::Distance(Distance { nearest: None, farthest: None }), "not recorded"),
        ];
        for (value, text) in cases {
            assert_eq!(value.to_string(), text, "{value:?}");
        }
        assert_eq!(Phrase::count(1, "event", "events").and(" in ").and(Value::Size(1)).to_string(), "1 event in 1 B");
    }
}

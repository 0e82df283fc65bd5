//! The values of a report, with their types.
//!
//! A renderer asks a [`Value`] for its text with `to_string()`: one definition for every format. Only what a format
//! lays out in its own way (labels, standings, frames) it takes from the value itself. A figure that formats only show is its
//! text, with its order.

use ptmem_judge::verdict::Mark;
use std::fmt;

use ptmem_base::sides::Sides;
use ptmem_base::text::thousands;
use ptmem_base::units::{Delta, Size, format_percent, format_share};
use ptmem_compare::tree::CallFrame;
use ptmem_trace::stack::More;

/// One value: the content of a table cell.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// An empty cell.
    Nothing,
    /// A figure that cannot be known.
    Unknown,
    /// Bytes.
    Size(u64),
    /// Bytes gained or lost.
    Change(i128),
    /// Any other figure.
    Figure {
        /// The figure as it is shown.
        text: String,
        /// The number by which rows are sorted.
        order: i128,
    },
    /// The finding of the checks.
    Mark {
        /// Their finding.
        mark: Mark,
        /// The limit, where the row is about the figure that it limits.
        limit: Option<String>,
    },
    /// The name of a stack, a phase, a rank, a file.
    Label(InputName),
    /// Frames that call one another, the outermost first.
    Frames(Vec<TreeFrame>),
}

/// A name from the input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InputName {
    /// The name, as it came: a renderer escapes it.
    pub(crate) text: String,
    /// Whether it is code: a stack, a function, a phase, a path. Else it is words: a device, a rank, a row for several others.
    pub(crate) is_code: bool,
    /// Number of further lines and operators that a stack sums. Not part of its name.
    pub(crate) more: More,
}

/// A frame of a call tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreeFrame {
    /// Function, file and line.
    pub(crate) frame: CallFrame,
    /// Whether it matches the search.
    pub(crate) marked: bool,
}

impl Value {
    /// The name of a stack, a function, a phase or a path.
    pub fn code(text: impl Into<String>) -> Self {
        Self::stack(text, More::default())
    }

    /// The name of a stack that sums further lines.
    pub fn stack(text: impl Into<String>, more: More) -> Self {
        Self::Label(InputName { text: text.into(), is_code: true, more })
    }

    /// The name of a device or a rank, or of a row for several others.
    pub fn words(text: impl Into<String>) -> Self {
        Self::Label(InputName { text: text.into(), is_code: false, more: More::default() })
    }

    /// Bytes, where they are known.
    pub fn size(bytes: Option<u64>) -> Self {
        bytes.map_or(Self::Unknown, Self::Size)
    }

    /// Bytes that may be off by an error.
    pub(crate) fn bounded(bytes: u64, error: u64) -> Self {
        if error == 0 {
            return Self::Size(bytes);
        }
        Self::figure(format!("{} ± {}", Size(bytes), Size(error)), bytes.into())
    }

    /// Bytes gained, where they are known.
    pub fn change(delta: Option<i128>) -> Self {
        delta.map_or(Self::Unknown, Self::Change)
    }

    /// A figure with its order, which may have no text.
    fn figure(text: impl Into<String>, order: i128) -> Self {
        Self::Figure { text: text.into(), order }
    }

    /// The change in percent of the earlier value, if both are known.
    pub fn percent(delta: Option<i128>, before: Option<u64>) -> Self {
        let percent = delta.zip(before).and_then(|(delta, before)| {
            let order = delta.checked_mul(1_000_000)?.checked_div(before.into())?;
            Some(Self::figure(format_percent(delta, before)?, order))
        });
        percent.unwrap_or(Self::Nothing)
    }

    /// A part in percent of the whole.
    pub fn share(part: u64, whole: u64) -> Self {
        format_share(part, whole).map_or(Self::Nothing, |text| Self::figure(text, part.into()))
    }

    /// A figure of a device, rank or phase that is not there.
    pub(crate) fn missing() -> Self {
        Self::words("missing")
    }

    /// A number of things.
    pub fn count(count: u64) -> Self {
        Self::figure(thousands(count), count.into())
    }

    /// The number of an occurrence or a device, which is not counted in thousands.
    pub(crate) fn number(number: u32) -> Self {
        Self::figure(number.to_string(), number.into())
    }

    /// A number of things before and after.
    pub(crate) fn counts(of: Sides<u64>) -> Self {
        Self::figure(pair(thousands(of.before), thousands(of.after), "->"), of.after.into())
    }

    /// A size before and after.
    pub(crate) fn sizes(of: Sides<u64>) -> Self {
        Self::figure(pair(Size(of.before), Size(of.after), "->"), of.after.into())
    }

    /// A number out of a total, as `10/12`.
    pub(crate) fn tally(part: usize, whole: usize) -> Self {
        Self::figure(format!("{part}/{whole}"), part as i128)
    }

    /// On how many ranks of all something is the same.
    pub(crate) fn ranks(same: usize, of: usize) -> Self {
        let text = match same {
            0 => String::new(),
            same if same == of => "all".to_owned(),
            same => format!("{same} of {of}"),
        };
        Self::figure(text, same as i128)
    }

    /// The event after which a moment lies; none at the start of the recording.
    pub(crate) fn event(event: Option<u32>) -> Self {
        event.map_or(Self::figure("start", -1), |event| Self::figure(thousands(event.into()), event.into()))
    }

    /// The finding of the checks, where there are any.
    pub(crate) fn mark(mark: Option<Mark>) -> Self {
        mark.map_or(Self::Nothing, |mark| Self::Mark { mark, limit: None })
    }

    /// The text with an arrow between both sides, for formats that are not read in a terminal.
    pub(crate) fn with_arrow(&self) -> String {
        match self {
            Self::Figure { text, .. } => arrows(text),
            _ => self.to_string(),
        }
    }

    /// The lowest and the highest of the known changes.
    pub(crate) fn change_range(values: impl Iterator<Item = Option<i128>>) -> Self {
        Self::range(values.flatten().map(|bytes| (bytes, Delta(bytes))))
    }

    /// The lowest and the highest of the known sizes.
    pub(crate) fn size_range(values: impl Iterator<Item = Option<u64>>) -> Self {
        Self::range(values.flatten().map(|bytes| (bytes.into(), Size(bytes))))
    }

    fn range<T: fmt::Display + PartialEq>(values: impl Iterator<Item = (i128, T)>) -> Self {
        let mut values: Vec<(i128, T)> = values.collect();
        values.sort_by_key(|(bytes, _)| *bytes);
        match (values.first(), values.last()) {
            (Some((_, lowest)), Some((order, highest))) => Self::figure(pair(lowest, highest, "to"), *order),
            _ => Self::Unknown,
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing => Ok(()),
            Self::Unknown => f.write_str("unknown"),
            Self::Size(bytes) => Size(*bytes).fmt(f),
            Self::Change(delta) => Delta(*delta).fmt(f),
            Self::Mark { mark, .. } => f.write_str(mark.word()),
            Self::Label(label) => write!(f, "{}{}", label.text, label.more),
            Self::Frames(frames) => {
                let texts: Vec<_> = frames.iter().map(|frame| frame.frame.text()).collect();
                f.write_str(&texts.join(" > "))
            }
            Self::Figure { text, .. } => f.write_str(text),
        }
    }
}

/// Two values with a word between them, or one where both are the same.
fn pair<T: fmt::Display + PartialEq>(first: T, second: T, between: &str) -> String {
    if first == second { first.to_string() } else { format!("{first} {between} {second}") }
}

/// A text that begins with a capital letter.
pub(crate) fn capitalized(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().into_iter().flat_map(char::to_uppercase).chain(letters).collect()
}

/// A text with arrows of one character, for formats that are not read in a terminal.
pub(crate) fn arrows(text: &str) -> String {
    text.replace(" -> ", " → ")
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
            (Value::share(1, 4), "25.0 %"),
            (Value::count(1_234), "1,234"),
            (Value::number(1_234), "1234"),
            (Value::counts(Sides { before: 3, after: 3 }), "3"),
            (Value::counts(Sides { before: 0, after: 1_000 }), "0 -> 1,000"),
            (Value::tally(10, 12), "10/12"),
            (Value::change_range([Some(-1), None, Some(2)].into_iter()), "-1 B to +2 B"),
            (Value::size_range([Some(7)].into_iter()), "7 B"),
            (Value::size_range([None].into_iter()), "unknown"),
            (Value::ranks(0, 4), ""),
            (Value::ranks(1, 4), "1 of 4"),
            (Value::ranks(4, 4), "all"),
            (Value::event(None), "start"),
        ];
        for (value, text) in cases {
            assert_eq!(value.to_string(), text, "{value:?}");
        }
    }
}

//! Tables: columns, rows of typed values, and what a row means.

use ptmem_judge::verdict::Mark;

use super::{StackLine, Value};
use crate::RenderOptions;
use crate::source::Site;

/// A table.
#[derive(Debug, Clone, Default)]
pub struct Table {
    /// Its title; `None` if the heading above is sufficient.
    pub(crate) title: Option<String>,
    /// The sum of all rows, beside the title; empty where there is none.
    pub(crate) total: String,
    /// The columns. The last one is the widest: a format shortens it where there is little room.
    pub(crate) columns: Vec<Column>,
    /// The rows.
    pub(crate) rows: Vec<RowOfCells>,
    /// The title of the irrelevant rows, see [`RowOfCells::aside`].
    pub(crate) aside: &'static str,
    /// A line below: rows that are left out, or the meaning of a column.
    pub below: Option<String>,
    /// Whether a terminal shows the frames of rows too, and Markdown in the open.
    pub(crate) explains: bool,
    /// The number of rows whose frames are omitted.
    pub(crate) without_frames: usize,
}

/// A column.
#[derive(Debug, Clone, Default)]
pub struct Column {
    /// Its head.
    pub(crate) head: String,
    /// Whether its values are words, which begin at the left, and not figures.
    pub(crate) is_words: bool,
    /// Whether it is the figure that the table is about.
    pub(crate) is_main: bool,
    /// Whether it can be left out where there is little room.
    pub(crate) is_spare: bool,
}

/// A row.
#[derive(Debug, Clone, Default)]
pub struct RowOfCells {
    /// A value for each column.
    pub cells: Vec<Value>,
    /// The importance of the row.
    pub(crate) tone: Tone,
    /// The finding of the checks about the row, where no cell says it.
    pub(crate) mark: Option<Mark>,
    /// Levels by which its label is indented.
    pub(crate) depth: usize,
    /// A remark on the row: `twice as many blocks (1.00 MiB on average)`.
    pub(crate) note: Option<String>,
    /// Whether it is irrelevant.
    pub(crate) aside: Aside,
    /// The number of things that it sums, where it is a sum of others.
    pub(crate) others: Option<usize>,
    /// Its line in the checkout.
    pub(crate) site: Option<Site>,
    /// True if the source of that line is shown below the row.
    pub(crate) shows_source: bool,
    /// Its number in the picture of its device, see [`crate::picture::Picture::row`].
    pub(crate) in_picture: Option<usize>,
    /// Figures for readers who look at a row individually, on a page.
    pub(crate) details: String,
    /// The amounts and names of the lines that it sums, where it has frames.
    pub(crate) summed: Vec<[Value; 2]>,
    /// Its frames, or how they changed.
    pub(crate) frames: Vec<StackLine>,
}

/// How irrelevant a row is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Aside {
    /// It is the subject of the table.
    #[default]
    Not,
    /// A comment folds it away.
    Folded,
    /// A terminal leaves it out as well.
    LeftOut,
}

/// The importance of a row, or the direction of its change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Tone {
    /// One among others.
    #[default]
    Plain,
    /// The most important one.
    Main,
    /// A minor one.
    Faint,
    /// Growth.
    Worse,
    /// Decline.
    Better,
    /// By the result of a check.
    Mark(Mark),
    /// By its share of the whole, in percent.
    Heat(u8),
}

/// A column of figures.
pub fn figure(head: impl Into<String>) -> Column {
    Column { head: head.into(), ..Column::default() }
}

/// A column of words.
pub fn words(head: impl Into<String>) -> Column {
    Column { is_words: true, ..figure(head) }
}

impl Column {
    /// The same, as the one that the table is about.
    #[must_use]
    pub fn main(self) -> Self {
        Self { is_main: true, ..self }
    }

    /// The same, as one that can be left out where there is little room.
    #[must_use]
    pub fn spare(self) -> Self {
        Self { is_spare: true, ..self }
    }
}

impl Table {
    /// A table without a title.
    pub fn new(columns: impl Into<Vec<Column>>, rows: impl IntoIterator<Item = RowOfCells>) -> Self {
        Self { columns: columns.into(), rows: rows.into_iter().collect(), ..Self::default() }
    }

    /// Whether a column has a head or a value.
    pub(crate) fn has_content(&self, column: usize) -> bool {
        let head = &self.columns[column].head;
        !head.is_empty() || self.rows.iter().any(|row| !row.cells[column].to_string().is_empty())
    }

    /// The same below a title.
    #[must_use]
    pub fn titled(self, title: impl Into<String>) -> Self {
        Self { title: Some(title.into()), ..self }
    }
}

/// Rows for the things that are listed, and one for all others together: its name is their number.
pub fn rows<T>(
    all: &[T],
    options: &RenderOptions,
    row: impl FnMut(&T) -> RowOfCells,
    others: impl FnOnce(&[T], Value) -> Vec<Value>,
) -> Vec<RowOfCells> {
    let (listed, rest) = all.split_at(options.limit(all.len()));
    let mut rows: Vec<RowOfCells> = listed.iter().map(row).collect();
    if !rest.is_empty() {
        let name = Value::words(ptmem_trace::profile::others(rest.len()));
        rows.push(RowOfCells::others(rest.len(), others(rest, name)));
    }
    rows
}

impl RowOfCells {
    /// A row of values.
    pub fn new(tone: Tone, cells: impl IntoIterator<Item = Value>) -> Self {
        Self { cells: cells.into_iter().collect(), tone, ..Self::default() }
    }

    /// Its first value and its last.
    pub(crate) fn amount_and_name(&self) -> [&Value; 2] {
        [self.cells.first(), self.cells.last()].map(|value| value.unwrap_or(&Value::Nothing))
    }

    /// A row for a number of things that have none of their own.
    pub(crate) fn others(count: usize, cells: impl IntoIterator<Item = Value>) -> Self {
        Self { others: Some(count), ..Self::new(Tone::Faint, cells) }
    }
}

impl Tone {
    /// The tone of the results of the checks.
    pub(crate) fn of_mark(mark: Option<Mark>) -> Self {
        mark.map_or(Self::Plain, Self::Mark)
    }

    /// The tone of a change.
    pub fn of_change(delta: i128) -> Self {
        match delta {
            0 => Self::Faint,
            1.. => Self::Worse,
            _ => Self::Better,
        }
    }
}

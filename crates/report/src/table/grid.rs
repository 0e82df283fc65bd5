//! Rows and columns. The last column holds names, which get the room that the figures leave.

use std::fmt::{self, Write};

use anstyle::Style;
use ptmem_base::lines::wrap;
use ptmem_base::text::{printable, shorten};
use ptmem_trace::stack::More;
use unicode_width::UnicodeWidthStr;

use super::style::{DIM, of_tone};
use super::{NARROWEST_NAME, Room, frames, unmistakable};
use crate::source::Excerpt;
use crate::view::{Column, Label, Row, Table, Value};

/// Columns between the edge of the terminal and a table.
const INDENT: usize = 2;

/// Columns between two columns of a table.
const GAP: usize = 2;

/// The narrowest that a chain of frames gets.
const NARROWEST_FRAMES: usize = 24;

/// Terminals of this width and more have room for every column.
const WIDE: usize = 96;

/// Writes rows of a table, with the notes of the first ones that have any below them.
pub(super) fn write(out: &mut String, table: &Table, rows: &[&Row], room: Room, most_noted: usize) -> fmt::Result {
    let Some((name, figures)) = table.columns.split_last() else { return Ok(()) };
    let grid = Grid::new(table, figures, rows, room);
    let head = format!("{}{}", grid.figures[0], name.head);
    writeln!(out, "{:INDENT$}{DIM}{}{DIM:#}", "", head.trim_end())?;
    let mut noted = 0;
    for (row, line) in rows.iter().zip(&grid.figures[1..]) {
        noted += usize::from(row.note.is_some());
        grid.row(out, row, line, row.note.as_deref().filter(|_| noted <= most_noted))?;
    }
    Ok(())
}

/// The figures of a table, and the room beside them.
struct Grid {
    /// The head and each row, without the name at its end.
    figures: Vec<String>,
    /// The column at which the name at the end of a row begins.
    name_start: usize,
    /// Columns for that name where it is shortened.
    name_room: usize,
    /// The column at which notes begin: a little to the right of the first figures.
    note_indent: usize,
    room: Room,
}

impl Grid {
    fn new(table: &Table, figures: &[Column], rows: &[&Row], room: Room) -> Self {
        let width = room.columns;
        let shown = (0..figures.len()).filter(|&at| is_shown(table, at, width));
        let columns = shown.map(|at| column(&figures[at], rows.iter().map(|row| figure_text(&row.cells[at], width))));
        let columns: Vec<Vec<String>> = columns.collect();
        let lines = (0..=rows.len()).map(|at| columns.iter().map(|column| &*column[at]).collect());
        let figures: Vec<String> = lines.collect();
        let name_start = INDENT + figures[0].width();
        let note_indent = INDENT + columns.first().map_or(0, |column| column[0].width());
        let name_room = width.saturating_sub(name_start);
        Self { figures, name_start, name_room, note_indent, room }
    }

    fn row(&self, out: &mut String, row: &Row, figures: &str, note: Option<&str>) -> fmt::Result {
        let style = of_tone(row.tone);
        // Deep levels keep to the left half: the name is what one reads.
        let indent = (row.depth * 2).min(self.name_room / 2);
        let room = self.name_room.saturating_sub(indent).max(NARROWEST_NAME);
        let name = match row.cells.last() {
            Some(Value::Frames(chain)) => frames::fit(chain, room.max(NARROWEST_FRAMES), style),
            Some(Value::Label(label)) => self.label(&name(label, &on_one_line(label.more)), indent).replace(WHOLE, " "),
            Some(name) => self.label(&text(name), indent),
            None => String::new(),
        };
        let text = format!("{figures}{:indent$}{name}", "");
        let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
        writeln!(out, "{:INDENT$}{style}{}{style:#}", "", lines.join("\n"))?;
        note.iter().try_for_each(|note| self.note(out, note))?;
        let site = row.site.as_ref().filter(|_| row.shows_source);
        let excerpt = site.and_then(|site| site.excerpt.as_ref());
        excerpt.iter().try_for_each(|excerpt| self.source(out, excerpt))
    }

    /// A label in the room beside the figures, its rest below them: it is never cut, because people search for it and
    /// write it into limits.
    fn label(&self, label: &str, indent: usize) -> String {
        let start = self.name_start + indent;
        let width = self.room.line.max(start.max(self.note_indent) + NARROWEST_NAME);
        wrap(label, start, self.note_indent, width)
    }

    /// The source below a row.
    fn source(&self, out: &mut String, excerpt: &Excerpt) -> fmt::Result {
        let room = self.room.columns.saturating_sub(self.note_indent).max(NARROWEST_NAME);
        for (line, text) in excerpt.lines.iter().zip(excerpt.texts()) {
            let style = if line.is_marked { Style::new() } else { DIM };
            let text = shorten(&text, room);
            writeln!(out, "{:indent$}{style}{text}{style:#}", "", indent = self.note_indent)?;
        }
        Ok(())
    }

    fn note(&self, out: &mut String, text: &str) -> fmt::Result {
        let indent = self.note_indent;
        let text = wrap(text, indent, indent, self.room.line.max(indent + NARROWEST_NAME));
        writeln!(out, "{:indent$}{DIM}{text}{DIM:#}", "")
    }
}

/// The head of a column and its values, all of one width, with the gap behind them.
fn column(column: &Column, values: impl Iterator<Item = String>) -> Vec<String> {
    let texts: Vec<String> = std::iter::once(column.head.clone()).chain(values).collect();
    let widest = texts.iter().map(|text| text.width()).max().unwrap_or(0);
    let padded = texts.into_iter().map(|text| {
        let room = " ".repeat(widest - text.width());
        if column.is_words { format!("{text}{room}{:GAP$}", "") } else { format!("{room}{text}{:GAP$}", "") }
    });
    padded.collect()
}

/// Whether a terminal of this width shows a column.
fn is_shown(table: &Table, column: usize, width: usize) -> bool {
    (width >= WIDE || !table.columns[column].is_spare) && table.has_content(column)
}

/// The text of a figure. Names of ranks may be as long as a path.
fn figure_text(value: &Value, width: usize) -> String {
    shorten(&text(value), (width / 2).max(NARROWEST_NAME))
}

/// Stands in for a space where no line may end. No text has it: it is not printable.
const WHOLE: &str = "\u{1}";

/// The number of further lines behind a label, which no line of a table breaks.
fn on_one_line(more: More) -> String {
    let text = more.to_string();
    text.strip_prefix(' ').map(|words| format!(" {}", words.replace(' ', WHOLE))).unwrap_or_default()
}

/// A name with the text that follows it.
fn name(label: &Label, more: &str) -> String {
    format!("{}{more}", unmistakable(&label.text))
}

fn text(value: &Value) -> String {
    match value {
        Value::Label(label) => name(label, &label.more.to_string()),
        value => printable(&value.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::{Tone, figure, words};

    fn row(delta: i128, label: &str) -> Row {
        let cells = [Value::Change(delta), Value::Size(1024), Value::Nothing, Value::code(label)];
        Row::new(Tone::Plain, cells)
    }

    /// A row with a note, and one that is indented.
    fn table() -> Table {
        let note = "twice as large (512 B -> 1.00 KiB each)".to_owned();
        let noted = Row { note: Some(note), ..row(1 << 20, "forward (a/b.py:7)") };
        let heads = [figure("change"), figure("before").spare(), figure(""), words("stack")];
        Table::new(heads, [noted, Row { depth: 1, ..row(-1, "::x") }])
    }

    fn lines(width: usize) -> Vec<String> {
        let mut text = String::new();
        let table = table();
        write(&mut text, &table, &table.rows.iter().collect::<Vec<_>>(), Room::new(Some(width)), 1).unwrap();
        text.lines().map(|line| anstream::adapter::strip_str(line).to_string()).collect()
    }

    #[test]
    fn columns_without_content_and_without_room_are_left_out() {
        let wide = [
            "     change    before  stack",
            "  +1.00 MiB  1.00 KiB  forward (a/b.py:7)",
            "             twice as large (512 B -> 1.00 KiB each)",
            "       -1 B  1.00 KiB    '::x'",
        ];
        assert_eq!(lines(WIDE), wide);
        let narrow = ["     change  stack", "  +1.00 MiB  forward (a/b.py:7)"];
        assert_eq!(lines(WIDE - 1)[..2], narrow);
    }

    #[test]
    fn labels_go_on_below_their_row_rather_than_be_cut() {
        let label = Label { text: "run (a.py:7)".to_owned(), is_code: true, more: More::Lines(2) };
        let cells = [Value::Change(1), Value::Label(label)];
        let table = Table::new([figure("change"), words("stack")], [Row::new(Tone::Plain, cells)]);
        let mut text = String::new();
        write(&mut text, &table, &table.rows.iter().collect::<Vec<_>>(), Room::new(Some(30)), 1).unwrap();
        let text = anstream::adapter::strip_str(&text).to_string();
        assert!(text.ends_with("run (a.py:7)\n          (+2 more lines)\n"), "{text}");
        assert_eq!(lines(29)[1..3], ["  +1.00 MiB  forward", "             (a/b.py:7)"]);
        assert_eq!(lines(10)[1..3], ["  +1.00 MiB  forward", "             (a/b.py:7)"]);
    }
}

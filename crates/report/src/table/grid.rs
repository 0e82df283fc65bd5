//! Rows and columns. comfy-table lays out the figures; the last column holds names, which get the room that is left.

use std::fmt::{self, Write};

use anstyle::Style;
use comfy_table::{Cell, CellAlignment, ContentArrangement};
use ptmem_base::lines::wrap;
use ptmem_base::text::{printable, shorten};
use ptmem_trace::stack::More;

use super::style::{DIM, of_tone};
use super::{NARROWEST_NAME, TextRoom, frames};
use crate::source::Excerpt;
use crate::view::{Column, InputName, RowOfCells, Table, Value};

/// Columns between the edge of the terminal and a table.
const INDENT: usize = 2;

/// Columns between two columns of a table.
const GAP: u16 = 2;

/// The narrowest that a chain of frames gets.
const NARROWEST_FRAMES: usize = 24;

/// Terminals of this width and more have room for every column.
const WIDE: usize = 96;

/// Writes rows of a table, with the notes of the first ones that have any below them.
pub(super) fn write(
    out: &mut String,
    table: &Table,
    rows: &[&RowOfCells],
    room: TextRoom,
    most_noted: usize,
) -> fmt::Result {
    let Some((name, figures)) = table.columns.split_last() else { return Ok(()) };
    let grid = Grid::new(table, figures, rows, room);
    let mut lines = grid.figures.lines();
    let head = lines.next().unwrap_or_default() + &name.head;
    writeln!(out, "{:INDENT$}{DIM}{}{DIM:#}", "", head.trim_end())?;
    let mut noted = 0;
    for (row, line) in rows.iter().zip(lines) {
        noted += usize::from(row.note.is_some());
        grid.row(out, row, line, row.note.as_deref().filter(|_| noted <= most_noted))?;
    }
    Ok(())
}

/// The figures of a table, and the room beside them.
struct Grid {
    figures: comfy_table::Table,
    /// The column at which the name at the end of a row begins.
    name_start: usize,
    /// Columns for that name where it is shortened.
    name_room: usize,
    /// The column at which notes begin: a little to the right of the first figures.
    note_indent: usize,
    room: TextRoom,
}

impl Grid {
    fn new(table: &Table, figures: &[Column], rows: &[&RowOfCells], room: TextRoom) -> Self {
        let width = room.columns;
        let shown: Vec<usize> = (0..figures.len()).filter(|&at| is_shown(table, at, width)).collect();
        let mut laid_out = comfy_table::Table::new();
        laid_out.load_style(comfy_table::presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
        laid_out.set_header(shown.iter().map(|&at| &figures[at].head));
        for row in rows {
            laid_out.add_row(shown.iter().map(|&at| Cell::new(figure_text(&row.cells[at], width))));
        }
        for (column, &at) in laid_out.column_iter_mut().zip(&shown) {
            column.set_padding((0, GAP));
            let side = if figures[at].is_words { CellAlignment::Left } else { CellAlignment::Right };
            column.set_cell_alignment(side);
        }
        let widths: Vec<usize> = laid_out.column_max_content_widths().into_iter().map(usize::from).collect();
        let taken: usize = widths.iter().map(|width| width + usize::from(GAP)).sum();
        let name_start = INDENT + taken;
        let note_indent = INDENT + widths.first().copied().unwrap_or(0) + usize::from(GAP);
        let name_room = width.saturating_sub(name_start);
        Self { figures: laid_out, name_start, name_room, note_indent, room }
    }

    fn row(&self, out: &mut String, row: &RowOfCells, figures: String, note: Option<&str>) -> fmt::Result {
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
fn name(label: &InputName, more: &str) -> String {
    format!("{}{more}", printable(&label.text))
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

    fn row(delta: i128, label: &str) -> RowOfCells {
        let cells = [Value::Change(delta), Value::Size(1024), Value::Nothing, Value::code(label)];
        RowOfCells::new(Tone::Plain, cells)
    }

    /// A row with a note, and one that is indented.
    fn table() -> Table {
        let note = "twice as large (512 B -> 1.00 KiB each)".to_owned();
        let noted = RowOfCells { note: Some(note), ..row(1 << 20, "forward (a/b.py:7)") };
        let heads = [figure("change"), figure("before").spare(), figure(""), words("stack")];
        Table::new(heads, [noted, RowOfCells { depth: 1, ..row(-1, "::x") }])
    }

    fn lines(width: usize) -> Vec<String> {
        let mut text = String::new();
        let table = table();
        write(&mut text, &table, &table.rows.iter().collect::<Vec<_>>(), TextRoom::new(Some(width)), 1).unwrap();
        text.lines().map(|line| anstream::adapter::strip_str(line).to_string()).collect()
    }

    #[test]
    fn columns_without_content_and_without_room_are_left_out() {
        let wide = [
            "     change    before  stack",
            "  +1.00 MiB  1.00 KiB  forward (a/b.py:7)",
            "             twice as large (512 B -> 1.00 KiB each)",
            "       -1 B  1.00 KiB    ::x",
        ];
        assert_eq!(lines(WIDE), wide);
        let narrow = ["     change  stack", "  +1.00 MiB  forward (a/b.py:7)"];
        assert_eq!(lines(WIDE - 1)[..2], narrow);
    }

    #[test]
    fn labels_go_on_below_their_row_rather_than_be_cut() {
        let label = InputName { text: "run (a.py:7)".to_owned(), is_code: true, more: More::Lines(2) };
        let cells = [Value::Change(1), Value::Label(label)];
        let table = Table::new([figure("change"), words("stack")], [RowOfCells::new(Tone::Plain, cells)]);
        let mut text = String::new();
        write(&mut text, &table, &table.rows.iter().collect::<Vec<_>>(), TextRoom::new(Some(30)), 1).unwrap();
        let text = anstream::adapter::strip_str(&text).to_string();
        assert!(text.ends_with("run (a.py:7)\n          (+2 more lines)\n"), "{text}");
        assert_eq!(lines(29)[1..3], ["  +1.00 MiB  forward", "             (a/b.py:7)"]);
        assert_eq!(lines(10)[1..3], ["  +1.00 MiB  forward", "             (a/b.py:7)"]);
    }
}

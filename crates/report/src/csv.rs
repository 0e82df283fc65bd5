//! Comma-separated values: the rows of all tables of a report, behind the names of their group, section and table.

use std::io::{self, Write};

use ::csv::{ErrorKind, WriterBuilder};
use ptmem_base::text::printable;

use super::view::{Column, Content, Table, Value, View};
use super::{RenderOptions, Report};

/// The columns before those of the tables.
const PLACE: [&str; 3] = ["group", "section", "table"];

pub(super) fn write(report: &dyn Report, options: &RenderOptions, out: &mut dyn Write) -> io::Result<()> {
    let view = report.model(&RenderOptions { top: Some(0), tree: None, ..options.clone() });
    let tables: Vec<_> = tables(&view).collect();
    let mut heads: Vec<&str> = Vec::new();
    for head in tables.iter().flat_map(|(_, table)| table.columns.iter().enumerate().map(head)) {
        if !heads.contains(&head) {
            heads.push(head);
        }
    }
    let mut out = WriterBuilder::new().from_writer(out);
    out.write_record(PLACE.iter().chain(&heads)).map_err(io_error)?;
    for (place, table) in tables {
        for row in &table.rows {
            let mut cells = [&place.map(cell)[..], &vec![String::new(); heads.len()]].concat();
            for (column, value) in table.columns.iter().enumerate().zip(&row.cells) {
                let at = heads.iter().position(|known| *known == head(column)).unwrap_or(0);
                cells[PLACE.len() + at] = raw(value);
            }
            out.write_record(cells).map_err(io_error)?;
        }
    }
    out.flush()
}

/// The tables of a report, with the names of their group and section, and their own.
fn tables(view: &View) -> impl Iterator<Item = ([&str; 3], &Table)> {
    view.groups.iter().flat_map(|group| {
        let name = group.name.as_deref().unwrap_or_default();
        let of_sections = group.sections.iter().flat_map(move |section| {
            let tables = section.blocks.iter().filter_map(Content::table);
            tables.map(move |table| ([name, &*section.name, table.title.as_deref().unwrap_or_default()], table))
        });
        group.ranks.iter().map(move |table| ([name, "", "ranks"], table)).chain(of_sections)
    })
}

/// The error of the writer beneath, where that is the cause.
fn io_error(error: ::csv::Error) -> io::Error {
    match error.into_kind() {
        ErrorKind::Io(error) => error,
        other => io::Error::other(format!("{other:?}")),
    }
}

/// A text in a table: printable, and behind a quote where a spreadsheet would take it for a formula.
fn cell(text: &str) -> String {
    let text = printable(text);
    if text.starts_with(['=', '+', '-', '@']) { format!("'{text}") } else { text }
}

/// The head of a column in a table where each has one.
fn head((at, column): (usize, &Column)) -> &str {
    match &*column.head {
        "" if at == 0 => "name",
        "" => "remark",
        head => head,
    }
}

/// A value for programs: bytes, and numbers without separators.
fn raw(value: &Value) -> String {
    match value {
        Value::Nothing | Value::Unknown => String::new(),
        Value::Size(bytes) => bytes.to_string(),
        Value::Change(delta) => delta.to_string(),
        Value::Figure { text, .. } if text.chars().all(|c| c.is_ascii_digit() || c == ',') => text.replace(',', ""),
        Value::Label(label) => cell(&label.text),
        Value::Figure { .. } | Value::Mark { .. } | Value::Frames(_) => cell(&value.to_string()),
    }
}

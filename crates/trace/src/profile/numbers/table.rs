//! Tables of comma-separated values.

use csv::StringRecord;
use ptmem_base::text::{cut, printable};

use super::bytes::{of_text, whole_of_text};
use super::cases::Cases;
use super::error::NumbersError;
use super::key::{FAILED_COUNT, device_of, figure_of};

/// Columns that name the case of a row.
const NAMES: [&str; 5] = ["case", "name", "test", "model", "rank"];

/// The cases of a table of comma-separated values, one in each row; empty if the first line does not name a figure.
///
/// # Errors
/// Where a row has other columns than the first line, a quoted cell does not end with its quote, or a figure is not a number of bytes.
pub(super) fn cases(text: &[u8]) -> Result<Cases, NumbersError> {
    let mut table = csv::ReaderBuilder::new().trim(csv::Trim::All).from_reader(text);
    let mut cases = Cases::default();
    if !table.byte_headers().is_ok_and(|head| head.iter().any(names_figure)) {
        return Ok(cases);
    }
    let head = table.headers().map_err(|error| unreadable(&error))?.clone();
    verify_quotes(text)?;
    for row in table.records() {
        let row = row.map_err(|error| unreadable(&error))?;
        let line = row.position().map_or(0, csv::Position::line);
        let name = match first_of(&head, &row, &NAMES) {
            Some((column, cell)) if column.eq_ignore_ascii_case("rank") && cell.parse::<u64>().is_ok() => {
                format!("rank{cell}")
            }
            named => named.map_or("", |(_, cell)| cell).to_owned(),
        };
        let text = first_of(&head, &row, &["device"]).map_or("0", |(_, cell)| cell);
        let device = text.parse().ok().or_else(|| device_of(text));
        let device =
            device.ok_or_else(|| NumbersError::Table(format!("line {line}: '{}' is not a device", cut(text, 64))))?;
        if cases.known(&name, Some(device)).is_some() {
            return Err(NumbersError::Twice(printable(cut(if name.is_empty() { text } else { &name }, 64))));
        }
        let numbers = cases.device(&name, Some(device), text)?;
        for (key, cell) in head.iter().zip(&row) {
            if let Some(figure) = figure_of(key) {
                numbers.set(figure, of_text(cell), || format!("line {line}, {key}"))?;
            } else if key == FAILED_COUNT {
                numbers.failed_count = whole_of_text(cell).unwrap_or(0);
            }
        }
    }
    Ok(cases)
}

fn names_figure(key: &[u8]) -> bool {
    str::from_utf8(key).is_ok_and(|key| figure_of(key).is_some())
}

fn unreadable(error: &csv::Error) -> NumbersError {
    NumbersError::Table(match error.kind() {
        csv::ErrorKind::Utf8 { pos, .. } => {
            let line = pos.as_ref().map_or(1, csv::Position::line);
            format!("line {line}: not all of it is UTF-8; save it as UTF-8")
        }
        _ => error.to_string(),
    })
}

/// The first column of one of these names, and its cell in a row.
fn first_of<'r>(head: &'r StringRecord, row: &'r StringRecord, names: &[&str]) -> Option<(&'r str, &'r str)> {
    head.iter().zip(row).find(|(column, _)| names.contains(&column.to_ascii_lowercase().as_str()))
}

/// What the next byte of a table belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CellPlace {
    CellStart,
    PlainCell,
    QuotedCell,
    /// After the quote that ends a cell, or begins a doubled quote in it.
    AfterQuote,
    /// After a cell and its quote.
    AfterCell,
}

/// Refuses a cell that begins with a quote and does not end with one. The `csv` crate reads on until the next quote or the end, so that
/// the rows in between would be missing.
fn verify_quotes(text: &[u8]) -> Result<(), NumbersError> {
    let text = text.strip_prefix("\u{feff}".as_bytes()).unwrap_or(text);
    let mut place = CellPlace::CellStart;
    let mut line = 1;
    let mut opened = 1;
    for byte in text {
        place = match (place, byte) {
            (CellPlace::CellStart, b'"') => {
                opened = line;
                CellPlace::QuotedCell
            }
            (CellPlace::QuotedCell, b'"') => CellPlace::AfterQuote,
            (CellPlace::AfterQuote, b'"') | (CellPlace::QuotedCell, _) => CellPlace::QuotedCell,
            (_, b',' | b'\n' | b'\r') => CellPlace::CellStart,
            (CellPlace::AfterQuote | CellPlace::AfterCell, b' ' | b'\t') => CellPlace::AfterCell,
            (CellPlace::AfterQuote | CellPlace::AfterCell, _) => return Err(unclosed(opened)),
            (CellPlace::CellStart | CellPlace::PlainCell, _) => CellPlace::PlainCell,
        };
        line += u64::from(*byte == b'\n');
    }
    if place == CellPlace::QuotedCell { Err(unclosed(opened)) } else { Ok(()) }
}

/// The error of a quote that does not end its cell.
fn unclosed(line: u64) -> NumbersError {
    NumbersError::Table(format!(
        "line {line}: a cell begins with a quote and does not end with one; close it, and double quotes within it"
    ))
}

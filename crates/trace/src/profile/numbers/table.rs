//! Tables of comma-separated values.

use csv::StringRecord;
use ptmem_base::text::{cut, printable};

use super::bytes::of_text;
use super::cases::Cases;
use super::error::NumbersError;
use super::key::{device_of, figure_of};
use crate::profile::Serving;

/// Columns that name the case of a row.
const NAMES: [&str; 5] = ["case", "name", "test", "model", "rank"];

/// The cases of a table of comma-separated values, one in each row; empty if the first line does not name a figure.
///
/// # Errors
/// Where a row has other columns than the first line, or a figure is not a number of bytes.
pub(super) fn cases(text: &[u8]) -> Result<Cases, NumbersError> {
    let mut table = csv::ReaderBuilder::new().trim(csv::Trim::All).from_reader(text);
    let Ok(head) = table.headers().cloned() else { return Ok(Cases::default()) };
    let mut cases = Cases::default();
    if head.iter().all(|key| figure_of(key).is_none() && Serving::named(key).is_none()) {
        return Ok(cases);
    }
    for row in table.records() {
        let row = row.map_err(|error| NumbersError::Table(error.to_string()))?;
        let line = row.position().map_or(0, csv::Position::line);
        let name = match first_of(&head, &row, &NAMES) {
            Some((column, cell)) if column.eq_ignore_ascii_case("rank") => format!("rank{cell}"),
            named => named.map_or("", |(_, cell)| cell).to_owned(),
        };
        let text = first_of(&head, &row, &["device"]).map_or("0", |(_, cell)| cell);
        let device = text.parse().ok().or_else(|| device_of(text));
        let device =
            device.ok_or_else(|| NumbersError::Table(format!("line {line}: '{}' is not a device", cut(text, 64))))?;
        let numbers = cases.case(&name)?.device(device, text)?;
        if numbers.is_stated {
            return Err(NumbersError::Twice(printable(cut(if name.is_empty() { text } else { &name }, 64))));
        }
        for (key, cell) in head.iter().zip(&row) {
            let place = || format!("line {line}, {key}");
            if let Some(figure) = figure_of(key) {
                numbers.set(figure, of_text(cell), place)?;
            } else if let Some(figure) = Serving::named(key) {
                numbers.state(figure, of_text(cell), place)?;
            }
        }
    }
    Ok(cases)
}

/// The first column of one of these names, and its cell in a row.
fn first_of<'r>(head: &'r StringRecord, row: &'r StringRecord, names: &[&str]) -> Option<(&'r str, &'r str)> {
    head.iter().zip(row).find(|(column, _)| names.contains(&column.to_ascii_lowercase().as_str()))
}

//! Inputs that hold only figures: `torch.cuda.memory_stats()`, golden values of Megatron-LM, and tables.

mod bytes;

use std::collections::BTreeMap;

use csv::StringRecord;
use ptmem_base::device::DeviceId;
use ptmem_base::diagnostic::{Code, Diagnostic};
use ptmem_base::text::{cut, printable};
use ptmem_snapshot::snapshot::RunFacts;
use serde_json::{Map, Value};

use super::measure::remarks;
use super::{DeviceProfile, HistoryKind, Profile, ReadOptions, Source};
use crate::replay::{Checks, Counter, Figures, Fragmentation};
use crate::trace::Measure;
use bytes::bytes_of;

/// Why figures cannot be read.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum Error {
    /// Something that is not a number of bytes.
    #[error("{place}: expected a number of bytes, found {found}")]
    NotBytes {
        /// The key, or the line and the column.
        place: String,
        /// The value.
        found: String,
    },
    /// Two entries of one name and device.
    #[error("'{0}' occurs twice")]
    Twice(String),
    /// Several entries, none of them requested.
    #[error("it holds several cases ({0}); name one, as in FILE#CASE")]
    Several(String),
    /// An entry that is not there.
    #[error("there is no case '{asked}' in it; it has {known}")]
    NoCase {
        /// The requested name.
        asked: String,
        /// Those that are there.
        known: String,
    },
    /// A table that is not one.
    #[error("the table cannot be read: {0}")]
    Table(String),
}

/// The figures of a case.
#[derive(Debug, Default)]
pub struct Case {
    /// Its name; empty where the input holds only one.
    pub name: String,
    /// Its devices by their numbers.
    devices: BTreeMap<DeviceId, Numbers>,
    /// What the recorder states about the run.
    run: Option<RunFacts>,
}

/// A value of a counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Point {
    Peak,
    End,
}

/// The keys that name a figure, beside `allocated_bytes.all.peak` and its like: functions of `torch.cuda`, metrics of this tool,
/// and values that Megatron-LM logs.
const KEYS: [(&str, Measure, Point); 13] = [
    ("peak", Measure::Allocated, Point::Peak),
    ("end", Measure::Allocated, Point::End),
    ("active", Measure::Active, Point::Peak),
    ("requested", Measure::Requested, Point::Peak),
    ("reserved", Measure::Reserved, Point::Peak),
    ("max_memory_allocated", Measure::Allocated, Point::Peak),
    ("memory_allocated", Measure::Allocated, Point::End),
    ("max_memory_reserved", Measure::Reserved, Point::Peak),
    ("memory_reserved", Measure::Reserved, Point::End),
    ("mem-max-allocated-bytes", Measure::Allocated, Point::Peak),
    ("mem-allocated-bytes", Measure::Allocated, Point::End),
    ("mem-max-reserved-bytes", Measure::Reserved, Point::Peak),
    ("mem-reserved-bytes", Measure::Reserved, Point::End),
];

const POINTS: [(&str, Point); 2] = [("peak", Point::Peak), ("current", Point::End)];

/// The figure that a key names.
fn figure_of(key: &str) -> Option<(Measure, Point)> {
    let named = KEYS.into_iter().find(|(name, ..)| *name == key).map(|(_, measure, point)| (measure, point));
    named.or_else(|| {
        let (counter, point) = key.split_once(".all.")?;
        let (_, point) = POINTS.into_iter().find(|(name, _)| *name == point)?;
        Some((counter.strip_suffix("_bytes")?.parse().ok()?, point))
    })
}

/// The figures of a device, by counter and point.
#[derive(Debug, Default)]
struct Numbers([[Option<u64>; 2]; 4]);

impl Numbers {
    fn set(&mut self, (measure, point): (Measure, Point), bytes: Option<u64>) {
        let figure = &mut self.0[measure as usize][point as usize];
        *figure = bytes.or(*figure);
    }

    fn counter(&self, measure: Measure) -> Counter {
        let [peak, end] = self.0[measure as usize];
        // Known figures are exact.
        Counter { peak, end, baseline_error: Some(0), peak_error: Some(0), ..Counter::default() }
    }

    fn profile(&self, device: DeviceId) -> DeviceProfile {
        let [_, end_of_active] = self.0[Measure::Active as usize];
        let [_, end_of_reserved] = self.0[Measure::Reserved as usize];
        let unused = end_of_reserved.zip(end_of_active).map(|(reserved, active)| reserved.saturating_sub(active));
        let figures = Figures {
            history: HistoryKind::NumbersOnly,
            allocated: self.counter(Measure::Allocated),
            active: self.counter(Measure::Active),
            requested: self.counter(Measure::Requested),
            reserved: self.counter(Measure::Reserved),
            fragmentation: Fragmentation { peak: None, end: unused },
            checks: Checks { end_matches: true, ..Checks::default() },
            ..Figures::default()
        };
        DeviceProfile { device, figures, ..DeviceProfile::default() }
    }
}

/// The cases of an input: JSON, or a table of comma-separated values. Empty if it does not contain a figure.
///
/// # Errors
/// Where a figure is not a number of bytes, or a table cannot be read.
pub fn cases(text: &[u8]) -> Result<Vec<Case>, Error> {
    if !text.trim_ascii_start().starts_with(b"{") {
        return of_table(text);
    }
    // Saved profiles and reports, which may be large, state their schema first.
    let head = &text[..text.len().min(64)];
    if head.windows(8).any(|part| part == b"\"schema\"") {
        return Ok(Vec::new());
    }
    match serde_json::from_slice(text) {
        Ok(Value::Object(object)) if !object.contains_key("schema") => of_object(&object),
        _ => Ok(Vec::new()),
    }
}

/// The cases of an object: one, or one for each key.
fn of_object(object: &Map<String, Value>) -> Result<Vec<Case>, Error> {
    if let Some(devices) = devices(object, "")? {
        return Ok(vec![Case { name: String::new(), devices, run: run_of(object) }]);
    }
    let mut cases = Vec::new();
    for (name, value) in object {
        let place = format!("{}.", printable(cut(name, 64)));
        let devices = value.as_object().map(|inner| devices(inner, &place)).transpose()?.flatten();
        cases.extend(devices.map(|devices| Case { name: name.clone(), devices, run: None }));
    }
    Ok(cases)
}

/// The facts about the run that a recorder adds, as to a snapshot.
fn run_of(object: &Map<String, Value>) -> Option<RunFacts> {
    serde_json::from_value(object.get("ptmem")?.clone()).ok()
}

/// The devices of a case: one without a name, or some by their names in PyTorch. `None` if no figure is stated.
fn devices(object: &Map<String, Value>, place: &str) -> Result<Option<BTreeMap<DeviceId, Numbers>>, Error> {
    if let Some(numbers) = numbers(object, place)? {
        return Ok(Some(BTreeMap::from([(DeviceId::FIRST, numbers)])));
    }
    let mut devices = BTreeMap::new();
    for (name, value) in object {
        if let (Some(device), Value::Object(inner)) = (device_of(name), value)
            && let Some(numbers) = numbers(inner, &format!("{place}{name}."))?
        {
            devices.insert(device, numbers);
        }
    }
    Ok((!devices.is_empty()).then_some(devices))
}

/// The number of a device by its name in PyTorch: `cuda:1`, `xpu:0`.
fn device_of(key: &str) -> Option<DeviceId> {
    let (kind, number) = key.split_once(':')?;
    // `cuda:host` names neither a device nor pinned memory.
    let ordinal: u32 = number.parse().ok()?;
    kind.bytes().all(|letter| letter.is_ascii_lowercase()).then(|| ordinal.into())
}

/// The figures of an object of statistics, flat or nested; `None` if it states none.
fn numbers(object: &Map<String, Value>, place: &str) -> Result<Option<Numbers>, Error> {
    let mut numbers = Numbers::default();
    let mut is_known = false;
    for (key, value) in object {
        let is_figure = !value.is_array() && value.as_object().is_none_or(|inner| inner.contains_key("values"));
        if let Some(figure) = figure_of(key).filter(|_| is_figure) {
            numbers.set(figure, bytes_of(value, figure.1, &format!("{place}{key}"))?);
            is_known = true;
        }
        // `memory_stats_as_nested_dict()`.
        let all = value.get("all");
        for (point, _) in POINTS {
            let name = format!("{key}.all.{point}");
            if let (Some(value), Some(figure)) = (all.and_then(|all| all.get(point)), figure_of(&name)) {
                numbers.set(figure, bytes_of(value, figure.1, &format!("{place}{name}"))?);
                is_known = true;
            }
        }
    }
    Ok(is_known.then_some(numbers))
}

/// Columns that name the case of a row.
const NAMES: [&str; 5] = ["case", "name", "test", "model", "rank"];

/// The cases of a table of comma-separated values, one in each row; empty if the first line does not name a figure.
///
/// # Errors
/// Where a row has other columns than the first line, or a figure is not a number of bytes.
fn of_table(text: &[u8]) -> Result<Vec<Case>, Error> {
    let mut table = csv::ReaderBuilder::new().trim(csv::Trim::All).from_reader(text);
    let Ok(head) = table.headers().cloned() else { return Ok(Vec::new()) };
    if head.iter().all(|key| figure_of(key).is_none()) {
        return Ok(Vec::new());
    }
    let mut cases: Vec<Case> = Vec::new();
    for row in table.records() {
        let row = row.map_err(|error| Error::Table(error.to_string()))?;
        let line = row.position().map_or(0, csv::Position::line);
        let cells: Map<String, Value> =
            head.iter().zip(&row).map(|(key, cell)| (key.to_owned(), cell.into())).collect();
        let numbers = numbers(&cells, &format!("line {line}, "))?.unwrap_or_default();
        let name = match first_of(&head, &row, &NAMES) {
            Some((column, cell)) if column.eq_ignore_ascii_case("rank") => format!("rank{cell}"),
            named => named.map_or("", |(_, cell)| cell).to_owned(),
        };
        let text = first_of(&head, &row, &["device"]).map_or("0", |(_, cell)| cell);
        let device = text.parse().ok().or_else(|| device_of(text));
        let device = device.ok_or_else(|| Error::Table(format!("line {line}: '{}' is not a device", cut(text, 64))))?;
        let at = cases.iter().position(|case| case.name == name).unwrap_or_else(|| {
            cases.push(Case { name: name.clone(), ..Case::default() });
            cases.len() - 1
        });
        if cases[at].devices.insert(device, numbers).is_some() {
            return Err(Error::Twice(if name.is_empty() { format!("{device}") } else { name }));
        }
    }
    Ok(cases)
}

/// The first column of one of these names, and its cell in a row.
fn first_of<'r>(head: &'r StringRecord, row: &'r StringRecord, names: &[&str]) -> Option<(&'r str, &'r str)> {
    head.iter().zip(row).find(|(column, _)| names.contains(&column.to_ascii_lowercase().as_str()))
}

/// Names that an error lists.
const MOST_NAMES: usize = 8;

/// The names of cases, of which an error lists some.
fn names_of(cases: &[Case]) -> String {
    let names: Vec<String> = cases.iter().take(MOST_NAMES).map(|case| printable(cut(&case.name, 64))).collect();
    names.join(", ") + if cases.len() > MOST_NAMES { ", …" } else { "" }
}

/// The profile of the requested case, or of the only one.
pub(super) fn profile(cases: &[Case], source: Source, options: ReadOptions) -> Result<Profile, Error> {
    let case = match (options.case.as_deref(), cases) {
        (None, [only]) => only,
        (None, _) => return Err(Error::Several(names_of(cases))),
        (Some(asked), _) => cases
            .iter()
            .find(|case| case.name == asked)
            .ok_or_else(|| Error::NoCase { asked: printable(cut(asked, 64)), known: names_of(cases) })?,
    };
    let mut diagnostics = case.run.as_ref().map(|run| remarks(run, &options.rules.known_guesses)).unwrap_or_default();
    let message = "it holds only figures: stacks, phases and a history need a recording, as ptmem_gate.record() makes";
    diagnostics.push(Diagnostic::new(Code::NumbersOnly, None, message));
    Ok(Profile {
        source,
        options,
        devices: case.devices.iter().map(|(&device, numbers)| numbers.profile(device)).collect(),
        run: case.run.clone(),
        diagnostics,
        ..Profile::default()
    })
}

//! Comma-separated values: a row per stack or leak, or per phase, part of the history or allocator setting where these are
//! requested; all of them, whatever the limits.

use std::io::{self, Write};

use ::csv::{ErrorKind, Writer, WriterBuilder};
use ptmem_base::device::DeviceId;
use ptmem_base::text::printable;
use ptmem_compare::diff::{CodeLine, DeviceDiff, PhaseRow, Row};
use ptmem_compare::leak::{DeviceLeaks, Leak, Search};
use ptmem_judge::verdict::{Gate, Judged, LeakGate, Readings};
use ptmem_snapshot::snapshot::StackId;
use ptmem_trace::profile::{Bucket, DeviceProfile, Profile, StackTotal};
use ptmem_trace::replay;
use ptmem_trace::stack::Code;
use serde::ser::{Serialize, SerializeMap};

use super::json::{IntervalRecord, PhaseRecord};
use super::place::{self, Codes};
use super::view::{Content, Table as Rows, Value, View};
use super::{RenderOptions, Subject};
use ptmem_base::json_writer::{Object, Record, record};

pub(super) fn write(subject: Subject<'_>, options: &RenderOptions, out: &mut dyn Write) -> io::Result<()> {
    let mut table = Table::new(out);
    match subject {
        Subject::Gate(gate) if options.phases => phase_changes(&mut table, gate)?,
        Subject::Gate(gate) => changes(&mut table, gate, options)?,
        Subject::Profile(profile, _) if options.phases => phases(&mut table, profile, options)?,
        Subject::Profile(profile, _) if profile.options.every.is_some() => intervals(&mut table, profile)?,
        Subject::Profile(profile, _) => {
            table.head(StackRecord::NAMES)?;
            stacks(&mut table, None, profile, options)?;
        }
        Subject::Ranks(readings) => stacks_of_ranks(&mut table, readings, options)?,
        Subject::Leaks(gate) => leaks(&mut table, gate, options)?,
        Subject::Study(study) => rows(&mut table, &study.view(&RenderOptions { top: Some(0), ..options.clone() }))?,
    }
    table.finish()
}

/// Rows below the names of their columns.
struct Table<'o> {
    out: Writer<&'o mut dyn Write>,
}

impl<'o> Table<'o> {
    fn new(out: &'o mut dyn Write) -> Self {
        Self { out: WriterBuilder::new().has_headers(false).from_writer(out) }
    }

    /// Writes the names of the columns.
    fn head(&mut self, names: &[&str]) -> io::Result<()> {
        self.out.write_record(names).map_err(io_error)
    }

    /// Writes a row, after the thing that it belongs to if that is a column.
    fn row(&mut self, belongs_to: Option<&str>, record: &impl Object) -> io::Result<()> {
        let mut cells = Cells(belongs_to.map(cell).into_iter().collect());
        record.fields(&mut cells)?;
        self.out.write_record(cells.0).map_err(io_error)
    }

    /// Writes rows, each after the number of its device.
    fn of_devices<R: Record>(&mut self, mut rows: impl Iterator<Item = (DeviceId, R)>) -> io::Result<()> {
        self.head(&[&["device"], R::NAMES].concat())?;
        rows.try_for_each(|(device, record)| self.row(Some(&i64::from(device).to_string()), &record))
    }

    fn finish(mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// The error of the writer beneath, where that is the cause.
fn io_error(error: ::csv::Error) -> io::Error {
    match error.into_kind() {
        ErrorKind::Io(error) => error,
        other => io::Error::other(format!("{other:?}")),
    }
}

/// The values of an object as the cells of a row.
struct Cells(Vec<String>);

impl SerializeMap for Cells {
    type Ok = ();
    type Error = serde_json::Error;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, _: &T) -> Result<(), Self::Error> {
        Ok(())
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Self::Error> {
        let json = serde_json::to_string(value)?;
        self.0.push(match &*json {
            "null" => String::new(),
            text if text.starts_with('"') => cell(&serde_json::from_str::<String>(text)?),
            _ => json,
        });
        Ok(())
    }

    fn end(self) -> Result<(), Self::Error> {
        Ok(())
    }
}

/// A text in a table: printable, and behind a quote where a spreadsheet would take it for a formula.
fn cell(text: &str) -> String {
    let text = printable(text);
    if text.starts_with(['=', '+', '-', '@']) { format!("'{text}") } else { text }
}

/// The rows of all tables of a report, behind the names of their group, section and table, with a column for each head.
fn rows(table: &mut Table<'_>, view: &View) -> io::Result<()> {
    let sections = view.groups.iter().flat_map(|group| group.sections.iter().map(move |section| (group, section)));
    let tables = sections.flat_map(|(group, section)| {
        let name = group.name.as_deref().unwrap_or_default();
        section.blocks.iter().filter_map(move |block| match block {
            Content::Table(rows) => Some(([name, &section.name, rows.title.as_deref().unwrap_or_default()], rows)),
            Content::Facts(_) | Content::Timeline(_) | Content::Steps(_) | Content::Sentence(_) => None,
        })
    });
    let tables: Vec<([&str; 3], &Rows)> = tables.collect();
    let mut heads: Vec<&str> = Vec::new();
    for head in tables.iter().flat_map(|(_, rows)| rows.columns.iter().map(|column| head(&column.head))) {
        if !heads.contains(&head) {
            heads.push(head);
        }
    }
    table.head(&[&["group", "section", "table"], &heads[..]].concat())?;
    for (names, rows) in tables {
        for row in &rows.rows {
            let mut cells = [&names.map(cell)[..], &vec![String::new(); heads.len()]].concat();
            for (column, value) in rows.columns.iter().zip(&row.cells) {
                let place = heads.iter().position(|known| *known == head(&column.head)).unwrap_or(0);
                cells[names.len() + place] = raw(value);
            }
            table.out.write_record(cells).map_err(io_error)?;
        }
    }
    Ok(())
}

/// The head of a column in a table where each has one.
fn head(of: &str) -> &str {
    if of.is_empty() { "remark" } else { of }
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

/// The frame to blame; `None` if its line is unknown.
fn site(code: &Code<'_>, stack: Option<StackId>, options: &RenderOptions) -> Option<CodeLine> {
    place::place(code, code.site(stack?)?, options)
}

record! {
    /// A stack of a comparison.
    ChangeRecord<'a>(name: &'a str, device: &'a DeviceDiff, row: &'a Row, site: &'a Option<CodeLine>) {
        comparison: name,
        before_device: device.device.before,
        after_device: device.device.after,
        change: row.change.code(row.delta()),
        moved: row.moved,
        label: row.label,
        path: site.as_ref().map(|site| &site.path),
        line: site.as_ref().map(|site| site.line),
        key: row.key,
        bucket: row.kind.bucket(),
        before: row.held.before.bytes,
        after: row.held.after.bytes,
        delta: row.delta(),
        before_blocks: row.held.before.blocks,
        after_blocks: row.held.after.blocks,
    }
}

fn changes(table: &mut Table<'_>, gate: &Gate, options: &RenderOptions) -> io::Result<()> {
    table.head(ChangeRecord::NAMES)?;
    let mut known = Codes::default();
    for comparison in gate.leaves() {
        let name = comparison.name.as_deref().unwrap_or_default();
        let codes = known.of(&comparison.diff);
        for device in &comparison.diff.devices {
            for row in device.rows.iter().filter(|row| row.held.before.bytes > 0 || row.held.after.bytes > 0) {
                let site = match row.stack.after {
                    Some(stack) => site(&codes.after, Some(stack), options),
                    None => site(&codes.before, row.stack.before, options),
                };
                table.row(None, &ChangeRecord(name, device, row, &site))?;
            }
        }
    }
    Ok(())
}

record! {
    /// A stack of one snapshot.
    StackRecord<'a>(device: &'a DeviceProfile, total: &'a StackTotal, site: &'a Option<CodeLine>, has_history: bool) {
        device: device.device,
        label: total.label,
        path: site.as_ref().map(|site| &site.path),
        line: site.as_ref().map(|site| site.line),
        key: total.key.0,
        bucket: total.bucket.map(Bucket::code),
        baseline: has_history.then_some(total.baseline.bytes),
        peak: has_history.then_some(total.peak.bytes),
        end: total.end.bytes,
        at: total.at.bytes,
        baseline_blocks: has_history.then_some(total.baseline.blocks),
        peak_blocks: has_history.then_some(total.peak.blocks),
        end_blocks: total.end.blocks,
        at_blocks: total.at.blocks,
        allocations: total.allocations,
        allocated_total: total.allocated_total,
    }
}

/// The stacks of a snapshot, behind the name of its rank.
fn stacks(table: &mut Table<'_>, rank: Option<&str>, profile: &Profile, options: &RenderOptions) -> io::Result<()> {
    let code = profile.code();
    for device in &profile.devices {
        let has_history = device.figures.history == replay::HistoryKind::Recorded;
        for total in device.listed(0, 0) {
            let site = site(&code, total.stack(), options);
            table.row(rank, &StackRecord(device, &total, &site, has_history))?;
        }
    }
    Ok(())
}

fn stacks_of_ranks(table: &mut Table<'_>, readings: &Readings, options: &RenderOptions) -> io::Result<()> {
    table.head(&[&["rank"], StackRecord::NAMES].concat())?;
    readings.leaves().try_for_each(|of| stacks(table, of.name(), &of.profile, options))
}

record! {
    /// A stack that grows; `since` is empty where it did from the beginning.
    LeakRecord<'a>(search: &'a Search, device: &'a DeviceLeaks, leak: &'a Leak, site: &'a Option<CodeLine>) {
        name: search.name,
        rank: search.rank,
        device: device.device,
        metric: <&str>::from(leak.metric),
        label: leak.label,
        path: site.as_ref().map(|site| &site.path),
        line: site.as_ref().map(|site| site.line),
        key: leak.key,
        bucket: leak.bucket.map(Bucket::code),
        bytes: leak.bytes,
        blocks: leak.blocks,
        bytes_per_step: leak.bytes_per_step,
        steps_grown: leak.grew,
        steps_judged: leak.judged,
        end: leak.end.bytes,
        end_blocks: leak.end.blocks,
        since: leak.since,
    }
}

fn leaks(table: &mut Table<'_>, gate: &LeakGate, options: &RenderOptions) -> io::Result<()> {
    table.head(LeakRecord::NAMES)?;
    for search in gate.leaves().map(|finding| &finding.search) {
        let code = search.code();
        for (device, leak) in search.leaks() {
            table.row(None, &LeakRecord(search, device, leak, &site(&code, leak.stack, options)))?;
        }
    }
    Ok(())
}

/// The phases of each device, behind its number.
fn phases(table: &mut Table<'_>, profile: &Profile, options: &RenderOptions) -> io::Result<()> {
    let devices = profile.devices.iter();
    table.of_devices(devices.flat_map(|of| options.phases_of(of).map(|phase| (of.device, PhaseRecord(phase)))))
}

/// The parts of the history of each device, behind its number.
fn intervals(table: &mut Table<'_>, profile: &Profile) -> io::Result<()> {
    let devices = profile.devices.iter();
    table.of_devices(devices.flat_map(|of| of.intervals.iter().map(|part| (of.device, IntervalRecord(part)))))
}

record! {
    /// A phase of a comparison.
    PhaseChangeRecord<'a>(comparison: &'a str, device: &'a DeviceDiff, row: &'a PhaseRow) {
        comparison: comparison,
        before_device: device.device.before,
        after_device: device.device.after,
        name: &*row.name,
        source: row.source.name(),
        before_occurrence: row.number.before,
        after_occurrence: row.number.after,
        before: row.peak.before,
        after: row.peak.after,
        delta: row.delta(),
    }
}

fn phase_changes(table: &mut Table<'_>, gate: &Gate) -> io::Result<()> {
    table.head(PhaseChangeRecord::NAMES)?;
    for comparison in gate.leaves() {
        let name = comparison.name.as_deref().unwrap_or_default();
        for device in &comparison.diff.devices {
            device.phases.iter().try_for_each(|row| table.row(None, &PhaseChangeRecord(name, device, row)))?;
        }
    }
    Ok(())
}

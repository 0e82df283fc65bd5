//! Comma-separated values: a row per stack or leak, or per phase or part of the history where these are asked for; all
//! of them, whatever the limits.

use ::csv::{Writer, WriterBuilder};
use serde::Serialize;

use super::phases::{IntervalRecord, PhaseRecord};
use super::place::{self, Codes};
use super::{Error, Options, Subject};
use crate::diff::{DeviceDiff, PhaseRow, Row, Sides};
use crate::leak::{DeviceLeaks, Leak, Search};
use crate::profile::{Bucket, DeviceProfile, Profile, StackTotal};
use crate::replay::History;
use crate::snapshot::StackId;
use crate::stack::Code;
use crate::text::printable;
use crate::verdict::{Gate, LeakGate, Readings};

pub(super) fn render(subject: Subject<'_>, options: &Options) -> Result<String, Error> {
    match subject {
        Subject::Gate(gate) if options.phases => table(&phase_changes(gate)),
        Subject::Gate(gate) => table(&changes(gate, options)),
        Subject::Profile(profile, _) if options.phases => table_by("device", &phases(profile, options)),
        Subject::Profile(profile, _) if profile.options.every.is_some() => table_by("device", &intervals(profile)),
        Subject::Profile(profile, _) => table(&stacks(profile, options)),
        Subject::Ranks(readings) => table_by("rank", &stacks_of_ranks(readings, options)),
        Subject::Leaks(gate) => table(&leaks(gate, options)),
    }
}

/// The records below the names of their columns, which are there without records too.
fn table<R: Serialize + Default>(records: &[R]) -> Result<String, Error> {
    let mut out = WriterBuilder::new().has_headers(false).from_writer(Vec::new());
    out.write_record(columns::<R>()?)?;
    for record in records {
        out.serialize(record)?;
    }
    finish(out)
}

/// The same, each record behind what it belongs to.
fn table_by<K: Serialize, R: Serialize + Default>(head: &str, records: &[(K, R)]) -> Result<String, Error> {
    let mut out = WriterBuilder::new().has_headers(false).from_writer(Vec::new());
    let columns = columns::<R>()?;
    out.write_record(std::iter::once(head).chain(columns.iter().map(String::as_str)))?;
    for record in records {
        out.serialize(record)?;
    }
    finish(out)
}

/// The names of the fields of a record.
fn columns<R: Serialize + Default>() -> Result<Vec<String>, Error> {
    let mut out = Writer::from_writer(Vec::new());
    out.serialize(R::default())?;
    let text = finish(out)?;
    Ok(text.lines().next().unwrap_or_default().split(',').map(str::to_owned).collect())
}

fn finish(out: Writer<Vec<u8>>) -> Result<String, Error> {
    let bytes = out.into_inner().map_err(|error| Error::Csv(error.to_string()))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

impl From<::csv::Error> for Error {
    fn from(error: ::csv::Error) -> Self {
        Self::Csv(error.to_string())
    }
}

/// A text in a table: printable, and behind a quote where a spreadsheet would take it for a formula.
fn cell(text: &str) -> String {
    let text = printable(text);
    if text.starts_with(['=', '+', '-', '@']) { format!("'{text}") } else { text }
}

/// Path and line of the frame to blame.
#[derive(Debug, Default)]
struct Site {
    path: String,
    line: Option<u32>,
}

impl Site {
    fn new(code: &Code<'_>, stack: Option<StackId>, options: &Options) -> Self {
        let Some(frame) = stack.and_then(|stack| code.site(stack)) else { return Self::default() };
        Self { path: cell(place::path(code, frame, options)), line: code.line(frame) }
    }
}

/// A stack of a comparison.
#[derive(Debug, Default, Serialize)]
struct ChangeRecord {
    comparison: String,
    before_device: Option<u32>,
    after_device: Option<u32>,
    change: &'static str,
    moved: bool,
    label: String,
    path: String,
    line: Option<u32>,
    key: String,
    bucket: &'static str,
    before: u64,
    after: u64,
    delta: i128,
    before_blocks: u64,
    after_blocks: u64,
    changed_here: Option<bool>,
}

fn changes(gate: &Gate, options: &Options) -> Vec<ChangeRecord> {
    let mut known = Codes::default();
    let mut records = Vec::new();
    for comparison in &gate.comparisons {
        let name = comparison.name.as_deref().unwrap_or_default();
        let codes = known.of(&comparison.diff);
        for device in &comparison.diff.devices {
            let held = device.rows.iter().filter(|row| row.held.before.bytes > 0 || row.held.after.bytes > 0);
            records.extend(held.map(|row| ChangeRecord::new(name, device, row, &codes, options)));
        }
    }
    records
}

impl ChangeRecord {
    fn new(name: &str, device: &DeviceDiff, row: &Row, codes: &Sides<Code<'_>>, options: &Options) -> Self {
        let Site { path, line } = match row.stack.after {
            Some(stack) => Site::new(&codes.after, Some(stack), options),
            None => Site::new(&codes.before, row.stack.before, options),
        };
        Self {
            comparison: cell(name),
            before_device: device.device.before,
            after_device: device.device.after,
            change: row.change.code(row.delta()),
            moved: row.moved,
            label: cell(&row.label),
            path,
            line,
            key: cell(&row.key),
            bucket: row.kind.bucket().unwrap_or_default(),
            before: row.held.before.bytes,
            after: row.held.after.bytes,
            delta: row.delta(),
            before_blocks: row.held.before.blocks,
            after_blocks: row.held.after.blocks,
            changed_here: device.touched.map(|_| row.touched.is_some()),
        }
    }
}

/// A stack of one snapshot.
#[derive(Debug, Default, Serialize)]
struct StackRecord {
    device: u32,
    label: String,
    path: String,
    line: Option<u32>,
    key: String,
    bucket: &'static str,
    baseline: Option<u64>,
    peak: Option<u64>,
    end: u64,
    at: u64,
    baseline_blocks: Option<u64>,
    peak_blocks: Option<u64>,
    end_blocks: u64,
    at_blocks: u64,
    allocations: u64,
    allocated_total: u64,
}

fn stacks(profile: &Profile, options: &Options) -> Vec<StackRecord> {
    let code = profile.code();
    let mut records = Vec::new();
    for device in &profile.devices {
        let listed = device.listed(0, 0);
        records.extend(listed.into_iter().map(|total| StackRecord::new(device, total, &code, options)));
    }
    records
}

/// The stacks of several snapshots, behind the names of their ranks.
fn stacks_of_ranks(readings: &Readings, options: &Options) -> Vec<(String, StackRecord)> {
    let mut records = Vec::new();
    for reading in &readings.readings {
        let rank = cell(&reading.member.label);
        records.extend(stacks(&reading.profile, options).into_iter().map(|record| (rank.clone(), record)));
    }
    records
}

impl StackRecord {
    fn new(device: &DeviceProfile, total: StackTotal, code: &Code<'_>, options: &Options) -> Self {
        let Site { path, line } = Site::new(code, total.stack(), options);
        let has_history = device.figures.history == History::Recorded;
        Self {
            device: device.device,
            label: cell(&total.label),
            path,
            line,
            key: cell(&total.key.0),
            bucket: total.bucket.map(Bucket::code).unwrap_or_default(),
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
}

/// A stack that grows.
#[derive(Debug, Default, Serialize)]
struct LeakRecord {
    name: String,
    rank: Option<u64>,
    device: u32,
    label: String,
    path: String,
    line: Option<u32>,
    key: String,
    bucket: &'static str,
    bytes: i128,
    blocks: i128,
    bytes_per_step: i128,
    steps_grown: usize,
    steps_judged: usize,
    end: u64,
    end_blocks: u64,
    /// Empty where it grew from the beginning.
    since: String,
}

fn leaks(gate: &LeakGate, options: &Options) -> Vec<LeakRecord> {
    let mut records = Vec::new();
    for finding in &gate.findings {
        let search = &finding.search;
        let code = search.code();
        records.extend(search.leaks().map(|(device, leak)| LeakRecord::new(search, device, leak, &code, options)));
    }
    records
}

impl LeakRecord {
    fn new(search: &Search, device: &DeviceLeaks, leak: &Leak, code: &Code<'_>, options: &Options) -> Self {
        let Site { path, line } = Site::new(code, leak.stack, options);
        Self {
            name: cell(search.name.as_deref().unwrap_or_default()),
            rank: search.rank,
            device: device.device,
            label: cell(&leak.label),
            path,
            line,
            key: cell(&leak.key),
            bucket: leak.bucket.map(Bucket::code).unwrap_or_default(),
            bytes: leak.bytes,
            blocks: leak.blocks,
            bytes_per_step: leak.bytes_per_step,
            steps_grown: leak.grew,
            steps_judged: leak.judged,
            end: leak.end.bytes,
            end_blocks: leak.end.blocks,
            since: cell(leak.since.as_deref().unwrap_or_default()),
        }
    }
}

/// The phases of each device, behind its number.
fn phases<'a>(profile: &'a Profile, options: &Options) -> Vec<(u32, PhaseRecord<'a>)> {
    let mut records = Vec::new();
    for device in &profile.devices {
        let phases = options.phases_of(device);
        records.extend(phases.map(|phase| (device.device, PhaseRecord::new(cell(&phase.name), phase))));
    }
    records
}

/// The parts of the history of each device, behind its number.
fn intervals(profile: &Profile) -> Vec<(u32, IntervalRecord<'_>)> {
    let mut records = Vec::new();
    for device in &profile.devices {
        let parts = device.intervals.iter();
        records.extend(parts.map(|part| (device.device, IntervalRecord::new(cell(&part.name), part))));
    }
    records
}

/// A phase of a comparison.
#[derive(Debug, Default, Serialize)]
struct PhaseChangeRecord {
    comparison: String,
    before_device: Option<u32>,
    after_device: Option<u32>,
    name: String,
    source: &'static str,
    before_occurrence: Option<u32>,
    after_occurrence: Option<u32>,
    before: Option<u64>,
    after: Option<u64>,
    delta: Option<i128>,
}

fn phase_changes(gate: &Gate) -> Vec<PhaseChangeRecord> {
    let mut records = Vec::new();
    for comparison in &gate.comparisons {
        let name = comparison.name.as_deref().unwrap_or_default();
        for device in &comparison.diff.devices {
            records.extend(device.phases.iter().map(|row| PhaseChangeRecord::new(name, device, row)));
        }
    }
    records
}

impl PhaseChangeRecord {
    fn new(comparison: &str, device: &DeviceDiff, row: &PhaseRow) -> Self {
        Self {
            comparison: cell(comparison),
            before_device: device.device.before,
            after_device: device.device.after,
            name: cell(&row.name),
            source: row.source.name(),
            before_occurrence: row.number.before,
            after_occurrence: row.number.after,
            before: row.peak.before,
            after: row.peak.after,
            delta: row.delta(),
        }
    }
}

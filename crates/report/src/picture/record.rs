//! The history of one side: as the parts of a picture ask for it, and event by event, as the script of a page replays it.

use std::collections::{BTreeMap, HashMap};

use ptmem_base::interner::Interner;
use ptmem_base::sides::Side;
use ptmem_compare::align::Alignment;
use ptmem_snapshot::snapshot::StringId;
use ptmem_trace::profile::{DeviceProfile, Profile, identity};
use ptmem_trace::replay::{Home, Position, SegmentPart};
use ptmem_trace::stack::GroupBy;
use ptmem_trace::trace::{Measure, Origin, Trace};
use serde::Serialize;

use super::pictured::Pictured;
use super::units::Units;

/// A device of one side, with what is worked out once.
pub(super) struct Past<'p> {
    pub(super) side: Side,
    pub(super) device: &'p DeviceProfile,
    pub(super) is_compared: bool,
    pub(super) alignment: Option<&'p Alignment>,
    /// The places just after the recorded allocations; nothing where they are not known.
    pub(super) begun: Vec<Position>,
    /// The unit of each class of the trace.
    pub(super) units: Vec<u32>,
    /// The category or the recorded purpose of each class of the trace, as an index into names that both sides share.
    pub(super) categories: Vec<u32>,
}

impl<'p> Past<'p> {
    /// The history of a side; `None` where the device is missing there.
    pub(super) fn new(
        pictured: &Pictured<'p>,
        side: Side,
        units: &mut Units<'p>,
        names: &mut Interner<String>,
    ) -> Option<Self> {
        let profile = (*pictured.profiles.of(side))?;
        let device = (*pictured.devices.of(side))?;
        let known = Some(device).filter(|device| device.has_moves());
        let classes = device.trace.classes.iter();
        Some(Self {
            side,
            device,
            is_compared: pictured.rows.is_some(),
            alignment: pictured.alignment,
            begun: known.iter().flat_map(|device| device.trace.begun()).map(|(at, _)| at).collect(),
            units: classes.map(|class| units.of(side, class.origin, class.tags)).collect(),
            categories: known.map(|device| categories(profile, device, names)).unwrap_or_default(),
        })
    }
}

/// The category or the recorded purpose of each class of a trace, as an index into the names.
fn categories(profile: &Profile, device: &DeviceProfile, names: &mut Interner<String>) -> Vec<u32> {
    let by_category = profile.grouper_by(GroupBy::Category);
    let by_purpose = profile.grouper_by(GroupBy::Purpose);
    let mut known: HashMap<(Origin, Option<StringId>), u32> = HashMap::new();
    let categories = device.trace.classes.iter().map(|class| {
        *known.entry((class.origin, class.tags.purpose)).or_insert_with(|| {
            // The recorder saw the purpose; the stack only suggests a category.
            let grouper = if class.tags.purpose.is_some() { &by_purpose } else { &by_category };
            names.number(&identity(class, grouper).label)
        })
    });
    categories.collect()
}

/// The history of one side in columns of numbers. The script of a page has a description of each column.
#[derive(Debug, Serialize)]
pub(crate) struct HistoryColumns {
    /// Number of events; the symbols behind them belong to the dump.
    events: usize,
    /// Reserved bytes before the first event; `None` where they are not known.
    reserved: Option<i64>,
    /// The segments at the start, and those that moves add and take away, where addresses are known.
    segments: Vec<SegmentRange>,
    changes: Vec<SegmentRange>,
    /// The columns by name. A number that there is none of is -1.
    columns: BTreeMap<String, Vec<i64>>,
}

/// A segment, or a part of one.
#[derive(Debug, Serialize)]
struct SegmentRange {
    from: u64,
    bytes: u64,
    mapped: bool,
    /// The requests that it serves, in words.
    home: String,
}

impl HistoryColumns {
    /// The history of a side; `None` where it is not known event by event.
    ///
    /// `leaves` are the nodes of the units, `rows` those of the report by their keys, `layers` the places of the categories
    /// among those of all areas.
    pub(super) fn new(
        past: &Past<'_>,
        units: &Units<'_>,
        leaves: &[usize],
        rows: &HashMap<String, usize>,
        layers: &[usize],
    ) -> Option<Self> {
        let device = Some(past.device).filter(|device| device.has_moves())?;
        let keys = device.keys(units.groupers.of(past.side).as_ref()?);
        let rows = keys.iter().map(|key| rows.get(units.shared(past.side, &key.0)));
        let trace = &device.trace;
        let mut record = Self {
            events: trace.symbols.len(),
            reserved: device.figures.reserved.baseline.map(|_| i64::try_from(trace.reserved).unwrap_or(0)),
            segments: Vec::new(),
            changes: Vec::new(),
            columns: BTreeMap::new(),
        };
        record.add("nodes", past.units.iter().map(|&unit| signed(leaves[unit as usize] as u64)));
        record.add("rows", rows.map(|row| row.map_or(-1, |&row| signed(row as u64))));
        record.add("categories", past.categories.iter().map(|&category| signed(layers[category as usize] as u64)));
        record.add_trace(trace);
        record.add_differences("timePlaces", device.times.iter().map(|(place, _)| signed(place.count() as u64)));
        record.add_differences("times", device.times.iter().map(|&(_, us)| signed(us)));
        record.add_alignment(past);
        if let Some(layout) = &device.layout {
            record.add_differences("addresses", layout.blocks.iter().copied().map(signed));
            record.segments = SegmentRange::of(&layout.segments);
            record.changes = SegmentRange::of(&layout.changes);
        }
        Some(record)
    }

    /// Whether it has the addresses of blocks.
    pub(super) fn has_layout(&self) -> bool {
        self.columns.contains_key("addresses")
    }

    fn add(&mut self, name: impl Into<String>, values: impl Iterator<Item = i64>) {
        self.columns.insert(name.into(), values.collect());
    }

    /// Adds each value as the difference to the one before it.
    fn add_differences(&mut self, name: impl Into<String>, values: impl Iterator<Item = i64>) {
        let mut last = 0;
        self.add(name, values.map(|value| value.wrapping_sub(std::mem::replace(&mut last, value))));
    }

    /// Adds the classes, the moves with the classes of the blocks that each begins, frees and completes, and the events.
    fn add_trace(&mut self, trace: &Trace) {
        self.add("bytes", trace.classes.iter().map(|class| signed(class.bytes)));
        self.add("requested", trace.classes.iter().map(|class| signed(class.requested)));
        self.add("startAllocated", trace.start.iter().map(|start| start.allocated.into()));
        self.add("startPending", trace.start.iter().map(|start| start.pending.into()));
        self.add("begins", trace.moves.iter().map(|one| number(one.begins().map(|block| block.class))));
        self.add("frees", trace.moves.iter().map(|one| number(one.frees())));
        self.add("completes", trace.moves.iter().map(|one| number(one.completes())));
        let reserves = trace.moves.iter().map(|one| one.change(Measure::Reserved, &trace.classes));
        self.add("reserves", reserves.map(|bytes| i64::try_from(bytes).unwrap_or(0)));
        self.add("symbols", trace.symbols.iter().chain(&trace.implied).map(|&symbol| symbol.into()));
        self.add_differences("ended", trace.ended.iter().map(|&block| block.into()));
    }

    /// Adds, where two sides are aligned, of the before the place of the after that corresponds to each of its places, and of
    /// the after the allocation of the before that each of its allocations is, counted from 1; 0 is none.
    fn add_alignment(&mut self, past: &Past<'_>) {
        let [before, after] = Side::BOTH.map(|side| past.alignment.filter(|_| past.side == side));
        let begun = past.begun.len();
        let places = before.into_iter().flat_map(|of| (0..=begun).map(|at| of.map.after_of(at)));
        self.add_differences("places", places);
        let partners = after.into_iter().flat_map(|of| (0..begun).map(|at| of.map.before_of(at)));
        self.add_differences("partners", partners.map(|partner| partner.map_or(0, |at| signed(at as u64 + 1))));
    }
}

impl SegmentRange {
    fn of(parts: &[SegmentPart]) -> Vec<Self> {
        let parts = parts.iter().map(|part| Self {
            from: part.address,
            bytes: part.bytes,
            mapped: part.is_mapped,
            home: words(part.home, part.is_mapped),
        });
        parts.collect()
    }
}

fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// The number of a class, -1 for none.
fn number(class: Option<u32>) -> i64 {
    class.map_or(-1, i64::from)
}

/// The stream, the pool and the kind of a segment, as far as they are known.
fn words(home: Home, is_mapped: bool) -> String {
    let stream = home.stream.map(|stream| match stream {
        0 => "default stream".to_owned(),
        stream => format!("stream 0x{stream:x}"),
    });
    let pool = home.private_pool().map(|(first, second)| format!("private pool {first}:{second}"));
    let size = home.small.map(|small| if small { "requests up to 1 MiB" } else { "larger requests" }.to_owned());
    let kind = is_mapped.then(|| "expandable".to_owned());
    let parts: Vec<String> = [stream, pool, size, kind].into_iter().flatten().collect();
    if parts.is_empty() { "stream and pool unknown".to_owned() } else { parts.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_segment_is_named_by_its_stream_its_pool_and_its_kind() {
        let home = Home { stream: Some(0), pool_id: Some((0, 0)), small: Some(true) };
        assert_eq!(words(home, false), "default stream, requests up to 1 MiB");
        let home = Home { stream: Some(0x7f00), pool_id: Some((0, 2)), small: None };
        assert_eq!(words(home, true), "stream 0x7f00, private pool 0:2, expandable");
        assert_eq!(words(Home::default(), false), "stream and pool unknown");
    }
}

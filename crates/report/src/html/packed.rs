//! The history of a side for the script of the page: columns of numbers, packed into one text.
//!
//! Each number is written in groups of seven bits, the lowest first, with the sign in the lowest bit; the bytes of all
//! columns are deflated together and written in base64. A recording repeats itself, so little is left of it.

use std::io::{self, Write};

use data_encoding::BASE64;
use flate2::Compression;
use flate2::write::ZlibEncoder;
use ptmem_trace::replay::Home;
use ptmem_trace::trace::{Measure, Move};
use serde::Serialize;

use super::data::{differences, signed};
use crate::picture::Record;
use crate::push_varint;

/// Addresses are multiples of this on every device that PyTorch knows; others are kept to the byte.
const ADDRESS_UNIT: u64 = 512;

/// A history, packed.
#[derive(Serialize)]
pub(super) struct Packed {
    /// The columns in their order, each with its length.
    columns: Vec<(String, usize)>,
    packed: String,
    /// Number of events; the symbols behind them belong to the dump.
    events: usize,
    /// Reserved bytes before the first event; nothing where they are not known.
    reserved: Option<i64>,
    /// The lowest address, and the unit of all of them.
    base: u64,
    unit: u64,
    /// Which requests segments serve, in words.
    homes: Vec<String>,
}

/// Columns while they are written.
#[derive(Default)]
struct Columns {
    names: Vec<(String, usize)>,
    bytes: Vec<u8>,
}

impl Columns {
    fn add(&mut self, name: impl Into<String>, values: impl Iterator<Item = i64>) {
        let mut count = 0;
        for value in values {
            count += 1;
            push_varint(&mut self.bytes, (value.unsigned_abs() << 1) | u64::from(value < 0));
        }
        self.names.push((name.into(), count));
    }

    fn add_differences(&mut self, name: impl Into<String>, values: impl Iterator<Item = i64>) {
        self.add(name, differences(values).into_iter());
    }
}

/// Packs a history.
pub(super) fn pack(record: &Record) -> io::Result<Packed> {
    let mut columns = Columns::default();
    add_classes(&mut columns, record);
    add_moves(&mut columns, record);
    let trace = &record.trace;
    columns.add("symbols", trace.symbols.iter().chain(&trace.implied).map(|&symbol| symbol.into()));
    columns.add("ages", ages(record).into_iter());
    columns.add_differences("timePlaces", record.times.iter().map(|(place, _)| signed(place.count() as u64)));
    columns.add_differences("times", record.times.iter().map(|&(_, us)| signed(us)));
    columns.add_differences("places", record.places.iter().copied());
    // Partners begin at 1; 0 is none.
    let partners = record.partners.iter().map(|partner| partner.map_or(0, |partner| signed(partner as u64 + 1)));
    columns.add_differences("partners", partners);
    let addresses = Addresses::of(record);
    let homes = add_layout(&mut columns, record, &addresses);
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(&columns.bytes)?;
    Ok(Packed {
        columns: columns.names,
        packed: BASE64.encode(&encoder.finish()?),
        events: trace.symbols.len(),
        reserved: record.has_reserved.then(|| i64::try_from(trace.reserved).unwrap_or(0)),
        base: addresses.base,
        unit: addresses.unit,
        homes,
    })
}

fn add_classes(columns: &mut Columns, record: &Record) {
    let trace = &record.trace;
    columns.add("bytes", trace.classes.iter().map(|class| signed(class.bytes)));
    columns.add("requested", trace.classes.iter().map(|class| signed(class.requested)));
    columns.add("nodes", record.nodes.iter().map(|&node| signed(node as u64)));
    columns.add("rows", record.rows.iter().map(|row| row.map_or(-1, |row| signed(row as u64))));
    columns.add("categories", record.categories.iter().map(|&category| signed(category as u64)));
    columns.add("startAllocated", trace.start.iter().map(|start| start.allocated.into()));
    columns.add("startPending", trace.start.iter().map(|start| start.pending.into()));
}

/// The classes of the blocks that each move begins, frees and completes, -1 for none, and what it adds to the reserved
/// bytes.
fn add_moves(columns: &mut Columns, record: &Record) {
    let moves = &record.trace.moves;
    columns.add("begins", moves.iter().map(|one| number(one.begins().map(|block| block.class))));
    columns.add("frees", moves.iter().map(|one| number(one.frees())));
    columns.add("completes", moves.iter().map(|one| number(one.completes())));
    let reserved = moves.iter().map(|one| one.change(Measure::Reserved, &record.trace.classes));
    columns.add("reserves", reserved.map(|bytes| i64::try_from(bytes).unwrap_or(0)));
}

/// The number of a class, -1 for none.
fn number(class: Option<u32>) -> i64 {
    class.map_or(-1, i64::from)
}

/// For each move that ends a block, how many blocks younger than it there were: numbers that repeat from step to step.
fn ages(record: &Record) -> Vec<i64> {
    let trace = &record.trace;
    let mut blocks: i64 = trace.start.iter().map(|start| i64::from(start.allocated + start.pending)).sum();
    let mut ended = trace.ended.iter();
    let mut ages = Vec::with_capacity(trace.ended.len());
    for &symbol in trace.symbols.iter().chain(&trace.implied) {
        let one: Move = trace.moves[symbol as usize];
        if one.ends().is_some() {
            ages.extend(ended.next().map(|&number| blocks - i64::from(number)));
        }
        blocks += i64::from(one.begins().is_some());
    }
    ages
}

/// How addresses are written.
struct Addresses {
    base: u64,
    unit: u64,
}

impl Addresses {
    fn of(record: &Record) -> Self {
        let layout = record.layout.iter();
        let all = layout.flat_map(|layout| {
            let parts = layout.segments.iter().chain(&layout.changes).map(|part| part.address);
            layout.blocks.iter().copied().chain(parts)
        });
        let all: Vec<u64> = all.collect();
        let base = all.iter().copied().min().unwrap_or(0);
        let is_even = all.iter().all(|address| (address - base).is_multiple_of(ADDRESS_UNIT));
        Self { base, unit: if is_even { ADDRESS_UNIT } else { 1 } }
    }

    fn place(&self, address: u64) -> i64 {
        signed((address - self.base) / self.unit)
    }
}

/// Adds where blocks and segments lie, and gives the words that the columns of homes number.
fn add_layout(columns: &mut Columns, record: &Record, addresses: &Addresses) -> Vec<String> {
    let mut homes = Vec::new();
    let Some(layout) = &record.layout else { return homes };
    columns.add_differences("addresses", layout.blocks.iter().map(|&address| addresses.place(address)));
    for (name, parts) in [("segment", &layout.segments), ("change", &layout.changes)] {
        columns.add_differences(format!("{name}s"), parts.iter().map(|part| addresses.place(part.address)));
        columns.add(format!("{name}Bytes"), parts.iter().map(|part| signed(part.bytes)));
        columns.add(format!("{name}Mapped"), parts.iter().map(|part| part.is_mapped.into()));
        let numbers = parts.iter().map(|part| number_of(words(part.home, part.is_mapped), &mut homes));
        columns.add(format!("{name}Home"), numbers.map(|number| signed(number as u64)));
    }
    homes
}

/// The number of a text among others, to which it is added.
fn number_of(text: String, all: &mut Vec<String>) -> usize {
    all.iter().position(|known| *known == text).unwrap_or_else(|| {
        all.push(text);
        all.len() - 1
    })
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

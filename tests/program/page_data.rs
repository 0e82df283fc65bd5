//! The histories in the data of a page, read as its script reads them.

use std::collections::HashMap;

use serde::Deserialize;
use serde_json::Value;

/// The history of a side.
#[derive(Deserialize)]
pub(crate) struct History {
    columns: HashMap<String, Vec<i64>>,
    pub(crate) events: usize,
    reserved: Option<i64>,
    segments: Vec<Part>,
    changes: Vec<Part>,
}

/// A segment, or a part of one.
#[derive(Deserialize)]
struct Part {
    from: i64,
    bytes: i64,
    mapped: bool,
    home: String,
}

impl Part {
    /// The part, and whether parts that touch are one.
    fn span(&self) -> (Segment, bool) {
        ((self.from, self.from + self.bytes, self.home.clone()), self.mapped)
    }
}

/// A segment: its first byte, its end, and which requests it serves.
pub(crate) type Segment = (i64, i64, String);

impl History {
    /// That of a side of a section.
    pub(crate) fn of(section: &Value, side: &str) -> Self {
        Self::deserialize(&section["records"][side]).unwrap()
    }

    fn column(&self, name: &str) -> &[i64] {
        &self.columns[name]
    }

    /// The symbols up to a place.
    fn until(&self, place: u64) -> impl Iterator<Item = usize> {
        let all = self.column("symbols");
        let place = usize::try_from(place).unwrap();
        let to = if place > self.events { all.len() } else { place };
        all[..to].iter().map(|&symbol| usize::try_from(symbol).unwrap())
    }

    /// The allocated and the reserved bytes after every event, the start included.
    pub(crate) fn counters(&self) -> Vec<[i64; 2]> {
        let start: i64 =
            self.column("startAllocated").iter().zip(self.column("bytes")).map(|(n, bytes)| n * bytes).sum();
        let mut now = [start, self.reserved.unwrap_or(0)];
        let mut all = vec![now];
        for symbol in self.until(self.events as u64) {
            let bytes =
                |column: &str| usize::try_from(self.column(column)[symbol]).map_or(0, |of| self.column("bytes")[of]);
            now = [now[0] + bytes("begins") - bytes("frees"), now[1] + self.column("reserves")[symbol]];
            all.push(now);
        }
        all
    }

    /// The bytes that every class holds at a place.
    fn held_by_class(&self, place: u64) -> Vec<i64> {
        let mut blocks = self.column("startAllocated").to_vec();
        for symbol in self.until(place) {
            for (column, by) in [("begins", 1), ("frees", -1)] {
                if let Ok(of) = usize::try_from(self.column(column)[symbol]) {
                    blocks[of] += by;
                }
            }
        }
        assert!(blocks.iter().all(|&blocks| blocks >= 0));
        blocks.iter().zip(self.column("bytes")).map(|(blocks, bytes)| blocks * bytes).collect()
    }

    /// The bytes held at a place by the innermost frames, summed.
    pub(crate) fn held(&self, place: u64) -> i64 {
        self.held_by_class(place).into_iter().sum()
    }

    /// The bytes held at a place by a row.
    pub(crate) fn held_by_row(&self, place: u64, row: usize) -> i64 {
        let held = self.held_by_class(place).into_iter().zip(self.column("rows"));
        held.filter(|(_, of)| **of == i64::try_from(row).unwrap()).map(|(bytes, _)| bytes).sum()
    }

    /// The numbers of a column of differences.
    fn sums(&self, name: &str) -> Vec<i64> {
        let sums = self.column(name).iter().scan(0, |sum, step| {
            *sum += step;
            Some(*sum)
        });
        sums.collect()
    }

    /// The segments at the dump by address.
    pub(crate) fn segments_at_dump(&self) -> Vec<Segment> {
        let mut parts: Vec<_> = self.segments.iter().map(Part::span).collect();
        let mut changes = self.changes.iter().map(Part::span);
        for symbol in self.until(u64::MAX >> 1) {
            let reserves = self.column("reserves")[symbol];
            if reserves == 0 {
                continue;
            }
            let (part, is_mapped) = changes.next().unwrap();
            if reserves > 0 {
                parts.push((part, is_mapped));
                continue;
            }
            let cut = parts.into_iter().flat_map(|((from, to, home), is_mapped)| {
                let rests = [(from, to.min(part.0)), (from.max(part.1), to)];
                rests
                    .into_iter()
                    .filter(|(from, to)| from < to)
                    .map(move |(from, to)| ((from, to, home.clone()), is_mapped))
            });
            parts = cut.collect();
        }
        parts.sort();
        let mut whole: Vec<(Segment, bool)> = Vec::new();
        for (part, is_mapped) in parts {
            match whole.last_mut() {
                Some((last, true)) if is_mapped && last.1 == part.0 && last.2 == part.2 => last.1 = part.1,
                _ => whole.push((part, is_mapped)),
            }
        }
        whole.into_iter().map(|(segment, _)| segment).collect()
    }

    /// The address and the bytes of every block that is there at the dump.
    pub(crate) fn blocks_at_dump(&self) -> Vec<(i64, i64)> {
        let addresses = self.sums("addresses");
        let older = self.column("startAllocated").iter().zip(self.column("startPending")).enumerate();
        let mut classes: Vec<usize> =
            older.flat_map(|(of, (allocated, pending))| (0..allocated + pending).map(move |_| of)).collect();
        let mut is_there = vec![true; classes.len()];
        let mut ended = self.sums("ended").into_iter();
        for symbol in self.until(u64::MAX >> 1) {
            if self.column("frees")[symbol] >= 0 || self.column("completes")[symbol] >= 0 {
                let block = usize::try_from(ended.next().unwrap()).unwrap();
                is_there[block] &= self.column("completes")[symbol] < 0;
            }
            if let Ok(of) = usize::try_from(self.column("begins")[symbol]) {
                classes.push(of);
                is_there.push(true);
            }
        }
        let alive = (0..classes.len()).filter(|&block| is_there[block]);
        let mut blocks: Vec<_> = alive.map(|block| (addresses[block], self.column("bytes")[classes[block]])).collect();
        blocks.sort_unstable();
        blocks
    }
}

//! Inputs that are made of choices by the grammar of their format. Tests and fuzz targets share them.

#![allow(dead_code, unreachable_pub, missing_docs)]

use serde_json::{Value as Json, json};

/// Choices in bytes; 0 where none is left.
pub struct Choices<'b>(pub &'b [u8]);

impl Choices<'_> {
    pub fn byte(&mut self) -> u8 {
        let Some((&first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        first
    }

    /// A number below a bound of at most 256.
    pub fn below(&mut self, bound: usize) -> usize {
        usize::from(self.byte()) % bound
    }

    /// One of several.
    pub fn one<'o, T: ?Sized>(&mut self, of: &[&'o T]) -> &'o T {
        of[self.below(of.len())]
    }
}

/// Bytes that each event and each block at the start of a saved profile counts.
pub const MOVE: u64 = 48;

/// A device of a saved profile whose loops, one within the other, allocate a block and perhaps free it; `start` blocks are there
/// before.
#[derive(Debug, Clone)]
pub struct Bomb {
    pub rounds: Vec<u64>,
    pub start: u32,
    pub frees: bool,
}

impl Bomb {
    pub fn of(choices: &mut Choices<'_>) -> Self {
        let rounds = (0..=choices.below(4)).map(|_| 2 + (u64::from(choices.byte()) << choices.below(6)));
        let rounds = rounds.collect();
        Self { rounds, start: u32::from(choices.byte()) << choices.below(24), frees: choices.byte() > 64 }
    }

    /// How often a block is allocated.
    fn turns(&self) -> u64 {
        self.rounds.iter().product()
    }

    /// The number of its events.
    pub fn events(&self) -> u64 {
        self.turns() * if self.frees { 2 } else { 1 }
    }

    /// The number of events and blocks that it stands for.
    pub fn moves(&self) -> u64 {
        self.events() + u64::from(self.start)
    }

    /// The device as the file has it. Its figures are those of its history.
    fn json(&self, device: usize) -> Json {
        let turns = self.turns();
        let start = 512 * u64::from(self.start);
        let frees = if self.frees { turns } else { 0 };
        let peak = start + 512 * if self.frees { 1 } else { turns };
        let at = if self.frees { 0 } else { turns - 1 };
        let end = start + 512 * (turns - frees);
        let blocks = json!({
            "baseline": start, "peak": peak, "peak_event": at, "end": end, "baseline_error": 0, "peak_error": 0,
        });
        let none =
            json!({ "baseline": 0, "peak": 0, "peak_event": -1, "end": 0, "baseline_error": 0, "peak_error": 0 });
        let checks = json!({
            "sizes": { "recovered": 0, "total": 0 }, "checkpoints": { "matched": 0, "total": 0 }, "end_matches": true,
        });
        let moves = json!([[{ "alloc": 0 }, 0], [if self.frees { json!({ "free": [0, false] }) } else { json!("nothing") }, 0]]);
        let mut sequences = vec![if self.frees { json!([0, 1]) } else { json!([0]) }];
        // In two halves: a body of one item is refused.
        let bodies = self.rounds.iter().enumerate().map(|(body, rounds)| {
            let item = if body == 0 && !self.frees { 0 } else { -1 - i64::try_from(body).unwrap_or_default() };
            json!([[item, rounds / 2], [item, rounds - rounds / 2]])
        });
        sequences.extend(bodies);
        if !self.frees {
            sequences.remove(0);
            for items in sequences.iter_mut().skip(1).filter_map(Json::as_array_mut) {
                items.iter_mut().for_each(|item| item[0] = json!(item[0].as_i64().unwrap_or_default() + 1));
            }
        }
        json!({
            "device": device, "events": self.events(), "duration_us": null,
            "actions": { "alloc": turns, "free_completed": frees }, "history": "recorded", "allocated": blocks,
            "active": blocks, "requested": blocks, "reserved": none, "fragmentation": { "peak": 0, "end": 0 },
            "allocations": turns, "frees": frees, "allocated_total": 512 * turns, "checks": checks,
            "languages": { "python": true, "cpp": false }, "times": [], "ooms": [], "stacks": [{ "frames": [0] }],
            "classes": [[0, 512, 512, { "start": { "allocated": self.start, "pending": 0 } }]],
            "trace": { "reserved": 0, "implied": 0, "moves": moves, "sequences": sequences },
            "phases": [], "phases_cut": 0,
        })
    }
}

/// A saved profile of these devices, without its digest.
pub fn saved(bombs: &[Bomb]) -> String {
    let devices: Vec<Json> = bombs.iter().enumerate().map(|(device, bomb)| bomb.json(device)).collect();
    let profile = json!({
        "schema": "ptmem.profile/3", "tool": { "name": "ptmem", "version": "0" }, "raises": [], "settings": null,
        "source": { "path": "x.pkl", "bytes": 1, "kind": "snapshot" }, "keeps_annotations": true, "ended_us": null,
        "devices": devices, "diagnostics": [], "frames": [["f", "a.py", 1]],
    });
    let text = profile.to_string();
    format!("{},\n  \"sha1\": \"\"\n}}\n", &text[..text.len() - 1])
}

/// A figure that an input of numbers states.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fact {
    /// Its case; empty where the input is one.
    pub case: String,
    /// The ordinal of its device.
    pub device: u32,
    /// Peak and end of allocated, and of reserved bytes.
    pub figure: usize,
    pub bytes: u64,
}

/// Names of these figures.
const NAMES: [&[&str]; 4] = [
    &["peak", "max_memory_allocated", "allocated_bytes.all.peak", "mem-max-allocated-bytes"],
    &["end", "memory_allocated", "allocated_bytes.all.current"],
    &["reserved", "max_memory_reserved", "reserved_bytes.all.peak"],
    &["memory_reserved", "reserved_bytes.all.current", "mem-reserved-bytes"],
];

const CASES: [&str; 6] = ["train", "eval", "rank0", "end", "reserved", "é\\n"];

const OTHERS: [&str; 6] = [
    "\"num_ooms\": 1",
    "\"oversize_allocations\": {\"peak\": 9, \"current\": 9}",
    "\"active\": {\"all\": {\"peak\": 9}}",
    "\"allocated_bytes\": {\"large_pool\": {\"peak\": 9}}",
    "\"note\": [{\"x\": []}, true]",
    "\"lm loss\": {\"values\": {\"1\": 0.5}}",
];

/// JSON of numbers, and all that it states. A name may occur twice, and figures may contradict each other.
pub fn numbers(choices: &mut Choices<'_>) -> (String, Vec<Fact>) {
    let mut facts = Vec::new();
    let text = object(choices, &mut facts, "", None, 0);
    (text, facts)
}

fn object(choices: &mut Choices<'_>, facts: &mut Vec<Fact>, case: &str, device: Option<u32>, depth: usize) -> String {
    let mut entries = Vec::new();
    for _ in 0..=choices.below(4) {
        let entry = match choices.below(8) {
            0 => choices.one(&OTHERS).to_owned(),
            1 if depth == 0 => {
                let name = choices.one(&CASES);
                format!("\"{name}\": {}", object(choices, facts, &name.replace("\\n", "\n"), None, 1))
            }
            1 | 2 if device.is_none() => {
                let number = u32::from(choices.byte() % 3);
                format!(
                    "\"{}:{number}\": {}",
                    choices.one(&["cuda", "xpu"]),
                    object(choices, facts, case, Some(number), 2)
                )
            }
            _ => stated(choices, facts, case, device.unwrap_or(0)),
        };
        entries.push(entry);
    }
    format!("{{{}}}", entries.join(", "))
}

/// A figure under one of its names.
fn stated(choices: &mut Choices<'_>, facts: &mut Vec<Fact>, case: &str, device: u32) -> String {
    let figure = choices.below(4);
    // Mostly an end that is no higher than a peak.
    let bytes = u64::from(choices.byte() % 3) + if figure.is_multiple_of(2) { 2 } else { 0 };
    let value = match choices.below(6) {
        0 => "null".to_owned(),
        1 => format!("\"{bytes} B\""),
        2 => format!("{{\"values\": [0, null, {bytes}]}}"),
        3 => format!("{{\"step\": 1, \"values\": {{\"9\": {bytes}, \"10\": \"nan\", \"8\": 1}}}}"),
        _ => bytes.to_string(),
    };
    let bytes = if value.contains("\"8\": 1") && figure.is_multiple_of(2) { bytes.max(1) } else { bytes };
    if value != "null" {
        facts.push(Fact { case: case.to_owned(), device, figure, bytes });
    }
    let name = choices.one(NAMES[figure]);
    match name.split('.').collect::<Vec<_>>()[..] {
        [counter, all, point] if choices.byte() > 128 => {
            format!("\"{counter}\": {{\"{all}\": {{\"{point}\": {value}}}}}")
        }
        _ => format!("\"{name}\": {value}"),
    }
}

//! Small programs as lists of what they allocate and free, and the snapshots that they leave.

#![allow(clippy::unwrap_used, clippy::panic, missing_docs, dead_code, unreachable_pub)]

use ptmem::leak::{self, LeakOptions, Search};
use ptmem::profile::{self, InputKind, Moment, Profile, Source};

use super::pickle::{self, Value};

/// A snapshot of this path.
pub fn source(path: &str) -> Source {
    Source { path: path.to_owned(), bytes: 0, kind: InputKind::Snapshot }
}

/// A program: every line allocates with a stack of its own, and blocks go by names.
#[derive(Default)]
pub struct Program {
    /// MiB of the pool, at least 4096.
    pub reserved: u64,
    pub events: Vec<Value>,
    annotations: Vec<Value>,
    pub metadata: String,
    /// Address and size of what is held, with its name and frames.
    pub held: Vec<(String, u64, u64, Value)>,
    next: u64,
    pub clock: u64,
}

const UNIT: u64 = 1 << 20;
const BASE: u64 = 0x7f00_0000_0000;

impl Program {
    pub fn tick(&mut self) -> u64 {
        self.clock += 10;
        1_700_000_000_000_000 + self.clock
    }

    /// `function:line` requests `bytes`, up to 1 MiB. Blocks have multiples of 512.
    pub fn alloc(&mut self, name: impl Into<String>, place: &str, bytes: u64) {
        let (function, line) = place.split_once(':').unwrap();
        let frame = |name: &str, line: u64| {
            Value::dict([("name", name.into()), ("filename", "/work/job.py".into()), ("line", line.into())])
        };
        let frames = Value::List(vec![frame(function, line.parse().unwrap()), frame("main", 90)]);
        self.alloc_with(name, frames, bytes);
    }

    /// Frames such as `/work/model.py:forward:12`, innermost first, allocate `bytes`.
    pub fn alloc_under(&mut self, name: impl Into<String>, frames: &[&str], bytes: u64) {
        let frame = |text: &&str| {
            let [line, name, filename] = text.rsplitn(3, ':').collect::<Vec<_>>()[..] else { panic!("{text}") };
            let line: u64 = line.parse().unwrap();
            Value::dict([("name", name.into()), ("filename", filename.into()), ("line", line.into())])
        };
        self.alloc_with(name, Value::List(frames.iter().map(frame).collect()), bytes);
    }

    fn alloc_with(&mut self, name: impl Into<String>, frames: Value, bytes: u64) {
        let address = BASE + self.next * UNIT;
        self.next += 1;
        self.event("alloc", address, bytes, &frames);
        self.held.push((name.into(), address, bytes, frames));
    }

    pub fn free(&mut self, name: &str) {
        let at = self.held.iter().position(|held| held.0 == name).unwrap_or_else(|| panic!("{name}"));
        let (_, address, bytes, frames) = self.held.remove(at);
        self.event("free_requested", address, bytes, &frames);
        self.event("free_completed", address, bytes, &frames);
    }

    fn event(&mut self, action: &str, address: u64, bytes: u64, frames: &Value) {
        let time = self.tick();
        self.events.push(Value::dict([
            ("action", action.into()),
            ("addr", address.into()),
            ("size", bytes.into()),
            ("stream", 0.into()),
            ("time_us", time.into()),
            ("user_metadata", self.metadata.as_str().into()),
            ("frames", frames.clone()),
        ]));
    }

    pub fn mark(&mut self, stage: &str, name: &str) {
        let time = self.tick();
        self.annotations.push(Value::dict([
            ("stage", stage.into()),
            ("name", name.into()),
            ("device", 0.into()),
            ("time_us", time.into()),
        ]));
    }

    /// The ordinary work of a step: some tensors that come and go.
    pub fn work(&mut self) {
        self.alloc("a", "forward:10", 512 * 700);
        self.alloc("b", "forward:11", 512 * 300);
        self.free("a");
        self.alloc("c", "loss:20", 512);
        self.free("b");
        self.free("c");
    }

    pub fn snapshot(&self) -> Vec<u8> {
        pickle::write(&self.value(), pickle::Options::shared())
    }

    /// The snapshot before it is written.
    pub fn value(&self) -> Value {
        let size = self.next.max(self.reserved).max(4096) * UNIT;
        let mut blocks = Vec::new();
        let mut held: Vec<_> = self.held.iter().collect();
        held.sort_by_key(|held| held.1);
        let block = |address: u64, requested: u64, state: &str, frames: Value| {
            Value::dict([
                ("address", address.into()),
                ("size", requested.next_multiple_of(512).into()),
                ("requested_size", requested.into()),
                ("state", state.into()),
                ("frames", frames),
            ])
        };
        let mut at = BASE;
        for (_, address, bytes, frames) in held {
            if at < *address {
                blocks.push(block(at, address - at, "inactive", Value::List(Vec::new())));
            }
            blocks.push(block(*address, *bytes, "active_allocated", frames.clone()));
            at = address + bytes.next_multiple_of(512);
        }
        if at < BASE + size {
            blocks.push(block(at, BASE + size - at, "inactive", Value::List(Vec::new())));
        }
        let active: u64 = self.held.iter().map(|held| held.2.next_multiple_of(512)).sum();
        let segment = Value::dict([
            ("device", 0.into()),
            ("address", BASE.into()),
            ("total_size", size.into()),
            ("allocated_size", active.into()),
            ("active_size", active.into()),
            ("requested_size", active.into()),
            ("stream", 0.into()),
            ("segment_type", "large".into()),
            ("segment_pool_id", Value::Tuple(vec![0.into(), 0.into()])),
            ("is_expandable", Value::Bool(true)),
            ("frames", Value::List(Vec::new())),
            ("blocks", Value::List(blocks)),
        ]);
        Value::dict([
            ("segments", Value::List(vec![segment])),
            ("device_traces", Value::List(vec![Value::List(self.events.clone())])),
            ("external_annotations", Value::List(self.annotations.clone())),
        ])
    }

    pub fn search(&self, options: &LeakOptions) -> Search {
        let profile = profile::read(&*self.snapshot(), "program.pkl", options.reading());
        leak::search(&profile.unwrap(), options)
    }

    pub fn profile(&self, path: &str) -> Profile {
        let options = profile::ReadOptions { at: Moment::End, ..profile::ReadOptions::default() };
        profile::read(&*self.snapshot(), path, options).unwrap()
    }
}

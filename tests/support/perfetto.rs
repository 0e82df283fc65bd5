//! Reads a trace for Perfetto, with another implementation of protocol buffers.

#![allow(clippy::unwrap_used, clippy::panic, missing_docs, dead_code, unreachable_pub)]

use std::collections::{BTreeMap, HashMap};

use prost::Message;

/// The fields that a reader needs, with the numbers of `protos/perfetto/trace` in Perfetto's repository.
#[derive(Message)]
struct Trace {
    #[prost(message, repeated, tag = "1")]
    packets: Vec<Packet>,
}

#[derive(Message)]
struct Packet {
    #[prost(uint64, optional, tag = "8")]
    timestamp: Option<u64>,
    #[prost(uint32, optional, tag = "10")]
    sequence: Option<u32>,
    #[prost(message, optional, tag = "11")]
    event: Option<TrackEvent>,
    #[prost(message, optional, tag = "60")]
    descriptor: Option<TrackDescriptor>,
}

#[derive(Message)]
struct TrackEvent {
    #[prost(int32, optional, tag = "9")]
    kind: Option<i32>,
    #[prost(uint64, optional, tag = "11")]
    track: Option<u64>,
    #[prost(string, optional, tag = "23")]
    name: Option<String>,
    #[prost(int64, optional, tag = "30")]
    value: Option<i64>,
}

#[derive(Message)]
struct TrackDescriptor {
    #[prost(uint64, optional, tag = "1")]
    uuid: Option<u64>,
    #[prost(string, optional, tag = "2")]
    name: Option<String>,
    #[prost(message, optional, tag = "3")]
    process: Option<Process>,
    #[prost(uint64, optional, tag = "5")]
    parent: Option<u64>,
    #[prost(message, optional, tag = "8")]
    counter: Option<Counter>,
}

#[derive(Message)]
struct Process {
    #[prost(int32, optional, tag = "1")]
    pid: Option<i32>,
    #[prost(string, optional, tag = "6")]
    name: Option<String>,
}

#[derive(Message)]
struct Counter {
    #[prost(int32, optional, tag = "3")]
    unit: Option<i32>,
}

/// A slice of a track.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Slice {
    pub name: String,
    pub from: i64,
    pub to: i64,
}

/// A process as a reader of the trace sees it.
#[derive(Debug, Default)]
pub struct Shown {
    /// Values by the name of their counter, each with its time.
    pub counters: BTreeMap<String, Vec<(i64, i64)>>,
    /// Slices by the name of their tracks.
    pub slices: BTreeMap<String, Vec<Slice>>,
}

impl Shown {
    /// The highest value of a counter, whatever its name says of its error.
    pub fn peak(&self, name: &str) -> Option<i64> {
        let counter = self.counters.iter().find(|(of, _)| of.split(' ').next() == Some(name))?;
        counter.1.iter().map(|&(_, value)| value).max()
    }

    pub fn slice_names(&self, track: &str) -> Vec<&str> {
        let mut slices: Vec<_> = self.slices.get(track).into_iter().flatten().collect();
        slices.sort_by_key(|slice| (slice.from, -slice.to));
        slices.iter().map(|slice| &*slice.name).collect()
    }
}

/// Reads a trace as Perfetto does: tracks are declared first, time never goes back in a sequence and fits a signed number,
/// and every slice is closed.
pub fn decoded(bytes: &[u8]) -> BTreeMap<String, Shown> {
    let mut latest = HashMap::new();
    let mut processes: HashMap<u64, String> = HashMap::new();
    let mut tracks: HashMap<u64, (String, TrackDescriptor)> = HashMap::new();
    let mut open: HashMap<u64, Vec<Slice>> = HashMap::new();
    let mut shown: BTreeMap<String, Shown> = BTreeMap::new();
    for packet in Trace::decode(bytes).unwrap().packets {
        let at = i64::try_from(packet.timestamp.unwrap()).unwrap();
        let latest = latest.entry(packet.sequence.unwrap()).or_insert(0);
        assert!(at >= *latest, "{at} after {latest}");
        *latest = at;
        if let Some(descriptor) = packet.descriptor {
            let uuid = descriptor.uuid.unwrap();
            if let Some(process) = descriptor.process {
                assert_eq!(process.pid, Some(i32::try_from(processes.len() + 1).unwrap()));
                let name = process.name.unwrap();
                assert!(shown.insert(name.clone(), Shown::default()).is_none(), "{name}");
                processes.insert(uuid, name);
            } else {
                let process = processes[&descriptor.parent.unwrap()].clone();
                assert!(descriptor.counter.iter().all(|counter| counter.unit == Some(3)));
                assert!(tracks.insert(uuid, (process, descriptor)).is_none());
            }
            continue;
        }
        let event = packet.event.unwrap();
        let (process, track) = &tracks[&event.track.unwrap()];
        let shown = shown.get_mut(process).unwrap();
        let name = track.name.clone().unwrap();
        let open = open.entry(event.track.unwrap()).or_default();
        match event.kind.unwrap() {
            1 => open.push(Slice { name: event.name.unwrap(), from: at, to: at }),
            2 => {
                let slice = open.pop().unwrap();
                shown.slices.entry(name).or_default().push(Slice { to: at, ..slice });
            }
            4 => {
                assert!(track.counter.is_some());
                shown.counters.entry(name).or_default().push((at, event.value.unwrap()));
            }
            other => panic!("an event of type {other}"),
        }
    }
    assert!(open.values().all(Vec::is_empty), "{open:?}");
    shown
}

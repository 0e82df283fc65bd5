//! Tags of allocations that their events do not state: what the recorder says, the open annotation, and the pool.

mod recorded;

pub use recorded::{HOW_TO_RECORD, count_modules};

use std::collections::{BTreeMap, BinaryHeap};

use ptmem_base::device::DeviceId;
use ptmem_base::interner::Interner;
use ptmem_snapshot::snapshot::{Action, Event, Snapshot, StringId, Tags};
use rustc_hash::FxHashMap;

use crate::phase::{Phase, Source, folded_name, phases};
use crate::stack::GroupBy;
use crate::trace::ClassTags;
use recorded::Recorded;

/// The tags of the allocations of one device that no event states.
#[derive(Debug, Default)]
pub struct DeviceTags {
    /// The recorder's facts about them.
    recorded: Option<Recorded>,
    /// The names that a grouping goes by.
    named: Named,
}

/// Names that a grouping goes by.
#[derive(Debug, Default)]
enum Named {
    /// No tags are requested.
    #[default]
    None,
    /// Events, in order, each with the innermost annotation that is open since it.
    Annotations(Vec<(u32, Option<StringId>)>),
    /// The pools, with their streams.
    Pools(Pools),
}

impl DeviceTags {
    /// The tags of every device: those of the recorder, and names where a grouping goes by them. `unfold` is the number of
    /// levels of layers that keep their numbers.
    pub fn of_devices(snapshot: &mut Snapshot, by: GroupBy, unfold: u32) -> BTreeMap<DeviceId, Self> {
        let ids: Vec<DeviceId> = snapshot.devices.keys().copied().collect();
        let mut found = BTreeMap::new();
        let mut numbers = Numbers::default();
        for id in ids {
            let named = match by {
                GroupBy::Annotation => Named::Annotations(annotations(snapshot, id)),
                GroupBy::Pool => Named::Pools(Pools::new(snapshot, id, &mut numbers)),
                _ => Named::None,
            };
            found.insert(id, Self { recorded: Recorded::new(snapshot, id, unfold), named });
        }
        found
    }

    /// Adds to the tags of a block at an address. The event with this index made it, where that is recorded.
    pub fn add_to(&self, tags: &mut ClassTags, address: u64, made: Option<(u32, &Event)>, snapshot: &Snapshot) {
        if let Some(recorded) = &self.recorded {
            recorded.add_to(tags, address, made);
        }
        tags.origin = match &self.named {
            Named::None => None,
            Named::Annotations(borders) => made.and_then(|(index, _)| at_event(borders, index)?),
            Named::Pools(pools) => {
                let stated = made.map(|(_, event)| *snapshot.tables.tags(event.tags)).unwrap_or_default();
                pools.names.get(&pools.place(address, &stated)).copied()
            }
        };
    }
}

/// The value at an event. Each of `borders` is an event and the value from it to the next.
fn at_event<T: Copy>(borders: &[(u32, T)], event: u32) -> Option<T> {
    let next = borders.partition_point(|&(from, _)| from <= event);
    borders.get(next.checked_sub(1)?).map(|&(_, held)| held)
}

/// Events, each with the innermost annotation that is open from it to the next.
fn annotations(snapshot: &mut Snapshot, device: DeviceId) -> Vec<(u32, Option<StringId>)> {
    let Some(of) = snapshot.devices.get(&device) else { return Vec::new() };
    let mut open = phases(snapshot, snapshot.events_of(of));
    open.retain(|phase| phase.source == Source::Annotation);
    let names: Vec<String> =
        open.iter().map(|phase| folded_name(snapshot.tables.string(phase.name)).to_owned()).collect();
    let names: Vec<StringId> = names.iter().map(|name| snapshot.tables.intern_string(name)).collect();
    innermost(&open).into_iter().map(|(from, phase)| (from, phase.map(|phase| names[phase]))).collect()
}

/// Events, each with the latest open phase from it to the next. `phases` are in order.
fn innermost(phases: &[Phase]) -> Vec<(u32, Option<usize>)> {
    let mut borders: Vec<_> = phases.iter().flat_map(|phase| [phase.from, phase.to]).collect();
    borders.sort_unstable();
    borders.dedup();
    let mut next = 0;
    let mut open = BinaryHeap::new();
    let mut found: Vec<(u32, Option<usize>)> = Vec::with_capacity(borders.len());
    for border in borders {
        while phases.get(next).is_some_and(|phase| phase.from <= border) {
            open.push(next);
            next += 1;
        }
        while open.peek().is_some_and(|&last| phases[last].to <= border) {
            open.pop();
        }
        found.push((u32::try_from(border.count()).unwrap_or(u32::MAX), open.peek().copied()));
    }
    found
}

/// A pool and the stream that it serves, as far as they are known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
struct Place {
    pool: Option<(u64, u64)>,
    stream: Option<i128>,
}

/// Pools and streams by the order in which they appear: their own numbers differ from run to run.
#[derive(Debug, Default)]
struct Numbers {
    pools: Interner<(u64, u64)>,
    streams: Interner<i128>,
}

impl Numbers {
    fn name(&mut self, place: Place) -> String {
        let pool = match place.pool {
            None => "<pool not known>".to_owned(),
            Some((0, 0)) => "default pool".to_owned(),
            Some(private) => format!("private pool {}", self.pools.number(&private) + 1),
        };
        match place.stream {
            None | Some(0) => pool,
            Some(stream) => format!("{pool}, stream {}", self.streams.number(&stream) + 1),
        }
    }
}

/// The pools of a device.
#[derive(Debug)]
struct Pools {
    /// The segments of the final state by address: the address of the end of each, and its place.
    segments: BTreeMap<u64, (u64, Place)>,
    names: FxHashMap<Place, StringId>,
}

impl Pools {
    fn new(snapshot: &mut Snapshot, device: DeviceId, numbers: &mut Numbers) -> Self {
        let mut pools = Self { segments: BTreeMap::new(), names: FxHashMap::default() };
        let Some(of) = snapshot.devices.get(&device) else { return pools };
        pools.segments.extend(of.segments.iter().map(|segment| {
            let end = segment.address.saturating_add(segment.total_size);
            (segment.address, (end, Place { pool: segment.pool_id, stream: segment.stream }))
        }));
        let made = snapshot.events_of(of).iter().filter(|event| event.action == Action::Alloc);
        let recorded = made.map(|event| pools.place(event.addr, snapshot.tables.tags(event.tags)));
        // Blocks that are older than the recording, and freed in it, are known by the free alone.
        let freed = snapshot.events_of(of).iter().map(|event| pools.place(event.addr, &Tags::default()));
        let kept = pools.segments.values().map(|&(_, place)| place);
        let mut places: Vec<Place> = Vec::new();
        for place in recorded.chain(kept).chain(freed) {
            if !places.contains(&place) {
                places.push(place);
            }
        }
        for place in places {
            let name = snapshot.tables.intern_string(&numbers.name(place));
            pools.names.insert(place, name);
        }
        pools
    }

    /// The pool and the stream of a block, from the event that created it, otherwise from its segment.
    fn place(&self, address: u64, tags: &Tags) -> Place {
        let segment = self.segments.range(..=address).next_back().filter(|(_, (end, _))| address < *end);
        let known = segment.map(|(_, &(_, place))| place).unwrap_or_default();
        // A segment on another stream is a later one at the same address.
        let is_same = tags.stream.is_none() || known.stream.is_none() || tags.stream == known.stream;
        Place { pool: tags.pool_id.or(known.pool.filter(|_| is_same)), stream: tags.stream.or(known.stream) }
    }
}

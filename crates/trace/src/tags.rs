//! Tags of allocations that their events do not state: modules, purposes and shapes, as the recorder saw them.

use std::collections::{BTreeMap, BTreeSet};

use ptmem_base::device::DeviceId;
use ptmem_snapshot::snapshot::{Action, DeviceModules, Event, RunFacts, Snapshot, StringId, Tables};
use rustc_hash::FxHashMap;

use crate::stack::{GroupBy, folded_module};
use crate::trace::ClassTags;

/// The way to a recording with modules.
pub const HOW_TO_RECORD: &str = "record with 'ptmem simulate --modules' or ptmem_gate.record(modules=True)";

/// The way to a recording that has what stacks are grouped by; `None` if every one has it.
pub fn how_to_record(by: GroupBy) -> Option<&'static str> {
    match by {
        GroupBy::Module | GroupBy::Purpose => Some(HOW_TO_RECORD),
        GroupBy::Shape => Some("record with 'ptmem simulate --shapes'"),
        _ => None,
    }
}

/// The module of a block whose tensors belong to modules that have no common path, as recorders name it.
pub const SEVERAL_MODULES: &str = "<several modules>";

/// The tags of the allocations of one device.
#[derive(Debug, Default)]
pub struct DeviceTags {
    /// Events, in order, each with the tags that apply from it to the next.
    borders: Vec<(u32, ClassTags)>,
    /// Those of blocks from before, by address.
    blocks: FxHashMap<u64, ClassTags>,
    /// The functions that supposed the sizes of allocations, by event.
    supposed: FxHashMap<u32, StringId>,
}

impl DeviceTags {
    /// The tags of each device of which the recorder gave some. `unfold` is the number of levels of layers that keep their numbers.
    pub fn of_devices(snapshot: &mut Snapshot, unfold: u32) -> BTreeMap<DeviceId, Self> {
        let ids: Vec<DeviceId> = snapshot.devices.keys().copied().collect();
        let mut found = BTreeMap::new();
        for id in ids {
            let modules = Self::of_modules(snapshot, id, unfold);
            let supposed = supposed(snapshot, id);
            if modules.is_some() || !supposed.is_empty() {
                found.insert(id, Self { supposed, ..modules.unwrap_or_default() });
            }
        }
        found
    }

    /// The modules, purposes and shapes of a device, if the recorder gave some.
    fn of_modules(snapshot: &mut Snapshot, device: DeviceId, unfold: u32) -> Option<Self> {
        let all = &snapshot.run.as_ref()?.modules;
        let modules = all.iter().find(|modules| modules.device == device)?.clone();
        let tags = tags(&modules, unfold, &mut snapshot.tables);
        let of = snapshot.devices.get(&device)?;
        let events = snapshot.events_of(of).iter().zip(0_u32..);
        let mut allocations = events.filter(|(event, _)| event.action == Action::Alloc).map(|(_, index)| index);
        let mut borders = Vec::with_capacity(modules.allocations.len() + 1);
        for [count, number] in modules.allocations {
            let Some(first) = allocations.next() else { break };
            borders.push((first, tags_of(&tags, number).unwrap_or_default()));
            let others = usize::try_from(count.saturating_sub(1)).unwrap_or(usize::MAX);
            allocations.by_ref().take(others).for_each(drop);
        }
        // Nothing is known of what follows.
        borders.extend(allocations.next().map(|index| (index, ClassTags::default())));
        let blocks = modules.blocks.into_iter().filter_map(|[addr, number]| Some((addr, tags_of(&tags, number)?)));
        Some(Self { borders, blocks: blocks.collect(), ..Self::default() })
    }

    /// Adds the tags of a block at an address. The event with this index made it, where that is recorded.
    pub fn add_to(&self, tags: &mut ClassTags, address: u64, made: Option<(u32, &Event)>) {
        let found = match made {
            Some((index, _)) => at_event(&self.borders, index),
            None => self.blocks.get(&address).copied(),
        };
        let ClassTags { module, purpose, shape, .. } = found.unwrap_or_default();
        let supposed = made.and_then(|(index, _)| self.supposed.get(&index).copied());
        *tags = ClassTags { module, purpose, shape, supposed, ..*tags };
    }
}

/// The functions that supposed the sizes of the allocations of a device, by event.
fn supposed(snapshot: &mut Snapshot, device: DeviceId) -> FxHashMap<u32, StringId> {
    let Some(run) = snapshot.run.as_ref().filter(|run| !run.supposed.is_empty()) else { return FxHashMap::default() };
    let ordinal = device.ordinal().map(u64::from);
    let marked = run.supposed.iter().filter(|[of, ..]| Some(*of) == ordinal);
    let marked: Vec<(usize, String)> = marked
        .filter_map(|&[_, number, guess]| {
            let guess = usize::try_from(guess).ok().and_then(|guess| run.guesses.get(guess));
            Some((usize::try_from(number).ok()?, guess.map(|guess| guess.at.clone()).unwrap_or_default()))
        })
        .collect();
    let events = snapshot.devices.get(&device).map(|of| snapshot.events_of(of)).unwrap_or_default().iter().zip(0_u32..);
    let made: Vec<u32> = events.filter(|(event, _)| event.action == Action::Alloc).map(|(_, index)| index).collect();
    let marked = marked.into_iter().filter_map(|(number, name)| Some((*made.get(number)?, name)));
    marked.map(|(event, name)| (event, snapshot.tables.intern_string(&name))).collect()
}

/// The value at an event. Each of `borders` is an event and the value from it to the next.
fn at_event<T: Copy>(borders: &[(u32, T)], event: u32) -> Option<T> {
    let next = borders.partition_point(|&(from, _)| from <= event);
    borders.get(next.checked_sub(1)?).map(|&(_, held)| held)
}

/// The tags of that number.
fn tags_of(tags: &[ClassTags], number: u64) -> Option<ClassTags> {
    tags.get(usize::try_from(number).ok()?).copied()
}

/// The tags that the numbers of a recording stand for.
fn tags(modules: &DeviceModules, unfold: u32, tables: &mut Tables) -> Vec<ClassTags> {
    let names = modules.names.iter().enumerate().map(|(place, name)| ClassTags {
        module: intern(&folded_module(name, unfold), tables),
        purpose: modules.purposes.get(place).and_then(|purpose| intern(purpose, tables)),
        shape: modules.shapes.get(place).and_then(|shape| intern(shape, tables)),
        ..ClassTags::default()
    });
    names.collect()
}

fn intern(text: &str, tables: &mut Tables) -> Option<StringId> {
    (!text.is_empty()).then(|| tables.intern_string(text))
}

/// Counts the modules of each kind that allocated.
pub fn count_modules(run: &mut RunFacts, unfold: u32) {
    if run.modules.is_empty() {
        return;
    }
    let names: BTreeSet<&String> = run.modules.iter().flat_map(|modules| &modules.names).collect();
    let mut counts = BTreeMap::new();
    for name in names.into_iter().filter(|name| !name.is_empty()) {
        *counts.entry(folded_module(name, unfold)).or_default() += 1;
    }
    run.module_counts = counts;
}

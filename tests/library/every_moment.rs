//! What is held at any event is the same from a snapshot, from its saved profile, and by a count of its allocations.

use std::collections::BTreeMap;
use std::fs::File;

use ptmem::profile::saved::text_of;
use ptmem::profile::{self, Moment, Profile, ReadOptions};
use ptmem::replay::{self, Origin, Position};
use ptmem::snapshot;
use ptmem::stack::{GroupBy, Grouper};

use crate::support::fixtures::{snapshots, some};

/// Numbers that look random, and are the same in every run.
fn numbers(seed: usize, below: u64, count: usize) -> impl Iterator<Item = u32> {
    let mut state = seed as u64 + 1;
    (0..count).filter(move |_| below > 0).map(move |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        u32::try_from((state >> 33) % below).unwrap()
    })
}

/// Rows of a device: everything that a report can say of a stack but its C++ frames.
fn rows(profile: &Profile, device: usize) -> Vec<String> {
    let rows = profile.devices[device].stacks.iter().map(|total| {
        format!(
            "{} {} {:?} {:?} {:?} {:?} {:?} {:?} {} {} {:?}",
            total.label,
            total.key.0,
            total.at,
            total.baseline,
            total.peak,
            total.end,
            total.oom,
            total.members.iter().map(|member| member.at).collect::<Vec<_>>(),
            total.allocations,
            total.allocated_total,
            total.highest
        )
    });
    rows.collect()
}

/// The key of the group that memory belongs to.
fn key(origin: Origin, grouper: &Grouper<'_>) -> String {
    let bucket = match origin {
        Origin::Stack(stack) => return grouper.key(stack).0,
        Origin::Bucket(bucket) => bucket,
    };
    bucket.label().to_owned()
}

#[test]
fn a_saved_profile_knows_every_event() {
    let mut places = 0;
    for (seed, path) in some(snapshots()).enumerate() {
        let name = path.display();
        let snapshot = snapshot::read(File::open(&path).unwrap()).unwrap();
        let mut live = profile::read(File::open(&path).unwrap(), "x.pkl", ReadOptions::default()).unwrap();
        let text = text_of(&live, &[]).unwrap();
        let mut saved = profile::read(text.as_bytes(), "x.json", ReadOptions::default()).unwrap();
        for (index, (&id, device)) in snapshot.devices.iter().enumerate() {
            let allocations = replay::run(&snapshot, id, device).unwrap().allocations;
            assert_eq!(live.devices[index].figures, saved.devices[index].figures, "{name}");
            assert_eq!(live.devices[index].phases, saved.devices[index].phases, "{name}");
            for event in numbers(seed, live.devices[index].events, 20) {
                live.look_at(Moment::Event(event));
                saved.look_at(Moment::Event(event));
                assert_eq!(rows(&live, index), rows(&saved, index), "{name} device {id} event {event}");
                let at = Position::after(event as usize);
                let grouper = Grouper::new(&snapshot.tables, GroupBy::Stack, &live.options.rules);
                let mut counted: BTreeMap<String, (u64, u64)> = BTreeMap::new();
                for allocation in allocations.iter().filter(|allocation| allocation.allocated_at(at)) {
                    let held = counted.entry(key(allocation.origin(&snapshot), &grouper)).or_default();
                    *held = (held.0 + allocation.bytes, held.1 + 1);
                }
                let told = saved.devices[index].stacks.iter().filter(|total| total.at.blocks > 0);
                let told: BTreeMap<_, _> =
                    told.map(|total| (total.key.0.clone(), (total.at.bytes, total.at.blocks))).collect();
                assert_eq!(told, counted, "{name} device {id} event {event}");
                places += 1;
            }
        }
    }
    assert!(places > 200, "{places}");
}

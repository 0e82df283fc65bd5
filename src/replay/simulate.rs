//! Runs the events forward: block sizes, the four counters, the self-checks.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use super::diagnose::{self, Findings};
use super::lifetimes::Lifetimes;
use super::out_of_memory::{self, MOST_LOOKED_AT};
use super::parts::{Level, Part, Parts};
use super::rounding::{Pool, SMALL_SEGMENT, SMALL_SIZE, round_size, should_split};
use super::segment_map::{Home, SegmentMap};
use super::{Allocation, Checks, Counter, Error, Figures, History, Oom, Position, Replay, Timeline};
use crate::snapshot::{Action, AllocatorSettings, BlockState, Device, Event, Snapshot};

/// Points of the coarse curve: more than any terminal has columns.
const TIMELINE_POINTS: usize = 480;

/// A running value and its highest.
#[derive(Debug, Clone, Copy)]
struct Gauge {
    now: i128,
    baseline: i128,
    peak: i128,
    peak_at: Position,
}

impl Gauge {
    fn new(baseline: i128) -> Self {
        Self { now: baseline, baseline, peak: baseline, peak_at: Position::START }
    }

    #[inline]
    fn add(&mut self, bytes: u64, at: Position) {
        self.now += i128::from(bytes);
        if self.now > self.peak {
            self.peak = self.now;
            self.peak_at = at;
        }
    }

    #[inline]
    fn sub(&mut self, bytes: u64) {
        self.now -= i128::from(bytes);
    }
}

/// What one pass over the events finds.
struct Pass {
    allocated: Gauge,
    active: Gauge,
    requested: Gauge,
    reserved: Gauge,
    /// Allocated and active if every size that is not known were as large as it can be.
    upper_allocated: Gauge,
    upper_active: Gauge,
    /// The same for every size, also those that the rules give: the bound where a check fails.
    loose: Gauge,
    active_at_reserved_peak: i128,
    checkpoints_matched: u64,
    checkpoints_missed: u64,
    checkpoints_total: u64,
    /// Failed allocations, and by how much their figures can be off where a check fails.
    ooms: Vec<(Oom, i128)>,
    allocated_total: u128,
    timeline: Timeline,
    parts: Vec<Part>,
    /// Allocations at addresses that no segment backs.
    homeless: u64,
    /// Allocations that reach into an occupied block.
    overlaps: u64,
    /// Sizes that a later allocation corrects: exact splits that the general rule does not foresee.
    corrections: FxHashMap<u32, u64>,
    /// How much larger than its rounded request a block of unknown size can be, where a later
    /// allocation tells.
    tightened: FxHashMap<u32, u64>,
}

/// Sizes that the rules alone do not give. Kept from pass to pass.
#[derive(Default)]
struct Evidence {
    corrections: FxHashMap<u32, u64>,
    slack: FxHashMap<u32, u64>,
}

pub(super) fn run(
    snapshot: &Snapshot,
    id: u32,
    device: &Device,
    mut lifetimes: Lifetimes,
    borders: &[Position],
) -> Result<Replay, Error> {
    let events = snapshot.events_of(device);
    let overflow = |what| Error::Overflow { device: id, what };
    let settings = &snapshot.settings;

    for allocation in &mut lifetimes.allocations {
        if allocation.born == Position::START && !allocation.size_known {
            allocation.bytes = round_size(allocation.requested, settings).ok_or(overflow("allocated"))?;
        }
    }
    let mut evidence = Evidence::default();
    // A pass may learn sizes that concern events before; once or twice is enough, and more often is
    // not worth it: what remains is reported as an overlap.
    let mut pass = forward(snapshot, id, device, &mut lifetimes, &evidence, borders)?;
    for _ in 0..3 {
        if pass.corrections.is_empty() && pass.tightened.is_empty() {
            break;
        }
        evidence.corrections.extend(pass.corrections.drain());
        evidence.slack.extend(pass.tightened.drain());
        pass = forward(snapshot, id, device, &mut lifetimes, &evidence, borders)?;
    }

    let mut end = FinalState::default();
    for block in device.segments.iter().flat_map(|segment| &segment.blocks) {
        if block.state != BlockState::Inactive {
            end.active += i128::from(block.size);
            end.requested += i128::from(block.requested_size.unwrap_or(block.size));
        }
        if block.state == BlockState::ActiveAllocated {
            end.allocated += i128::from(block.size);
        }
    }
    end.reserved = device.segments.iter().map(|segment| i128::from(segment.total_size)).sum();

    let mut actions: FxHashMap<Action, u64> = FxHashMap::default();
    for event in events {
        *actions.entry(event.action).or_default() += 1;
    }
    let actions: BTreeMap<Action, u64> = actions.into_iter().collect();
    let count = |action| actions.get(&action).copied().unwrap_or(0);
    let (allocs, requests, completions) =
        (count(Action::Alloc), count(Action::FreeRequested), count(Action::FreeCompleted));
    let history = match (allocs, requests + completions) {
        (1.., _) => History::Recorded,
        (0, 1..) if events.len() > 1 => History::NoAllocations,
        _ if lifetimes.allocations.is_empty() => History::Empty,
        // `enabled="state"` keeps one event, most often a free.
        _ => History::StateOnly,
    };

    let survivors = &lifetimes.survivors;
    let made_inside = |index: &&u32| lifetimes.allocations[**index as usize].born != Position::START;
    let recovered =
        survivors.iter().filter(|(i, block)| lifetimes.allocations[*i as usize].bytes == block.size).count();
    let checks = Checks {
        sizes_recovered: recovered as u64,
        sizes_total: (survivors.len() + lifetimes.vanished.iter().filter(made_inside).count()) as u64,
        checkpoints_matched: pass.checkpoints_matched,
        checkpoints_total: pass.checkpoints_total,
        end_matches: end
            == FinalState {
                allocated: pass.allocated.now,
                active: pass.active.now,
                requested: pass.requested.now,
                reserved: pass.reserved.now,
            },
    };
    let algebraic_baseline = end.requested - sum(events, Action::Alloc)
        + sum(events, if lifetimes.requests_complete { Action::FreeRequested } else { Action::FreeCompleted });
    let findings = Findings {
        history,
        checks,
        checkpoints_missed: pass.checkpoints_missed,
        frees_skipped: allocs > 0
            && requests + completions == 0
            && (lifetimes.reused > 0 || !lifetimes.vanished.is_empty()),
        baseline_differs: algebraic_baseline != pass.requested.baseline,
        homeless: pass.homeless,
        overlaps: pass.overlaps,
        reserved_implausible: pass.reserved.baseline < 0,
        bound: u64::try_from(pass.upper_allocated.baseline - pass.allocated.baseline).unwrap_or(u64::MAX),
        maybe_pending: maybe_pending_at_start(&lifetimes, requests),
    };

    // Where a check failed, the rules do not describe this allocator: fall back on what any rule
    // would have to keep to, and add what the end is off by.
    let off = (pass.allocated.now - end.allocated).abs().max((pass.active.now - end.active).abs());
    let loose = (pass.loose.peak - pass.active.peak).max(0) + off;
    let pending = i128::from(findings.maybe_pending);
    let block_errors = |exact: &Gauge, upper: &Gauge, pending: i128| {
        let (mut baseline, mut peak) = (upper.baseline - exact.baseline, upper.peak - exact.peak);
        if !findings.sizes_hold() {
            (baseline, peak) = (baseline.max(loose), peak.max(loose));
        }
        // Such a block counts too much until its completion; of the first event alone, that is the start.
        let at_peak = if requests > 0 && exact.peak_at != Position::START { 0 } else { pending };
        Errors { baseline: u64::try_from(baseline + pending).ok(), peak: u64::try_from(peak + at_peak).ok() }
    };
    let counter = |gauge: &Gauge, end: i128, errors: Errors, known: bool, what: &'static str| {
        let figure = |value: i128| u64::try_from(value).map_err(|_| overflow(what));
        Ok(Counter {
            baseline: if known { Some(figure(gauge.baseline)?) } else { None },
            peak: if known { Some(figure(gauge.peak)?) } else { None },
            peak_at: known.then_some(gauge.peak_at),
            end: figure(end)?,
            baseline_error: errors.baseline.filter(|_| known),
            peak_error: errors.peak.filter(|_| known),
        })
    };
    let blocks_known = history != History::NoAllocations && !findings.frees_skipped;
    let requested_error = (pass.requested.now - end.requested).abs();
    let requested_error = requested_error.max((algebraic_baseline - pass.requested.baseline).abs());
    let requested_errors = Errors::both(u64::try_from(requested_error).ok());
    let reserved_errors = Errors::both(if findings.homeless > 0 { None } else { Some(0) });
    let fragmentation = |reserved: i128, active: i128| u64::try_from((reserved - active).max(0)).unwrap_or(u64::MAX);
    let reserved_known = !findings.reserved_implausible;
    // A block whose request may have come before the history counts until its completion.
    let pending_then = if requests > 0 { 0 } else { pending };
    let ooms = pass.ooms.iter().map(|&(oom, loose)| {
        let wrong = if findings.sizes_hold() { 0 } else { loose + off };
        let error = oom.max_error.map(|error| i128::from(error).max(wrong) + pending_then);
        let reliable = blocks_known && reserved_known && findings.homeless == 0;
        Oom {
            allocated: oom.allocated.filter(|_| blocks_known),
            active: oom.active.filter(|_| blocks_known),
            reserved: oom.reserved.filter(|_| reserved_known),
            pool: oom.pool.filter(|_| reliable),
            max_error: error.and_then(|error| u64::try_from(error).ok()).filter(|_| reliable),
            ..oom
        }
    });
    let ooms = ooms.collect();
    let figures = Figures {
        history,
        allocated: counter(
            &pass.allocated,
            end.allocated,
            block_errors(&pass.allocated, &pass.upper_allocated, pending),
            blocks_known,
            "allocated",
        )?,
        active: counter(
            &pass.active,
            end.active,
            // Pending or not, it is active.
            block_errors(&pass.active, &pass.upper_active, 0),
            blocks_known,
            "active",
        )?,
        requested: counter(&pass.requested, end.requested, requested_errors, blocks_known, "requested")?,
        reserved: counter(&pass.reserved, end.reserved, reserved_errors, reserved_known, "reserved")?,
        fragmentation_at_peak: reserved_known.then(|| fragmentation(pass.reserved.peak, pass.active_at_reserved_peak)),
        fragmentation_at_end: fragmentation(end.reserved, end.active),
        allocation_count: allocs,
        free_count: if lifetimes.requests_complete { requests } else { completions },
        allocated_total: u64::try_from(pass.allocated_total).map_err(|_| overflow("allocated in total"))?,
        ooms,
        checks,
        timeline: pass.timeline,
    };
    let diagnostics = diagnose::diagnostics(snapshot, id, device, &lifetimes, &findings, &actions);
    let dump = Position::after(events.len());
    lifetimes.reconcile(dump);
    Ok(Replay { figures, actions, dump, allocations: lifetimes.allocations, parts: pass.parts, diagnostics })
}

/// How far figures may be from the truth; `None` is unknown.
struct Errors {
    baseline: Option<u64>,
    peak: Option<u64>,
}

impl Errors {
    fn both(error: Option<u64>) -> Self {
        Self { baseline: error, peak: error }
    }
}

#[derive(Default, PartialEq, Eq)]
struct FinalState {
    allocated: i128,
    active: i128,
    requested: i128,
    reserved: i128,
}

fn sum(events: &[Event], action: Action) -> i128 {
    events.iter().filter(|event| event.action == action).map(|event| i128::from(event.size)).sum()
}

/// The bytes of blocks that count as allocated until the completion of their free although the request may
/// have come before the history. Where the history has requests, that concerns its first event alone, whose
/// request is nearly always the event just before. Where it has none, they may all have come before,
/// unless blocks that it allocated itself were freed without one: then requests were not recorded
/// (`skip_actions`).
fn maybe_pending_at_start(lifetimes: &Lifetimes, requests: u64) -> u64 {
    let completed = |a: &&Allocation| a.completed != Position::NEVER && a.freed == a.completed;
    let mut inside = lifetimes.allocations.iter().filter(|a| a.born != Position::START).filter(completed);
    let skipped = requests == 0 && inside.next().is_some();
    let orphans = lifetimes.allocations.iter().filter(|a| a.born == Position::START && !a.size_known);
    let doubtful = |a: &&Allocation| a.completed == Position::after(0) || (requests == 0 && !skipped);
    orphans.filter(completed).filter(doubtful).map(|a| a.bytes).fold(0, u64::saturating_add)
}

/// What walking back from the final state finds.
struct Start {
    /// The segments before the first event.
    segments: SegmentMap,
    /// Their bytes.
    reserved: i128,
    /// Which requests each segment serves that the history adds, the last first. Only where an allocation failed:
    /// nothing else needs to know.
    homes: Vec<Home>,
}

fn segments_at_start(snapshot: &Snapshot, device: &Device) -> Start {
    let (events, tables) = (snapshot.events_of(device), &snapshot.tables);
    let mut map = SegmentMap::default();
    let mut reserved = 0_i128;
    let mut homes = Vec::new();
    let ran_out = events.iter().any(|event| event.action == Action::Oom);
    for segment in &device.segments {
        let pool = match (segment.is_expandable, segment.small_pool) {
            (true, _) => Pool::Expandable,
            (false, true) => Pool::Small,
            (false, false) => Pool::Large,
        };
        let home = Home { small: Some(segment.small_pool), stream: segment.stream, pool_id: segment.pool_id };
        let home = if ran_out { home } else { Home::default() };
        map.add(segment.address, segment.total_size, pool, home);
        reserved += i128::from(segment.total_size);
    }
    let mut next_request = None;
    for event in events.iter().rev() {
        match event.action {
            Action::Alloc | Action::Oom => next_request = Some(event.size <= SMALL_SIZE),
            Action::SegmentAlloc | Action::SegmentMap => {
                if ran_out {
                    // What is mapped, is mapped for the request that follows; other segments tell it by their size.
                    let is_small = Some(event.size == SMALL_SEGMENT);
                    let small = if event.action == Action::SegmentMap { next_request } else { is_small };
                    let home = map.home(event.addr, event.size).unwrap_or_default();
                    homes.push(home.or(out_of_memory::home_of(event, small, tables)));
                }
                map.remove(event.addr, event.size);
                reserved -= i128::from(event.size);
            }
            Action::SegmentFree | Action::SegmentUnmap => {
                // What is unmapped may be any part of what was mapped.
                let small = (event.action == Action::SegmentFree).then_some(event.size == SMALL_SEGMENT);
                let home = if ran_out { out_of_memory::home_of(event, small, tables) } else { Home::default() };
                map.add(event.addr, event.size, pool_of(event), home);
                reserved += i128::from(event.size);
            }
            _ => {}
        }
    }
    Start { segments: map, reserved, homes }
}

/// The pool of a segment that an event tells of.
fn pool_of(event: &Event) -> Pool {
    match event.action {
        Action::SegmentMap | Action::SegmentUnmap => Pool::Expandable,
        _ if event.size == SMALL_SEGMENT => Pool::Small,
        _ => Pool::Large,
    }
}

fn forward(
    snapshot: &Snapshot,
    id: u32,
    device: &Device,
    lifetimes: &mut Lifetimes,
    evidence: &Evidence,
    borders: &[Position],
) -> Result<Pass, Error> {
    let events = snapshot.events_of(device);
    let settings = &snapshot.settings;
    let requests_complete = lifetimes.requests_complete;
    let allocations = &mut lifetimes.allocations;
    let Start { mut segments, reserved, mut homes } = segments_at_start(snapshot, device);
    let private_streams = out_of_memory::private_streams(device);

    // Occupied addresses: allocated and not yet free_completed.
    let mut occupied: BTreeMap<u64, u32> = BTreeMap::new();
    for (index, allocation) in (0_u32..).zip(allocations.iter()) {
        if allocation.born == Position::START {
            occupied.entry(allocation.addr).or_insert(index);
        }
    }
    let mut slack: FxHashMap<u32, u64> = FxHashMap::default();
    let (mut allocated, mut active, mut requested) = (0_i128, 0_i128, 0_i128);
    let (mut more_allocated, mut more_active) = (0_i128, 0_i128);
    for (index, allocation) in (0_u32..).zip(allocations.iter()) {
        if allocation.born != Position::START {
            continue;
        }
        active += i128::from(allocation.bytes);
        requested += i128::from(allocation.requested);
        let is_allocated = allocation.allocated_at(Position::START);
        if is_allocated {
            allocated += i128::from(allocation.bytes);
        }
        if !allocation.size_known {
            let bound = unknown_size(allocation, &segments, &occupied, settings);
            let more = evidence.slack.get(&index).map_or(bound, |&known| known.min(bound));
            if more > 0 {
                slack.insert(index, more);
                more_active += i128::from(more);
                more_allocated += if is_allocated { i128::from(more) } else { 0 };
            }
        }
    }

    let points = TIMELINE_POINTS.min(events.len());
    let mut pass = Pass {
        allocated: Gauge::new(allocated),
        active: Gauge::new(active),
        requested: Gauge::new(requested),
        reserved: Gauge::new(reserved),
        upper_allocated: Gauge::new(allocated + more_allocated),
        upper_active: Gauge::new(active + more_active),
        loose: Gauge::new(active + more_active),
        active_at_reserved_peak: active,
        checkpoints_matched: 0,
        checkpoints_missed: 0,
        checkpoints_total: 0,
        ooms: Vec::new(),
        allocated_total: 0,
        timeline: Timeline { allocated: vec![0; points], reserved: vec![0; points] },
        parts: Vec::new(),
        homeless: 0,
        overlaps: 0,
        corrections: FxHashMap::default(),
        tightened: FxHashMap::default(),
    };
    // What the loose bound adds to each block in use.
    let mut loose: FxHashMap<u32, u64> = FxHashMap::default();
    let mut born = (0_u32..).zip(allocations.iter().map(|a| a.born)).filter(|(_, b)| *b != Position::START);
    let born: Vec<u32> = born.by_ref().map(|(index, _)| index).collect();
    let mut next_born = born.into_iter();

    let mut parts = Parts::new(borders, pass.level());
    for (i, event) in events.iter().enumerate() {
        let now = Position::after(i);
        match event.action {
            Action::Alloc => {
                let Some(index) = next_born.next() else { break };
                let least = round_size(event.size, settings);
                let least = least.ok_or(Error::Overflow { device: id, what: "allocated" })?;
                if let Some(old) = occupied.remove(&event.addr) {
                    // Freed before, and the history does not say when.
                    let gone = allocations[old as usize];
                    pass.complete(old, &gone, gone.freed == now, &mut slack, &mut loose);
                }
                let segment = segments.find(event.addr);
                if let Some((&before, &neighbour)) = occupied.range(..event.addr).next_back() {
                    let inside = segment.is_some_and(|(start, _, _)| before >= start);
                    pass.learn_from_neighbour(
                        neighbour,
                        &allocations[neighbour as usize],
                        event.addr,
                        inside,
                        &slack,
                        settings,
                    );
                }
                let mut bytes = least;
                let most;
                match segment {
                    Some((_, end, pool)) => {
                        let next = occupied.range(event.addr..).next().map_or(end, |(&next, _)| next.min(end));
                        let free = next - event.addr;
                        most = free.max(least);
                        match free.checked_sub(least) {
                            Some(rest) if !should_split(pool, least, rest, settings) => bytes = free,
                            Some(_) => {}
                            None => pass.overlaps += 1,
                        }
                    }
                    None => {
                        pass.homeless += 1;
                        most = least.saturating_add(most_unsplit(pool_of_request(least), least, settings));
                    }
                }
                if let Some(&exact) = evidence.corrections.get(&index) {
                    bytes = exact;
                }
                allocations[index as usize].bytes = bytes;
                occupied.insert(event.addr, index);
                pass.allocated.add(bytes, now);
                pass.active.add(bytes, now);
                pass.requested.add(event.size, now);
                let more = most - bytes.min(most);
                let unknown = if segment.is_none() { more } else { 0 };
                if unknown > 0 {
                    slack.insert(index, unknown);
                } else if more > 0 {
                    loose.insert(index, more);
                }
                pass.upper_allocated.add(bytes.saturating_add(unknown), now);
                pass.upper_active.add(bytes.saturating_add(unknown), now);
                pass.loose.add(bytes.saturating_add(more), now);
                pass.allocated_total += u128::from(bytes);
            }
            Action::FreeRequested => {
                if let Some(&index) = occupied.get(&event.addr) {
                    let allocation = allocations[index as usize];
                    if allocation.freed == now {
                        pass.release(index, &allocation, &slack);
                    }
                    if requests_complete {
                        occupied.remove(&event.addr);
                        pass.complete(index, &allocation, false, &mut slack, &mut loose);
                    }
                }
            }
            Action::FreeCompleted => {
                if let Some(index) = occupied.remove(&event.addr) {
                    let allocation = allocations[index as usize];
                    pass.complete(index, &allocation, allocation.freed == now, &mut slack, &mut loose);
                }
            }
            Action::SegmentAlloc | Action::SegmentMap => {
                segments.add(event.addr, event.size, pool_of(event), homes.pop().unwrap_or_default());
                pass.reserved.add(event.size, now);
                if pass.reserved.peak_at == now {
                    pass.active_at_reserved_peak = pass.active.now;
                }
            }
            Action::SegmentFree | Action::SegmentUnmap => {
                segments.remove(event.addr, event.size);
                pass.reserved.sub(event.size);
            }
            Action::Snapshot => {
                let seen = i128::from(event.size);
                pass.checkpoints_total += 1;
                pass.checkpoints_matched += u64::from(seen == pass.active.now);
                pass.checkpoints_missed += u64::from(!(pass.active.now..=pass.upper_active.now).contains(&seen));
            }
            Action::Oom => {
                let state = out_of_memory::State {
                    segments: &segments,
                    occupied: &occupied,
                    allocations,
                    settings,
                    private_streams: &private_streams,
                };
                let looked_at = pass.ooms.len() < MOST_LOOKED_AT;
                let pool = if looked_at { state.free_blocks(event, &snapshot.tables) } else { None };
                let more = (pass.upper_allocated.now - pass.allocated.now).max(pass.upper_active.now - pass.active.now);
                let oom = Oom {
                    event: now.event().unwrap_or(0),
                    requested: event.size,
                    device_free: event.addr,
                    allocated: u64::try_from(pass.allocated.now).ok(),
                    active: u64::try_from(pass.active.now).ok(),
                    reserved: u64::try_from(pass.reserved.now).ok(),
                    pool,
                    max_error: u64::try_from(more).ok(),
                };
                pass.ooms.push((oom, pass.loose.now - pass.active.now));
            }
            Action::Other(_) => {}
        }
        let point = i * points / events.len();
        let highest = |slot: &mut u64, value: i128| *slot = (*slot).max(u64::try_from(value).unwrap_or(0));
        highest(&mut pass.timeline.allocated[point], pass.allocated.now);
        highest(&mut pass.timeline.reserved[point], pass.reserved.now);
        parts.at(now, || pass.level());
    }
    pass.parts = parts.finish();
    if pass.reserved.baseline < 0 {
        pass.timeline.reserved.clear();
    }
    Ok(pass)
}

impl Pass {
    /// What the counters say now.
    fn level(&self) -> Level {
        let [allocated, active, reserved] = [self.allocated, self.active, self.reserved]
            .map(|gauge| u64::try_from(gauge.now.max(0)).unwrap_or(u64::MAX));
        Level { allocated, active, reserved }
    }

    /// `free_requested`: no longer allocated.
    fn release(&mut self, index: u32, allocation: &Allocation, slack: &FxHashMap<u32, u64>) {
        self.allocated.sub(allocation.bytes);
        self.upper_allocated.sub(allocation.bytes + slack.get(&index).copied().unwrap_or(0));
    }

    /// `free_completed`: no longer active; `also_release` where there was no request.
    fn complete(
        &mut self,
        index: u32,
        allocation: &Allocation,
        also_release: bool,
        slack: &mut FxHashMap<u32, u64>,
        loose: &mut FxHashMap<u32, u64>,
    ) {
        if also_release {
            self.release(index, allocation, slack);
        }
        let more = slack.remove(&index).unwrap_or(0);
        self.active.sub(allocation.bytes);
        self.requested.sub(allocation.requested);
        self.upper_active.sub(allocation.bytes + more);
        self.loose.sub(allocation.bytes + more + loose.remove(&index).unwrap_or(0));
    }

    /// A new block starts at `address`, and `neighbour` is the occupied block before it. As free
    /// neighbours are always merged and the head is handed out, the neighbour ends where the new block
    /// starts, unless a segment border lies between.
    fn learn_from_neighbour(
        &mut self,
        index: u32,
        neighbour: &Allocation,
        address: u64,
        same_segment: bool,
        slack: &FxHashMap<u32, u64>,
        settings: &AllocatorSettings,
    ) {
        let Some(room) = address.checked_sub(neighbour.addr) else {
            return;
        };
        if let Some(&more) = slack.get(&index) {
            if let Some(actual) = room.checked_sub(neighbour.bytes)
                && same_segment
                && actual < more
            {
                self.tightened.insert(index, actual);
            }
            return;
        }
        if neighbour.bytes > room {
            // The general rule gave the neighbour the whole free block. Restoring a CUDA graph's
            // pool splits exactly, however small the rest.
            let exact = round_size(neighbour.requested, settings) == Some(room);
            if exact && neighbour.born != Position::START {
                self.corrections.insert(index, room);
            } else {
                self.overlaps += 1;
            }
        }
    }
}

/// By how much a block that was allocated before the history and freed inside it may exceed its rounded
/// request: up to what is free behind it, but never as much as the allocator would have split off.
fn unknown_size(
    allocation: &Allocation,
    segments: &SegmentMap,
    occupied: &BTreeMap<u64, u32>,
    settings: &AllocatorSettings,
) -> u64 {
    let segment = segments.find(allocation.addr);
    let pool = segment.map_or(pool_of_request(allocation.bytes), |(_, _, pool)| pool);
    let Some(after) = allocation.addr.checked_add(1) else {
        return 0;
    };
    let next = occupied.range(after..).next().map(|(&next, _)| next);
    let end = [segment.map(|(_, end, _)| end), next].into_iter().flatten().min();
    let most = most_unsplit(pool, allocation.bytes, settings);
    let free = end.map_or(u64::MAX, |end| end.saturating_sub(allocation.addr));
    free.saturating_sub(allocation.bytes).min(most)
}

/// The most that the allocator leaves unsplit behind a block of `size` bytes.
fn most_unsplit(pool: Pool, size: u64, settings: &AllocatorSettings) -> u64 {
    if pool != Pool::Large || settings.expandable_segments {
        // Anything from 512 bytes on is split off, and sizes are multiples of it.
        0
    } else if settings.max_split_size.is_some_and(|limit| size >= limit) {
        u64::MAX
    } else {
        SMALL_SIZE
    }
}

/// The pool that serves a request, where no segment says so.
fn pool_of_request(rounded: u64) -> Pool {
    if rounded <= SMALL_SIZE { Pool::Small } else { Pool::Large }
}

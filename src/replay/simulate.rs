//! The figures of a device: the counters over its history, held against what else the file says.

use super::census::Census;
use super::counters::{self, Counted, Gauge};
use super::diagnose::{self, Findings};
use super::lifetimes::Lifetimes;
use super::out_of_memory;
use super::sizes::{self, Sizes};
use super::{Allocation, Basis, Checks, Counter, Error, Figures, History, Oom, Position, Replay};
use crate::snapshot::{Action, BlockState, Device, Snapshot};

pub(super) fn run(
    snapshot: &Snapshot,
    id: u32,
    device: &Device,
    mut lifetimes: Lifetimes,
    census: Census,
    borders: &[Position],
) -> Result<Replay, Error> {
    let events = snapshot.events_of(device);
    let overflow = |what| Error::Overflow { device: id, what };

    let sizes = sizes::find(snapshot, id, device, &census, &mut lifetimes)?;
    let pools = out_of_memory::pools(snapshot, device, &census, &lifetimes);
    let Counted { counters, timeline, parts } = counters::run(events, &lifetimes, &sizes, pools, borders);
    // It is long, and nothing below needs it.
    lifetimes.of_event = Vec::new();
    let Sizes { homeless, overlaps, .. } = sizes;

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

    let count = |action| census.count(action);
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
        checkpoints_matched: counters.checkpoints_matched,
        checkpoints_total: counters.checkpoints_total,
        end_matches: end
            == FinalState {
                allocated: counters.allocated.now,
                active: counters.active.now,
                requested: counters.requested.now,
                reserved: counters.reserved.now,
            },
    };
    let freed = census.sizes(if lifetimes.requests_complete { Action::FreeRequested } else { Action::FreeCompleted });
    let algebraic_baseline = end.requested - census.sizes(Action::Alloc) + freed;
    let findings = Findings {
        history,
        checks,
        checkpoints_missed: counters.checkpoints_missed,
        frees_skipped: allocs > 0
            && requests + completions == 0
            && (!lifetimes.replaced.is_empty() || !lifetimes.vanished.is_empty()),
        baseline_differs: algebraic_baseline != counters.requested.baseline,
        homeless,
        overlaps,
        reserved_implausible: counters.reserved.baseline < 0,
        bound: u64::try_from(counters.upper_allocated.baseline - counters.allocated.baseline).unwrap_or(u64::MAX),
        maybe_pending: maybe_pending_at_start(&lifetimes, requests),
    };

    // Where a check failed, the rules do not describe this allocator: fall back on what any rule
    // would have to keep to, and add what the end is off by.
    let off = (counters.allocated.now - end.allocated).abs().max((counters.active.now - end.active).abs());
    let loose = (counters.loose.peak - counters.active.peak).max(0) + off;
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
    let requested_error = (counters.requested.now - end.requested).abs();
    let requested_error = requested_error.max((algebraic_baseline - counters.requested.baseline).abs());
    let requested_errors = Errors::both(u64::try_from(requested_error).ok());
    let reserved_errors = Errors::both(if findings.homeless > 0 { None } else { Some(0) });
    let fragmentation = |reserved: i128, active: i128| u64::try_from((reserved - active).max(0)).unwrap_or(u64::MAX);
    let reserved_known = !findings.reserved_implausible;
    // A block whose request may have come before the history counts until its completion.
    let pending_then = if requests > 0 { 0 } else { pending };
    let ooms = counters.ooms.iter().map(|&(oom, loose)| {
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
            &counters.allocated,
            end.allocated,
            block_errors(&counters.allocated, &counters.upper_allocated, pending),
            blocks_known,
            "allocated",
        )?,
        active: counter(
            &counters.active,
            end.active,
            // Pending or not, it is active.
            block_errors(&counters.active, &counters.upper_active, 0),
            blocks_known,
            "active",
        )?,
        requested: counter(&counters.requested, end.requested, requested_errors, blocks_known, "requested")?,
        reserved: counter(&counters.reserved, end.reserved, reserved_errors, reserved_known, "reserved")?,
        fragmentation_at_peak: reserved_known
            .then(|| fragmentation(counters.reserved.peak, counters.active_at_reserved_peak)),
        fragmentation_at_end: fragmentation(end.reserved, end.active),
        allocation_count: allocs,
        free_count: if lifetimes.requests_complete { requests } else { completions },
        allocated_total: u64::try_from(counters.allocated_total).map_err(|_| overflow("allocated in total"))?,
        ooms,
        checks,
        timeline,
    };
    let diagnostics = diagnose::diagnostics(snapshot, id, device, &lifetimes, &findings, &census);
    let dump = Position::after(events.len());
    lifetimes.reconcile(dump);
    Ok(Replay { figures, actions: census.actions(), dump, allocations: lifetimes.allocations, parts, diagnostics })
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

/// The bytes of blocks that count as allocated until the completion of their free although the request may
/// have come before the history. Where the history has requests, that concerns its first event alone, whose
/// request is nearly always the event just before. Where it has none, they may all have come before,
/// unless blocks that it allocated itself were freed without one: then requests were not recorded
/// (`skip_actions`).
fn maybe_pending_at_start(lifetimes: &Lifetimes, requests: u64) -> u64 {
    let completed = |a: &&Allocation| a.completed != Position::NEVER && a.freed == a.completed;
    let mut inside = lifetimes.allocations.iter().filter(|a| a.born != Position::START).filter(completed);
    let skipped = requests == 0 && inside.next().is_some();
    let older = lifetimes.older.iter().map(|&index| &lifetimes.allocations[index as usize]);
    let orphans = older.filter(|a| a.basis != Basis::FinalState);
    let doubtful = |a: &&Allocation| a.completed == Position::after(0) || (requests == 0 && !skipped);
    orphans.filter(completed).filter(doubtful).map(|a| a.bytes).fold(0, u64::saturating_add)
}

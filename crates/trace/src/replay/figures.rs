//! The figures of a device: the counters over its history, held against what else the file says.

use super::census::Census;
use super::counters::{self, Counters, Gauge, Margin};
use super::diagnose::{self, Findings};
use super::layout::Layout;
use super::lifetimes::Lifetimes;
use super::maybe_pending::MaybePending;
use super::moves::{Traced, Tracer};
use super::out_of_memory;
use super::rival;
use super::sizes::{self, Sizes};
use super::stated;
use super::{
    Basis, Checks, Counter, DeviceView, Error, Figures, Fragmentation, History, Oom, Position, Recovered, Replay,
    Timeline, Wanted,
};
use crate::diagnostic::{Code, Diagnostic};
use crate::snapshot::{Action, BlockState, Device};

/// Memory of the largest device that PyTorch 2.0, the only release that does not record all that is given back, knows:
/// H200 and GH200 have up to 144 GB.
const MOST_DEVICE_MEMORY: i128 = 144 << 30;

/// Runs the counters over the history of a device, and says how far they can be trusted.
pub(super) fn measure(
    view: DeviceView<'_>,
    mut lifetimes: Lifetimes,
    census: Census,
    wanted: Wanted<'_>,
) -> Result<Replay, Error> {
    let DeviceView { snapshot, id, device } = view;
    let stated = snapshot.run.as_ref().and_then(|run| run.counters_of(id));
    let mut sizes = sizes::find(snapshot, id, device, &census, &mut lifetimes)?;
    stated.into_iter().for_each(|stated| stated::fit_older(stated, &mut sizes, &mut lifetimes));
    let pools = out_of_memory::pools(snapshot, device, &census, &lifetimes);
    let misses_frees = view.misses_frees(&lifetimes, &sizes);
    let pending = MaybePending::at_start(&lifetimes, census.count(Action::FreeRequested));
    let dump = Position::after(view.events().len());
    lifetimes.reconcile(dump);
    let of_event = if wanted.layout { lifetimes.of_event.clone() } else { std::mem::take(&mut lifetimes.of_event) };
    let addresses = if wanted.layout { lifetimes.addresses_of_allocations() } else { Vec::new() };
    let tracer = Tracer {
        snapshot,
        events: view.events(),
        lifetimes: &mut lifetimes,
        sizes: &sizes,
        pending: &pending,
        names: wanted.names,
    };
    let Traced { trace, numbers } = tracer.trace(of_event, dump);
    let numbered = (0..).zip(&addresses).map(|(index, &address)| (numbers.of(index), address)).collect();
    let layout = wanted.layout.then(|| Layout::new(view, &lifetimes, numbered));
    let counters = counters::run(view.events(), &view.snapshot.tables, &trace, pools);
    let end = FinalState::of(device);
    let findings = Findings::new(view, &lifetimes, &census, &sizes, &counters, &end, misses_frees);
    let trust = Trust { findings: &findings, counters: &counters, end: &end, id };
    let mut figures = Figures {
        history: findings.history,
        allocated: trust.allocated()?,
        active: trust.active()?,
        requested: trust.requested()?,
        reserved: trust.reserved()?,
        fragmentation: Fragmentation {
            peak: (findings.reserved_known() && !trust.contradicts_active())
                .then(|| fragmentation(counters.reserved.peak, counters.active_at_reserved_peak)),
            end: fragmentation(end.reserved, end.active),
        },
        allocation_count: census.count(Action::Alloc),
        free_count: census.count(freeing_action(&lifetimes)),
        allocated_total: u64::try_from(counters.allocated_total)
            .map_err(|_| Error::Overflow { device: id, what: "allocated in total" })?,
        ooms: counters.ooms.iter().map(|&oom| trust.oom(oom)).collect(),
        checks: findings.checks,
        timeline: Timeline::of(&trace),
    };
    let contradictions = stated.map(|stated| stated::compare(stated, &mut figures)).unwrap_or_default();
    let rival = figures.allocated.peak_at.filter(|_| figures.allocated.peak_error.is_some_and(|error| error > 0));
    let rival = rival.and_then(|at| rival::of_peak(&trace, at, counters.allocated.peak));
    let mut diagnostics =
        diagnose::diagnostics(view, &lifetimes, &findings, &census, figures.allocated.peak_at.zip(rival));
    diagnostics.extend(contradictions.into_iter().map(|words| Diagnostic::new(Code::CountersDisagree, id, words)));
    let Lifetimes { allocations, .. } = lifetimes;
    Ok(Replay { figures, actions: census.actions(), dump, trace, allocations, addresses, layout, diagnostics })
}

/// The action that ends the use of a block.
fn freeing_action(lifetimes: &Lifetimes) -> Action {
    if lifetimes.requests_complete { Action::FreeRequested } else { Action::FreeCompleted }
}

fn fragmentation(reserved: i128, active: i128) -> u64 {
    u64::try_from((reserved - active).max(0)).unwrap_or(u64::MAX)
}

/// The counters at the dump, as the final state has them.
#[derive(Default, PartialEq, Eq)]
pub(super) struct FinalState {
    allocated: i128,
    active: i128,
    requested: i128,
    reserved: i128,
}

impl FinalState {
    fn of(device: &Device) -> Self {
        let mut end = Self::default();
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
        end
    }

    /// How far allocated and active bytes of the replay are from it.
    fn distance(&self, counters: &Counters) -> i128 {
        (counters.allocated.now - self.allocated).abs().max((counters.active.now - self.active).abs())
    }
}

impl DeviceView<'_> {
    /// True if frees may be missing: release 2.0 does not record those of blocks that are older than the recording.
    fn misses_frees(&self, lifetimes: &Lifetimes, sizes: &Sizes) -> bool {
        let is_mid_run = self.snapshot.lacks_block_addresses && !self.events().is_empty() && sizes.reserved > 0;
        // Frees of blocks that it did not see allocated: the ring buffer dropped the head of a recording from the
        // start.
        let mut older = lifetimes.older.iter().map(|&index| &lifetimes.allocations[index as usize]);
        let is_wrapped = lifetimes.unmatched_frees > 0 && older.all(|a| a.basis == Basis::Request || a.stack.is_some());
        is_mid_run && !is_wrapped
    }

    /// The kind of this history.
    fn history(&self, lifetimes: &Lifetimes, census: &Census) -> History {
        let frees = census.count(Action::FreeRequested) + census.count(Action::FreeCompleted);
        let most_events = self.snapshot.most_events();
        // Release 2.0 records the current device alone.
        let is_unrecorded = self.events().is_empty() && self.snapshot.lacks_block_addresses;
        if lifetimes.allocations.is_empty() && (!is_unrecorded || self.device.segments.is_empty()) {
            History::Empty
        } else if most_events <= 1 {
            // `_record_memory_history("state")` keeps one event, and nothing tells it from a recording of one event.
            History::StateOnly
        } else if census.count(Action::Alloc) > 0 {
            History::Recorded
        } else if frees > 0 {
            let grows = census.count(Action::SegmentAlloc) + census.count(Action::SegmentMap) > 0;
            let contradicts = grows || lifetimes.double_frees > 0 || !lifetimes.unexplained.is_empty();
            if contradicts { History::NoAllocations } else { History::Recorded }
        } else if is_unrecorded {
            History::StateOnly
        } else {
            // All devices are recorded, and on this one nothing happened.
            History::Recorded
        }
    }
}

impl Findings {
    fn new(
        view: DeviceView<'_>,
        lifetimes: &Lifetimes,
        census: &Census,
        sizes: &Sizes,
        counters: &Counters,
        end: &FinalState,
        misses_frees: bool,
    ) -> Self {
        let requests = census.count(Action::FreeRequested);
        let history = view.history(lifetimes, census);
        let vanished = lifetimes.vanished.iter().map(|&index| &lifetimes.allocations[index as usize]);
        let vanished_inside = vanished.filter(|allocation| allocation.born != Position::START).count();
        let after = FinalState {
            allocated: counters.allocated.now,
            active: counters.active.now,
            requested: counters.requested.now,
            reserved: counters.reserved.now,
        };
        let frees = requests + census.count(Action::FreeCompleted);
        let algebraic_baseline = end.requested - census.sizes(Action::Alloc) + census.sizes(freeing_action(lifetimes));
        let gives_back =
            census.count(Action::SegmentFree) + census.count(Action::SegmentUnmap) + census.count(Action::Oom) > 0;
        Self {
            history,
            checks: Checks {
                sizes: Recovered {
                    recovered: sizes.recovered,
                    total: (lifetimes.survivors.len() + vanished_inside) as u64,
                },
                checkpoints: counters.checkpoints,
                end_matches: *end == after,
            },
            checkpoints_missed: counters.checkpoints_missed,
            checkpoint_error: counters.checkpoint_error,
            end_error: end.distance(counters),
            nothing_recorded: history == History::StateOnly && view.events().is_empty() && view.snapshot.has_traces,
            misses_frees,
            gives_back,
            completions_skipped: lifetimes.requests_complete,
            frees_skipped: census.count(Action::Alloc) > 0
                && frees == 0
                && !misses_frees
                && (!lifetimes.replaced.is_empty() || !lifetimes.vanished.is_empty()),
            baseline_error: (algebraic_baseline - counters.requested.baseline).abs(),
            unbacked: sizes.unbacked,
            overlaps: sizes.overlaps,
            reserved_implausible: counters.reserved.baseline < 0 || sizes.vanished_segments > 0,
            settings_assumed: sizes.rules.are_assumed(),
            settings_contradicted: sizes.rules.contradictions(),
            sizes_unexplained: sizes.rules.unexplained,
            pools_uncertain: sizes.pools_uncertain,
            uncertain_sizes: sizes.spreads.len(),
            bound: u64::try_from(counters.active_margin.baseline).unwrap_or(u64::MAX),
            maybe_pending: counters.maybe_pending,
            has_requests: requests > 0,
        }
    }

    /// True if the figures of a history are the least that they were: frees are missing, and ends of segments.
    fn is_least(&self) -> bool {
        self.misses_frees && self.history != History::StateOnly
    }

    /// True if anything is known of the blocks before the dump.
    fn blocks_known(&self) -> bool {
        self.history != History::NoAllocations && !self.frees_skipped && !self.nothing_recorded && !self.is_least()
    }

    /// True if anything is known of the segments before the dump.
    fn reserved_known(&self) -> bool {
        !self.reserved_implausible && !self.nothing_recorded && !self.is_least()
    }
}

/// How far the counters of a device can be trusted.
struct Trust<'a> {
    findings: &'a Findings,
    counters: &'a Counters,
    end: &'a FinalState,
    id: u32,
}

/// How far a counter may be from the truth.
#[derive(Default)]
struct Errors {
    baseline: i128,
    peak: i128,
}

impl Trust<'_> {
    fn allocated(&self) -> Result<Counter, Error> {
        let gauge = &self.counters.allocated;
        let errors = self.of_sizes(gauge, &self.counters.allocated_margin);
        if self.findings.is_least() {
            return self.least(gauge, self.end.allocated, !self.findings.gives_back, "allocated");
        }
        self.counter(gauge, self.end.allocated, errors, self.findings.blocks_known(), "allocated")
    }

    fn active(&self) -> Result<Counter, Error> {
        let gauge = &self.counters.active;
        let errors = self.of_pending(gauge, self.of_sizes(gauge, &self.counters.active_margin));
        if self.findings.is_least() {
            return self.least(gauge, self.end.active, !self.findings.gives_back, "active");
        }
        self.counter(gauge, self.end.active, errors, self.findings.blocks_known(), "active")
    }

    fn requested(&self) -> Result<Counter, Error> {
        let gauge = &self.counters.requested;
        let margin = &self.counters.requested_margin;
        let error = (gauge.now - self.end.requested).abs().max(self.findings.baseline_error);
        let errors =
            Errors { baseline: margin.baseline + error, peak: self.counters.peak_margin(margin, gauge) + error };
        let errors = Some(errors).filter(|_| self.findings.history != History::StateOnly);
        let errors = self.of_pending(gauge, errors);
        if self.findings.is_least() {
            return self.least(gauge, self.end.requested, !self.findings.gives_back, "requested");
        }
        self.counter(gauge, self.end.requested, errors, self.findings.blocks_known(), "requested")
    }

    /// True if less seems reserved than is active: then segments are missing of which nothing tells.
    fn contradicts_active(&self) -> bool {
        let Counters { active, active_margin, reserved, .. } = self.counters;
        let least_active = active.peak - self.counters.peak_margin(active_margin, active);
        reserved.peak < least_active || reserved.baseline < active.baseline - active_margin.baseline
    }

    fn reserved(&self) -> Result<Counter, Error> {
        let gauge = &self.counters.reserved;
        let is_bounded = self.findings.history != History::StateOnly;
        if self.findings.is_least() {
            return self.least(gauge, self.end.reserved, false, "reserved");
        }
        // Where a segment is missing, neither its size is known nor when it was there.
        let errors = (is_bounded && self.findings.unbacked == 0).then(Errors::default);
        let is_known = self.findings.reserved_known() && !(is_bounded && self.contradicts_active());
        self.counter(gauge, self.end.reserved, errors, is_known, "reserved")
    }

    /// How far a counter of block sizes may be from the truth: by what is not certain of blocks, and by what the end
    /// and the checkpoints are off by.
    fn of_sizes(&self, gauge: &Gauge, margin: &Margin) -> Option<Errors> {
        let off = self.findings.end_error.max(self.findings.checkpoint_error);
        let baseline = margin.baseline + off;
        let peak = self.counters.peak_margin(margin, gauge) + off;
        (self.findings.history != History::StateOnly).then_some(Errors { baseline, peak })
    }

    /// The same for a counter that falls at the completion of a free, which is not recorded: blocks stay active until
    /// then, but no more than is reserved.
    fn of_pending(&self, gauge: &Gauge, errors: Option<Errors>) -> Option<Errors> {
        if !self.findings.completions_skipped {
            return errors;
        }
        let reserved = &self.counters.reserved;
        errors.filter(|_| self.findings.reserved_known()).map(|Errors { baseline, peak }| Errors {
            baseline: baseline.max(reserved.baseline - gauge.baseline),
            peak: peak.max(reserved.peak - gauge.peak),
        })
    }

    /// A counter of which more may have been given back to the device than was recorded: it was at least as high. Its
    /// highest recorded moment stands for the peak unless something tells (`has_moment`) that another may have been
    /// higher.
    fn least(&self, gauge: &Gauge, end: i128, has_moment: bool, what: &'static str) -> Result<Counter, Error> {
        let mut seen = *gauge;
        seen.baseline = gauge.baseline.max(0);
        seen.peak = gauge.peak.max(end);
        let errors = Errors {
            baseline: (MOST_DEVICE_MEMORY - seen.baseline).max(0),
            peak: (MOST_DEVICE_MEMORY - seen.peak).max(0),
        };
        let counter = self.counter(&seen, end, Some(errors), true, what)?;
        let peak_at = counter.peak_at.filter(|_| has_moment && seen.peak == gauge.peak);
        Ok(Counter { peak_at, is_least: true, ..counter })
    }

    fn counter(
        &self,
        gauge: &Gauge,
        end: i128,
        errors: Option<Errors>,
        is_known: bool,
        what: &'static str,
    ) -> Result<Counter, Error> {
        let baseline = is_known.then(|| self.figure(gauge.baseline, what)).transpose()?;
        let peak = is_known.then(|| self.figure(gauge.peak, what)).transpose()?;
        let errors = errors.filter(|_| is_known);
        Ok(Counter {
            baseline,
            peak,
            peak_at: is_known.then_some(gauge.peak_at),
            end: self.figure(end, what)?,
            baseline_error: errors.as_ref().and_then(|errors| u64::try_from(errors.baseline).ok()),
            peak_error: errors.as_ref().and_then(|errors| u64::try_from(errors.peak).ok()),
            is_least: false,
        })
    }

    fn figure(&self, value: i128, what: &'static str) -> Result<u64, Error> {
        u64::try_from(value).map_err(|_| Error::Overflow { device: self.id, what })
    }

    /// The figures at a failed allocation, as far as they are known.
    fn oom(&self, oom: Oom) -> Oom {
        let blocks_known = self.findings.blocks_known();
        let reserved_known = self.findings.reserved_known();
        let off = self.findings.end_error.max(self.findings.checkpoint_error);
        let error = oom.max_error.and_then(|error| u64::try_from(i128::from(error) + off).ok());
        let is_reliable = blocks_known
            && reserved_known
            && self.findings.unbacked == 0
            && self.findings.history != History::StateOnly;
        Oom {
            allocated: oom.allocated.filter(|_| blocks_known),
            active: oom.active.filter(|_| blocks_known),
            reserved: oom.reserved.filter(|_| reserved_known),
            pool_free: oom.pool_free.filter(|_| is_reliable),
            largest_free: oom.largest_free.filter(|_| is_reliable),
            max_error: error.filter(|_| is_reliable),
            ..oom
        }
    }
}

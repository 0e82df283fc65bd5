//! The figures of a device: the counters over its history, checked against the rest of the file.
//!
//! Each row is something that a file can lack, the function of [`Findings`] that finds it, and what is then known of the
//! figures before the dump. Those at the dump are always known.
//!
//! | what is missing | found by | allocated, active, requested | reserved |
//! |---|---|---|---|
//! | the events of this device | `nothing_recorded` | unknown | unknown |
//! | allocations | `history` | unknown | known |
//! | frees, which were left out | `frees_skipped` | unknown | known |
//! | frees of older blocks, in release 2.0 | `is_least` | at least | at least |
//! | events of segments | `misses_segments` | known; the error of those after requests is not | unknown |
//! | segments, below what is active | `contradicts_active` | known | unknown, as is fragmentation |
//! | the segments of some blocks | `sizes.unbacked` | known | known; its error is not |

use ptmem_base::diagnostic::{Code, Diagnostic};
use ptmem_snapshot::snapshot::{Action, BlockSums, Device, DeviceCounters};

use super::allocation::Basis;
use super::census::Census;
use super::counters::{self, RunningCounters};
use super::device::DeviceView;
use super::figures::fragmentation;
use super::layout::Layout;
use super::left_out::LeftOutAllocations;
use super::lifetimes::Lifetimes;
use super::moves::MoveTracer;
use super::out_of_memory;
use super::private_pools;
use super::sizes::{self, BlockSizes};
use super::stated;
use super::{
    Checks, Counter, Figures, Fragmentation, HistoryKind, Oom, Position, Recovered, Replay, ReplayError, Timeline,
    WantedResults,
};
use crate::trace::{Measure, Trace};

/// Memory of the largest device known to PyTorch 2.0, the only release that does not record every returned segment:
/// H200 and GH200 have up to 144 GB. Needed for its recordings that begin mid-run.
const MOST_DEVICE_MEMORY: i128 = 144 << 30;

/// Runs the counters over the history of a device, and says how far they can be trusted.
pub(super) fn measure(
    view: DeviceView<'_>,
    mut lifetimes: Lifetimes,
    census: Census,
    wanted: WantedResults<'_>,
) -> Result<Replay, ReplayError> {
    let DeviceView { snapshot, id, device } = view;
    let stated = snapshot.run.as_ref().and_then(|run| run.counters.iter().find(|of| of.device == id));
    let mut sizes = sizes::find(snapshot, id, device, &census, &mut lifetimes)?;
    stated.into_iter().for_each(|stated| stated::fit_older(stated, &mut sizes, &mut lifetimes));
    let pools = out_of_memory::pools(snapshot, device, &census, &lifetimes);
    let dump = Position::after(view.events().len());
    lifetimes.reconcile(dump);
    let events = view.events();
    let left_out = LeftOutAllocations::find(view, &lifetimes, wanted);
    let mut of_event = std::mem::take(&mut lifetimes.of_event);
    left_out.leave_out(&mut of_event);
    let placed = lifetimes.allocations.iter().filter(|_| wanted.layout);
    let addresses: Vec<u64> = placed.map(|one| lifetimes.addresses[one.place as usize]).collect();
    let tags = wanted.tags;
    let tracer = MoveTracer { snapshot, events, lifetimes: &mut lifetimes, sizes: &sizes, tags, left_out: &left_out };
    let (trace, numbers) = tracer.trace(of_event, dump);
    let placed = (0..).zip(&addresses).filter(|&(index, _)| !left_out.has(index));
    let numbered = placed.map(|(index, &address)| (numbers.of(index), address)).collect();
    let layout = wanted.layout.then(|| Layout::new(view, &census, numbered));
    let counters = counters::run(view, &trace, pools);
    let findings = Findings {
        view,
        lifetimes: &lifetimes,
        census: &census,
        sizes: &sizes,
        counters: &counters,
        trace: &trace,
        left_out: &left_out,
        history: history(view, &lifetimes, &census, stated),
        end: final_state(device),
        freeing: if lifetimes.requests_complete { Action::FreeRequested } else { Action::FreeCompleted },
    };
    let mut figures = findings.figures()?;
    let raises = Measure::ALL.map(|measure| left_out.raise(measure, &lifetimes.allocations, &trace));
    let contradictions = stated.map(|stated| stated::compare(stated, &mut figures, raises)).unwrap_or_default();
    let mut diagnostics = findings.diagnostics(&figures.checks);
    diagnostics.extend(contradictions.into_iter().map(|words| Diagnostic::new(Code::CountersDisagree, id, words)));
    let Lifetimes { allocations, .. } = lifetimes;
    diagnostics.extend(left_out.diagnostics(id, &allocations, events.len()));
    let private_pools = private_pools::find(view, &census);
    let actions = census.actions();
    let ignores = !left_out.is_impossible;
    Ok(Replay { ignores, figures, actions, trace, allocations, addresses, layout, private_pools, diagnostics })
}

/// The counters in the final state, by [`Measure`].
fn final_state(device: &Device) -> [i128; 4] {
    let mut end = [0; 4];
    for segment in &device.segments {
        let BlockSums { allocated, active, requested, .. } = segment.sums();
        let sums = [allocated, active, requested, i128::from(segment.total_size)];
        end.iter_mut().zip(sums).for_each(|(end, sum)| *end += sum);
    }
    end
}

/// Everything that was found out about a history, and how far its counters can be trusted.
pub(super) struct Findings<'a> {
    pub(super) view: DeviceView<'a>,
    pub(super) lifetimes: &'a Lifetimes,
    pub(super) census: &'a Census,
    pub(super) sizes: &'a BlockSizes,
    pub(super) counters: &'a RunningCounters,
    pub(super) trace: &'a Trace,
    left_out: &'a LeftOutAllocations<'a>,
    pub(super) history: HistoryKind,
    /// The counters in the final state, by [`Measure`].
    end: [i128; 4],
    /// The action that ends the use of a block.
    freeing: Action,
}

/// How far a counter may be from the truth.
#[derive(Default)]
struct Errors {
    baseline: i128,
    peak: i128,
}

impl Findings<'_> {
    fn figures(&self) -> Result<Figures, ReplayError> {
        let counters = self.counters;
        let knows_fragmentation = self.reserved_known() && !self.contradicts_active();
        let vanished = self.lifetimes.vanished.iter().map(|&index| &self.lifetimes.allocations[index as usize]);
        let vanished_inside = vanished.filter(|allocation| allocation.born != Position::START).count();
        let total = self.lifetimes.survivors.len() + vanished_inside;
        Ok(Figures {
            history: self.history,
            allocated: self.counter(Measure::Allocated)?,
            active: self.counter(Measure::Active)?,
            // PyTorch rounds requests for pinned host memory before it notes them.
            requested: if self.view.id.is_device() { self.counter(Measure::Requested)? } else { Counter::default() },
            reserved: self.counter(Measure::Reserved)?,
            fragmentation: Fragmentation {
                peak: knows_fragmentation
                    .then(|| fragmentation(counters.of(Measure::Reserved).peak, counters.active_at_reserved_peak)),
                peak_error: u64::try_from(counters.active_error_at_reserved_peak)
                    .ok()
                    .filter(|_| knows_fragmentation)
                    .unwrap_or(0),
                end: Some(fragmentation(self.end[Measure::Reserved as usize], self.end[Measure::Active as usize])),
            },
            allocation_count: self.census.count(Action::Alloc) - self.left_out.count(),
            free_count: self.census.count(self.freeing).saturating_sub(self.left_out.count()),
            allocated_total: u64::try_from(counters.allocated_total)
                .map_err(|_| ReplayError::Overflow { device: self.view.id, what: "allocated in total" })?,
            ooms: counters.ooms.iter().map(|&oom| self.oom(oom)).collect(),
            failed_count: 0,
            checks: Checks {
                sizes: Recovered { recovered: self.sizes.recovered, total: total as u64 },
                checkpoints: counters.checkpoints,
                end_matches: Measure::ALL.into_iter().all(|measure| self.distance(measure) == 0),
            },
            timeline: Timeline::of(self.trace),
        })
    }

    /// True if frees may be missing: release 2.0 does not record those of blocks that are older than the recording.
    pub(super) fn misses_frees(&self) -> bool {
        let Self { view, lifetimes, .. } = self;
        if !view.snapshot.lacks_block_addresses || view.events().is_empty() || self.sizes.reserved <= 0 {
            return false;
        }
        // Unless all were seen when they were allocated: the ring buffer dropped the head of a recording from the start.
        let mut older = lifetimes.older.iter().map(|&index| &lifetimes.allocations[index as usize]);
        lifetimes.unmatched_frees == 0 || older.any(|a| a.basis != Basis::Request && a.stack.is_none())
    }

    /// True if allocations were recorded, and frees were not (`skip_actions`).
    pub(super) fn frees_skipped(&self) -> bool {
        let frees = self.census.count(Action::FreeRequested) + self.census.count(Action::FreeCompleted);
        let is_left = !self.lifetimes.replaced.is_empty() || !self.lifetimes.vanished.is_empty();
        self.census.count(Action::Alloc) > 0 && frees == 0 && !self.misses_frees() && is_left
    }

    /// True if the device has no events at all.
    pub(super) fn nothing_recorded(&self) -> bool {
        self.history == HistoryKind::StateOnly && self.view.events().is_empty() && self.view.snapshot.has_traces
    }

    /// How far the baseline from sums is from the one by address.
    pub(super) fn baseline_error(&self) -> i128 {
        let end = self.end[Measure::Requested as usize];
        let from_sums = end - self.census.sizes(Action::Alloc) + self.census.sizes(self.freeing);
        (from_sums - self.counters.of(Measure::Requested).baseline).abs()
    }

    /// True if segment events are missing.
    pub(super) fn misses_segments(&self) -> bool {
        self.counters.of(Measure::Reserved).baseline < 0 || self.sizes.vanished_segments > 0
    }

    /// True if the figures of a history are the least that they were: frees are missing, and ends of segments.
    fn is_least(&self) -> bool {
        self.history != HistoryKind::StateOnly && self.misses_frees()
    }

    /// True if anything is known of the blocks before the dump.
    fn blocks_known(&self) -> bool {
        self.history != HistoryKind::NoAllocations
            && !self.frees_skipped()
            && !self.nothing_recorded()
            && !self.is_least()
    }

    /// True if anything is known of the segments before the dump.
    fn reserved_known(&self) -> bool {
        !self.misses_segments() && !self.nothing_recorded() && !self.is_least()
    }

    /// True if reserved appears to be less than active: some segments were not recorded.
    pub(super) fn contradicts_active(&self) -> bool {
        let [active, reserved] = [Measure::Active, Measure::Reserved].map(|measure| self.counters.of(measure));
        reserved.peak < active.peak - active.peak_error()
            || reserved.baseline < active.baseline - active.baseline_error()
    }

    /// How far the end of the replay is from the final state.
    fn distance(&self, measure: Measure) -> i128 {
        (self.counters.of(measure).now - self.end[measure as usize]).abs()
    }

    /// How far the end of the replay and the `snapshot` events are from allocated and active bytes.
    fn off(&self) -> i128 {
        let end = self.distance(Measure::Allocated).max(self.distance(Measure::Active));
        end.max(self.counters.checkpoint_error)
    }

    fn counter(&self, measure: Measure) -> Result<Counter, ReplayError> {
        if self.is_least() {
            return self.least(measure);
        }
        let gauge = self.counters.of(measure);
        let is_known = match measure {
            Measure::Allocated | Measure::Active | Measure::Requested => self.blocks_known(),
            Measure::Reserved => {
                self.reserved_known() && (self.history == HistoryKind::StateOnly || !self.contradicts_active())
            }
        };
        let errors = self.errors(measure).filter(|_| is_known && self.history != HistoryKind::StateOnly);
        Ok(Counter {
            baseline: is_known.then(|| self.figure(gauge.baseline, measure)).transpose()?,
            peak: is_known.then(|| self.figure(gauge.peak, measure)).transpose()?,
            peak_at: is_known.then_some(gauge.peak_at),
            end: Some(self.figure(self.end[measure as usize], measure)?),
            baseline_error: errors.as_ref().and_then(|errors| u64::try_from(errors.baseline).ok()),
            peak_error: errors.as_ref().and_then(|errors| u64::try_from(errors.peak).ok()),
            is_least: false,
        })
    }

    /// How far a counter may be from the truth; `None` is unknown.
    fn errors(&self, measure: Measure) -> Option<Errors> {
        let gauge = self.counters.of(measure);
        let off = match measure {
            Measure::Allocated | Measure::Active => self.off(),
            Measure::Requested => self.distance(measure).max(self.baseline_error()),
            // Where a segment is missing, neither its size is known nor when it was there.
            Measure::Reserved => return (self.sizes.unbacked == 0).then(Errors::default),
        };
        let mut errors = Errors { baseline: gauge.baseline_error() + off, peak: gauge.peak_error() + off };
        if measure != Measure::Allocated && self.lifetimes.requests_complete {
            // Blocks may stay active for longer than until the request of their free, but no more than is reserved.
            let reserved = self.counters.of(Measure::Reserved);
            errors.baseline = errors.baseline.max(reserved.baseline - gauge.baseline);
            errors.peak = errors.peak.max(reserved.peak - gauge.peak);
            return Some(errors).filter(|_| self.reserved_known());
        }
        Some(errors)
    }

    /// A counter of which more may have been given back to the device than was recorded: it was at least as high. Its
    /// highest recorded moment stands for the peak unless another may have been higher.
    fn least(&self, measure: Measure) -> Result<Counter, ReplayError> {
        let gauge = self.counters.of(measure);
        let end = self.end[measure as usize];
        let baseline = gauge.baseline.max(0);
        let peak = gauge.peak.max(end);
        let losses = [Action::SegmentFree, Action::SegmentUnmap, Action::Oom].map(|action| self.census.count(action));
        let has_moment = measure != Measure::Reserved && losses == [0; 3] && peak == gauge.peak;
        Ok(Counter {
            baseline: Some(self.figure(baseline, measure)?),
            peak: Some(self.figure(peak, measure)?),
            peak_at: has_moment.then_some(gauge.peak_at),
            end: Some(self.figure(end, measure)?),
            baseline_error: u64::try_from((MOST_DEVICE_MEMORY - baseline).max(0)).ok(),
            peak_error: u64::try_from((MOST_DEVICE_MEMORY - peak).max(0)).ok(),
            is_least: true,
        })
    }

    fn figure(&self, value: i128, measure: Measure) -> Result<u64, ReplayError> {
        u64::try_from(value).map_err(|_| ReplayError::Overflow { device: self.view.id, what: measure.into() })
    }

    /// The figures at a failed allocation, as far as they are known.
    fn oom(&self, oom: Oom) -> Oom {
        let blocks_known = self.blocks_known();
        let reserved_known = self.reserved_known();
        let error = oom.max_error.and_then(|error| u64::try_from(i128::from(error) + self.off()).ok());
        let is_reliable =
            blocks_known && reserved_known && self.sizes.unbacked == 0 && self.history != HistoryKind::StateOnly;
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

/// The kind of a history.
fn history(
    view: DeviceView<'_>,
    lifetimes: &Lifetimes,
    census: &Census,
    stated: Option<&DeviceCounters>,
) -> HistoryKind {
    let frees = census.count(Action::FreeRequested) + census.count(Action::FreeCompleted);
    // Release 2.0 records only the current device.
    let is_unrecorded = view.events().is_empty() && view.snapshot.lacks_block_addresses;
    let of_segments = [Action::SegmentAlloc, Action::SegmentMap, Action::SegmentFree, Action::SegmentUnmap];
    let has_segments = !view.device.segments.is_empty() || of_segments.iter().any(|&action| census.count(action) > 0);
    if lifetimes.allocations.is_empty() && !has_segments {
        HistoryKind::Empty
    } else if census.count(Action::Alloc) + frees == 0 {
        if !is_unrecorded && is_idle(view, stated) { HistoryKind::Recorded } else { HistoryKind::StateOnly }
    } else if view.snapshot.recorded_with(view.id).all(|events| events.len() <= 1) {
        // `_record_memory_history("state")` keeps one event, so it cannot be distinguished from a recording of one
        // event.
        HistoryKind::StateOnly
    } else if census.count(Action::Alloc) > 0 {
        HistoryKind::Recorded
    } else {
        let grows = census.count(Action::SegmentAlloc) + census.count(Action::SegmentMap) > 0;
        let contradicts = grows || lifetimes.double_frees > 0 || !lifetimes.unexplained.is_empty();
        if contradicts { HistoryKind::NoAllocations } else { HistoryKind::Recorded }
    }
}

/// True if a device without allocations and frees is known to have had none: PyTorch's counters say so, or both
/// were recorded of another device.
fn is_idle(view: DeviceView<'_>, stated: Option<&DeviceCounters>) -> bool {
    if let Some(stated) = stated {
        return stated.start.calls == stated.dump.calls;
    }
    let mut kinds = [&[Action::Alloc][..], &[Action::FreeRequested, Action::FreeCompleted]].into_iter();
    kinds.all(|kind| view.snapshot.recorded_with(view.id).flatten().any(|event| kind.contains(&event.action)))
}

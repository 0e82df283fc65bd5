//! The counters over the history, once the size of every block is known.
//!
//! A [`Gauge`] is a counter. Where the size of a block is not certain, its class has a [`Uncertainty`]: the bytes by which the
//! size may be too high (`below`: the truth may be that far below it) and too low (`above`). The spreads of all blocks that
//! are held say how far the counter may be from the truth. Those of allocated bytes go when a free is requested, those of
//! active bytes when it is completed.

use std::ops::RangeInclusive;

use ptmem_snapshot::snapshot::{Action, Event};

use super::device::DeviceView;
use super::figures::FreeBlocks;
use super::rounding::SHARED_POOL;
use super::{Oom, Position, StatedBytes};
use crate::trace::{Class, Measure, Move, Trace, Uncertainty};

/// A running value, and its highest.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Gauge {
    pub(super) now: i128,
    pub(super) baseline: i128,
    pub(super) peak: i128,
    pub(super) peak_at: Position,
    /// `None` where every size that it counts is certain.
    bounds: Option<Bounds>,
}

/// How far a running value may be from the truth.
#[derive(Debug, Clone, Copy)]
struct Bounds {
    /// At its first value.
    baseline_error: i128,
    /// Bytes that it may be too high now.
    below: i128,
    /// Bytes that it may be too low now.
    above: i128,
    /// The highest that the truth was at least.
    lowest_peak: i128,
    /// The highest that it was at most.
    highest_peak: i128,
}

impl Gauge {
    /// `spread` is that of the first value, where sizes are uncertain.
    fn new(value: i128, spread: Option<Uncertainty>) -> Self {
        let bounds = spread.map(|spread| {
            let below = i128::from(spread.below);
            let above = i128::from(spread.above);
            let baseline_error = below.max(above);
            Bounds { baseline_error, below, above, lowest_peak: value - below, highest_peak: value + above }
        });
        Self { now: value, baseline: value, peak: value, peak_at: Position::START, bounds }
    }

    #[inline]
    fn add(&mut self, bytes: i128, at: Position) {
        self.now += bytes;
        if self.now > self.peak {
            self.peak = self.now;
            self.peak_at = at;
        }
    }

    /// A block comes, or one goes, or both at once.
    // Each event turns three of them, and which measure that is decides all within.
    #[inline(always)]
    fn turn(&mut self, measure: Measure, comes: Option<&Class>, goes: Option<&Class>, at: Position) {
        if comes.is_none() && goes.is_none() {
            return;
        }
        let gained = comes.map_or(0, |class| class.size(measure));
        let lost = goes.map_or(0, |class| class.size(measure));
        self.add(gained - lost, at);
        if let Some(bounds) = &mut self.bounds {
            let comes = comes.map_or_else(Uncertainty::default, |class| class.spread_in(measure));
            let goes = goes.map_or_else(Uncertainty::default, |class| class.spread_in(measure));
            bounds.below += i128::from(comes.below) - i128::from(goes.below);
            bounds.above += i128::from(comes.above) - i128::from(goes.above);
            bounds.lowest_peak = bounds.lowest_peak.max(self.now - bounds.below);
            bounds.highest_peak = bounds.highest_peak.max(self.now + bounds.above);
        }
    }

    /// How far it may be from the truth now.
    fn error(&self) -> i128 {
        self.bounds.map_or(0, |bounds| bounds.below.max(bounds.above))
    }

    /// The truth is in this range now.
    fn range(&self) -> RangeInclusive<i128> {
        self.bounds.map_or(self.now..=self.now, |bounds| self.now - bounds.below..=self.now + bounds.above)
    }

    /// How far its first value may be from the truth.
    pub(super) fn baseline_error(&self) -> i128 {
        self.bounds.map_or(0, |bounds| bounds.baseline_error)
    }

    /// How far its highest value may be from the truth.
    pub(super) fn peak_error(&self) -> i128 {
        let error = self.bounds.map(|bounds| (bounds.highest_peak - self.peak).max(self.peak - bounds.lowest_peak));
        error.unwrap_or(0).max(0)
    }
}

/// The counters while they run.
#[derive(Default)]
pub(super) struct RunningCounters {
    /// By [`Measure`].
    gauges: [Gauge; 4],
    /// With the block for which the memory was reserved: both are one request.
    pub(super) active_at_reserved_peak: i128,
    /// How far that may be from the truth.
    pub(super) active_error_at_reserved_peak: i128,
    /// True if the event before reserved the most so far.
    reserved_most: bool,
    pub(super) checkpoints: StatedBytes,
    pub(super) checkpoints_missed: u64,
    /// The largest distance of a `snapshot` event from the range that the sizes allow.
    pub(super) checkpoint_error: i128,
    /// Failed allocations.
    pub(super) ooms: Vec<Oom>,
    pub(super) allocated_total: u128,
}

/// Runs the events of a device forward. `pools` has the free blocks of the pool at each failed allocation, for the first of
/// them.
pub(super) fn run(view: DeviceView<'_>, trace: &Trace, pools: Vec<Option<FreeBlocks>>) -> RunningCounters {
    let events = view.events();
    let has_private_pools = view.device.segments.iter().any(|segment| is_private(segment.pool_id));
    let mut pools = pools.into_iter();
    follow(trace, |counters, now, is_marker| {
        let Some(event) = now.event().and_then(|index| events.get(index as usize)).filter(|_| is_marker) else {
            return;
        };
        if event.action == Action::Oom {
            counters.fail(event, now, pools.next().flatten());
        } else if event.action == Action::Snapshot {
            let pool_id = view.snapshot.tables.tags(event.tags).pool_id;
            if !is_private(pool_id) {
                // Before PyTorch 2.12, the event of `MemPool.snapshot()` does not name the pool.
                counters.check(event, has_private_pools && pool_id.is_none());
            }
        }
    })
}

/// Goes through a history. `after` looks at each place, and knows whether its event changed nothing.
pub(super) fn follow(trace: &Trace, mut after: impl FnMut(&mut RunningCounters, Position, bool)) -> RunningCounters {
    let mut counters = RunningCounters::at_start(trace);
    for (i, &symbol) in trace.symbols.iter().enumerate() {
        let now = Position::after(i);
        let one = trace.moves[symbol as usize];
        if one != Move::Nothing {
            counters.add(one, &trace.classes, now);
        }
        after(&mut counters, now, one == Move::Nothing);
    }
    counters
}

fn is_private(pool_id: Option<(u64, u64)>) -> bool {
    pool_id.is_some_and(|pool| pool != SHARED_POOL)
}

impl RunningCounters {
    fn at_start(trace: &Trace) -> Self {
        let gauges = Measure::ALL.map(|measure| {
            let classes = trace.classes.iter().zip(&trace.start);
            let spreads = classes.map(|(class, start)| class.spread_in(measure).times(start.blocks(measure).into()));
            let is_uncertain = trace.classes.iter().any(|class| class.spread_in(measure) != Uncertainty::default());
            let spread = is_uncertain.then(|| spreads.fold(Uncertainty::default(), Uncertainty::plus));
            Gauge::new(trace.value_at_start(measure), spread)
        });
        Self {
            active_at_reserved_peak: gauges[Measure::Active as usize].now,
            active_error_at_reserved_peak: gauges[Measure::Active as usize].error(),
            gauges,
            ..Self::default()
        }
    }

    pub(super) fn of(&self, measure: Measure) -> &Gauge {
        &self.gauges[measure as usize]
    }

    /// Goes over a move.
    #[inline]
    fn add(&mut self, one: Move, classes: &[Class], now: Position) {
        if matches!(one, Move::Reserve(_) | Move::Release(_)) {
            return self.reserve(one.change(Measure::Reserved, classes), now);
        }
        let begun = one.begins().map(|block| &classes[block.class as usize]);
        let freed = one.frees().map(|class| &classes[class as usize]);
        let completed = one.completes().map(|class| &classes[class as usize]);
        let [allocated, active, requested, _] = &mut self.gauges;
        allocated.turn(Measure::Allocated, begun, freed, now);
        active.turn(Measure::Active, begun, completed, now);
        requested.turn(Measure::Requested, begun, completed, now);
        if std::mem::take(&mut self.reserved_most) && begun.is_some() {
            self.active_at_reserved_peak = active.now;
            self.active_error_at_reserved_peak = active.error();
        }
        self.allocated_total += begun.map_or(0, |class| class.bytes.into());
    }

    /// Segments come or go.
    fn reserve(&mut self, bytes: i128, now: Position) {
        let [_, active, _, reserved] = &mut self.gauges;
        reserved.add(bytes, now);
        self.reserved_most = reserved.peak_at == now;
        if self.reserved_most {
            self.active_at_reserved_peak = active.now;
            self.active_error_at_reserved_peak = active.error();
        }
    }

    /// Holds a `snapshot` event against the active bytes. One that may be of a private pool may state less.
    fn check(&mut self, event: &Event, may_be_of_pool: bool) {
        let seen = i128::from(event.size);
        let active = *self.of(Measure::Active);
        let range = active.range();
        if may_be_of_pool && seen < *range.start() {
            return;
        }
        self.checkpoints.total += 1;
        self.checkpoints.matched += u64::from(seen == active.now);
        self.checkpoints_missed += u64::from(!range.contains(&seen));
        self.checkpoint_error = self.checkpoint_error.max(range.start() - seen).max(seen - range.end());
    }

    /// Notes a failed allocation.
    fn fail(&mut self, event: &Event, now: Position, pool: Option<FreeBlocks>) {
        let [allocated, active, _, reserved] = &self.gauges;
        self.ooms.push(Oom {
            event: now.event().unwrap_or(0),
            requested: event.size,
            device_free: event.addr,
            allocated: u64::try_from(allocated.now).ok(),
            active: u64::try_from(active.now).ok(),
            reserved: u64::try_from(reserved.now).ok(),
            pool_free: pool.map(|pool| pool.bytes),
            largest_free: pool.map(|pool| pool.largest),
            max_error: u64::try_from(allocated.error().max(active.error())).ok(),
        });
    }
}

//! The counters over the history, once the size of every block is known.
//!
//! A [`Gauge`] is a counter: its value now, and the highest. Where the size of a block is not certain, its class has a
//! [`Spread`]: the bytes by which the size may be too high (`below`: the truth may be that far below it) and too low
//! (`above`). The spreads of all blocks that are held add up to the [`Margin`] of the counter. The allocated margin falls
//! when a free is requested, the active one when it is completed, so each [`Change`] carries a [`Slack`] for either.

use super::rounding::SHARED_POOL;
use super::{FreeBlocks, Matched, Oom, Position, Timeline};
use crate::snapshot::{Action, Event, Tables};
use crate::trace::{Class, Measure, Move, Spread, Trace};

/// Points of the coarse curve: more than any terminal has columns.
const TIMELINE_POINTS: usize = 480;

impl Timeline {
    /// The curve of a history.
    pub(crate) fn of(trace: &Trace) -> Self {
        let reserved = if trace.reserved < 0 { 0 } else { TIMELINE_POINTS };
        Self {
            allocated: trace.highest_in_parts(Measure::Allocated, TIMELINE_POINTS),
            reserved: trace.highest_in_parts(Measure::Reserved, reserved),
        }
    }
}

/// A running value and its highest.
#[derive(Debug, Clone, Copy)]
pub(super) struct Gauge {
    pub(super) now: i128,
    pub(super) baseline: i128,
    pub(super) peak: i128,
    pub(super) peak_at: Position,
}

impl Gauge {
    fn new(baseline: i128) -> Self {
        Self { now: baseline, baseline, peak: baseline, peak_at: Position::START }
    }

    #[inline]
    fn add(&mut self, change: i128, at: Position) {
        self.now += change;
        if self.now > self.peak {
            self.peak = self.now;
            self.peak_at = at;
        }
    }
}

/// How far a counter may lie from the truth, as blocks whose size is not certain come and go.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Margin {
    /// Bytes that the counter may be too high now.
    below: i128,
    /// Bytes that it may be too low now.
    above: i128,
    /// How far its first value may be from the truth.
    pub(super) baseline: i128,
    /// The highest that the truth was at least.
    lowest_peak: i128,
    /// The highest that it was at most.
    highest_peak: i128,
}

impl Margin {
    fn new(value: i128, spread: Spread) -> Self {
        let below = i128::from(spread.below);
        let above = i128::from(spread.above);
        Self { below, above, baseline: below.max(above), lowest_peak: value - below, highest_peak: value + above }
    }

    fn add(&mut self, change: Slack) {
        self.below += change.below;
        self.above += change.above;
    }

    /// Looks at the value of the counter, once it has grown.
    fn look(&mut self, value: i128) {
        self.lowest_peak = self.lowest_peak.max(value - self.below);
        self.highest_peak = self.highest_peak.max(value + self.above);
    }

    fn now(&self) -> i128 {
        self.below.max(self.above)
    }

    /// How far the highest value may be from the truth.
    fn peak(&self, gauge: &Gauge) -> i128 {
        (self.highest_peak - gauge.peak).max(gauge.peak - self.lowest_peak).max(0)
    }
}

/// What a move adds to a [`Margin`].
#[derive(Debug, Clone, Copy, Default)]
struct Slack {
    below: i128,
    above: i128,
}

impl Slack {
    /// That of a block that comes, and of one that goes.
    fn of(begun: Option<Spread>, ended: Option<Spread>) -> Self {
        let [begun, ended] = [begun, ended].map(Option::unwrap_or_default);
        Self {
            below: i128::from(begun.below) - i128::from(ended.below),
            above: i128::from(begun.above) - i128::from(ended.above),
        }
    }
}

/// What a move changes.
struct Change {
    allocated: i128,
    active: i128,
    requested: i128,
    reserved: i128,
    slack_of_allocated: Slack,
    slack_of_active: Slack,
    /// Bytes of the block that it hands out.
    begun: Option<u64>,
    /// True if it changes nothing, so that its event may be a marker.
    is_nothing: bool,
}

impl Change {
    fn new(one: Move, trace: &Trace) -> Self {
        let classes = [one.begins().map(|block| block.class), one.frees(), one.completes()];
        let [begun, freed, completed] = classes.map(|class| class.map(|class| &trace.classes[class as usize]));
        Self {
            allocated: one.change(Measure::Allocated, &trace.classes),
            active: one.change(Measure::Active, &trace.classes),
            requested: one.change(Measure::Requested, &trace.classes),
            reserved: one.change(Measure::Reserved, &trace.classes),
            slack_of_allocated: Slack::of(begun.map(|class| class.spread), freed.map(Class::spread_of_allocated)),
            slack_of_active: Slack::of(begun.map(|class| class.spread), completed.map(|class| class.spread)),
            begun: begun.map(|class| class.bytes),
            is_nothing: one == Move::Nothing,
        }
    }
}

/// The counters while they run.
pub(super) struct Counters {
    pub(super) allocated: Gauge,
    pub(super) active: Gauge,
    pub(super) requested: Gauge,
    pub(super) reserved: Gauge,
    pub(super) allocated_margin: Margin,
    pub(super) active_margin: Margin,
    pub(super) requested_margin: Margin,
    /// Bytes of blocks whose free may have been requested before the history.
    pub(super) maybe_pending: u64,
    /// True if every size is certain, and no block perhaps pending: then all margins are zero.
    is_certain: bool,
    pub(super) active_at_reserved_peak: i128,
    pub(super) checkpoints: Matched,
    pub(super) checkpoints_missed: u64,
    /// The most that a `snapshot` event lies outside of what the sizes allow.
    pub(super) checkpoint_error: i128,
    /// Failed allocations.
    pub(super) ooms: Vec<Oom>,
    pub(super) allocated_total: u128,
}

/// Runs the events forward. `pools` has the free blocks of the pool at each failed allocation, for the first of them.
pub(super) fn run(events: &[Event], tables: &Tables, trace: &Trace, pools: Vec<Option<FreeBlocks>>) -> Counters {
    let mut counters = Counters::at_start(trace);
    let changes: Vec<Change> = trace.moves.iter().map(|&one| Change::new(one, trace)).collect();
    let mut pools = pools.into_iter();
    for (i, (&symbol, event)) in trace.symbols.iter().zip(events).enumerate() {
        let change = &changes[symbol as usize];
        let now = Position::after(i);
        if !change.is_nothing {
            counters.add(change, now);
        } else if event.action == Action::Oom {
            counters.fail(event, now, pools.next().flatten());
        } else if event.action == Action::Snapshot && !is_of_private_pool(event, tables) {
            counters.check(event);
        }
    }
    counters
}

/// True for a snapshot of one private pool alone: it has the active bytes of no other.
fn is_of_private_pool(event: &Event, tables: &Tables) -> bool {
    tables.tags(event.tags).pool_id.is_some_and(|pool| pool != SHARED_POOL)
}

impl Counters {
    fn at_start(trace: &Trace) -> Self {
        let [allocated, active, requested, reserved] =
            [Measure::Allocated, Measure::Active, Measure::Requested, Measure::Reserved]
                .map(|measure| trace.value_at_start(measure));
        let mut of_allocated = Spread::default();
        let mut of_active = Spread::default();
        let mut maybe_pending: u64 = 0;
        for (class, start) in trace.classes.iter().zip(&trace.start) {
            of_allocated = of_allocated.plus(class.spread_of_allocated().times(start.allocated.into()));
            if class.maybe_pending {
                maybe_pending = maybe_pending.saturating_add(class.bytes.saturating_mul(start.allocated.into()));
            }
            of_active = of_active.plus(class.spread.times(u64::from(start.allocated) + u64::from(start.pending)));
        }
        Self {
            allocated: Gauge::new(allocated),
            active: Gauge::new(active),
            requested: Gauge::new(requested),
            reserved: Gauge::new(reserved),
            allocated_margin: Margin::new(allocated, of_allocated),
            active_margin: Margin::new(active, of_active),
            requested_margin: Margin::new(requested, Spread::default()),
            maybe_pending,
            is_certain: trace.classes.iter().all(|class| class.spread_of_allocated() == Spread::default()),
            active_at_reserved_peak: active,
            checkpoints: Matched::default(),
            checkpoints_missed: 0,
            checkpoint_error: 0,
            ooms: Vec::new(),
            allocated_total: 0,
        }
    }

    /// How far the highest value of a counter may be from the truth.
    pub(super) fn peak_margin(&self, margin: &Margin, gauge: &Gauge) -> i128 {
        if self.is_certain { 0 } else { margin.peak(gauge) }
    }

    /// Goes over a move.
    #[inline]
    fn add(&mut self, change: &Change, now: Position) {
        self.allocated.add(change.allocated, now);
        self.active.add(change.active, now);
        self.requested.add(change.requested, now);
        if change.reserved != 0 {
            self.reserved.add(change.reserved, now);
            if self.reserved.peak_at == now {
                self.active_at_reserved_peak = self.active.now;
            }
        }
        self.allocated_total += u128::from(change.begun.unwrap_or(0));
        if !self.is_certain {
            self.allocated_margin.add(change.slack_of_allocated);
            self.active_margin.add(change.slack_of_active);
            if change.begun.is_some() {
                self.allocated_margin.look(self.allocated.now);
                self.active_margin.look(self.active.now);
                self.requested_margin.look(self.requested.now);
            }
        }
    }

    /// Holds a `snapshot` event against the active bytes.
    fn check(&mut self, event: &Event) {
        let seen = i128::from(event.size);
        self.checkpoints.total += 1;
        self.checkpoints.matched += u64::from(seen == self.active.now);
        let lowest = self.active.now - self.active_margin.below;
        let highest = self.active.now + self.active_margin.above;
        self.checkpoints_missed += u64::from(!(lowest..=highest).contains(&seen));
        self.checkpoint_error = self.checkpoint_error.max(lowest - seen).max(seen - highest);
    }

    /// Notes a failed allocation.
    fn fail(&mut self, event: &Event, now: Position, pool: Option<FreeBlocks>) {
        let error = self.allocated_margin.now().max(self.active_margin.now());
        self.ooms.push(Oom {
            event: now.event().unwrap_or(0),
            requested: event.size,
            device_free: event.addr,
            allocated: u64::try_from(self.allocated.now).ok(),
            active: u64::try_from(self.active.now).ok(),
            reserved: u64::try_from(self.reserved.now).ok(),
            pool_free: pool.map(|pool| pool.bytes),
            largest_free: pool.map(|pool| pool.largest),
            max_error: u64::try_from(error).ok(),
        });
    }
}

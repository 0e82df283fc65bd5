//! The counters over the history, once the size of every block is known.

use std::iter::Peekable;
use std::{slice, vec};

use super::lifetimes::{Lifetimes, NONE};
use super::maybe_pending::MaybePending;
use super::parts::{Level, Part, Parts};
use super::rounding::SHARED_POOL;
use super::sizes::Sizes;
use super::{Allocation, FreeBlocks, Oom, Position, Timeline};
use crate::snapshot::{Action, Event, Tables};
use crate::trace::Spread;

/// Points of the coarse curve: more than any terminal has columns.
const TIMELINE_POINTS: usize = 480;

/// The moment other than the allocated peak at which as much may have been allocated, or more, if the sizes that are
/// not certain are as they can be. Blocks that are there at both moments make no difference.
pub(super) fn rival_of_peak(lifetimes: &Lifetimes, sizes: &Sizes, peak_at: Position, peak: i128) -> Option<Position> {
    if sizes.spreads.is_empty() {
        return None;
    }
    let at_start = lifetimes.older.iter().map(|&index| (index, Position::START));
    let events = (0..).zip(&lifetimes.of_event).filter(|(_, index)| **index != NONE);
    let events = events.map(|(i, &index)| (index, Position::after(i)));
    let at_peak =
        sizes.spreads.iter().filter(|(index, _)| lifetimes.allocations[*index as usize].allocated_at(peak_at));
    // The value as it is at most where the peak is what is counted.
    let mut highest: i128 = at_peak.map(|(_, spread)| i128::from(spread.below)).sum();
    // It has to be as high as the peak, and higher than at any rival before.
    let mut least = peak;
    let mut rival = None;
    for (index, now) in at_start.chain(events) {
        let allocation = &lifetimes.allocations[index as usize];
        let is_born = allocation.born == now && allocation.allocated_at(now);
        if is_born || allocation.freed == now {
            let bytes = highest_bytes(allocation, sizes.spreads.get(index), peak_at);
            highest += if is_born { bytes } else { -bytes };
        }
        if highest >= least && now != peak_at {
            least = highest + 1;
            rival = Some(now);
        }
    }
    rival
}

/// The bytes of a block as they count against the peak: at least, where it is there at the peak, and else at most.
fn highest_bytes(allocation: &Allocation, spread: Option<Spread>, peak_at: Position) -> i128 {
    let bytes = i128::from(allocation.bytes);
    match spread {
        None => bytes,
        Some(spread) if allocation.allocated_at(peak_at) => bytes - i128::from(spread.below),
        Some(spread) => bytes + i128::from(spread.above),
    }
}

/// A running value and its highest.
#[derive(Debug, Clone, Copy)]
pub(super) struct Gauge {
    pub(super) now: i128,
    pub(super) baseline: i128,
    pub(super) peak: i128,
    pub(super) peak_at: Position,
    /// The highest since [`Gauge::mark`].
    highest: i128,
}

impl Gauge {
    fn new(baseline: i128) -> Self {
        Self { now: baseline, baseline, peak: baseline, peak_at: Position::START, highest: baseline }
    }

    #[inline]
    fn add(&mut self, bytes: u64, at: Position) {
        self.now += i128::from(bytes);
        if self.now > self.highest {
            self.highest = self.now;
            if self.now > self.peak {
                self.peak = self.now;
                self.peak_at = at;
            }
        }
    }

    #[inline]
    fn sub(&mut self, bytes: u64) {
        self.now -= i128::from(bytes);
    }

    /// The highest value since [`Gauge::mark`], in bytes.
    fn highest(&self) -> u64 {
        u64::try_from(self.highest).unwrap_or(0)
    }

    /// Forgets what was higher before.
    fn mark(&mut self) {
        self.highest = self.now;
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

    fn add(&mut self, spread: Spread) {
        self.below += i128::from(spread.below);
        self.above += i128::from(spread.above);
    }

    fn sub(&mut self, spread: Spread) {
        self.below -= i128::from(spread.below);
        self.above -= i128::from(spread.above);
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
    pub(super) checkpoints_matched: u64,
    pub(super) checkpoints_missed: u64,
    pub(super) checkpoints_total: u64,
    /// The most that a `snapshot` event lies outside of what the sizes allow.
    pub(super) checkpoint_error: i128,
    /// Failed allocations.
    pub(super) ooms: Vec<Oom>,
    pub(super) allocated_total: u128,
}

/// The result of running the counters.
pub(super) struct Counted {
    pub(super) counters: Counters,
    pub(super) timeline: Timeline,
    pub(super) parts: Vec<Part>,
}

/// Everything that makes a counter uncertain.
pub(super) struct Doubts<'r> {
    pub(super) sizes: &'r Sizes,
    pub(super) pending: &'r MaybePending,
}

/// How far the bytes of a block may be off.
#[derive(Debug, Clone, Copy)]
struct BlockSpread {
    /// Those that it counts as allocated.
    allocated: Spread,
    /// Those that it counts as active.
    active: Spread,
}

/// The input of the counters.
struct Run<'r> {
    events: &'r [Event],
    tables: &'r Tables,
    lifetimes: &'r Lifetimes,
    sizes: &'r Sizes,
    pending: &'r MaybePending,
    /// Allocations that end where another one begins at their address, in order.
    replaced: Peekable<slice::Iter<'r, u32>>,
    /// The memory that was left at each failed allocation.
    pools: vec::IntoIter<Option<FreeBlocks>>,
}

impl Run<'_> {
    /// Goes over one event.
    #[inline]
    fn step(&mut self, counters: &mut Counters, i: usize) {
        let Lifetimes { allocations, of_event, .. } = self.lifetimes;
        let index = of_event[i];
        let now = Position::after(i);
        if index == NONE {
            let event = &self.events[i];
            if !self.is_of_private_pool(event) {
                counters.other(event, now, &mut self.pools);
            }
            return;
        }
        let allocation = &allocations[index as usize];
        if allocation.born != now {
            counters.free(allocation, self.spread(index), now);
            return;
        }
        if let Some(&gone) = self.replaced.next_if(|&&gone| allocations[gone as usize].completed == now) {
            counters.free(&allocations[gone as usize], self.spread(gone), now);
        }
        counters.begin(allocation, self.sizes.spreads.get(index), now);
    }

    /// True for a snapshot of one private pool alone: it has the active bytes of no other.
    fn is_of_private_pool(&self, event: &Event) -> bool {
        event.action == Action::Snapshot && self.tables.tags(event.tags).pool_id.is_some_and(|pool| pool != SHARED_POOL)
    }

    /// How far the bytes of a block may be off. `None` where they are certain.
    #[inline]
    fn spread(&self, index: u32) -> Option<BlockSpread> {
        let active = self.sizes.spreads.get(index);
        if self.pending.is_empty() {
            return active.map(|active| BlockSpread { allocated: active, active });
        }
        let active = active.unwrap_or_default();
        let allocated = self.pending.spread(index, &self.lifetimes.allocations[index as usize], active);
        Some(BlockSpread { allocated, active })
    }
}

/// Runs the events forward. `pools` is what was left in its pool at each failed allocation, as far as that was looked
/// at.
pub(super) fn run(
    events: &[Event],
    tables: &Tables,
    lifetimes: &Lifetimes,
    doubts: Doubts<'_>,
    pools: Vec<Option<FreeBlocks>>,
    borders: &[Position],
) -> Counted {
    let Doubts { sizes, pending, .. } = doubts;
    let mut counters = Counters::at_start(lifetimes, doubts);
    let replaced = lifetimes.replaced.iter().peekable();
    let mut run = Run { events, tables, lifetimes, sizes, pending, replaced, pools: pools.into_iter() };
    let mut parts = Parts::new(borders, counters.level(|gauge| gauge.now));
    let mut timeline = Timeline::default();
    let points = TIMELINE_POINTS.min(events.len());
    let mut from = 0;
    for point in 1..=points {
        let end = (point * events.len()).div_ceil(points);
        let mut allocated = 0;
        let mut reserved = 0;
        while from < end {
            let to = parts.next_border().map_or(end, |border| border.count().min(end));
            // Higher values before it do not count.
            run.step(&mut counters, from);
            counters.mark();
            (from + 1..to).for_each(|i| run.step(&mut counters, i));
            allocated = counters.allocated.highest().max(allocated);
            reserved = counters.reserved.highest().max(reserved);
            parts.reach(
                Position::of_count(to),
                counters.level(|gauge| gauge.highest),
                counters.level(|gauge| gauge.now),
            );
            from = to;
        }
        timeline.allocated.push(allocated);
        timeline.reserved.push(reserved);
    }
    if counters.reserved.baseline < 0 {
        timeline.reserved.clear();
    }
    Counted { counters, timeline, parts: parts.finish() }
}

/// Bytes that are no fewer than none.
fn bytes(value: i128) -> u64 {
    u64::try_from(value.max(0)).unwrap_or(u64::MAX)
}

impl Counters {
    fn at_start(lifetimes: &Lifetimes, doubts: Doubts<'_>) -> Self {
        let Doubts { sizes, pending } = doubts;
        let mut allocated = 0_i128;
        let mut active = 0_i128;
        let mut requested = 0_i128;
        let mut of_allocated = Spread::default();
        let mut of_active = Spread::default();
        for &index in &lifetimes.older {
            let allocation = &lifetimes.allocations[index as usize];
            let spread = sizes.spreads.get(index).unwrap_or_default();
            active += i128::from(allocation.bytes);
            requested += i128::from(allocation.requested);
            of_active = of_active.plus(spread);
            if allocation.allocated_at(Position::START) {
                allocated += i128::from(allocation.bytes);
                of_allocated = of_allocated.plus(pending.spread(index, allocation, spread));
            }
        }
        Self {
            allocated: Gauge::new(allocated),
            active: Gauge::new(active),
            requested: Gauge::new(requested),
            reserved: Gauge::new(sizes.reserved),
            allocated_margin: Margin::new(allocated, of_allocated),
            active_margin: Margin::new(active, of_active),
            requested_margin: Margin::new(requested, Spread::default()),
            is_certain: sizes.spreads.is_empty() && pending.is_empty(),
            maybe_pending: pending.bytes,
            active_at_reserved_peak: active,
            checkpoints_matched: 0,
            checkpoints_missed: 0,
            checkpoints_total: 0,
            checkpoint_error: 0,
            ooms: Vec::new(),
            allocated_total: 0,
        }
    }

    /// How far the highest value of a counter may be from the truth.
    pub(super) fn peak_margin(&self, margin: &Margin, gauge: &Gauge) -> i128 {
        if self.is_certain { 0 } else { margin.peak(gauge) }
    }

    fn level(&self, of: fn(&Gauge) -> i128) -> Level {
        Level {
            allocated: bytes(of(&self.allocated)),
            active: bytes(of(&self.active)),
            reserved: bytes(of(&self.reserved)),
        }
    }

    fn mark(&mut self) {
        [&mut self.allocated, &mut self.active, &mut self.reserved].into_iter().for_each(Gauge::mark);
    }

    /// A block is handed out.
    #[inline]
    fn begin(&mut self, allocation: &Allocation, spread: Option<Spread>, now: Position) {
        let bytes = allocation.bytes;
        self.allocated.add(bytes, now);
        self.active.add(bytes, now);
        self.requested.add(allocation.requested, now);
        self.allocated_total += u128::from(bytes);
        if !self.is_certain {
            self.widen(spread.unwrap_or_default());
        }
    }

    /// Widens the margins by a block that is handed out.
    fn widen(&mut self, spread: Spread) {
        self.allocated_margin.add(spread);
        self.active_margin.add(spread);
        self.allocated_margin.look(self.allocated.now);
        self.active_margin.look(self.active.now);
        self.requested_margin.look(self.requested.now);
    }

    /// Ends an allocation: that it is allocated, that it is active, or both.
    #[inline]
    fn free(&mut self, allocation: &Allocation, spread: Option<BlockSpread>, now: Position) {
        let bytes = allocation.bytes;
        if allocation.freed == now {
            self.allocated.sub(bytes);
            if let Some(spread) = spread {
                self.allocated_margin.sub(spread.allocated);
            }
        }
        if allocation.completed == now {
            self.active.sub(bytes);
            self.requested.sub(allocation.requested);
            if let Some(spread) = spread {
                self.active_margin.sub(spread.active);
            }
        }
    }

    /// An event that is about no block.
    fn other(&mut self, event: &Event, now: Position, pools: &mut impl Iterator<Item = Option<FreeBlocks>>) {
        match event.action {
            Action::SegmentAlloc | Action::SegmentMap => {
                self.reserved.add(event.size, now);
                if self.reserved.peak_at == now {
                    self.active_at_reserved_peak = self.active.now;
                }
            }
            Action::SegmentFree | Action::SegmentUnmap => self.reserved.sub(event.size),
            Action::Snapshot => {
                let seen = i128::from(event.size);
                self.checkpoints_total += 1;
                self.checkpoints_matched += u64::from(seen == self.active.now);
                let lowest = self.active.now - self.active_margin.below;
                let highest = self.active.now + self.active_margin.above;
                self.checkpoints_missed += u64::from(!(lowest..=highest).contains(&seen));
                self.checkpoint_error = self.checkpoint_error.max(lowest - seen).max(seen - highest);
            }
            Action::Oom => {
                let error = self.allocated_margin.now().max(self.active_margin.now());
                self.ooms.push(Oom {
                    event: now.event().unwrap_or(0),
                    requested: event.size,
                    device_free: event.addr,
                    allocated: u64::try_from(self.allocated.now).ok(),
                    active: u64::try_from(self.active.now).ok(),
                    reserved: u64::try_from(self.reserved.now).ok(),
                    pool: pools.next().flatten(),
                    max_error: u64::try_from(error).ok(),
                });
            }
            Action::Alloc | Action::FreeRequested | Action::FreeCompleted | Action::Other(_) => {}
        }
    }
}

//! The counters over the history, once the size of every block is known.

use super::lifetimes::{Lifetimes, NONE};
use super::parts::{Level, Part, Parts};
use super::sizes::Sizes;
use super::{Allocation, Basis, FreeBlocks, Oom, Position, Timeline};
use crate::snapshot::{Action, Event};

/// Points of the coarse curve: more than any terminal has columns.
const TIMELINE_POINTS: usize = 480;

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

    /// Forgets what was higher before.
    fn mark(&mut self) {
        self.highest = self.now;
    }
}

/// What the counters do.
pub(super) struct Counters {
    pub(super) allocated: Gauge,
    pub(super) active: Gauge,
    pub(super) requested: Gauge,
    pub(super) reserved: Gauge,
    /// Allocated and active if every size that is not known were as large as it can be.
    pub(super) upper_allocated: Gauge,
    pub(super) upper_active: Gauge,
    /// The same for every size, also those that the rules give: the bound where a check fails.
    pub(super) loose: Gauge,
    pub(super) active_at_reserved_peak: i128,
    pub(super) checkpoints_matched: u64,
    pub(super) checkpoints_missed: u64,
    pub(super) checkpoints_total: u64,
    /// Failed allocations, and by how much their figures can be off where a check fails.
    pub(super) ooms: Vec<(Oom, i128)>,
    pub(super) allocated_total: u128,
}

/// What running the counters gives.
pub(super) struct Counted {
    pub(super) counters: Counters,
    pub(super) timeline: Timeline,
    pub(super) parts: Vec<Part>,
}

/// Runs the events forward. `pools` is what was left in its pool at each failed allocation, as far as that was looked at.
pub(super) fn run(
    events: &[Event],
    lifetimes: &Lifetimes,
    sizes: &Sizes,
    pools: Vec<Option<FreeBlocks>>,
    borders: &[Position],
) -> Counted {
    let Lifetimes { allocations, of_event, .. } = lifetimes;
    let mut counters = Counters::at_start(lifetimes, sizes);
    let mut pools = pools.into_iter();
    let mut replaced = lifetimes.replaced.iter().peekable();
    let mut step = |counters: &mut Counters, i: usize| {
        let (index, now) = (of_event[i], Position::after(i));
        if index == NONE {
            counters.other(&events[i], now, &mut pools);
            return;
        }
        let (allocation, more) = (&allocations[index as usize], sizes.more[index as usize]);
        if allocation.born != now {
            counters.free(allocation, more, now);
            return;
        }
        if let Some(&gone) = replaced.next_if(|&&gone| allocations[gone as usize].completed == now) {
            counters.free(&allocations[gone as usize], sizes.more[gone as usize], now);
        }
        counters.begin(allocation, more, now);
    };

    let mut parts = Parts::new(borders, counters.level(|gauge| gauge.now));
    let mut timeline = Timeline::default();
    let points = TIMELINE_POINTS.min(events.len());
    let mut from = 0;
    for point in 1..=points {
        let end = (point * events.len()).div_ceil(points);
        let (mut allocated, mut reserved) = (0, 0);
        while from < end {
            let to = parts.next_border().map_or(end, |border| border.count().min(end));
            // What was before does not count.
            step(&mut counters, from);
            counters.mark();
            (from + 1..to).for_each(|i| step(&mut counters, i));
            let highest = |gauge: &Gauge| u64::try_from(gauge.highest).unwrap_or(0);
            allocated = highest(&counters.allocated).max(allocated);
            reserved = highest(&counters.reserved).max(reserved);
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

/// By how much a block can be larger even where the rules hold.
fn unknown(allocation: &Allocation, more: u64) -> u64 {
    if matches!(allocation.basis, Basis::Request) { more } else { 0 }
}

impl Counters {
    fn at_start(lifetimes: &Lifetimes, sizes: &Sizes) -> Self {
        let (mut allocated, mut active, mut requested) = (0_i128, 0_i128, 0_i128);
        let (mut more_allocated, mut more_active) = (0_i128, 0_i128);
        for &index in &lifetimes.older {
            let allocation = &lifetimes.allocations[index as usize];
            let more = i128::from(sizes.more[index as usize]);
            active += i128::from(allocation.bytes);
            requested += i128::from(allocation.requested);
            more_active += more;
            if allocation.allocated_at(Position::START) {
                allocated += i128::from(allocation.bytes);
                more_allocated += more;
            }
        }
        Self {
            allocated: Gauge::new(allocated),
            active: Gauge::new(active),
            requested: Gauge::new(requested),
            reserved: Gauge::new(sizes.reserved),
            upper_allocated: Gauge::new(allocated + more_allocated),
            upper_active: Gauge::new(active + more_active),
            loose: Gauge::new(active + more_active),
            active_at_reserved_peak: active,
            checkpoints_matched: 0,
            checkpoints_missed: 0,
            checkpoints_total: 0,
            ooms: Vec::new(),
            allocated_total: 0,
        }
    }

    fn level(&self, of: fn(&Gauge) -> i128) -> Level {
        let bytes = |gauge| u64::try_from(of(gauge).max(0)).unwrap_or(u64::MAX);
        Level { allocated: bytes(&self.allocated), active: bytes(&self.active), reserved: bytes(&self.reserved) }
    }

    fn mark(&mut self) {
        [&mut self.allocated, &mut self.active, &mut self.reserved].into_iter().for_each(Gauge::mark);
    }

    /// A block is handed out.
    #[inline]
    fn begin(&mut self, allocation: &Allocation, more: u64, now: Position) {
        let bytes = allocation.bytes;
        let upper = bytes + unknown(allocation, more);
        self.allocated.add(bytes, now);
        self.active.add(bytes, now);
        self.requested.add(allocation.requested, now);
        self.upper_allocated.add(upper, now);
        self.upper_active.add(upper, now);
        self.loose.add(bytes + more, now);
        self.allocated_total += u128::from(bytes);
    }

    /// What a free ends of an allocation: that it is allocated, that it is active, or both.
    #[inline]
    fn free(&mut self, allocation: &Allocation, more: u64, now: Position) {
        let bytes = allocation.bytes;
        let upper = bytes + unknown(allocation, more);
        if allocation.freed == now {
            self.allocated.sub(bytes);
            self.upper_allocated.sub(upper);
        }
        if allocation.completed == now {
            self.active.sub(bytes);
            self.requested.sub(allocation.requested);
            self.upper_active.sub(upper);
            self.loose.sub(bytes + more);
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
                self.checkpoints_missed += u64::from(!(self.active.now..=self.upper_active.now).contains(&seen));
            }
            Action::Oom => {
                let more = (self.upper_allocated.now - self.allocated.now).max(self.upper_active.now - self.active.now);
                let oom = Oom {
                    event: now.event().unwrap_or(0),
                    requested: event.size,
                    device_free: event.addr,
                    allocated: u64::try_from(self.allocated.now).ok(),
                    active: u64::try_from(self.active.now).ok(),
                    reserved: u64::try_from(self.reserved.now).ok(),
                    pool: pools.next().flatten(),
                    max_error: u64::try_from(more).ok(),
                };
                self.ooms.push((oom, self.loose.now - self.active.now));
            }
            Action::Alloc | Action::FreeRequested | Action::FreeCompleted | Action::Other(_) => {}
        }
    }
}

//! The figures of a device that follow from its history: a file that states others is damaged or forged.

use super::counters::{self, Gauge, RunningCounters};
use super::figures::fragmentation;
use super::{Checks, Counter, Figures, HistoryKind, Oom};
use crate::trace::{Measure, Trace};

impl Figures {
    /// The name of a figure that is not the one of this history. Without PyTorch's own counters (`is_counted`), a figure may be at
    /// least as far from the truth as the sizes of its blocks.
    pub(crate) fn disagreement(&self, trace: &Trace, is_counted: bool) -> Option<&'static str> {
        if self.history == HistoryKind::NumbersOnly {
            return (!trace.classes.is_empty() || !trace.symbols.is_empty()).then_some("history");
        }
        let mut ooms = self.ooms.iter().peekable();
        let mut are_failures = true;
        let counters = counters::follow(trace, |counters, now, is_marker| {
            while let Some(oom) = ooms.next_if(|oom| Some(oom.event) == now.event()) {
                are_failures &= is_marker && oom.is_of(counters);
            }
        });
        are_failures &= ooms.next().is_none();
        let allocations: u64 = trace.allocations().iter().sum();
        let are_of_sizes = self.checks.hold();
        let differing = Measure::ALL.into_iter().find(|&measure| {
            let counter = self.counter(measure);
            let gauge = counters.of(measure);
            let is_exact = are_of_sizes && measure == Measure::Allocated;
            !counter.is_of(gauge) || !is_counted && !counter.has_errors_of(gauge, is_exact)
        });
        let parts = [
            ("history", self.history.allows(trace, allocations)),
            ("allocations", self.allocation_count == allocations),
            ("allocated_total", u128::from(self.allocated_total) == counters.allocated_total),
            (differing.map_or("", <&str>::from), differing.is_none()),
            ("end", self.has_ends(&counters)),
            ("fragmentation", self.has_fragmentation(&counters)),
            ("ooms", are_failures),
            ("checks", self.checks.are_possible()),
            ("at_least", self.agrees_on_least()),
        ];
        parts.into_iter().find(|(_, agrees)| !agrees).map(|(name, _)| name)
    }

    /// True if the ends are those of the history exactly where they are said to be, as far as they are known. Where it has no
    /// beginning to count from, they may be others.
    fn has_ends(&self, counters: &RunningCounters) -> bool {
        let mut ends = Measure::ALL.into_iter().map(|measure| (self.counter(measure), counters.of(measure)));
        if self.checks.end_matches {
            return ends.all(|(counter, gauge)| counter.ends_as(gauge));
        }
        ends.any(|(counter, gauge)| counter.end.is_none_or(|end| i128::from(end) != gauge.now))
    }

    /// True if all counters, or none, are the least that they were, as far as they are stated: segments that were given back unseen
    /// held blocks.
    fn agrees_on_least(&self) -> bool {
        let mut stated =
            Measure::ALL.into_iter().map(|measure| self.counter(measure)).filter(|counter| counter.end.is_some());
        stated.all(|counter| counter.is_least == self.allocated.is_least)
    }

    fn has_fragmentation(&self, counters: &RunningCounters) -> bool {
        let peak = fragmentation(counters.of(Measure::Reserved).peak, counters.active_at_reserved_peak);
        let ends = self.reserved.end.zip(self.active.end);
        let end = ends.map(|(reserved, active)| reserved.saturating_sub(active));
        self.fragmentation.peak.is_none_or(|stated| stated == peak) && self.fragmentation.end == end
    }
}

impl Counter {
    /// True if its figures, as far as they are stated, are those of a gauge.
    fn is_of(&self, gauge: &Gauge) -> bool {
        let least = i128::from(self.end.filter(|_| self.is_least).unwrap_or(0));
        let baseline = if self.is_least { gauge.baseline.max(0) } else { gauge.baseline };
        let peak = gauge.peak.max(least);
        let is_moment = self.peak_at.map_or(self.is_least || self.peak.is_none(), |at| at == gauge.peak_at);
        self.baseline.is_none_or(|stated| i128::from(stated) == baseline)
            && self.peak.is_none_or(|stated| i128::from(stated) == peak)
            && is_moment
    }

    /// True if its end, as far as it is stated and counted from a baseline, is that of a gauge.
    fn ends_as(&self, gauge: &Gauge) -> bool {
        let end = self.end.filter(|_| self.baseline.is_some());
        end.is_none_or(|end| i128::from(end) == gauge.now)
    }

    /// True if its error bounds, as far as they are stated, are at least those of a gauge, or just those. `is_least` has bounds of
    /// its own.
    fn has_errors_of(&self, gauge: &Gauge, is_exact: bool) -> bool {
        let bounds = [(self.baseline_error, gauge.baseline_error()), (self.peak_error, gauge.peak_error())];
        let mut stated = bounds.into_iter().filter_map(|(stated, own)| Some((i128::from(stated?), own)));
        self.is_least || stated.all(|(stated, own)| if is_exact { stated == own } else { stated >= own })
    }
}

impl Oom {
    /// True if its figures, as far as they are stated, are those of this moment.
    fn is_of(&self, counters: &RunningCounters) -> bool {
        let stated =
            [(self.allocated, Measure::Allocated), (self.active, Measure::Active), (self.reserved, Measure::Reserved)];
        stated
            .into_iter()
            .all(|(stated, measure)| stated.is_none_or(|stated| i128::from(stated) == counters.of(measure).now))
    }
}

impl Checks {
    /// True if no more was confirmed than there was.
    fn are_possible(&self) -> bool {
        self.sizes.recovered <= self.sizes.total && self.checkpoints.matched <= self.checkpoints.total
    }
}

impl HistoryKind {
    /// True if a history with this number of allocations can be of this kind.
    fn allows(self, trace: &Trace, allocations: u64) -> bool {
        match self {
            Self::Recorded => true,
            Self::StateOnly => trace.symbols.len() <= 1 || trace.moves.iter().all(|one| one.begins().is_none()),
            Self::NoAllocations => allocations == 0,
            Self::Empty => trace.classes.is_empty(),
            Self::NumbersOnly => trace.classes.is_empty() && trace.symbols.is_empty(),
        }
    }
}

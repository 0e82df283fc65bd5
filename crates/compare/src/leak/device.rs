//! What grows on one device.

use std::collections::HashMap;
use std::sync::Arc;

use crate::budget::DeviceBudget;
use ptmem_base::device::DeviceId;
use ptmem_base::diagnostic::Advice;
use ptmem_trace::phase::steps::{CallsOfStep, FoundBy, StepName};
use ptmem_trace::profile::{DeviceProfile, Held, Oom};

use super::leaking::{Course, FRAGMENTATION, Leak, LeakMetric, proportion};
use super::options::{LeakOptions, Mode};
use super::trend::{Growing, LatestTrend, Trend};

/// The bytes that a device holds at the end of a snapshot or step. `None` is "cannot be known".
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeriesPoint {
    /// The name of the snapshot or step.
    pub name: StepName,
    /// Allocated bytes.
    pub allocated: Option<u64>,
    /// Reserved bytes.
    pub reserved: Option<u64>,
    /// Reserved bytes that are not active.
    pub fragmentation: Option<u64>,
    /// The most active bytes within a step, or within the recording of a snapshot.
    pub active_peak: Option<u64>,
}

impl SeriesPoint {
    /// Active bytes at its end.
    pub(super) fn active(&self) -> Option<u64> {
        Some(self.reserved?.saturating_sub(self.fragmentation?))
    }
}

/// Growth of the totals of a device in bytes per snapshot or step, warm-up left out. `None` is "cannot be known".
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
#[non_exhaustive]
pub struct TotalsGrowth {
    /// The trend of allocated bytes.
    #[serde(rename = "allocated_slope")]
    pub allocated: Option<i128>,
    /// The trend of reserved bytes.
    #[serde(rename = "reserved_slope")]
    pub reserved: Option<i128>,
    /// The trend of reserved bytes that are not active.
    #[serde(rename = "fragmentation_slope")]
    pub fragmentation: Option<i128>,
    /// The trend of allocated bytes without those of leaks.
    #[serde(skip)]
    pub beside_leaks: Option<i128>,
    /// The number of further snapshots or steps after which the memory of the device is full.
    pub runs_out_after: Option<u64>,
}

/// Requests that failed for lack of memory, in the only snapshot or in the latest of a series.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct FailedRequests {
    /// The first of them, if more than their number is known.
    pub first: Option<Oom>,
    /// The label of its stack, where it is known.
    pub request: Option<String>,
    /// The number of requests that failed.
    pub count: u64,
    /// True if memory ran out in the first snapshot of a series as well.
    pub from_the_first: bool,
}

impl FailedRequests {
    /// Those of a device.
    pub fn of(device: &DeviceProfile) -> Option<Self> {
        let figures = &device.figures;
        let count = figures.failures();
        let first = figures.ooms.first().copied();
        let request = device.failed_request.clone();
        (count > 0).then_some(Self { first, request, count, from_the_first: false })
    }
}

/// The reason why nothing can be said about leaks.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnclearLeaks {
    /// In words.
    pub reason: String,
    /// Additional advice, if a setting would help.
    pub advice: Option<Advice>,
    /// True if no steps were found, so that the history was divided into equal parts.
    pub lacks_steps: bool,
}

impl From<String> for UnclearLeaks {
    fn from(reason: String) -> Self {
        Self { reason, advice: None, lacks_steps: false }
    }
}

/// Blocks that a stack leaves behind steadily, but only since some step.
#[derive(Debug)]
pub(super) struct LateGrowth {
    /// The name of the stack.
    pub(super) label: String,
    /// Index of the first step that left some behind.
    pub(super) since: usize,
    /// Number of steps before it, without warm-up, that left some behind.
    pub(super) grew_before: usize,
    /// Number of steps since then that left blocks behind.
    pub(super) grew: usize,
    /// Number of steps since then.
    pub(super) steps: usize,
    /// Bytes of all these blocks.
    pub(super) bytes: u64,
}

/// Growth over the snapshots of a series, of which the latest ones do not show whether it has ended.
pub(super) struct PausedGrowth {
    /// Bytes that it gained per snapshot.
    pub(super) per_snapshot: i128,
    /// The snapshot up to which it lasted.
    pub(super) until: String,
    /// The number of snapshots after that.
    pub(super) later: usize,
}

/// The growth on one device.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct DeviceLeaks {
    /// Device ordinal.
    pub device: DeviceId,
    /// The way in which the steps of a single snapshot were found.
    pub how: Option<FoundBy>,
    /// The snapshots or steps, in order.
    pub points: Arc<[SeriesPoint]>,
    /// Number of them at the start that are warm-up.
    pub skip: usize,
    /// Number of them that can show a leak: neither warm-up nor the last step, whose tensors are still in use.
    pub judged: usize,
    /// Stacks that leak, the fastest first.
    pub leaks: Vec<Leak>,
    /// The most steps in which one stack left blocks behind, of which it need not leak.
    pub left_in: usize,
    /// Bytes that a stack must leave behind at least to leak, where they are given.
    pub min_growth: Option<u64>,
    /// Bytes that steps left behind until Python's garbage collector freed them.
    pub in_cycles: u64,
    /// Bytes at the end of each step that Python's garbage collector freed later.
    pub(super) collected_later: Vec<u64>,
    /// True if totals were compared and no stacks: one of the files of a series has only figures.
    pub has_totals_only: bool,
    /// What stacks leave behind only since some step, the most first.
    pub(super) late: Vec<LateGrowth>,
    /// Growth of the totals.
    pub growth: TotalsGrowth,
    /// The reason why nothing can be said about leaks.
    pub unclear: Option<UnclearLeaks>,
    /// Requests that failed for lack of memory, unless that is allowed.
    pub failure: Option<FailedRequests>,
    /// The label of the stack whose memory grows most over the steps that count, of those that do not leak.
    pub grows_most: Option<String>,
    /// True if steps end with more memory as many sizes grow from one to the next, and nothing else does: a step ends with larger
    /// tensors of its own.
    pub sizes_grow: bool,
    /// The memory of the device, where it is given.
    pub budget: Option<DeviceBudget>,
}

impl DeviceLeaks {
    /// The unit of the search: a `snapshot`, a `step`, or a `part` of a history that is neither.
    pub fn noun(&self, mode: Mode) -> &'static str {
        if self.how == Some(FoundBy::Windows) { "part" } else { mode.noun() }
    }

    /// The calls of optimizers that a step has, where they make the steps.
    pub fn calls_of_step(&self) -> Option<CallsOfStep> {
        match self.how {
            Some(FoundBy::Optimizers(calls)) => Some(calls),
            _ => None,
        }
    }

    /// Bytes that all leaks together gain per snapshot or step, without what the garbage collector frees.
    pub fn bytes_per_step(&self) -> i128 {
        self.leaks.iter().filter(|leak| leak.metric != LeakMetric::Cycles).map(|leak| leak.bytes_per_step).sum()
    }

    /// Leaks of one metric, the fastest first.
    pub fn leaks_of(&self, metric: LeakMetric) -> impl Iterator<Item = &Leak> {
        self.leaks.iter().filter(move |leak| leak.metric == metric)
    }

    /// The part of the growth of allocated bytes that has an explanation, in words.
    pub fn explained(&self) -> Option<&'static str> {
        let words = [(LeakMetric::Allocated, "what leaks"), (LeakMetric::Cycles, "what reference cycles hold")];
        words.into_iter().find(|(metric, _)| self.leaks_of(*metric).next().is_some()).map(|(_, words)| words)
    }

    /// Leaks of one metric in groups, the fastest first: those that gain blocks in the same steps, and always in the same
    /// proportion, are likely kept together, as by one autograd graph.
    pub fn findings(&self, metric: LeakMetric) -> Vec<Vec<&Leak>> {
        let mut findings: Vec<Vec<&Leak>> = Vec::new();
        let mut places: HashMap<u64, usize> = HashMap::new();
        for leak in self.leaks_of(metric) {
            let next = findings.len();
            let place = leak.rounds.map_or(next, |rounds| *places.entry(rounds).or_insert(next));
            if place == next {
                findings.push(Vec::new());
            }
            findings[place].push(leak);
        }
        findings.sort_by_key(|leaks| std::cmp::Reverse(leaks.iter().map(|leak| leak.bytes_per_step).sum::<i128>()));
        findings
    }

    /// The points that count: neither warm-up nor the last step, whose tensors are still in use.
    pub(super) fn counted(&self) -> &[SeriesPoint] {
        let until = self.points.len().saturating_sub(self.how.is_some().into());
        self.points.get(self.skip..until).unwrap_or_default()
    }

    /// A total at each point that counts; `None` where one of them is not known.
    pub(super) fn totals(&self, value: fn(&SeriesPoint) -> Option<u64>) -> Option<Vec<u64>> {
        self.counted().iter().map(value).collect()
    }

    /// The trend of something over the points that count. A series may have begun to grow late. Steps are short and
    /// equal except for the first ones: real growth occurs in nearly all of them.
    pub(super) fn trend(&self, values: &[u64], options: &LeakOptions) -> Option<Trend> {
        let trend = if self.how.is_some() { Trend::of_all } else { Trend::of };
        trend(values, options.least_growth(), options.min_share())
    }

    /// The latest trend of something that held this much at each point of a series that counts; `None` if that did not rise.
    pub(super) fn latest(&self, held: &[Held], options: &LeakOptions) -> Option<LatestTrend> {
        let values: Vec<u64> = held.iter().map(|held| held.bytes).collect();
        let rose = rose_by(&values, options.least_growth());
        rose.then(|| LatestTrend::of(&values, options.least_growth(), options.min_share()))?
    }

    /// Something that held this much at each point of a series that counts, as a leak without a name, if it grows like this.
    pub(super) fn leak(&self, held: &[Held], growth: Growing, options: &LeakOptions) -> Option<Leak> {
        let trend = self.latest(held, options)?.trend;
        (trend.growth == growth).then(|| self.leak_of(trend, held))
    }

    /// Growth before the latest trend, of which it is open whether it has ended.
    pub(super) fn paused_growth(&self, latest: LatestTrend) -> Option<PausedGrowth> {
        let growth = latest.paused?;
        let until = growth.since + growth.steps;
        Some(PausedGrowth {
            per_snapshot: growth.slope?,
            until: self.counted()[until].name.to_string(),
            later: self.counted().len() - 1 - until,
        })
    }

    /// A leak without a name of something that held this much at each point that counts.
    pub(super) fn leak_of(&self, trend: Trend, held: &[Held]) -> Leak {
        let end = held.last().copied().unwrap_or_default();
        let rounds = held.windows(2).map(|pair| i128::from(pair[1].blocks) - i128::from(pair[0].blocks));
        Leak {
            since: (trend.since > 0).then(|| self.counted()[trend.since].name.to_string()),
            bytes: trend.gained,
            blocks: i128::from(end.blocks) - i128::from(held[trend.since].blocks),
            bytes_per_step: trend.slope.unwrap_or_default(),
            grew: trend.grew,
            judged: trend.steps,
            span: trend.steps,
            end,
            rounds: proportion(rounds.enumerate()),
            course: Course::new(held.len(), held.iter().map(|held| held.bytes).enumerate()),
            ..Leak::default()
        }
    }

    /// Reserved memory that grows, in stairs or steadily, beyond what is needed. It fills the card as a leak does. What was
    /// needed before fits into the pool, so only a higher need than any before explains that the pool grows.
    pub(super) fn fragmentation(&self, needed: fn(&SeriesPoint) -> Option<u64>, options: &LeakOptions) -> Option<Leak> {
        let pool = self.totals(|point| point.reserved)?;
        // A single change of the pool, as by requests in another order, is not a trend.
        let steady = self.trend(&pool, options).filter(|trend| trend.growth == Growing::Yes && trend.steps > 1);
        let trend = steady.or_else(|| Trend::of_stairs(&pool, options.least_growth()))?;
        let mut needed = self.totals(needed)?;
        raise_to_highest_before(&mut needed);
        let unused: Vec<u64> = pool.iter().zip(needed).map(|(pool, needed)| pool.saturating_sub(needed)).collect();
        let gained = i128::from(*unused.last()?) - i128::from(unused[trend.since]);
        if gained * 2 <= trend.gained {
            return None;
        }
        let held: Vec<Held> = unused.into_iter().map(|bytes| Held { bytes, blocks: 0 }).collect();
        let slope = gained / trend.steps.max(1) as i128;
        let label = FRAGMENTATION.to_owned();
        let leak = self.leak_of(Trend { gained, slope: Some(slope), ..trend }, &held);
        Some(Leak { metric: LeakMetric::Fragmentation, key: label.clone(), label, ..leak })
    }

    /// The pace at which a total fills the memory: its own if it grows, and otherwise that of its leaks, which single changes of
    /// other stacks and noise hide.
    fn pace(&self, trend: Option<Trend>, metric: LeakMetric) -> Option<i128> {
        let of_total = trend.filter(|trend| trend.growth == Growing::Yes).and_then(|trend| trend.slope);
        of_total.or_else(|| Some(self.leaks_of(metric).map(|leak| leak.bytes_per_step).sum()))
    }

    /// Allocated bytes at each point that counts for all leaks, without those of leaks.
    fn beside_leaks(&self) -> Option<Vec<u64>> {
        let values = self.totals(|point| point.allocated)?;
        let leaked = self.leaked(&[LeakMetric::Allocated, LeakMetric::Cycles]);
        let beside = values.into_iter().zip(leaked).map(|(value, leaked)| i128::from(value) - leaked);
        Some(beside.map(|bytes| u64::try_from(bytes).unwrap_or_default()).collect())
    }

    /// Bytes of all leaks of these metrics together at each point that counts for all of them: what a step leaves behind is known
    /// only after the blocks of its stack that live for some steps would have been freed.
    pub(super) fn leaked(&self, metrics: &[LeakMetric]) -> Vec<i128> {
        let leaks = self.leaks.iter().filter(|leak| metrics.contains(&leak.metric));
        let moments = leaks.clone().map(|leak| leak.course.moments()).min();
        let mut leaked = vec![0; moments.unwrap_or(self.counted().len())];
        for (at, rise) in leaks.flat_map(|leak| leak.course.rises()) {
            if let Some(leaked) = leaked.get_mut(at) {
                *leaked += rise;
            }
        }
        for at in 1..leaked.len() {
            leaked[at] += leaked[at - 1];
        }
        leaked
    }

    /// Computes the growth of the totals beside the leaks, and when it fills the memory of the device, where that is given. `peak`
    /// is that of allocated bytes: growth meets the limit there, not at the end of a step; the pool may have room before it grows.
    pub(super) fn add_growth(&mut self, peak: Option<u64>, options: &LeakOptions) {
        const TOTALS: [fn(&SeriesPoint) -> Option<u64>; 3] =
            [|point| point.allocated, |point| point.reserved, |point| point.fragmentation];
        let trends = TOTALS.map(|value| self.totals(value).and_then(|values| self.trend(&values, options)));
        let [allocated, reserved, fragmentation] = trends.map(|trend| trend?.slope);
        let last = self.counted().last();
        let highest = peak.or_else(|| last.and_then(|point| point.allocated));
        let ends = self.budget.map(DeviceBudget::usable).map(|memory| {
            let pool = last.and_then(|point| point.reserved);
            let allocated = self.pace(trends[0], LeakMetric::Allocated);
            let reserved = self.pace(trends[1], LeakMetric::Fragmentation);
            [steps_until(memory, highest, allocated), steps_until(memory, pool, reserved)]
        });
        let runs_out_after = ends.into_iter().flatten().flatten().min();
        let beside_leaks = self.beside_leaks().and_then(|values| self.trend(&values, options)?.slope);
        self.growth = TotalsGrowth { allocated, reserved, fragmentation, beside_leaks, runs_out_after };
    }
}

/// True if the last value exceeds another by enough to be growth. Leaves out most stacks.
fn rose_by(values: &[u64], least: u64) -> bool {
    let lowest = values.iter().min();
    values.last().zip(lowest).is_some_and(|(last, lowest)| last - lowest >= least.max(1))
}

/// Raises each value to the highest of those before it.
fn raise_to_highest_before(values: &mut [u64]) {
    for at in 1..values.len() {
        values[at] = values[at].max(values[at - 1]);
    }
}

/// The number of steps after which something that grows by `slope` per step fills `memory`.
fn steps_until(memory: u64, now: Option<u64>, slope: Option<i128>) -> Option<u64> {
    let slope = u64::try_from(slope?).ok().filter(|&slope| slope > 0)?;
    Some(memory.saturating_sub(now?).div_ceil(slope))
}

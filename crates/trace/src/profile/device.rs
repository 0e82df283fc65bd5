//! The figures of one device.

use ptmem_base::device::DeviceId;
use ptmem_base::interner::Interner;
use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::ops::Not;

use ptmem_snapshot::snapshot::{Copier, RunFacts, StackId, Tables};
use serde::{Deserialize, Serialize};

use super::every::Interval;
use super::exact::Totals;
use super::lines::{largest_first, lines_of};
use super::phases::{Phases, are_known};
use super::totals::{self, BlockCounts, ExactStack, GroupedTotals, Held, StackTotal};
use super::{Layout, Moment};
use crate::replay::{Figures, HistoryKind, Position, PrivatePool};
use crate::stack::{GroupBy, Grouper, Key, Languages, SnapshotCode};
use crate::trace::Trace;

/// The figures of one device. A saved profile has what is not skipped here, and makes the rest of its trace and its stacks.
#[derive(Debug, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct DeviceProfile {
    /// Its name.
    pub device: DeviceId,
    /// Number of events.
    pub events: u64,
    /// Microseconds from the first event to the last, where both have times and the clock did not go back.
    pub duration_us: Option<u64>,
    /// True if any event has a time; of a saved profile, any that is kept.
    #[serde(skip)]
    pub has_times: bool,
    /// True if PyTorch says that the ring buffer ran over.
    #[serde(default, skip_serializing_if = "Not::not")]
    pub ran_over: bool,
    /// Number of events by the name of their action.
    pub actions: BTreeMap<String, u64>,
    /// The figures, from the replay.
    #[serde(flatten)]
    pub figures: Figures,
    /// Its private pools at the end, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub private_pools: Vec<PrivatePool>,
    /// The allocations of blocks that Python's garbage collector freed, in order, of which reference cycles held the blocks in the
    /// end; `None` if that is not known. Those that are still held at the dump were freed right after it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub collected: Option<Vec<Position>>,
    /// Languages of the stacks that events carry.
    #[serde(rename = "languages")]
    pub recorded_frames: Languages,
    /// The position that [`super::ReadOptions::at`] means on this device; `None` where there is no such moment.
    #[serde(skip)]
    pub at: Option<Position>,
    /// Of a before that is compared: the place that corresponds to the peak of the after, where one does.
    #[serde(skip)]
    pub peak_of_after: Option<Position>,
    /// Allocated bytes by stack, the most at the peak first. At every moment they add up to `allocated`.
    #[serde(skip)]
    pub stacks: Vec<StackTotal>,
    /// The grouping of `stacks`.
    #[serde(skip)]
    pub(crate) grouped_by: Option<GroupBy>,
    /// The named parts of the history.
    #[serde(skip)]
    pub phases: Phases,
    /// The history in equal parts, where [`super::ReadOptions::every`] asks for them.
    #[serde(skip)]
    pub intervals: Vec<Interval>,
    /// Microseconds from the first event of any device to places of this one, where the release wrote times.
    pub times: Vec<(Position, u64)>,
    /// Where blocks and segments lie, where [`super::ReadOptions::layout`] asks for it and a snapshot was read.
    #[serde(skip)]
    pub layout: Option<Layout>,
    /// The label of the stack whose request was the first to fail for lack of memory, where it is known.
    #[serde(skip)]
    pub failed_request: Option<String>,
    /// The stacks of the requests that failed for lack of memory, in the order of [`Figures::ooms`]; `None` where one
    /// was not captured.
    #[serde(skip)]
    pub failed_stacks: Vec<Option<StackId>>,
    /// All that happened. Dropped where nothing asks any more.
    #[serde(skip)]
    pub trace: Trace,
    /// The blocks of every class of the trace.
    #[serde(skip)]
    pub(crate) counts: BlockCounts,
}

impl DeviceProfile {
    /// True if anything was recorded or is held: snapshots list devices that did nothing, and every dump leaves a
    /// `snapshot` event on all of them.
    pub fn is_active(&self) -> bool {
        let markers = self.actions.get("snapshot").copied().unwrap_or(0);
        let is_held = match self.figures.history {
            HistoryKind::NumbersOnly => self.held_memory(),
            _ => self.figures.reserved.end.max(self.figures.active.end) > Some(0),
        };
        self.events > markers || is_held || self.ran_out_of_memory()
    }

    /// True if its history is recorded, and nothing is allocated in it.
    pub fn allocates_nothing(&self) -> bool {
        self.figures.history == HistoryKind::Recorded && self.figures.allocation_count == 0
    }

    /// True if it held memory at any time, or may have.
    pub fn held_memory(&self) -> bool {
        let Figures { allocated, active, reserved, .. } = &self.figures;
        match self.figures.history {
            HistoryKind::Recorded | HistoryKind::StateOnly | HistoryKind::NoAllocations => true,
            HistoryKind::Empty => false,
            // An unknown peak may be any.
            HistoryKind::NumbersOnly => {
                let held = [active.end, allocated.end, reserved.end, reserved.peak];
                allocated.peak != Some(0) || held.into_iter().any(|of| of > Some(0))
            }
        }
    }

    /// True if limits that name no other memory are about it: it held memory at any time, or a request for some failed.
    pub fn is_gated(&self) -> bool {
        self.device.is_device() && (self.held_memory() || self.ran_out_of_memory())
    }

    /// True for pinned host memory that was recorded or is held.
    pub fn is_active_host(&self) -> bool {
        !self.device.is_device() && self.is_active()
    }

    /// True for a device, rather than the host, that did anything.
    pub fn is_active_device(&self) -> bool {
        self.device.is_device() && self.is_active()
    }

    /// The stack of the first request that failed for lack of memory, where it is known.
    pub fn failed_stack(&self) -> Option<StackId> {
        self.failed_stacks.first().copied().flatten()
    }

    /// Moves the stacks of failed requests and of private pools to other tables.
    pub fn copy_failed_stacks(&mut self, copy: &mut Copier<'_, '_>) {
        let of_pools = self.private_pools.iter_mut().map(|pool| &mut pool.stack);
        for stack in self.failed_stacks.iter_mut().chain(of_pools).flatten() {
            *stack = copy.stack(*stack);
        }
    }

    /// True if an allocation failed for lack of memory.
    pub fn ran_out_of_memory(&self) -> bool {
        self.figures.ran_out_of_memory()
    }

    /// Looks at another moment.
    pub(super) fn look_at(&mut self, moment: &Moment, grouper: &Grouper<'_>, run: Option<&RunFacts>) {
        let at = self.place_of(moment, None);
        if self.at != at {
            self.at = at;
            self.group(grouper, run);
        }
    }

    /// Adds the passes of training that call stacks show, which the requested moment may name.
    pub(super) fn add_passes(&mut self, code: &SnapshotCode<'_>, moment: &Moment) {
        if !are_known(&self.figures) {
            return;
        }
        self.phases.complete(&self.trace, code);
        if self.at.is_none() && !moment.phase_names().is_empty() && !moment.needs_times() {
            self.at = self.place_of(moment, None);
        }
    }

    /// Adds up the classes at the moments, and puts them into groups. The facts of the run say how many modules each sums.
    pub(super) fn group(&mut self, grouper: &Grouper<'_>, run: Option<&RunFacts>) {
        self.counts = BlockCounts::new(&self.trace, &self.figures, self.at);
        let totals = self.totals(grouper);
        let mut grouping = GroupedTotals::new(&totals, grouper);
        self.complete(&mut grouping, grouper.code());
        self.stacks = grouping.finish(grouper);
        self.grouped_by = Some(grouper.by());
        for total in &mut self.stacks {
            let modules = run.and_then(|run| run.module_counts.get(&total.label));
            total.modules = modules.map_or(0, |&count| usize::try_from(count).unwrap_or(usize::MAX));
        }
        self.failed_request = self.failed_stack().map(|stack| grouper.code().label(stack));
        for exact in totals.all.iter().filter(|exact| exact.sums.allocations > 0) {
            if let Some(stack) = exact.origin.stack() {
                self.recorded_frames |= grouper.languages(stack);
            }
        }
    }

    /// Adds what groups do not sum: the most that each held, and the types and shapes of its tensors.
    fn complete(&self, grouping: &mut GroupedTotals, code: &SnapshotCode<'_>) {
        self.find_highest(grouping, code);
        self.find_shapes(grouping, code.tables());
    }

    /// Adds the types and shapes of the tensors that each group holds at the requested moment.
    fn find_shapes(&self, GroupedTotals { totals, of_class }: &mut GroupedTotals, tables: &Tables) {
        let mut held = vec![BTreeMap::<&str, Held>::new(); totals.len()];
        for ((class, sums), &group) in self.counts.sums(&self.trace.classes).zip(&*of_class) {
            if let Some(shape) = class.tags.shape.filter(|_| sums.at.blocks > 0) {
                *held[group as usize].entry(tables.string(shape)).or_default() += sums.at;
            }
        }
        totals.iter_mut().zip(held).for_each(|(total, held)| total.shapes = lines_of(held, largest_first));
    }

    /// The totals that a grouping is made of.
    pub(super) fn totals(&self, grouper: &Grouper<'_>) -> Totals {
        Totals::new(&self.trace.classes, &self.counts, grouper)
    }

    /// The name of a stated figure that is not the one of the history. `is_counted` if PyTorch's own counters are stated, too.
    pub(super) fn disagreement(&self, is_counted: bool) -> Option<&'static str> {
        let [alloc, requested, completed] =
            ["alloc", "free_requested", "free_completed"].map(|name| self.actions.get(name).copied().unwrap_or(0));
        let end = self.trace.end();
        // Without frees, the recording may have left them out.
        let knows_blocks =
            self.figures.history == HistoryKind::Recorded && (alloc == 0 || requested.max(completed) > 0);
        // Those by which compilers measure kernels are events, and not counted.
        let left_out = alloc.saturating_sub(self.figures.allocation_count);
        let parts = [
            (
                "actions",
                self.actions.values().try_fold(0, |sum: u64, &count| sum.checked_add(count)) == Some(self.events),
            ),
            ("allocations", alloc >= self.figures.allocation_count),
            (
                "frees",
                [requested, completed].map(|count| count.saturating_sub(left_out)).contains(&self.figures.free_count),
            ),
            ("allocated", !knows_blocks || self.figures.allocated.has_history()),
            ("active", !knows_blocks || self.figures.active.has_history()),
            ("times", self.times.is_sorted_by(|(a, _), (b, _)| a < b) && self.times.iter().all(|&(at, _)| at <= end)),
            ("duration_us", self.span().is_none_or(|span| span == self.duration_us)),
            ("collected", self.collected.iter().flatten().all(|&at| at <= end)),
        ];
        let differing = parts.into_iter().find(|(_, agrees)| !agrees).map(|(name, _)| name);
        differing.or_else(|| self.figures.disagreement(&self.trace, is_counted))
    }

    /// Microseconds from the first event to the last, by the times that are kept; `None` if these are not among them.
    fn span(&self) -> Option<Option<u64>> {
        let (&(first, from), &(last, to)) = (self.times.first()?, self.times.last()?);
        (first == Position::after(0) && last == self.trace.end()).then(|| to.checked_sub(from))
    }

    /// True if it holds only figures.
    pub fn is_numbers(&self) -> bool {
        self.figures.history == HistoryKind::NumbersOnly
    }

    /// True if what happened is known event by event.
    pub fn has_moves(&self) -> bool {
        self.figures.history == HistoryKind::Recorded && !self.trace.symbols.is_empty()
    }

    /// True if its peak is more than a bound, and its history leads to the final state.
    pub fn has_known_peak(&self) -> bool {
        let figures = &self.figures;
        figures.history == HistoryKind::Recorded && !figures.allocated.is_least && figures.checks.end_matches
    }

    /// The key of the group that each class of the trace belongs to.
    pub fn keys(&self, grouper: &Grouper<'_>) -> Vec<Key> {
        let totals = self.totals(grouper);
        let keys: Vec<Key> = totals.all.iter().map(|exact| totals::key(exact, grouper)).collect();
        totals.of_class.iter().map(|&total| keys[total as usize].clone()).collect()
    }

    /// Drops what happened, and keeps the figures.
    pub(super) fn forget_trace(&mut self) {
        self.trace = Trace::default();
        self.counts = BlockCounts::default();
        self.times = Vec::new();
        self.layout = None;
    }

    /// True if some of its stacks have frames of the forward pass, as anomaly mode records them. `tables` are those of its
    /// profile.
    pub fn has_forward_frames(&self, tables: &Tables) -> bool {
        let mut stacks = self.trace.classes.iter().filter_map(|class| class.origin.stack());
        stacks.any(|stack| !tables.forward(stack).is_empty())
    }

    /// True if every stack is there, and its most can be computed for any group.
    pub fn knows_stacks(&self) -> bool {
        !self.counts.is_empty()
    }

    /// The groups of [`Self::stacks`], and after them one for each stack in `new`. `moved` has the group of every stack
    /// that went to another, by its index.
    pub fn regrouped(
        &self,
        grouper: &Grouper<'_>,
        new: &[StackId],
        moved: &HashMap<ExactStack, usize>,
    ) -> Vec<StackTotal> {
        let known = self.stacks.iter().map(|total| (total.label.clone(), total.key.clone(), total.bucket));
        let new = new.iter().map(|&stack| (grouper.label(stack), grouper.key(stack), None));
        let groups = known.chain(new).map(|(label, key, bucket)| StackTotal::new(label, key, bucket));
        let of_origin = totals::groups_of_origins(&self.stacks);
        let mut grouping = GroupedTotals::by(groups.collect(), &self.totals(grouper), |exact, _| {
            let moved = exact.origin.stack().and_then(|stack| moved.get(&(stack, exact.cpp)));
            moved.or_else(|| of_origin.get(&exact.origin)).copied().unwrap_or_default()
        });
        self.complete(&mut grouping, grouper.code());
        grouping.totals
    }

    /// Adds the most that each group held, in all and in supposed sizes.
    fn find_highest(&self, grouping: &mut GroupedTotals, code: &SnapshotCode<'_>) {
        self.bound_totals(grouping, code);
        let GroupedTotals { totals, of_class } = grouping;
        let highest = self.trace.highest(of_class, totals.len());
        totals.iter_mut().zip(highest).for_each(|(total, highest)| total.highest = Some(highest));
        if self.trace.classes.iter().all(|class| class.tags.supposed.is_none()) {
            return;
        }
        let tagged = self.trace.classes.iter().zip(of_class);
        let mut parts = Interner::default();
        let parts_of: Vec<u32> =
            tagged.map(|(class, group)| parts.number(&class.tags.supposed.map(|by| (*group, by)))).collect();
        let parts = parts.into_items();
        for (part, highest) in parts.iter().zip(self.trace.highest(&parts_of, parts.len())) {
            if let Some((group, by)) = *part {
                totals[group as usize].supposed.insert(code.tables().string(by).to_owned(), highest.bytes);
            }
        }
    }

    /// The stacks in the groups of any grouping.
    pub fn grouped(&self, grouper: &Grouper<'_>) -> Cow<'_, [StackTotal]> {
        if self.grouped_by == Some(grouper.by()) {
            return Cow::Borrowed(&self.stacks);
        }
        Cow::Owned(GroupedTotals::new(&self.totals(grouper), grouper).finish(grouper))
    }

    /// Allocated bytes at the moment of [`super::ReadOptions::at`].
    pub fn allocated_at(&self) -> u64 {
        self.stacks.iter().fold(0, |sum: u64, total| sum.saturating_add(total.at.bytes))
    }

    /// The stacks that hold most at the moment of [`super::ReadOptions::at`], at most `top` of them (0 is all) and none
    /// with fewer bytes than `least`, and one that stands for the rest, so that they still add up. Those that hold
    /// nothing then are there only if `least` is 0.
    pub fn listed(&self, top: usize, least: u64) -> Vec<StackTotal> {
        self.listed_by(|total| total.at, top, least)
    }

    /// True if what was held at the moment of [`super::ReadOptions::at`] is what was held when an allocation failed for the
    /// first time.
    pub fn at_is_oom(&self) -> bool {
        self.at.is_some() && !self.figures.ooms.is_empty() && self.stacks.iter().all(|total| total.at == total.oom)
    }

    /// Microseconds from the first event of any device to a place, interpolated between the stored times.
    pub fn time_us(&self, at: Position) -> Option<u64> {
        let next = self.times.partition_point(|&(place, _)| place < at);
        let &(to, until) = self.times.get(next)?;
        let Some(&(from, since)) = next.checked_sub(1).and_then(|last| self.times.get(last)) else {
            return Some(until);
        };
        let part = at.count().saturating_sub(from.count()) as u64;
        let whole = to.count().saturating_sub(from.count()) as u64;
        let passed = u128::from(until.saturating_sub(since)) * u128::from(part) / u128::from(whole.max(1));
        Some(since.saturating_add(u64::try_from(passed).unwrap_or(0)))
    }

    /// The same at the moment whose bytes `held` reads.
    pub fn listed_by(&self, held: fn(&StackTotal) -> Held, top: usize, least: u64) -> Vec<StackTotal> {
        let mut stacks: Vec<_> = self.stacks.iter().filter(|total| least == 0 || held(total).blocks > 0).collect();
        stacks.sort_by_key(|total| std::cmp::Reverse(held(total).bytes));
        let limit = if top == 0 { usize::MAX } else { top };
        let large = stacks.iter().take_while(|total| held(total).bytes >= least).count();
        let shown = &stacks[..large.min(limit)];
        let rest = &stacks[shown.len()..];
        let mut listed: Vec<StackTotal> = shown.iter().map(|&total| total.clone()).collect();
        if !rest.is_empty() {
            let mut others = StackTotal::others(rest.len());
            rest.iter().for_each(|total| others.sums.add(&total.sums));
            listed.push(others);
        }
        listed
    }
}

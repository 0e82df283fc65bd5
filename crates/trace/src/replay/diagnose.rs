//! Diagnostics about the figures of a device.

use ptmem_base::device::DeviceId;
use ptmem_base::diagnostic::{Advice, Code, Diagnostic};
use ptmem_base::units::Size;
use ptmem_snapshot::snapshot::{Action, BlockSums, Segment};

use super::allocation::Basis;
use super::lifetimes::Lifetimes;
use super::measure::Findings;
use super::{Checks, HistoryKind, Recovered};
use crate::trace::Measure;

impl Findings<'_> {
    /// The diagnostics of a device.
    pub(super) fn diagnostics(&self, checks: &Checks) -> Vec<Diagnostic> {
        let mut report = Diagnosis { findings: self, found: Vec::new() };
        report.kind_of_history();
        report.missing_head();
        report.checks(checks);
        report.skipped_actions();
        report.contradictions();
        report.segments();
        report.settings();
        report.bounds();
        report.found
    }
}

struct Diagnosis<'a> {
    findings: &'a Findings<'a>,
    found: Vec<Diagnostic>,
}

impl Diagnosis<'_> {
    fn tell(&mut self, code: Code, message: impl Into<String>) {
        self.found.push(Diagnostic::new(code, self.findings.view.id, message));
    }

    /// Tells the meaning of a code, where there is nothing to add to it.
    fn tell_meaning(&mut self, code: Code) {
        let meaning = code.meaning().trim_end_matches('.');
        self.tell(code, format!("{}{}", meaning[..1].to_lowercase(), &meaning[1..]));
    }

    fn kind_of_history(&mut self) {
        let is_unknown = self.findings.nothing_recorded();
        match self.findings.history {
            HistoryKind::Recorded | HistoryKind::NumbersOnly => {}
            HistoryKind::StateOnly => {
                let found = self.why_only_state();
                let bound = if is_unknown { "" } else { "; the peak is at least that of this state" };
                let traces = if self.findings.view.snapshot.leaves_out_traces {
                    " and without include_traces=False"
                } else {
                    ""
                };
                let message = format!(
                    "only the state at the dump was recorded: {found}. Peak and baseline are not known{bound}. Record with \
                     torch.cuda.memory._record_memory_history(enabled='all') before the step, and dump before disabling it{traces}, \
                     to get a history"
                );
                self.tell(Code::StateOnly, message);
            }
            HistoryKind::NoAllocations => self.tell_meaning(Code::AllocationsSkipped),
            HistoryKind::Empty => self.tell_meaning(Code::EmptyRecording),
        }
    }

    /// The reason why the history tells nothing of the time before the dump.
    fn why_only_state(&self) -> &'static str {
        let Findings { view, .. } = self.findings;
        let is_host_recorded = !view.snapshot.recorded_with(DeviceId::Host).all(<[_]>::is_empty);
        let longest = view.snapshot.recorded_with(view.id).map(<[_]>::len).max();
        match longest {
            Some(1) if view.events().len() == 1 => {
                "the history is one event long, as _record_memory_history('state') leaves it"
            }
            None | Some(0) if view.id.is_device() && is_host_recorded => {
                "all events are of pinned host memory, as with record_cuda=False"
            }
            None | Some(_) if view.snapshot.leaves_out_traces => {
                "the list of traces is empty, as include_traces=False leaves it"
            }
            None | Some(_) => "no allocation or free of this device was recorded",
        }
    }

    /// Blocks that are older than the first event.
    fn missing_head(&mut self) {
        let Findings { view, lifetimes, history, .. } = self.findings;
        if *history != HistoryKind::Recorded {
            return;
        }
        let tables = &view.snapshot.tables;
        let older = lifetimes.older.iter().map(|&index| &lifetimes.allocations[index as usize]);
        let still_there = older.filter(|allocation| allocation.basis == Basis::FinalState);
        let with_stack =
            still_there.filter(|allocation| allocation.stack.is_some_and(|stack| tables.has_frames(stack))).count();
        let frees = lifetimes.unmatched_frees;
        let events = view.events().len();
        let overflow = match view.device.overflowed {
            Some(true) => Some("PyTorch says that the ring buffer ran over"),
            None if is_length_of_ring(events, with_stack > 0, frees > 0) => Some("the ring buffer was probably full"),
            None | Some(false) => None,
        };
        if let Some(overflow) = overflow {
            let message = format!(
                "{overflow}: of the history, the last {events} events are left. Peak means the peak within the recorded \
                 window; record with a larger max_entries"
            );
            self.tell(Code::HistoryTruncated, message);
        } else if frees > 0 {
            let message = format!(
                "blocks that were allocated before the recording and freed inside it: {frees}; their bytes are listed as \
                 <allocation not recorded>"
            );
            self.tell(Code::FreesWithoutAllocation, message);
        }
        if with_stack > 0 {
            let message = format!(
                "blocks that were allocated before the recording and have a stack: {with_stack}; they are listed \
                 under that stack"
            );
            self.tell(Code::AllocatedBeforeRecording, message);
        }
        if self.findings.misses_frees() {
            self.tell(
                Code::FreesNotRecorded,
                "PyTorch 2.0 does not record when blocks and segments from before the recording are freed, and this \
                 snapshot has such segments: baseline and peak are lower bounds, and the upper bound is the memory of \
                 the largest GPU of that time. Record from the start of the process",
            );
        }
    }

    /// Self-checks that failed.
    fn checks(&mut self, checks: &Checks) {
        let Findings { counters, sizes, .. } = self.findings;
        if checks.sizes.recovered < checks.sizes.total {
            let why = match (!sizes.rules.are_contradicted(), sizes.rules.unexplained > 0) {
                (false, _) => "; allocator settings changed",
                (true, true) => " in a way that no allocator setting explains; the file may have been edited",
                (true, false) => "",
            };
            let Recovered { recovered, total } = checks.sizes;
            let message = format!(
                "{} of {total} recovered block sizes differ from the final state{why}. Allocated and active bytes \
                 carry an error bound if blocks that are no longer there are affected",
                total - recovered
            );
            self.tell(Code::SizesNotRecovered, message);
        }
        let missed = counters.checkpoints_missed;
        if missed > 0 {
            let total = checks.checkpoints.total;
            let message =
                format!("{missed} of {total} snapshot events state other active bytes than the replay computes");
            self.tell(Code::CheckpointMismatch, message);
        }
        if !checks.end_matches {
            self.tell_meaning(Code::EndMismatch);
        }
        let is_known = self.findings.history != HistoryKind::NoAllocations && !self.findings.misses_frees();
        if self.findings.baseline_error() > 0 && is_known {
            self.tell_meaning(Code::BaselineMismatch);
        }
    }

    /// Actions that the history lacks (`skip_actions`).
    fn skipped_actions(&mut self) {
        let Findings { census, history, lifetimes, .. } = self.findings;
        let has_completions = census.count(Action::FreeCompleted) > 0;
        let has_requests = census.count(Action::FreeRequested) > 0;
        if self.findings.frees_skipped() {
            self.tell_meaning(Code::FreesSkipped);
        } else if lifetimes.requests_complete {
            self.tell_meaning(Code::CompletionsSkipped);
        } else if *history == HistoryKind::Recorded && has_completions && !has_requests {
            self.tell_meaning(Code::RequestsSkipped);
        }
    }

    /// Events that contradict each other.
    fn contradictions(&mut self) {
        let Findings { lifetimes, sizes, census, .. } = self.findings;
        let Lifetimes { double_frees, size_mismatches, .. } = **lifetimes;
        let reused = lifetimes.replaced.len() as u64;
        if reused + double_frees + size_mismatches > 0 {
            let message = format!(
                "{reused} allocations at an address in use, {double_frees} double frees, {size_mismatches} frees of another \
                 size than was allocated; events are missing or out of order"
            );
            self.tell(Code::EventsInconsistent, message);
        }
        if sizes.overlaps > 0 {
            self.tell(Code::BlocksOverlap, format!("{} allocations overlap a block in use", sizes.overlaps));
        }
        let backwards = census.backwards;
        if backwards > 0 {
            let message = format!(
                "{backwards} events have an earlier time than an event before them; the order of the file is kept, \
                 and the peak may be wrong"
            );
            self.tell(Code::TimeBackwards, message);
        }
    }

    fn segments(&mut self) {
        let unbacked = self.findings.sizes.unbacked;
        if self.findings.misses_segments() {
            self.tell_meaning(Code::SegmentsSkipped);
        } else if unbacked > 0 {
            let message = format!(
                "{unbacked} allocations are outside every known segment; segment events are missing (skip_actions?), \
                 and reserved bytes before the dump may be wrong"
            );
            self.tell(Code::SegmentsUnknown, message);
        } else if self.findings.contradicts_active() {
            let message = "more bytes were active than reserved, so that reserved bytes are not known: some memory is probably of a \
                           custom allocator, of which no segment is recorded";
            self.tell(Code::FiguresImpossible, message);
        }
        let segments = &self.findings.view.device.segments;
        let differ = segments.iter().filter(|segment| !adds_up(segment)).count();
        if differ > 0 {
            let message = format!(
                "in {differ} of {} segments the blocks do not add up to the sums stored with the segment; the file \
                 was edited or written by another tool",
                segments.len()
            );
            self.tell(Code::SegmentSums, message);
        }
    }

    /// Allocator settings that the file does not state, or that were others for a part of the history.
    fn settings(&mut self) {
        let Findings { sizes, history, .. } = self.findings;
        let is_assumed = sizes.rules.are_assumed();
        match (sizes.rules.are_contradicted(), is_assumed) {
            (true, true) => self.tell(
                Code::SettingsChanged,
                "the file states no allocator settings (PyTorch before 2.3), and the defaults do not explain its \
                 block sizes. Sizes that depend on them carry an error bound",
            ),
            (true, false) => self.tell(
                Code::SettingsChanged,
                "the allocator settings changed before the dump. Sizes that depend on them carry an error bound",
            ),
            (false, true) if *history == HistoryKind::Recorded => self.tell(
                Code::SettingsAssumed,
                "the file states no allocator settings (PyTorch before 2.3): the defaults are assumed, and the block sizes \
                 do not contradict them",
            ),
            (false, _) => return,
        }
        if let Some(told) = self.found.last_mut().filter(|_| is_assumed) {
            told.advice = Some(Advice::StateAllocatorSettings);
        }
    }

    fn bounds(&mut self) {
        let Findings { sizes, counters, trace, history, .. } = self.findings;
        let uncertain = sizes.spreads.len();
        let bound = u64::try_from(counters.of(Measure::Active).baseline_error()).unwrap_or(u64::MAX);
        let pending = trace.classes.iter().zip(&trace.start).filter(|(class, _)| class.maybe_pending);
        let pending = pending.map(|(class, start)| class.bytes.saturating_mul(start.allocated.into()));
        let pending = pending.fold(0_u64, u64::saturating_add);
        if bound > 0 {
            let message = format!(
                "blocks that were allocated before the recording and freed within it may occupy up to {} more or less \
                 than counted; the file does not state their size{}",
                Size(bound),
                if sizes.pools_uncertain { ", nor whether their pool splits its segments" } else { "" }
            );
            self.tell(Code::SizesBounded, message);
        } else if uncertain > 0 && *history == HistoryKind::Recorded {
            let message = format!(
                "the file does not state the exact size of {uncertain} blocks that are freed before the dump: it \
                 depends on allocator settings, or on a pool that may not split its segments"
            );
            self.tell(Code::SizesBounded, message);
        }
        if pending > 0 {
            let message = format!(
                "for {}, the completion of the free is recorded but not its request; they count as allocated until \
                 the completion",
                Size(pending)
            );
            self.tell(Code::FreeRequestedBefore, message);
        }
    }
}

/// True if a history of this length may have filled a ring buffer: limits are thousands of events, powers of two, or at
/// least hundreds. A restarted recording also leaves blocks `with_stacks`, so those are not evidence by themselves.
fn is_length_of_ring(events: usize, with_stacks: bool, with_unmatched_frees: bool) -> bool {
    let is_usual = events >= 1000 && (events.is_multiple_of(1000) || events.is_power_of_two());
    let is_round = events >= 100 && events.is_multiple_of(100);
    (is_usual && (with_stacks || with_unmatched_frees)) || (is_round && with_stacks)
}

/// True if the blocks of a segment add up to what the file states beside them.
fn adds_up(segment: &Segment) -> bool {
    let BlockSums { total, allocated, active, .. } = segment.sums();
    total == i128::from(segment.total_size)
        && segment.allocated_size.is_none_or(|stated| i128::from(stated) == allocated)
        && segment.active_size.is_none_or(|stated| i128::from(stated) == active)
}

//! Diagnostics about the figures of a device.

use super::census::Census;
use super::lifetimes::Lifetimes;
use super::sizes::{Setting, SettingSet};
use super::{Basis, Checks, DeviceView, History, Position};
use crate::diagnostic::{Advice, Code, Diagnostic};
use crate::snapshot::{Action, BlockState, Segment};
use crate::units::Size;

/// The facts behind the figures, and what could have gone wrong with them.
pub(super) struct Findings {
    pub(super) history: History,
    pub(super) checks: Checks,
    pub(super) checkpoints_missed: u64,
    /// The most that a `snapshot` event lies outside of what the sizes allow.
    pub(super) checkpoint_error: i128,
    /// How far the end of the replay is from the final state.
    pub(super) end_error: i128,
    /// The device has no events at all.
    pub(super) nothing_recorded: bool,
    /// Frees of blocks that are older than the recording are not in the file, nor is the end of such segments.
    pub(super) misses_frees: bool,
    /// Memory was given back to the device, or ran out.
    pub(super) gives_back: bool,
    /// Frees are requested, and never completed.
    pub(super) completions_skipped: bool,
    pub(super) frees_skipped: bool,
    /// How far the baseline from sums is from the one by address.
    pub(super) baseline_error: i128,
    pub(super) unbacked: u64,
    pub(super) overlaps: u64,
    pub(super) reserved_implausible: bool,
    /// The file states no allocator settings.
    pub(super) settings_assumed: bool,
    /// Settings that block sizes contradict.
    pub(super) settings_contradicted: SettingSet,
    /// Block sizes that no setting explains.
    pub(super) sizes_unexplained: u64,
    /// True if a pool of the user may never split its segments.
    pub(super) pools_uncertain: bool,
    /// Number of blocks whose size is not certain.
    pub(super) uncertain_sizes: usize,
    /// Bytes that blocks of uncertain size may be off by at the start.
    pub(super) bound: u64,
    /// Bytes of blocks whose free may have been requested before the history.
    pub(super) maybe_pending: u64,
    /// True if any request of a free was recorded.
    pub(super) has_requests: bool,
}

/// The diagnostics of a device. `rival` is the peak, and another moment at which as much may have been allocated.
pub(super) fn diagnostics(
    view: DeviceView<'_>,
    lifetimes: &Lifetimes,
    findings: &Findings,
    census: &Census,
    rival: Option<(Position, Position)>,
) -> Vec<Diagnostic> {
    let mut report = Report { view, lifetimes, findings, census, found: Vec::new() };
    report.kind_of_history();
    report.missing_head();
    report.checks();
    report.skipped_actions();
    report.contradictions();
    report.segments();
    report.settings();
    report.bounds(rival);
    report.found
}

struct Report<'a> {
    view: DeviceView<'a>,
    lifetimes: &'a Lifetimes,
    findings: &'a Findings,
    census: &'a Census,
    found: Vec<Diagnostic>,
}

impl Report<'_> {
    fn tell(&mut self, code: Code, message: impl Into<String>) {
        self.found.push(Diagnostic::new(code, self.view.id, message));
    }

    fn tell_with_advice(&mut self, code: Code, message: impl Into<String>, advice: Advice) {
        self.found.push(Diagnostic::new(code, self.view.id, message).with_advice(advice));
    }

    fn kind_of_history(&mut self) {
        match self.findings.history {
            History::Recorded => {}
            History::StateOnly if self.view.events().len() == 1 => self.tell(
                Code::StateOnly,
                "only the state at the dump is there: the history is one event long, as _record_memory_history('state') \
                 leaves it. Peak and baseline are those of that state, and the true ones may be anything above. Record with \
                 torch.cuda.memory._record_memory_history(enabled='all') before the step to get a history",
            ),
            History::StateOnly if self.findings.nothing_recorded => self.tell(
                Code::StateOnly,
                "nothing was recorded of this device, only the state at the dump: peak and baseline are not known. Record \
                 with torch.cuda.memory._record_memory_history(enabled='all') before the step, and dump before disabling \
                 it, to get a history",
            ),
            History::StateOnly => self.tell(
                Code::StateOnly,
                "no allocation was recorded, only the state at the dump: peak and baseline are that state, the true ones \
                 may be anything above, and there is no timeline. Record with \
                 torch.cuda.memory._record_memory_history(enabled='all') before the step, and dump before disabling it, to \
                 get a history",
            ),
            History::NoAllocations => self.tell(
                Code::AllocationsSkipped,
                "the history has frees but no allocations (skip_actions?): the peak cannot be computed",
            ),
            History::Empty => self.tell(
                Code::EmptyRecording,
                "nothing is recorded and nothing is held; was the history recorded in this process, on this device, \
                 before the dump?",
            ),
        }
    }

    /// Blocks that are older than the first event.
    fn missing_head(&mut self) {
        if self.findings.history != History::Recorded {
            return;
        }
        let older = self.lifetimes.older.iter().map(|&index| &self.lifetimes.allocations[index as usize]);
        let tables = &self.view.snapshot.tables;
        let in_final_state = older.filter(|allocation| allocation.basis == Basis::FinalState);
        let stacks = in_final_state.filter_map(|allocation| allocation.stack);
        let with_stack = stacks.filter(|&stack| tables.has_frames(stack)).count();
        let frees = self.lifetimes.unmatched_frees;
        let events = self.view.events().len();
        let overflowed = self.view.device.overflowed;
        if overflowed == Some(true) {
            self.tell(
                Code::HistoryTruncated,
                format!(
                    "PyTorch says that the ring buffer ran over: of the history, the last {events} events are left. Peak \
                     means the peak within the recorded window; record with a larger max_entries"
                ),
            );
        } else if overflowed.is_none() && is_length_of_ring(events, with_stack > 0, frees > 0) {
            self.tell(
                Code::HistoryTruncated,
                format!(
                    "the ring buffer was probably full: the history is exactly {events} events long and refers to blocks \
                     from before it. Peak means the peak within the recorded window; record with a larger max_entries"
                ),
            );
        } else if frees > 0 {
            self.tell(
                Code::FreesWithoutAllocation,
                format!(
                    "blocks that were allocated before the recording and freed inside it: {frees}; their bytes are listed \
                     as <allocation not recorded>"
                ),
            );
        }
        if with_stack > 0 {
            let verb = if with_stack == 1 { "carries its" } else { "carry their" };
            self.tell(
                Code::AllocatedBeforeRecording,
                format!(
                    "{with_stack} of the blocks that are older than the recording still {verb} stack; their bytes are \
                     listed under it"
                ),
            );
        }
        if self.findings.misses_frees {
            self.tell(
                Code::FreesNotRecorded,
                "PyTorch 2.0 records neither the free of a block that is older than the recording nor the end of a segment that \
                 is, and there are such segments: baseline and peak are the least there was, and their bound is the largest device \
                 of that time. Record from the start of the process",
            );
        }
    }

    /// Self-checks that failed.
    fn checks(&mut self) {
        let Findings { checks, checkpoints_missed, settings_contradicted, .. } = *self.findings;
        if checks.sizes.recovered < checks.sizes.total {
            let why = match (settings_contradicted.is_empty(), self.findings.sizes_unexplained > 0) {
                (false, _) => "; allocator settings changed",
                (true, true) => " in a way that no allocator setting explains; the file may have been edited",
                (true, false) => "",
            };
            self.tell(
                Code::SizesNotRecovered,
                format!(
                    "{} of {} recovered block sizes differ from the final state{why}. Allocated and active bytes carry a \
                     bound where other blocks are concerned",
                    checks.sizes.total - checks.sizes.recovered,
                    checks.sizes.total
                ),
            );
        }
        if checkpoints_missed > 0 {
            self.tell(
                Code::CheckpointMismatch,
                format!(
                    "{checkpoints_missed} of {} snapshot events give other active bytes than the replay",
                    checks.checkpoints.total
                ),
            );
        }
        if !checks.end_matches {
            self.tell(
                Code::EndMismatch,
                "the history does not lead to the state at the dump; events are missing or the file was edited",
            );
        }
        let is_known = self.findings.history != History::NoAllocations && !self.findings.misses_frees;
        if self.findings.baseline_error > 0 && is_known {
            self.tell(
                Code::BaselineMismatch,
                "the baseline computed from sums differs from the one computed by address; events are missing",
            );
        }
    }

    /// Actions that the history lacks (`skip_actions`).
    fn skipped_actions(&mut self) {
        let recorded = self.findings.history == History::Recorded;
        let has_completions = self.census.count(Action::FreeCompleted) > 0;
        if self.findings.frees_skipped {
            self.tell(
                Code::FreesSkipped,
                "the history has allocations but no frees (skip_actions?): the peak cannot be computed",
            );
        } else if self.findings.completions_skipped {
            self.tell(
                Code::CompletionsSkipped,
                "the history has free_requested but no free_completed events (skip_actions?): active and requested bytes \
                 fall at the request, and may be as high as the reserved ones",
            );
        } else if recorded && has_completions && !self.findings.has_requests {
            self.tell(
                Code::RequestsSkipped,
                "the history has free_completed but no free_requested events (skip_actions?): allocated bytes fall at the \
                 completion",
            );
        }
    }

    /// Events that contradict each other.
    fn contradictions(&mut self) {
        let Lifetimes { double_frees, size_mismatches, .. } = *self.lifetimes;
        let reused = self.lifetimes.replaced.len() as u64;
        if reused + double_frees + size_mismatches > 0 {
            self.tell(
                Code::EventsInconsistent,
                format!(
                    "{reused} allocations at an address in use, {double_frees} double frees, {size_mismatches} frees of \
                     another size than was allocated; events are missing or out of order"
                ),
            );
        }
        if self.findings.overlaps > 0 {
            self.tell(
                Code::BlocksOverlap,
                format!("{} allocations reach into an occupied block", self.findings.overlaps),
            );
        }
        let backwards = self.census.backwards;
        if backwards > 0 {
            self.tell(
                Code::TimeBackwards,
                format!(
                    "{backwards} events are older than one before them; the order in the file is kept, and the peak may \
                     differ from the true one"
                ),
            );
        }
    }

    fn segments(&mut self) {
        if self.findings.reserved_implausible {
            self.tell(
                Code::SegmentsSkipped,
                "segment events are missing (skip_actions?): reserved bytes before the dump cannot be computed",
            );
        } else if self.findings.unbacked > 0 {
            self.tell(
                Code::SegmentsUnknown,
                format!(
                    "{} allocations lie outside every known segment; segment events are missing (skip_actions?), and \
                     reserved bytes before the dump may be others than counted",
                    self.findings.unbacked
                ),
            );
        }
        let segments = &self.view.device.segments;
        let differ = segments.iter().filter(|segment| !adds_up(segment)).count();
        if differ > 0 {
            self.tell(
                Code::SegmentSums,
                format!(
                    "in {differ} of {} segments the blocks do not add up to the sums beside them; the file was edited or \
                     written by another tool",
                    segments.len()
                ),
            );
        }
    }

    /// Allocator settings that the file does not state, or that were others for a part of the history.
    fn settings(&mut self) {
        let names: Vec<_> = self.findings.settings_contradicted.iter().map(Setting::name).collect();
        let names = names.join(", ");
        let is_assumed = self.findings.settings_assumed;
        if !names.is_empty() && is_assumed {
            self.tell_with_advice(
                Code::SettingsChanged,
                format!(
                    "the file states no allocator settings (PyTorch before 2.3), and the defaults do not explain its block \
                     sizes ({names}). Sizes that depend on them carry a bound"
                ),
                Advice::StateAllocatorSettings,
            );
        } else if !names.is_empty() {
            self.tell(
                Code::SettingsChanged,
                format!(
                    "the allocator settings were others before the dump ({names}). Sizes that depend on them carry a bound"
                ),
            );
        } else if is_assumed && self.findings.history == History::Recorded {
            self.tell_with_advice(
                Code::SettingsAssumed,
                "the file states no allocator settings (PyTorch before 2.3): the defaults are assumed, and the block sizes \
                 do not contradict them",
                Advice::StateAllocatorSettings,
            );
        }
    }

    fn bounds(&mut self, rival: Option<(Position, Position)>) {
        let Findings { uncertain_sizes, bound, maybe_pending, .. } = *self.findings;
        if bound > 0 {
            self.tell(
                Code::SizesBounded,
                format!(
                    "blocks that were allocated before the recording and freed inside it may occupy up to {} more or less \
                     than is counted; the file does not tell their size{}",
                    Size(bound),
                    if self.findings.pools_uncertain { ", nor whether their pool splits its segments" } else { "" }
                ),
            );
        } else if uncertain_sizes > 0 && self.findings.history == History::Recorded {
            self.tell(
                Code::SizesBounded,
                format!(
                    "the file does not tell the exact size of {uncertain_sizes} blocks that are freed before the dump: it \
                     depends on allocator settings, or on a pool that may not split its segments"
                ),
            );
        }
        if let Some((peak, other)) = rival {
            self.tell(
                Code::PeakAmbiguous,
                format!(
                    "the peak may as well be {} as {}: within their bounds as much is allocated at both",
                    place(other),
                    place(peak)
                ),
            );
        }
        if maybe_pending > 0 {
            self.tell(
                Code::FreeRequestedBefore,
                format!(
                    "the completion of frees of {} is recorded and their request is not; they count as allocated until then",
                    Size(maybe_pending)
                ),
            );
        }
    }
}

/// A moment in words.
fn place(at: Position) -> String {
    at.event().map_or_else(|| "at the start".to_owned(), |event| format!("at event {event}"))
}

/// True if a history of this length may have filled a ring buffer: these are given thousands of events, powers of two,
/// or at least hundreds. A recording that was started again leaves blocks `with_stacks` as well, so those alone tell
/// nothing.
fn is_length_of_ring(events: usize, with_stacks: bool, with_unmatched_frees: bool) -> bool {
    let is_usual = events >= 1000 && (events.is_multiple_of(1000) || events.is_power_of_two());
    let is_round = events >= 100 && events.is_multiple_of(100);
    (is_usual && (with_stacks || with_unmatched_frees)) || (is_round && with_stacks)
}

/// True if the blocks of a segment add up to what the file states beside them.
fn adds_up(segment: &Segment) -> bool {
    let allocated = bytes_of(segment, |state| state == BlockState::ActiveAllocated);
    let active = bytes_of(segment, |state| state != BlockState::Inactive);
    bytes_of(segment, |_| true) == u128::from(segment.total_size)
        && segment.allocated_size.is_none_or(|stated| u128::from(stated) == allocated)
        && segment.active_size.is_none_or(|stated| u128::from(stated) == active)
}

/// The bytes of the blocks of a segment in some states.
fn bytes_of(segment: &Segment, is_counted: fn(BlockState) -> bool) -> u128 {
    let blocks = segment.blocks.iter().filter(|block| is_counted(block.state));
    blocks.map(|block| u128::from(block.size)).sum()
}

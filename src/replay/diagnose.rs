//! What a replay has to say about its input.

use super::census::Census;
use super::lifetimes::Lifetimes;
use super::{Basis, Checks, History};
use crate::diagnostic::{Code, Diagnostic};
use crate::snapshot::{Action, BlockState, Device, Snapshot};
use crate::units::Size;

/// What went into the figures and could have gone wrong.
pub(super) struct Findings {
    pub(super) history: History,
    pub(super) checks: Checks,
    pub(super) checkpoints_missed: u64,
    pub(super) frees_skipped: bool,
    pub(super) baseline_differs: bool,
    pub(super) homeless: u64,
    pub(super) overlaps: u64,
    pub(super) reserved_implausible: bool,
    /// Bytes that blocks of unknown size may be larger at the start.
    pub(super) bound: u64,
    /// Bytes of blocks whose free may have been requested before the history.
    pub(super) maybe_pending: u64,
}

impl Findings {
    /// Whether nothing contradicts the recovered sizes.
    pub(super) fn sizes_hold(&self) -> bool {
        self.checks.sizes_recovered == self.checks.sizes_total
            && self.checkpoints_missed == 0
            && self.checks.end_matches
            && self.overlaps == 0
    }
}

/// Lengths that ring buffers are given: thousands and powers of two.
fn is_round(length: usize) -> bool {
    length >= 1000 && (length.is_multiple_of(1000) || length.is_power_of_two())
}

#[allow(clippy::too_many_lines, reason = "one list of independent findings")]
pub(super) fn diagnostics(
    snapshot: &Snapshot,
    id: u32,
    device: &Device,
    lifetimes: &Lifetimes,
    findings: &Findings,
    census: &Census,
) -> Vec<Diagnostic> {
    let events = snapshot.events_of(device);
    let mut found = Vec::new();
    let mut warn = |code, message: String| found.push(Diagnostic::new(code, id, message));

    match findings.history {
        History::Recorded => {}
        History::StateOnly => warn(
            Code::StateOnly,
            "no allocation was recorded, only the state at the dump: peak and baseline are the state, and there is \
             no timeline. Record with torch.cuda.memory._record_memory_history(enabled='all') before the step, and dump \
             before disabling it, to get a history"
                .to_owned(),
        ),
        History::NoAllocations => warn(
            Code::AllocationsSkipped,
            "the history has frees but no allocations (skip_actions?): the peak cannot be computed".to_owned(),
        ),
        History::Empty => warn(
            Code::EmptyRecording,
            "nothing is recorded and nothing is held; was the history recorded in this process, on this device, \
             before the dump?"
                .to_owned(),
        ),
    }

    let before_window = lifetimes
        .older
        .iter()
        .map(|&index| &lifetimes.allocations[index as usize])
        .filter(|a| a.basis == Basis::FinalState && a.stack.is_some_and(|s| snapshot.tables.has_frames(s)))
        .count();
    let recorded = findings.history == History::Recorded;
    if recorded && is_round(events.len()) && (lifetimes.unmatched_frees > 0 || before_window > 0) {
        warn(
            Code::HistoryTruncated,
            format!(
                "the history is exactly {} events long and refers to blocks from before it: the ring buffer was \
                 probably full. Peak means the peak within the recorded window; record with a larger max_entries",
                events.len()
            ),
        );
    } else if recorded && lifetimes.unmatched_frees > 0 {
        found.push(Diagnostic::new(
            Code::FreesWithoutAllocation,
            id,
            format!(
                "blocks that were allocated before the recording and freed inside it: {}; their bytes are listed as \
                 <allocation not recorded>",
                lifetimes.unmatched_frees
            ),
        ));
    }
    if recorded && before_window > 0 {
        found.push(Diagnostic::new(Code::AllocatedBeforeRecording,
            id,
            format!(
                "{before_window} of the blocks that are older than the recording still {} stack; their bytes are listed \
                 under it",
                if before_window == 1 { "carries its" } else { "carry their" }
            ),
        ));
    }
    let mut warn = |code, message: String| found.push(Diagnostic::new(code, id, message));

    let checks = findings.checks;
    if checks.sizes_recovered < checks.sizes_total {
        warn(
            Code::SizesNotRecovered,
            format!(
                "{} of {} recovered block sizes differ from the final state; allocator settings may have changed \
                 during the recording. Allocated and active bytes are estimates",
                checks.sizes_total - checks.sizes_recovered,
                checks.sizes_total
            ),
        );
    }
    if findings.checkpoints_missed > 0 {
        warn(
            Code::CheckpointMismatch,
            format!(
                "{} of {} snapshot events give other active bytes than the replay",
                findings.checkpoints_missed, checks.checkpoints_total
            ),
        );
    }
    if !checks.end_matches {
        warn(
            Code::EndMismatch,
            "the history does not lead to the state at the dump; events are missing or the file was edited".to_owned(),
        );
    }
    if findings.baseline_differs && findings.history != History::NoAllocations {
        warn(
            Code::BaselineMismatch,
            "the baseline computed from sums differs from the one computed by address; events are missing".to_owned(),
        );
    }
    if findings.frees_skipped {
        warn(
            Code::FreesSkipped,
            "the history has allocations but no frees (skip_actions?): the peak cannot be computed".to_owned(),
        );
    } else if lifetimes.requests_complete {
        warn(
            Code::CompletionsSkipped,
            "the history has free_requested but no free_completed events (skip_actions?): active and requested bytes \
             fall at the request"
                .to_owned(),
        );
    } else if recorded && census.count(Action::FreeCompleted) > 0 && census.count(Action::FreeRequested) == 0 {
        found.push(Diagnostic::new(
            Code::RequestsSkipped,
            id,
            "the history has free_completed but no free_requested events (skip_actions?): allocated bytes fall at the \
             completion",
        ));
    }
    let mut warn = |code, message: String| found.push(Diagnostic::new(code, id, message));
    let reused = lifetimes.replaced.len() as u64;
    if reused + lifetimes.double_frees + lifetimes.size_mismatches > 0 {
        warn(
            Code::EventsInconsistent,
            format!(
                "{} allocations at an address in use, {} double frees, {} frees of another size than was allocated; \
                 events are missing or out of order",
                reused, lifetimes.double_frees, lifetimes.size_mismatches
            ),
        );
    }
    if findings.overlaps > 0 {
        warn(Code::BlocksOverlap, format!("{} allocations reach into an occupied block", findings.overlaps));
    }
    if findings.reserved_implausible {
        warn(
            Code::SegmentsSkipped,
            "segment events are missing (skip_actions?): reserved bytes before the dump cannot be computed".to_owned(),
        );
    } else if findings.homeless > 0 {
        warn(
            Code::SegmentsUnknown,
            format!(
                "{} allocations lie outside every known segment; segment events are missing, and reserved bytes before \
                 the dump are not reliable",
                findings.homeless
            ),
        );
    }
    let differ = device.segments.iter().filter(|segment| {
        let sum = |keep: fn(BlockState) -> bool| -> u128 {
            segment.blocks.iter().filter(|b| keep(b.state)).map(|b| u128::from(b.size)).sum()
        };
        let is = |said: Option<u64>, sum: u128| said.is_none_or(|said| u128::from(said) == sum);
        sum(|_| true) != u128::from(segment.total_size)
            || !is(segment.allocated_size, sum(|state| state == BlockState::ActiveAllocated))
            || !is(segment.active_size, sum(|state| state != BlockState::Inactive))
    });
    let differ = differ.count();
    if differ > 0 {
        warn(
            Code::SegmentSums,
            format!(
                "in {differ} of {} segments the blocks do not add up to the sums beside them; the file was edited or \
                 written by another tool",
                device.segments.len()
            ),
        );
    }
    let backwards = census.backwards;
    if backwards > 0 {
        warn(
            Code::TimeBackwards,
            format!(
                "{backwards} events are older than one before them; the order in the file is kept, and the peak may \
                 differ from the true one"
            ),
        );
    }
    if findings.bound > 0 {
        found.push(Diagnostic::new(
            Code::SizesBounded,
            id,
            format!(
                "blocks that were allocated before the recording and freed inside it may occupy up to {} more than \
                 the file tells",
                Size(findings.bound)
            ),
        ));
    }
    if findings.maybe_pending > 0 {
        found.push(Diagnostic::new(Code::FreeRequestedBefore,
            id,
            format!(
                "the completion of frees of {} is recorded and their request is not; they count as allocated until then",
                Size(findings.maybe_pending)
            ),
        ));
    }
    found
}

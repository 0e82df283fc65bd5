//! The contract, apart from the model: the structures that are written and read, in the order of the file.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::phases::SavedPhase;
use super::{Bound, Error};
use crate::diagnostic::{Code, Diagnostic, Severity};
use crate::profile::course::SavedCourse;
use crate::profile::exact::Sums;
use crate::profile::{Cut, Held, Highest, Kind, Raise, Source};
use crate::replay::{Checks, Counter, Figures, FreeBlocks, History, Oom, Position, Timeline};

/// The whole file.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct SavedProfile {
    pub(super) schema: String,
    pub(super) tool: Tool,
    pub(super) source: SavedSource,
    /// Grouping of labels and keys.
    pub(super) group_by: String,
    pub(super) bound: Bound,
    pub(super) rules: SavedRules,
    pub(super) at: String,
    pub(super) raises: Vec<SavedRaise>,
    pub(super) settings: Option<BTreeMap<String, String>>,
    pub(super) devices: Vec<SavedDevice>,
    pub(super) diagnostics: Vec<SavedDiagnostic>,
    pub(super) frames: BTreeMap<String, SavedFrame>,
    /// The digest of everything before it.
    pub(super) sha1: String,
}

/// The tool that wrote the file.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Tool {
    pub(super) name: String,
    pub(super) version: String,
}

/// The snapshot that the profile was computed from.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct SavedSource {
    pub(super) path: String,
    pub(super) bytes: u64,
    pub(super) kind: String,
}

impl SavedSource {
    pub(super) fn new(source: &Source) -> Self {
        // Where the file lay when it was typed is nothing that a repository should keep.
        let name = source.path.rsplit(['/', '\\']).next().unwrap_or_default();
        Self { path: name.to_owned(), bytes: source.bytes, kind: source.kind.name().to_owned() }
    }

    pub(super) fn into_source(self) -> Result<Source, Error> {
        let Self { path, bytes, kind } = self;
        let known = Kind::ALL.into_iter().find(|known| known.name() == kind);
        let kind = known.ok_or_else(|| Error::Damaged(format!("unknown kind of source '{kind}'")))?;
        Ok(Source { path, bytes, kind })
    }
}

/// A reason for which figures were raised.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct SavedRaise {
    pub(super) reason: String,
    pub(super) changes: Vec<String>,
}

impl SavedRaise {
    pub(super) fn new(raise: &Raise) -> Self {
        Self { reason: raise.reason.clone(), changes: raise.changes.clone() }
    }

    pub(super) fn into_raise(self) -> Raise {
        Raise { reason: self.reason, changes: self.changes }
    }
}

/// A diagnostic.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct SavedDiagnostic {
    pub(super) code: Code,
    pub(super) severity: Severity,
    pub(super) device: Option<u32>,
    pub(super) message: String,
}

impl SavedDiagnostic {
    pub(super) fn new(found: &Diagnostic) -> Self {
        Self { code: found.code, severity: found.severity(), device: found.device, message: found.message.clone() }
    }

    /// The diagnostic; none for a note that only a newer version knows, under which no figure suffers.
    pub(super) fn into_diagnostic(self) -> Option<Diagnostic> {
        if self.code == Code::UnknownDiagnostic && self.severity == Severity::Note {
            return None;
        }
        Some(Diagnostic::new(self.code, self.device, self.message))
    }
}

/// A device.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct SavedDevice {
    pub(super) device: u32,
    pub(super) events: u64,
    pub(super) duration_us: Option<u64>,
    pub(super) actions: BTreeMap<String, u64>,
    pub(super) history: String,
    pub(super) languages: Vec<String>,
    pub(super) allocated: SavedCounter,
    pub(super) active: SavedCounter,
    pub(super) requested: SavedCounter,
    pub(super) reserved: SavedCounter,
    pub(super) fragmentation: SavedFragmentation,
    pub(super) checks: SavedChecks,
    pub(super) allocations: u64,
    pub(super) frees: u64,
    pub(super) allocated_total: u64,
    pub(super) ooms: Vec<SavedOom>,
    pub(super) at_event: Option<i64>,
    pub(super) timeline: SavedTimeline,
    pub(super) cut: Option<SavedCut>,
    pub(super) stacks: Vec<SavedStack>,
    pub(super) metadata: Vec<SavedTag>,
    pub(super) compile_contexts: Vec<SavedTag>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) course: Option<SavedCourse>,
    pub(super) phases: Vec<SavedPhase>,
    #[serde(default)]
    pub(super) phases_cut: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) failed_request: Option<String>,
}

/// A counter of the allocator.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct SavedCounter {
    pub(super) baseline: Option<u64>,
    pub(super) peak: Option<u64>,
    pub(super) peak_event: Option<i64>,
    pub(super) end: u64,
    pub(super) exact: bool,
    pub(super) max_error: Option<u64>,
    pub(super) baseline_error: Option<u64>,
    pub(super) peak_error: Option<u64>,
    /// True if baseline and peak are the least that they were.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) at_least: bool,
}

impl SavedCounter {
    pub(super) fn new(counter: &Counter, history: History) -> Self {
        // Without a history, the state at the dump stands in for baseline and peak.
        let has_history = history == History::Recorded;
        Self {
            baseline: counter.baseline,
            peak: counter.peak,
            peak_event: counter.peak_at.map(Position::event_index),
            end: counter.end,
            exact: has_history && counter.exact(),
            max_error: counter.max_error().filter(|_| has_history),
            baseline_error: counter.baseline_error,
            peak_error: counter.peak_error,
            at_least: counter.is_least,
        }
    }

    pub(super) fn counter(&self) -> Counter {
        Counter {
            baseline: self.baseline,
            peak: self.peak,
            peak_at: self.peak_event.map(position),
            end: self.end,
            baseline_error: self.baseline_error,
            peak_error: self.peak_error,
            is_least: self.at_least,
        }
    }
}

/// The position just after an event, -1 for the start.
pub(super) fn position(event: i64) -> Position {
    usize::try_from(event).map_or(Position::START, Position::after)
}

/// Reserved bytes that are not active.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct SavedFragmentation {
    pub(super) peak: Option<u64>,
    pub(super) end: u64,
}

impl SavedFragmentation {
    pub(super) fn new(figures: &Figures) -> Self {
        Self { peak: figures.fragmentation_at_peak, end: figures.fragmentation_at_end }
    }
}

/// Block sizes that were recovered.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Recovered {
    pub(super) recovered: u64,
    pub(super) total: u64,
}

/// Checkpoints that the replay agrees with.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Matched {
    pub(super) matched: u64,
    pub(super) total: u64,
}

/// The self-checks.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct SavedChecks {
    pub(super) sizes: Recovered,
    pub(super) checkpoints: Matched,
    pub(super) end_matches: bool,
}

impl SavedChecks {
    pub(super) fn new(checks: Checks) -> Self {
        Self {
            sizes: Recovered { recovered: checks.sizes_recovered, total: checks.sizes_total },
            checkpoints: Matched { matched: checks.checkpoints_matched, total: checks.checkpoints_total },
            end_matches: checks.end_matches,
        }
    }

    pub(super) fn checks(&self) -> Checks {
        Checks {
            sizes_recovered: self.sizes.recovered,
            sizes_total: self.sizes.total,
            checkpoints_matched: self.checkpoints.matched,
            checkpoints_total: self.checkpoints.total,
            end_matches: self.end_matches,
        }
    }
}

/// A failed allocation.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct SavedOom {
    pub(super) event: u32,
    pub(super) requested: u64,
    pub(super) device_free: u64,
    pub(super) allocated: Option<u64>,
    pub(super) active: Option<u64>,
    pub(super) reserved: Option<u64>,
    pub(super) demand: Option<u64>,
    pub(super) fragmentation: Option<u64>,
    pub(super) pool_free: Option<u64>,
    pub(super) largest_free: Option<u64>,
    pub(super) max_error: Option<u64>,
    /// The stack of the request.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(super) frames: String,
}

impl SavedOom {
    pub(super) fn new(oom: &Oom, frames: String) -> Self {
        Self {
            event: oom.event,
            requested: oom.requested,
            device_free: oom.device_free,
            allocated: oom.allocated,
            active: oom.active,
            reserved: oom.reserved,
            demand: oom.demand(),
            fragmentation: oom.fragmentation(),
            pool_free: oom.pool.map(|pool| pool.bytes),
            largest_free: oom.pool.map(|pool| pool.largest),
            max_error: oom.max_error,
            frames,
        }
    }

    /// The failed allocation. Figures that follow from others have to agree with them.
    pub(super) fn oom(&self) -> Result<Oom, Error> {
        let pool = self.pool_free.zip(self.largest_free).map(|(bytes, largest)| FreeBlocks { bytes, largest });
        let oom = Oom {
            event: self.event,
            requested: self.requested,
            device_free: self.device_free,
            allocated: self.allocated,
            active: self.active,
            reserved: self.reserved,
            pool,
            max_error: self.max_error,
        };
        if oom.demand() != self.demand || oom.fragmentation() != self.fragmentation {
            let event = self.event;
            return Err(Error::Damaged(format!("the figures of the failed allocation at event {event} do not agree")));
        }
        Ok(oom)
    }
}

/// Coarse curves.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct SavedTimeline {
    pub(super) allocated: Vec<u64>,
    pub(super) reserved: Vec<u64>,
}

/// More points of a curve are not kept.
const MOST_POINTS: usize = 120;

impl SavedTimeline {
    pub(super) fn new(timeline: &Timeline) -> Self {
        Self { allocated: coarse(&timeline.allocated), reserved: coarse(&timeline.reserved) }
    }

    pub(super) fn into_timeline(self) -> Timeline {
        Timeline { allocated: self.allocated, reserved: self.reserved }
    }
}

/// The highest values in equal parts of a curve.
fn coarse(values: &[u64]) -> Vec<u64> {
    let count = MOST_POINTS.min(values.len());
    let parts = (0..count).map(|i| &values[i * values.len() / count..(i + 1) * values.len() / count]);
    parts.map(|part| part.iter().copied().max().unwrap_or(0)).collect()
}

/// Stacks that are not listed.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct SavedCut {
    pub(super) stacks: usize,
    pub(super) largest: u64,
}

impl SavedCut {
    pub(super) fn new(cut: Cut) -> Self {
        Self { stacks: cut.stacks, largest: cut.largest }
    }

    pub(super) fn cut(&self) -> Cut {
        Cut { stacks: self.stacks, largest: self.largest }
    }
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// The sums of a stack or a tag; those that are 0 are left out.
#[derive(Debug, Default, Clone, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct SavedSums {
    #[serde(skip_serializing_if = "is_zero")]
    pub(super) baseline: u64,
    #[serde(skip_serializing_if = "is_zero")]
    pub(super) peak: u64,
    #[serde(skip_serializing_if = "is_zero")]
    pub(super) end: u64,
    #[serde(skip_serializing_if = "is_zero")]
    pub(super) oom: u64,
    #[serde(skip_serializing_if = "is_zero")]
    pub(super) at: u64,
    #[serde(skip_serializing_if = "is_zero")]
    pub(super) baseline_blocks: u64,
    #[serde(skip_serializing_if = "is_zero")]
    pub(super) peak_blocks: u64,
    #[serde(skip_serializing_if = "is_zero")]
    pub(super) end_blocks: u64,
    #[serde(skip_serializing_if = "is_zero")]
    pub(super) oom_blocks: u64,
    #[serde(skip_serializing_if = "is_zero")]
    pub(super) at_blocks: u64,
    #[serde(skip_serializing_if = "is_zero")]
    pub(super) allocations: u64,
    #[serde(skip_serializing_if = "is_zero")]
    pub(super) allocated_total: u64,
}

impl SavedSums {
    /// The sums, with those of one more moment than every profile keeps where `is_kept`.
    pub(super) fn new(sums: &Sums, is_kept: bool) -> Self {
        let at = if is_kept { sums.at } else { Held::default() };
        Self {
            baseline: sums.baseline.bytes,
            peak: sums.peak.bytes,
            end: sums.end.bytes,
            oom: sums.oom.bytes,
            at: at.bytes,
            baseline_blocks: sums.baseline.blocks,
            peak_blocks: sums.peak.blocks,
            end_blocks: sums.end.blocks,
            oom_blocks: sums.oom.blocks,
            at_blocks: at.blocks,
            allocations: sums.allocations,
            allocated_total: sums.allocated_total,
        }
    }

    /// The sums as if the moment that was asked for were the one that is kept.
    pub(super) fn sums(&self) -> Sums {
        Sums {
            baseline: Held { bytes: self.baseline, blocks: self.baseline_blocks },
            peak: Held { bytes: self.peak, blocks: self.peak_blocks },
            end: Held { bytes: self.end, blocks: self.end_blocks },
            oom: Held { bytes: self.oom, blocks: self.oom_blocks },
            at: Held { bytes: self.at, blocks: self.at_blocks },
            allocations: self.allocations,
            allocated_total: self.allocated_total,
        }
    }
}

/// The most bytes that a stack held, and the event just before.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct SavedHighest(u64, i64);

impl SavedHighest {
    pub(super) fn new(highest: Highest) -> Self {
        Self(highest.bytes, highest.at.event_index())
    }

    pub(super) fn highest(self) -> Highest {
        Highest { bytes: self.0, at: position(self.1) }
    }
}

/// A stack. Label and key, by the default grouping, are for readers: they follow from the frames.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct SavedStack {
    pub(super) label: String,
    pub(super) key: String,
    /// The digest of its C++ frames, in hexadecimal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) cpp: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) bucket: Option<String>,
    #[serde(flatten)]
    pub(super) sums: SavedSums,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) highest: Option<SavedHighest>,
    /// The highest of its group, where other stacks belong to that as well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) group_highest: Option<SavedHighest>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(super) frames: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(super) forward_frames: String,
}

/// A tag of allocations.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct SavedTag {
    pub(super) tag: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) bucket: Option<String>,
    #[serde(flatten)]
    pub(super) sums: SavedSums,
}

/// Function, file, line; and for generated code the frame that it was generated from.
#[derive(Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub(super) enum SavedFrame {
    Plain(String, String, serde_json::Number),
    Generated(String, String, serde_json::Number, String),
}

/// The rules by which stacks were grouped for the bound.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SavedRules {
    pub(super) strip_prefix: Vec<String>,
    pub(super) own: Vec<String>,
    pub(super) foreign: Vec<String>,
}

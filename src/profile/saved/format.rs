//! The contract, apart from the model: the structures that are written and read, in the order of the file.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Bound;
use super::figures::{SavedOom, SavedTimeline};
use super::phases::SavedPhase;
use crate::diagnostic::{Code, Diagnostic, Severity};
use crate::profile::exact::Sums;
use crate::profile::{Cut, Held, Highest, Kind, Raise, Source};
use crate::replay::{Checks, Counter, Fragmentation, History, Position};
use crate::snapshot::RunFacts;

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
    pub(super) raises: Vec<SavedRaise>,
    pub(super) settings: Option<BTreeMap<String, String>>,
    /// True if the release keeps annotations in its snapshots.
    pub(super) keeps_annotations: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) run: Option<RunFacts>,
    pub(super) devices: Vec<SavedDevice>,
    pub(super) diagnostics: Vec<SavedDiagnostic>,
    pub(super) frames: BTreeMap<String, SavedFunction>,
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
    pub(super) kind: Kind,
}

impl SavedSource {
    pub(super) fn new(source: &Source) -> Self {
        // Only the name: a repository should not keep the folders of one machine.
        let name = source.path.rsplit(['/', '\\']).next().unwrap_or_default();
        Self { path: name.to_owned(), bytes: source.bytes, kind: source.kind }
    }

    pub(super) fn into_source(self) -> Source {
        let Self { path, bytes, kind } = self;
        Source { path, bytes, kind }
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

    /// The diagnostic; `None` for an unknown note of a newer version, which affects no figure.
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
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) ran_over: bool,
    pub(super) actions: BTreeMap<String, u64>,
    pub(super) history: History,
    pub(super) languages: Vec<String>,
    pub(super) allocated: Counter,
    pub(super) active: Counter,
    pub(super) requested: Counter,
    pub(super) reserved: Counter,
    pub(super) fragmentation: Fragmentation,
    pub(super) checks: Checks,
    pub(super) allocations: u64,
    pub(super) frees: u64,
    pub(super) allocated_total: u64,
    pub(super) ooms: Vec<SavedOom>,
    pub(super) cut: Option<SavedCut>,
    pub(super) stacks: Vec<SavedStack>,
    /// Nothing where the history is kept coarsely.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) trace: Option<SavedTrace>,
    /// The curves of a history that is kept coarsely.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) timeline: Option<SavedTimeline>,
    /// Places and their times, each as the difference to the one before.
    pub(super) times: Vec<(u32, u64)>,
    pub(super) phases: Vec<SavedPhase>,
    #[serde(default)]
    pub(super) phases_cut: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) failed_request: Option<String>,
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
    pub(super) baseline_blocks: u64,
    #[serde(skip_serializing_if = "is_zero")]
    pub(super) peak_blocks: u64,
    #[serde(skip_serializing_if = "is_zero")]
    pub(super) end_blocks: u64,
    #[serde(skip_serializing_if = "is_zero")]
    pub(super) oom_blocks: u64,
    #[serde(skip_serializing_if = "is_zero")]
    pub(super) allocations: u64,
    #[serde(skip_serializing_if = "is_zero")]
    pub(super) allocated_total: u64,
}

impl SavedSums {
    pub(super) fn new(sums: &Sums) -> Self {
        Self {
            baseline: sums.baseline.bytes,
            peak: sums.peak.bytes,
            end: sums.end.bytes,
            oom: sums.oom.bytes,
            baseline_blocks: sums.baseline.blocks,
            peak_blocks: sums.peak.blocks,
            end_blocks: sums.end.blocks,
            oom_blocks: sums.oom.blocks,
            allocations: sums.allocations,
            allocated_total: sums.allocated_total,
        }
    }

    /// The sums, with those of the moment that is shown.
    pub(super) fn sums(&self, shown: fn(&Sums) -> Held) -> Sums {
        let sums = Sums {
            baseline: Held { bytes: self.baseline, blocks: self.baseline_blocks },
            peak: Held { bytes: self.peak, blocks: self.peak_blocks },
            end: Held { bytes: self.end, blocks: self.end_blocks },
            oom: Held { bytes: self.oom, blocks: self.oom_blocks },
            at: Held::default(),
            requested: 0,
            allocations: self.allocations,
            allocated_total: self.allocated_total,
        };
        Sums { at: shown(&sums), ..sums }
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
        Highest { bytes: self.0, at: Position::of_event_index(self.1) }
    }
}

/// A stack.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct SavedStack {
    /// By the default grouping, for readers: it follows from the frames. Nothing where it is that of the stack before.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(super) label: String,
    #[serde(skip)]
    pub(super) key: String,
    /// The digest of its C++ frames, in hexadecimal, where some of them are left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) cpp: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) bucket: Option<String>,
    /// Its classes by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) classes: BTreeMap<String, SavedClass>,
    /// Its totals, where the history is kept coarsely.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) sums: Option<SavedSums>,
    /// The most that it held, likewise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) highest: Option<SavedHighest>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(super) frames: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(super) forward_frames: String,
}

/// Allocations that count as one: numbers, of which zeros at the end are left out behind the second, and tags where there are some. The
/// numbers are the bytes of a block; those that were asked for; bytes that a block may be smaller, and larger; blocks that
/// are allocated before the first event, and those whose free is pending then; and 1 where blocks may have been pending.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SavedClass(
    pub(super) Vec<u64>,
    #[serde(default, skip_serializing_if = "SavedTags::is_empty")] pub(super) SavedTags,
);

/// The tags of a class.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct SavedTags {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) metadata: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) compile_context: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) module: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) purpose: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) shape: Option<String>,
}

impl SavedTags {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// The moves of a history, folded.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct SavedTrace {
    /// Bytes of all segments before the first event.
    pub(super) reserved: i64,
    /// How many of the moves belong to the dump.
    pub(super) implied: u64,
    pub(super) moves: Vec<String>,
}

/// The frames of a function: its name, its file, and their lines.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct SavedFunction(pub(super) String, pub(super) String, pub(super) Vec<SavedLine>);

/// The line of a frame; and for generated code the frame that it was generated from.
#[derive(Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub(super) enum SavedLine {
    Plain(serde_json::Number),
    Generated(serde_json::Number, String),
}

impl SavedLine {
    /// Its number; 0 for one that is none.
    pub(super) fn number(&self) -> i128 {
        let (Self::Plain(line) | Self::Generated(line, _)) = self;
        line.as_u64().map(i128::from).or_else(|| line.as_i64().map(i128::from)).unwrap_or(0)
    }
}

/// The rules by which stacks were grouped for the bound.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SavedRules {
    pub(super) strip_prefix: Vec<String>,
    pub(super) own: Vec<String>,
    pub(super) foreign: Vec<String>,
}

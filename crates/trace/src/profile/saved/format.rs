//! The contract, apart from the model: the structures that are written and read, in the order of the file.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::phases::SavedPhase;
use crate::diagnostic::{Code, Diagnostic, Severity};
use crate::profile::{Raise, Source};
use crate::replay::{Figures, Oom, Position, Timeline};
use crate::snapshot::RunFacts;
use crate::trace::ClassTags;

/// The whole file.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct SavedProfile {
    pub(super) schema: String,
    pub(super) tool: Tool,
    pub(super) source: Source,
    /// Grouping of labels and keys.
    pub(super) group_by: String,
    pub(super) raises: Vec<Raise>,
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
    pub(super) languages: Vec<String>,
    #[serde(flatten)]
    pub(super) figures: Figures,
    pub(super) ooms: Vec<SavedOom>,
    /// The curves of a history that is kept coarsely: the trace has few of its blocks then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) coarse: Option<Timeline>,
    pub(super) stacks: Vec<SavedStack>,
    pub(super) trace: SavedTrace,
    /// Places and their times.
    pub(super) times: Vec<(Position, u64)>,
    pub(super) phases: Vec<SavedPhase>,
    #[serde(default)]
    pub(super) phases_cut: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) failed_request: Option<String>,
}

/// A failed allocation.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct SavedOom {
    #[serde(flatten)]
    pub(super) oom: Oom,
    /// The stack of the request.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(super) frames: String,
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
    #[serde(default, skip_serializing_if = "has_no_tags")] pub(super) ClassTags<String>,
);

fn has_no_tags(tags: &ClassTags<String>) -> bool {
    *tags == ClassTags::default()
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

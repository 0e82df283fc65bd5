//! What stands in the file: the contract, apart from the model.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Bound;
use super::phases::SavedPhase;
use crate::diagnostic::{Code, Diagnostic, Severity};

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Tool {
    pub(super) name: String,
    pub(super) version: String,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct SavedSource {
    pub(super) path: String,
    pub(super) bytes: u64,
    pub(super) kind: String,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct SavedRaise {
    pub(super) reason: String,
    pub(super) changes: Vec<String>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct SavedDiagnostic {
    pub(super) code: Code,
    pub(super) severity: Severity,
    pub(super) device: Option<u32>,
    pub(super) message: String,
}

impl SavedDiagnostic {
    /// The diagnostic; none for a note that only a newer version knows, under which no figure suffers.
    pub(super) fn into_diagnostic(self) -> Option<Diagnostic> {
        if self.code == Code::UnknownDiagnostic && self.severity == Severity::Note {
            return None;
        }
        Some(Diagnostic::new(self.code, self.device, self.message))
    }
}

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
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct SavedFragmentation {
    pub(super) peak: Option<u64>,
    pub(super) end: u64,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Recovered {
    pub(super) recovered: u64,
    pub(super) total: u64,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Matched {
    pub(super) matched: u64,
    pub(super) total: u64,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct SavedChecks {
    pub(super) sizes: Recovered,
    pub(super) checkpoints: Matched,
    pub(super) end_matches: bool,
}

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
}

#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct SavedTimeline {
    pub(super) allocated: Vec<u64>,
    pub(super) reserved: Vec<u64>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct SavedCut {
    pub(super) stacks: usize,
    pub(super) largest: u64,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// What is 0 is left out.
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
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(super) frames: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(super) forward_frames: String,
}

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

/// What is read of a device; what is written stands in [`super::write`].
#[derive(Debug, Deserialize)]
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
    pub(super) phases: Vec<SavedPhase>,
    #[serde(default)]
    pub(super) phases_cut: u64,
}

/// The rules by which stacks were grouped for the bound.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SavedRules {
    pub(super) strip_prefix: Vec<String>,
    pub(super) own: Vec<String>,
    pub(super) foreign: Vec<String>,
}

/// What tells a saved profile from other JSON.
#[derive(Debug, Deserialize)]
pub(super) struct SavedKind {
    pub(super) schema: Option<String>,
    pub(super) frames: Option<serde::de::IgnoredAny>,
}

#[derive(Debug, Deserialize)]
pub(super) struct SavedProfile {
    pub(super) source: SavedSource,
    pub(super) bound: Bound,
    pub(super) rules: SavedRules,
    pub(super) at: String,
    pub(super) raises: Vec<SavedRaise>,
    pub(super) settings: Option<BTreeMap<String, String>>,
    pub(super) devices: Vec<SavedDevice>,
    pub(super) diagnostics: Vec<SavedDiagnostic>,
    pub(super) frames: BTreeMap<String, SavedFrame>,
    pub(super) sha1: String,
}

//! The contract, apart from the model: the structures that are written and read, in the order of the file.

use std::collections::BTreeMap;

use ptmem_base::diagnostic::{Diagnostic, Severity};
use ptmem_snapshot::snapshot::RunFacts;
use serde::{Deserialize, Serialize};

use super::phases::SavedPhase;
use crate::profile::{Raise, Source};
use crate::replay::{Oom, Timeline};
use crate::stack::CppDigest;
use crate::trace::{Bucket, ClassTags};

/// The whole file.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct SavedProfile<D> {
    pub(super) schema: String,
    pub(super) tool: Tool,
    pub(super) source: Source,
    pub(super) raises: Vec<Raise>,
    pub(super) settings: Option<BTreeMap<String, String>>,
    /// True if the release keeps annotations in its snapshots.
    pub(super) keeps_annotations: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) run: Option<RunFacts>,
    pub(super) devices: Vec<SavedDevice<D>>,
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

/// A diagnostic with its weight, so that readers know the weight of codes from newer versions.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct SavedDiagnostic {
    #[serde(flatten)]
    pub(super) found: Diagnostic,
    pub(super) severity: Severity,
}

/// A device, to be written from a reference.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct SavedDevice<D> {
    #[serde(flatten)]
    pub(super) device: D,
    pub(super) ooms: Vec<SavedOom>,
    /// The curves of a history that is kept coarsely: the trace has few of its blocks then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) coarse: Option<Timeline>,
    pub(super) stacks: Vec<SavedStack>,
    pub(super) trace: SavedTrace,
    pub(super) phases: Vec<SavedPhase>,
    pub(super) phases_cut: u64,
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
    /// The digest of its C++ frames, where some of them are left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) cpp: Option<CppDigest>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) bucket: Option<Bucket>,
    /// Its classes by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) classes: BTreeMap<String, SavedClass>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(super) frames: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(super) forward_frames: String,
}

/// Allocations that count as one: numbers, of which zeros at the end are left out behind the first, and tags where there are
/// some. The numbers are the bytes of a block; those of them that were not asked for; bytes that a block may be smaller, and
/// larger; blocks that are allocated before the first event, and those whose free is pending then; and 1 where blocks may have
/// been pending.
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
    Plain(u64),
    Generated(u64, String),
}

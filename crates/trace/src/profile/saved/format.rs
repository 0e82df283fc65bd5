//! The contract, apart from the model: the structures that are written and read, in the order of the file.

use std::collections::BTreeMap;

use ptmem_base::diagnostic::{Diagnostic, Severity};
use ptmem_snapshot::snapshot::RunFacts;
use serde::{Deserialize, Serialize};

use crate::phase::PhaseSource;
use crate::profile::{Raise, Source};
use crate::replay::Oom;
use crate::stack::CppDigest;
use crate::trace::fold::Folded;
use crate::trace::{Bucket, ClassTags, Move, StartBlocks, Uncertainty};

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
    /// Microseconds since 1970 of the last event.
    #[serde(default)]
    pub(super) ended_us: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) run: Option<RunFacts>,
    /// The patterns by which phases are left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) ignored: Vec<String>,
    pub(super) devices: Vec<SavedDevice<D>>,
    pub(super) diagnostics: Vec<SavedDiagnostic>,
    /// Stacks refer to them by their places.
    pub(super) frames: Vec<SavedFrame>,
    /// Long texts, to which frames and tags refer by their places.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) texts: Vec<String>,
    /// The digest of everything before it.
    pub(super) sha1: String,
}

/// A text; a long one as its place among the texts of the file. A snapshot has each text once, however often it occurs.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub(super) enum SavedText {
    Short(String),
    Long(u32),
}

impl SavedText {
    /// The text; `None` if the file does not have it.
    pub(super) fn of<'t>(&'t self, texts: &'t [String]) -> Option<&'t str> {
        match self {
            Self::Short(text) => Some(text),
            Self::Long(place) => texts.get(*place as usize).map(String::as_str),
        }
    }
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
    pub(super) stacks: Vec<SavedStack>,
    pub(super) classes: Vec<SavedClass>,
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
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) frames: Vec<u32>,
}

/// A stack, or the kind of memory without one.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct SavedStack {
    /// The digest of its C++ frames, where some of them are left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) cpp: Option<CppDigest>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) bucket: Option<Bucket>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) frames: Vec<u32>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) forward_frames: Vec<u32>,
}

/// Allocations that count as one: their stack, the bytes of a block, those that were requested, and what few classes have.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct SavedClass(
    pub(super) u32,
    pub(super) u64,
    pub(super) u64,
    #[serde(default, skip_serializing_if = "is_default")] pub(super) RareParts,
);

/// What few classes have.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct RareParts {
    #[serde(default, skip_serializing_if = "is_default")]
    pub(super) spread: Uncertainty,
    #[serde(default, skip_serializing_if = "is_default")]
    pub(super) maybe_pending: bool,
    #[serde(default, skip_serializing_if = "is_default")]
    pub(super) start: StartBlocks,
    #[serde(default, skip_serializing_if = "is_default")]
    pub(super) tags: ClassTags<SavedText>,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// The moves of a history, folded.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct SavedTrace {
    /// Bytes of all segments before the first event.
    pub(super) reserved: i128,
    /// How many of the moves belong to the dump.
    pub(super) implied: u64,
    /// Each move once, with the rank of the block that it ends.
    pub(super) moves: Vec<(Move, u32)>,
    /// What happened, as places among the moves.
    pub(super) sequences: Folded,
}

/// A frame: function, file and line; and for generated code the frame that it was generated from.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct SavedFrame(
    pub(super) SavedText,
    pub(super) SavedText,
    pub(super) u64,
    #[serde(default, skip_serializing_if = "Option::is_none")] pub(super) Option<u32>,
);

/// All occurrences of a phase, in order.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct SavedPhase {
    pub(super) name: SavedText,
    pub(super) source: PhaseSource,
    pub(super) occurrences: Vec<Span>,
    /// The marks of each, if events do not give the order of phases.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) marks: Vec<SavedMarks>,
}

/// The marks of an occurrence, among those of all phases: from the beginning of the one before to its own, and from that to its end.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct SavedMarks(pub(super) u32, pub(super) u32);

/// Where an occurrence lies: events from the beginning of the one before, `None` where its own was not recorded; those in
/// it, `None` where its end was not recorded; and the number of a step of the profiler.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Span(
    pub(super) Option<usize>,
    pub(super) Option<usize>,
    #[serde(default, skip_serializing_if = "Option::is_none")] pub(super) Option<u64>,
);

//! Facts about an input or a comparison that whoever reads the report must know.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Weight of a diagnostic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Severity {
    /// Worth knowing; no figure suffers.
    Note,
    /// A figure or a comparison may not mean what it seems to.
    Warning,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Note => "note",
            Self::Warning => "warning",
        })
    }
}

/// Every kind of diagnostic. Names are stable; `docs/diagnostics.md` lists them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Code {
    /// No allocation was recorded, only the state at the dump: peak and baseline are that state, and there is no timeline.
    StateOnly,
    /// Nothing was recorded and nothing is held.
    EmptyRecording,
    /// The history has frees but no allocations, so the peak cannot be computed.
    AllocationsSkipped,
    /// The history has allocations but no frees, so the peak cannot be computed.
    FreesSkipped,
    /// The history has free_requested but no free_completed events: active and requested bytes fall at the request.
    CompletionsSkipped,
    /// The history has free_completed but no free_requested events: allocated bytes fall at the completion.
    RequestsSkipped,
    /// Segment events are missing: reserved bytes before the dump cannot be computed.
    SegmentsSkipped,
    /// Allocations lie outside every known segment: reserved bytes before the dump are not reliable.
    SegmentsUnknown,
    /// The ring buffer was probably full: the oldest events are missing, and the peak is that of what is left.
    HistoryTruncated,
    /// Blocks that were allocated before the recording were freed within it; their stacks are not known.
    FreesWithoutAllocation,
    /// Blocks that are older than the recording still carry the stack of their allocation, and are listed under it.
    AllocatedBeforeRecording,
    /// Recovered block sizes differ from those in the final state: allocated and active bytes are estimates.
    SizesNotRecovered,
    /// A snapshot event within the history states other active bytes than the replay.
    CheckpointMismatch,
    /// The history does not lead to the state at the dump.
    EndMismatch,
    /// The baseline computed from sums differs from the one computed by address.
    BaselineMismatch,
    /// Events contradict each other: an allocation at an address in use, a double free, or a free of another size.
    EventsInconsistent,
    /// Allocations reach into blocks that are in use.
    BlocksOverlap,
    /// The blocks of a segment do not add up to the sums that the file states beside them.
    SegmentSums,
    /// Events are older than events before them; the order in the file is kept, and the peak may differ from the true one.
    TimeBackwards,
    /// Blocks that were allocated before the recording and freed within it may occupy more than the file tells; figures carry that bound.
    SizesBounded,
    /// The completion of a free is recorded but its request is not; the block counts as allocated until then, and figures carry that bound.
    FreeRequestedBefore,
    /// Release 2.0 does not record frees of blocks that are older than the recording: baseline and peak may be higher.
    FreesNotRecorded,
    /// The file states no allocator settings; the defaults are assumed.
    SettingsAssumed,
    /// Block sizes contradict the allocator settings: they were others for a part of the history, or are not stated.
    SettingsChanged,
    /// At another moment than the peak as much may have been allocated, within the bounds of the sizes.
    PeakAmbiguous,
    /// There are more phases than are looked at; the rest is left out.
    PhasesCut,
    /// Annotated phases lack their beginning or end, or overlap.
    PhasesIrregular,
    /// Reserved bytes grow faster than allocated bytes over the series or the steps.
    FragmentationGrows,
    /// Allocated bytes grow from step to step, and no stack accounts for it.
    AllocatedGrows,
    /// Files of a series cannot be read and are left out.
    FilesSkipped,
    /// A series has one snapshot so far, so nothing can have grown.
    FirstOfSeries,
    /// Allocated bytes rose in the last two snapshots of a series, too few to tell a leak from steps up.
    GrowthTooRecent,
    /// A device is in one snapshot only.
    DeviceMissing,
    /// One side does not have the moment at which stacks are compared.
    NoSuchMoment,
    /// Stacks are compared where the before does what the after does at its peak.
    MomentsAligned,
    /// The two sides were recorded differently, so that peaks or stacks do not compare.
    RecordingsDiffer,
    /// One side records at least twice as many allocations as the other.
    LengthsDiffer,
    /// One side lacks the beginning or the end of what the other records, so that peaks and stacks do not compare.
    PartMissing,
    /// It is not known whether a side lacks a part of what the other records.
    PartsNotChecked,
    /// The peaks of the two sides lie at different places of the program.
    PeakMoved,
    /// The allocator settings of the two sides differ.
    SettingsDiffer,
    /// A phase occurs more often on one side than on the other.
    PhaseOccurrencesDiffer,
    /// Both sides are the same file.
    SameInput,
    /// The error bound of a gated figure reaches across its limit: it could pass or fail.
    WithinError,
    /// A check passes only because its growth was accepted in the configuration.
    AcceptedGrowth,
    /// A rule of the configuration matches nothing in any comparison.
    UnusedRule,
    /// The after needs less memory than the stored before.
    Improved,
    /// A saved profile holds a diagnostic that this version does not know.
    UnknownDiagnostic,
}

/// Everything that is said of a code.
struct Description {
    name: &'static str,
    severity: Severity,
    distrusted: bool,
    meaning: &'static str,
    help: &'static str,
}

impl Code {
    /// All codes, in the order of the documentation.
    pub const ALL: [Self; 48] = [
        Self::StateOnly,
        Self::EmptyRecording,
        Self::AllocationsSkipped,
        Self::FreesSkipped,
        Self::CompletionsSkipped,
        Self::RequestsSkipped,
        Self::SegmentsSkipped,
        Self::SegmentsUnknown,
        Self::HistoryTruncated,
        Self::FreesWithoutAllocation,
        Self::AllocatedBeforeRecording,
        Self::SizesNotRecovered,
        Self::CheckpointMismatch,
        Self::EndMismatch,
        Self::BaselineMismatch,
        Self::EventsInconsistent,
        Self::BlocksOverlap,
        Self::SegmentSums,
        Self::TimeBackwards,
        Self::SizesBounded,
        Self::FreeRequestedBefore,
        Self::FreesNotRecorded,
        Self::SettingsAssumed,
        Self::SettingsChanged,
        Self::PeakAmbiguous,
        Self::PhasesCut,
        Self::PhasesIrregular,
        Self::FragmentationGrows,
        Self::AllocatedGrows,
        Self::FilesSkipped,
        Self::FirstOfSeries,
        Self::GrowthTooRecent,
        Self::DeviceMissing,
        Self::NoSuchMoment,
        Self::MomentsAligned,
        Self::RecordingsDiffer,
        Self::LengthsDiffer,
        Self::PartMissing,
        Self::PartsNotChecked,
        Self::PeakMoved,
        Self::SettingsDiffer,
        Self::PhaseOccurrencesDiffer,
        Self::SameInput,
        Self::WithinError,
        Self::AcceptedGrowth,
        Self::UnusedRule,
        Self::Improved,
        Self::UnknownDiagnostic,
    ];

    /// The one definition of each code.
    #[allow(clippy::too_many_lines, reason = "a table: one arm a code")]
    const fn description(self) -> Description {
        use Severity::{Note, Warning};
        match self {
            Self::StateOnly => Description {
                name: "state-only",
                severity: Warning,
                distrusted: false,
                meaning: "No allocation was recorded, only the state at the dump: peak and baseline are that state, and there is no timeline.",
                help: "Call torch.cuda.memory._record_memory_history() before the steps to measure, and dump before switching it off.",
            },
            Self::EmptyRecording => Description {
                name: "empty-recording",
                severity: Warning,
                distrusted: false,
                meaning: "Nothing was recorded and nothing is held.",
                help: "Record in the process that uses the GPU, before the steps to measure, and dump before switching recording off.",
            },
            Self::AllocationsSkipped => Description {
                name: "allocations-skipped",
                severity: Warning,
                distrusted: false,
                meaning: "The history has frees but no allocations, so the peak cannot be computed.",
                help: "Record without skip_actions.",
            },
            Self::FreesSkipped => Description {
                name: "frees-skipped",
                severity: Warning,
                distrusted: false,
                meaning: "The history has allocations but no frees, so the peak cannot be computed.",
                help: "Record without skip_actions.",
            },
            Self::CompletionsSkipped => Description {
                name: "completions-skipped",
                severity: Warning,
                distrusted: false,
                meaning: "The history has free_requested but no free_completed events: active and requested bytes fall at the request.",
                help: "Record without skip_actions.",
            },
            Self::RequestsSkipped => Description {
                name: "requests-skipped",
                severity: Note,
                distrusted: false,
                meaning: "The history has free_completed but no free_requested events: allocated bytes fall at the completion.",
                help: "Record without skip_actions.",
            },
            Self::SegmentsSkipped => Description {
                name: "segments-skipped",
                severity: Warning,
                distrusted: true,
                meaning: "Segment events are missing: reserved bytes before the dump cannot be computed.",
                help: "Record without skip_actions.",
            },
            Self::SegmentsUnknown => Description {
                name: "segments-unknown",
                severity: Warning,
                distrusted: true,
                meaning: "Allocations lie outside every known segment: reserved bytes before the dump are not reliable.",
                help: "Record without skip_actions and with a larger max_entries.",
            },
            Self::HistoryTruncated => Description {
                name: "history-truncated",
                severity: Warning,
                distrusted: true,
                meaning: "The ring buffer was probably full: the oldest events are missing, and the peak is that of what is left.",
                help: "Record with a larger max_entries, such as 1,000,000.",
            },
            Self::FreesWithoutAllocation => Description {
                name: "frees-without-allocation",
                severity: Note,
                distrusted: false,
                meaning: "Blocks that were allocated before the recording were freed within it; their stacks are not known.",
                help: "Record from the start of the process, and start again right before the steps to measure.",
            },
            Self::AllocatedBeforeRecording => Description {
                name: "allocated-before-recording",
                severity: Note,
                distrusted: false,
                meaning: "Blocks that are older than the recording still carry the stack of their allocation, and are listed under it.",
                help: "Nothing: their bytes have a name.",
            },
            Self::SizesNotRecovered => Description {
                name: "sizes-not-recovered",
                severity: Warning,
                distrusted: true,
                meaning: "Recovered block sizes differ from those in the final state: allocated and active bytes are estimates.",
                help: "Check whether allocator settings changed during the recording.",
            },
            Self::CheckpointMismatch => Description {
                name: "checkpoint-mismatch",
                severity: Warning,
                distrusted: true,
                meaning: "A snapshot event within the history states other active bytes than the replay.",
                help: "Events are missing or the file was edited: record again.",
            },
            Self::EndMismatch => Description {
                name: "end-mismatch",
                severity: Warning,
                distrusted: true,
                meaning: "The history does not lead to the state at the dump.",
                help: "Events are missing or the file was edited: record again.",
            },
            Self::BaselineMismatch => Description {
                name: "baseline-mismatch",
                severity: Warning,
                distrusted: true,
                meaning: "The baseline computed from sums differs from the one computed by address.",
                help: "Events are missing or the file was edited: record again.",
            },
            Self::EventsInconsistent => Description {
                name: "events-inconsistent",
                severity: Warning,
                distrusted: true,
                meaning: "Events contradict each other: an allocation at an address in use, a double free, or a free of another size.",
                help: "Events are missing or out of order: record again.",
            },
            Self::BlocksOverlap => Description {
                name: "blocks-overlap",
                severity: Warning,
                distrusted: true,
                meaning: "Allocations reach into blocks that are in use.",
                help: "Events are missing or the file was edited: record again.",
            },
            Self::SegmentSums => Description {
                name: "segment-sums",
                severity: Warning,
                distrusted: true,
                meaning: "The blocks of a segment do not add up to the sums that the file states beside them.",
                help: "The file was edited or written by another tool: record again.",
            },
            Self::TimeBackwards => Description {
                name: "time-backwards",
                severity: Warning,
                distrusted: true,
                meaning: "Events are older than events before them; the order in the file is kept, and the peak may differ from the true one.",
                help: "Record on a machine whose clock is not changed meanwhile.",
            },
            Self::SizesBounded => Description {
                name: "sizes-bounded",
                severity: Note,
                distrusted: false,
                meaning: "Blocks that were allocated before the recording and freed within it may occupy more than the file tells; figures carry that bound.",
                help: "Record from the start of the process, and start again right before the steps to measure.",
            },
            Self::FreeRequestedBefore => Description {
                name: "free-requested-before",
                severity: Note,
                distrusted: false,
                meaning: "The completion of a free is recorded but its request is not; the block counts as allocated until then, and figures carry that bound.",
                help: "Record from the start of the process, and start again right before the steps to measure.",
            },
            Self::FreesNotRecorded => Description {
                name: "frees-not-recorded",
                severity: Warning,
                distrusted: true,
                meaning: "PyTorch 2.0 does not record frees of blocks that are older than the recording: baseline and peak may be higher, and where segments were given back they are not known.",
                help: "Record from the start of the process, or with PyTorch 2.1 or later.",
            },
            Self::SettingsAssumed => Description {
                name: "settings-assumed",
                severity: Note,
                distrusted: false,
                meaning: "The file states no allocator settings (PyTorch before 2.3); the defaults are assumed, and sizes that others would change carry a bound.",
                help: "Give the settings with --allocator-settings, as in PYTORCH_CUDA_ALLOC_CONF.",
            },
            Self::SettingsChanged => Description {
                name: "settings-changed",
                severity: Warning,
                distrusted: true,
                meaning: "Block sizes contradict the allocator settings: they were others for a part of the history, or the file does not state them. Sizes that depend on them carry a bound.",
                help: "Set PYTORCH_CUDA_ALLOC_CONF once, before the process starts; for PyTorch before 2.3 also give it with --allocator-settings.",
            },
            Self::PeakAmbiguous => Description {
                name: "peak-ambiguous",
                severity: Note,
                distrusted: false,
                meaning: "At another moment than the peak as much may have been allocated, within the bounds of the sizes, so that either can be the true peak.",
                help: "Compare stacks at both moments (--at event:N), or record from the start of the process.",
            },
            Self::PhasesCut => Description {
                name: "phases-cut",
                severity: Warning,
                distrusted: false,
                meaning: "There are more phases than are looked at; the rest is left out.",
                help: "Annotate fewer or coarser parts of the program.",
            },
            Self::PhasesIrregular => Description {
                name: "phases-irregular",
                severity: Note,
                distrusted: false,
                meaning: "Annotated phases lack their beginning or end, or overlap.",
                help: "Record whole steps, and end each phase before the one that holds it.",
            },
            Self::FragmentationGrows => Description {
                name: "fragmentation-grows",
                severity: Warning,
                distrusted: false,
                meaning: "Reserved bytes grow faster than allocated bytes over the series or the steps.",
                help: "Look for sizes that vary from step to step; expandable_segments:True often helps.",
            },
            Self::AllocatedGrows => Description {
                name: "allocated-grows",
                severity: Warning,
                distrusted: true,
                meaning: "Allocated bytes grow from step to step, and no stack accounts for it.",
                help: "Compare two snapshots with ptmem diff --at end to see what became larger.",
            },
            Self::FilesSkipped => Description {
                name: "files-skipped",
                severity: Warning,
                distrusted: true,
                meaning: "Files of a series cannot be read and are left out.",
                help: "Move files that are no snapshots out of the folder, and record again what is broken.",
            },
            Self::FirstOfSeries => Description {
                name: "first-of-series",
                severity: Warning,
                distrusted: true,
                meaning: "A series has one snapshot so far, so nothing can have grown.",
                help: "Nothing to do: the next snapshot is compared with this one.",
            },
            Self::GrowthTooRecent => Description {
                name: "growth-too-recent",
                severity: Warning,
                distrusted: true,
                meaning: "Allocated bytes rose in the last two snapshots of a series, too few to tell a leak from steps up.",
                help: "Wait for the next snapshots, or find out what changed since the one that is named.",
            },
            Self::DeviceMissing => Description {
                name: "device-missing",
                severity: Warning,
                distrusted: false,
                meaning: "A device is in one snapshot only.",
                help: "Record both sides with the same devices.",
            },
            Self::NoSuchMoment => Description {
                name: "no-such-moment",
                severity: Warning,
                distrusted: false,
                meaning: "One side does not have the moment at which stacks are compared.",
                help: "Choose a moment that both sides have.",
            },
            Self::MomentsAligned => Description {
                name: "moments-aligned",
                severity: Note,
                distrusted: false,
                meaning: "Stacks are compared where the before does what the after does at its peak (--at aligned).",
                help: "Nothing. Look at the other peak with --at peak.",
            },
            Self::RecordingsDiffer => Description {
                name: "recordings-differ",
                severity: Warning,
                distrusted: true,
                meaning: "The two sides were recorded differently, so that peaks or stacks do not compare.",
                help: "Record both sides with the same context= and stacks=.",
            },
            Self::LengthsDiffer => Description {
                name: "lengths-differ",
                severity: Note,
                distrusted: false,
                meaning: "One side records at least twice as many allocations as the other.",
                help: "Record the same steps on both sides.",
            },
            Self::PartMissing => Description {
                name: "part-missing",
                severity: Warning,
                distrusted: false,
                meaning: "One side lacks the beginning or the end of what the other records: the ring buffer dropped it, or the recording began later or ended earlier. Peaks and stacks do not compare.",
                help: "Record both sides from the same place to the same place, with a large enough max_entries=; --allow-partial compares anyway.",
            },
            Self::PartsNotChecked => Description {
                name: "parts-not-checked",
                severity: Warning,
                distrusted: true,
                meaning: "It was not checked whether one side lacks a part of what the other records: a side does not tell in which order its stacks allocate.",
                help: "Save the profile again with ptmem profile, or give the snapshot itself.",
            },
            Self::PeakMoved => Description {
                name: "peak-moved",
                severity: Note,
                distrusted: false,
                meaning: "The peaks of the two sides lie at different places of the program, so that stacks at the peak differ although both sides hold them at some moment.",
                help: "Limit stack-highest instead of stack, or compare stacks at a moment that both sides have.",
            },
            Self::SettingsDiffer => Description {
                name: "settings-differ",
                severity: Warning,
                distrusted: true,
                meaning: "The allocator settings of the two sides differ.",
                help: "Record both sides with the same PYTORCH_CUDA_ALLOC_CONF.",
            },
            Self::PhaseOccurrencesDiffer => Description {
                name: "phase-occurrences-differ",
                severity: Warning,
                distrusted: true,
                meaning: "A phase occurs more often on one side than on the other.",
                help: "Record the same steps on both sides.",
            },
            Self::SameInput => Description {
                name: "same-input",
                severity: Warning,
                distrusted: false,
                meaning: "Both sides are the same file.",
                help: "Check the paths of before and after.",
            },
            Self::WithinError => Description {
                name: "within-error",
                severity: Warning,
                distrusted: true,
                meaning: "The error bound of a gated figure reaches across its limit: it could pass or fail.",
                help: "Record from the start of the process, and start again right before the steps to measure, so that figures are exact.",
            },
            Self::UnusedRule => Description {
                name: "unused-rule",
                severity: Warning,
                distrusted: false,
                meaning: "A rule of the configuration matches nothing in any comparison.",
                help: "Correct its pattern, or remove it.",
            },
            Self::AcceptedGrowth => Description {
                name: "accepted-growth",
                severity: Note,
                distrusted: false,
                meaning: "A check passes only because its growth was accepted in the configuration.",
                help: "Nothing, until the acceptance expires.",
            },
            Self::Improved => Description {
                name: "improved",
                severity: Note,
                distrusted: false,
                meaning: "The after needs less memory than the stored before.",
                help: "Update the stored profile, so that the improvement is kept.",
            },
            Self::UnknownDiagnostic => Description {
                name: "unknown-diagnostic",
                severity: Warning,
                distrusted: true,
                meaning: "A saved profile holds a diagnostic that this version does not know.",
                help: "Use the version of the tool that wrote the profile, or a newer one.",
            },
        }
    }

    /// Stable kebab-case name, such as `history-truncated`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.description().name
    }

    /// Weight of every diagnostic with this code.
    #[must_use]
    pub const fn severity(self) -> Severity {
        self.description().severity
    }

    /// Tells whether `--strict` makes a verdict inconclusive because of it.
    #[must_use]
    pub const fn is_distrusted(self) -> bool {
        self.description().distrusted
    }

    /// The meaning, in one line.
    #[must_use]
    pub const fn meaning(self) -> &'static str {
        self.description().meaning
    }

    /// Advice on what to do, in one line.
    #[must_use]
    pub const fn help(self) -> &'static str {
        self.description().help
    }

    /// The code of a name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|code| code.name() == name)
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl Serialize for Code {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// A name that this version does not know becomes [`Code::UnknownDiagnostic`]: a saved profile may come from a newer one.
impl<'de> Deserialize<'de> for Code {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        Ok(Self::from_name(&name).unwrap_or(Self::UnknownDiagnostic))
    }
}

/// A fact about an input that its reader must know.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Diagnostic {
    /// Kind, with severity, meaning and help.
    pub code: Code,
    /// Device ordinal, or none where it concerns the file.
    pub device: Option<u32>,
    /// One or two sentences on what was found here and, where there is something to do, on what to do next.
    pub message: String,
}

impl Diagnostic {
    /// A diagnostic about a device, or about the file.
    pub fn new(code: Code, device: impl Into<Option<u32>>, message: impl Into<String>) -> Self {
        Self { code, device: device.into(), message: message.into() }
    }

    /// Weight, which is that of its code.
    #[must_use]
    pub const fn severity(&self) -> Severity {
        self.code.severity()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_distinct_kebab_case_and_lead_back_to_their_code() {
        for code in Code::ALL {
            assert_eq!(Code::from_name(code.name()), Some(code));
            assert!(code.name().bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-'), "{code}");
        }
    }

    #[test]
    fn every_code_has_one_line_of_meaning_and_one_of_help() {
        for code in Code::ALL {
            for line in [code.meaning(), code.help()] {
                assert!(line.ends_with('.') && !line.contains('\n'), "{code}: {line}");
            }
        }
    }

    #[test]
    fn the_page_describes_every_code_in_the_same_words() {
        let page = include_str!("../docs/diagnostics.md").replace("\r\n", "\n");
        let mut rest = &*page;
        for code in Code::ALL {
            let severity = match code.severity() {
                Severity::Note => "Note",
                Severity::Warning => "Warning",
            };
            let trust = if code.is_distrusted() { "; `--strict` makes the verdict inconclusive" } else { "" };
            let (meaning, help) = (code.meaning(), code.help());
            let section = format!("### {code}\n\n{severity}{trust}.\n\n{meaning}\n\n**What to do:** {help}\n");
            let start = rest.find(&section);
            let start =
                start.unwrap_or_else(|| panic!("docs/diagnostics.md lacks, in the order of the codes:\n{section}"));
            rest = &rest[start + section.len()..];
        }
        assert_eq!(
            page.matches("\n### ").count(),
            Code::ALL.len(),
            "docs/diagnostics.md describes codes that are gone"
        );
    }

    #[test]
    fn a_note_is_never_distrusted() {
        assert!(Code::ALL.into_iter().all(|code| !code.is_distrusted() || code.severity() == Severity::Warning));
    }
}

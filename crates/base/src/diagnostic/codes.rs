//! The codes of diagnostics, with everything that is said of each.
//!
//! A line of help is advice to a user of the command line: it is read on `docs/diagnostics.md` and in HTML reports,
//! beside diagnostics that the command line has made. It may name an option. To say the same without options here and
//! with options there would take a second table, and whoever adds a code would have to keep both.

use super::Severity;

/// The weight of a code. Only a warning can be distrusted.
#[derive(Clone, Copy)]
pub(super) enum Weight {
    Note,
    Warning,
    /// A warning by which `--strict` makes a verdict inconclusive.
    Distrusted,
}

impl Weight {
    pub(super) const fn severity(self) -> Severity {
        match self {
            Self::Note => Severity::Note,
            Self::Warning | Self::Distrusted => Severity::Warning,
        }
    }
}

/// Everything that is said of a code.
pub(super) struct Description {
    pub(super) name: &'static str,
    pub(super) weight: Weight,
    pub(super) meaning: &'static str,
    pub(super) help: &'static str,
}

/// Defines the codes, each by its variant, name, weight, one line of meaning and one of help.
macro_rules! codes {
    ($($variant:ident $name:literal $weight:ident $meaning:literal $help:literal;)*) => {
        /// Every kind of diagnostic. Names are stable; `docs/diagnostics.md` lists them.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum Code {
            $(#[doc = $meaning] $variant,)*
        }

        const COUNT: usize = [$($name),*].len();

        impl Code {
            /// All codes, in the order of the documentation.
            pub const ALL: [Self; COUNT] = [$(Self::$variant),*];

            pub(super) const fn description(self) -> Description {
                match self {
                    $(Self::$variant => {
                        Description { name: $name, weight: Weight::$weight, meaning: $meaning, help: $help }
                    })*
                }
            }
        }
    };
}

codes! {
    StateOnly "state-only" Warning
        "No allocation was recorded, only the state at the dump: peak and baseline are that state, and there is no timeline."
        "Call torch.cuda.memory._record_memory_history() before the steps to measure, and dump before switching it off.";

    EmptyRecording "empty-recording" Warning
        "Nothing was recorded and nothing is held."
        "Record in the process that uses the GPU, before the steps to measure, and dump before switching recording off.";

    AllocationsSkipped "allocations-skipped" Warning
        "The history has frees but no allocations, so the peak cannot be computed."
        "Record without skip_actions.";

    FreesSkipped "frees-skipped" Warning
        "The history has allocations but no frees, so the peak cannot be computed."
        "Record without skip_actions.";

    CompletionsSkipped "completions-skipped" Warning
        "The history has free_requested but no free_completed events: active and requested bytes fall at the request, and may be as high as the reserved ones."
        "Record without skip_actions.";

    RequestsSkipped "requests-skipped" Note
        "The history has free_completed but no free_requested events: allocated bytes fall at the completion."
        "Record without skip_actions.";

    SegmentsSkipped "segments-skipped" Distrusted
        "Segment events are missing: reserved bytes before the dump cannot be computed."
        "Record without skip_actions.";

    SegmentsUnknown "segments-unknown" Distrusted
        "Allocations lie outside every known segment: reserved bytes before the dump are not reliable."
        "Record without skip_actions and with a larger max_entries.";

    HistoryTruncated "history-truncated" Distrusted
        "The ring buffer was probably full: the oldest events are missing, and the peak is that of what is left."
        "Record with a larger max_entries, such as 1,000,000.";

    FreesWithoutAllocation "frees-without-allocation" Note
        "Blocks that were allocated before the recording were freed within it; their stacks are not known."
        "Record from the start of the process, and start again right before the steps to measure.";

    AllocatedBeforeRecording "allocated-before-recording" Note
        "Blocks that are older than the recording still carry the stack of their allocation, and are listed under it."
        "Nothing: their bytes have a name.";

    SizesNotRecovered "sizes-not-recovered" Distrusted
        "Recovered block sizes differ from those in the final state: allocated and active bytes are estimates."
        "Check whether allocator settings changed during the recording.";

    CheckpointMismatch "checkpoint-mismatch" Distrusted
        "A snapshot event within the history states other active bytes than the replay."
        "Events are missing or the file was edited: record again.";

    EndMismatch "end-mismatch" Distrusted
        "The history does not lead to the state at the dump."
        "Events are missing or the file was edited: record again.";

    BaselineMismatch "baseline-mismatch" Distrusted
        "The baseline computed from sums differs from the one computed by address."
        "Events are missing or the file was edited: record again.";

    EventsInconsistent "events-inconsistent" Distrusted
        "Events contradict each other: an allocation at an address in use, a double free, or a free of another size."
        "Events are missing or out of order: record again.";

    BlocksOverlap "blocks-overlap" Distrusted
        "Allocations reach into blocks that are in use."
        "Events are missing or the file was edited: record again.";

    SegmentSums "segment-sums" Distrusted
        "The blocks of a segment do not add up to the sums that the file states beside them."
        "The file was edited or written by another tool: record again.";

    TimeBackwards "time-backwards" Distrusted
        "Events are older than events before them; the order in the file is kept, and the peak may differ from the true one."
        "Record on a machine whose clock is not changed meanwhile.";

    SizesBounded "sizes-bounded" Note
        "Blocks that were allocated before the recording and freed within it may occupy more than the file tells; figures carry that bound."
        "Record from the start of the process, and start again right before the steps to measure.";

    FreeRequestedBefore "free-requested-before" Note
        "The completion of a free is recorded but its request is not; the block counts as allocated until then, and figures carry that bound."
        "Record from the start of the process, and start again right before the steps to measure.";

    FreesNotRecorded "frees-not-recorded" Distrusted
        "PyTorch 2.0 records neither frees of blocks that are older than the recording nor the end of such segments: baseline and peak are the least there was."
        "Record from the start of the process, or with PyTorch 2.1 or later.";

    SettingsAssumed "settings-assumed" Note
        "The file states no allocator settings (PyTorch before 2.3); the defaults are assumed, and sizes that others would change carry a bound."
        "Give the settings with --allocator-settings, as in PYTORCH_CUDA_ALLOC_CONF.";

    SettingsChanged "settings-changed" Distrusted
        "Block sizes contradict the allocator settings: they were different for a part of the history, or the file does not state them. Sizes that depend on them carry a bound."
        "Set PYTORCH_CUDA_ALLOC_CONF once, before the process starts; for PyTorch before 2.3 also give it with --allocator-settings.";

    PeakAmbiguous "peak-ambiguous" Note
        "At another moment than the peak as much may have been allocated, within the bounds of the sizes, so that either can be the true peak."
        "Compare stacks at both moments (--at event:N), or record from the start of the process.";

    PhasesCut "phases-cut" Warning
        "There are more phases than are examined; the rest are left out."
        "Annotate fewer or coarser parts of the program.";

    HistoryCoarse "history-coarse" Note
        "The history repeats too little to be kept whole in a saved profile, which has the stacks at a few moments only."
        "Keep the snapshot if other moments, steps or corresponding places matter.";

    PhasesIrregular "phases-irregular" Note
        "Annotated phases lack their beginning or end."
        "Record whole steps.";

    FragmentationGrows "fragmentation-grows" Warning
        "Reserved bytes grow faster than allocated bytes over the series or the steps."
        "Look for sizes that vary from step to step; expandable_segments:True often helps.";

    AllocatedGrows "allocated-grows" Distrusted
        "Allocated bytes grow from step to step, and no stack accounts for it."
        "Compare two snapshots with ptmem diff --at end to see what became larger.";

    FilesSkipped "files-skipped" Distrusted
        "Files of a series cannot be read and are left out."
        "Move files that are not snapshots out of the folder, and record damaged ones again.";

    FirstOfSeries "first-of-series" Distrusted
        "A series has one snapshot so far, so nothing can have grown."
        "Nothing to do: the next snapshot is compared with this one.";

    GrowthTooRecent "growth-too-recent" Distrusted
        "Allocated bytes rose in the last two snapshots of a series, too few to tell a leak from steps up."
        "Wait for the next snapshots, or find out what changed since the one that is named.";

    RunFacts "run-facts" Note
        "The recorder states which steps the snapshot holds, and the versions and the commit that it was made with."
        "Nothing; compare them with those of the other side.";

    ModulesNotRecorded "modules-not-recorded" Note
        "The recorder was not asked for modules, so the memory has no rows by module, purpose or shape."
        "Record with 'ptmem simulate --modules' or ptmem_gate.record(modules=True), then show --group-by module or purpose.";

    CourseGuessed "course-guessed" Warning
        "On simulated GPUs the program decided by conditions whose values nothing computes. They are taken to hold, so it may have gone another way than on a GPU."
        "Look at the line that is named: where memory depends on it, record on a GPU.";

    RunIncomplete "run-incomplete" Warning
        "The program failed while it was recorded, or made fewer steps than were to be recorded; limits are inconclusive."
        "Mend the program, or record steps that it makes.";

    CountersDisagree "counters-disagree" Distrusted
        "PyTorch's own counters differ from the figures that follow from the history."
        "Make sure that nothing in the program clears the history or turns it on or off; if nothing does, report a bug.";

    ImportedElsewhere "imported-elsewhere" Distrusted
        "A package of the repository was imported from outside the checkout, and its code differs."
        "Install the checkout that is recorded (pip install -e .), or put it first on PYTHONPATH.";

    DeviceMissing "device-missing" Warning
        "A device is in one snapshot only."
        "Record both sides with the same devices.";

    NoSuchMoment "no-such-moment" Warning
        "One side does not have the moment at which stacks are compared."
        "Choose a moment that both sides have.";

    PlacesNotAligned "places-not-aligned" Note
        "Stacks are compared at both peaks: it is not known where the before does what the after does at its peak."
        "Record both sides with stacks, from the same place on. If the peaks lie at different places, limit stack-highest.";

    RecordingsDiffer "recordings-differ" Distrusted
        "The two sides were recorded differently, so that peaks or stacks do not compare."
        "Record both sides with the same context= and stacks=, and both or none in anomaly mode.";

    LengthsDiffer "lengths-differ" Note
        "One side records at least twice as many allocations as the other."
        "Record the same steps on both sides.";

    PartMissing "part-missing" Warning
        "One side lacks the beginning or the end of what the other records: the ring buffer dropped it, or the recording began later or ended earlier. Peaks and stacks do not compare."
        "Record both sides from the same place to the same place, with a large enough max_entries=; --allow-partial compares anyway.";

    PartsNotChecked "parts-not-checked" Distrusted
        "It could not be checked whether one side lacks a part of what the other records: the order of allocations is missing, the sides have too few allocations in common, or one side is, as a whole, the beginning or the end of the other."
        "Save the profile again with ptmem profile, or give the snapshot itself; record both sides with stacks (context='all') and from the same place to the same place.";

    SettingsDiffer "settings-differ" Distrusted
        "The allocator settings of the two sides differ."
        "Record both sides with the same PYTORCH_CUDA_ALLOC_CONF.";

    PhaseOccurrencesDiffer "phase-occurrences-differ" Distrusted
        "A phase occurs more often on one side than on the other."
        "Record the same steps on both sides.";

    PhaseNotCompared "phase-not-compared" Warning
        "Only one side has this phase: the change adds or removes that part of the program, and the limit on all phases does not judge it."
        "Check that other limits cover it; a limit on the phase by its name is inconclusive where a side lacks it.";

    VersionsDiffer "versions-differ" Note
        "The two sides ran with different versions of Python, PyTorch or packages."
        "Nothing, if the upgrade is what is compared; else install the same versions.";

    InputsDiffer "inputs-differ" Warning
        "The inputs of the two sides differ in size, which alone changes the figures."
        "Record batches of one size, or seed the program (torch.manual_seed, and the generator of its data loader). 'ptmem doctor --again' tells what differs between two recordings of one program.";

    SameCode "same-code" Warning
        "Both sides ran the same code although their commits differ; limits on growth are inconclusive."
        "Install each checkout before it is recorded (pip install -e .), or put it first on PYTHONPATH.";

    SameInput "same-input" Warning
        "Both sides are the same file."
        "Check the paths of before and after.";

    WithinError "within-error" Distrusted
        "The error bound of a gated figure reaches across its limit: it could pass or fail."
        "Record from the start of the process, and start again right before the steps to measure, so that figures are exact.";

    AcceptedGrowth "accepted-growth" Note
        "A check passes only because its growth was accepted in the configuration."
        "Nothing, until the acceptance expires.";

    LimitsLoosened "limits-loosened" Warning
        "The configuration allows more than that of the base: the change loosens the limits that it is judged by."
        "Review the new limits like any other part of the change; they already apply to this comparison.";

    OtherBefore "other-before" Warning
        "The before is not a recording of the base, which cannot be recorded, but of an older commit."
        "Read the growth as that since the older commit; recording the base again ends this.";

    UnusedRule "unused-rule" Warning
        "A rule of the configuration matches nothing in any comparison."
        "Correct its pattern, or remove it.";

    Improved "improved" Note
        "The after needs less memory than the stored before."
        "Update the stored profile, so that the improvement is kept.";

    UnknownDiagnostic "unknown-diagnostic" Distrusted
        "A saved profile holds a diagnostic that this version does not know."
        "Use the version of the tool that wrote the profile, or a newer one.";
}

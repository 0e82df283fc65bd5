//! The report at the end of a simulated run.

use std::io::{self, Write};

use serde::Serialize;

use crate::arguments::StepRange;
use crate::ledger::{AnswerKind, Call, CountedFact, Ledger};
use crate::settings::Settings;
use ptmem_base::json_writer::{self as json, list, object};

/// Version of the JSON report.
const SCHEMA: &str = "ptmem.simulate/1";

/// A run that has ended.
#[derive(Debug)]
pub(crate) struct EndedRun<'a> {
    /// The simulated cards.
    pub settings: &'a Settings,
    /// The rank that ran alone, if it did.
    pub rank: Option<LoneRank>,
    /// The command and its arguments.
    pub command: Vec<String>,
    /// Its exit code.
    pub exit_code: u8,
    /// Counts of the library.
    pub ledger: Ledger,
    /// Lines of the program in which something first followed from values that are not known, by [`Followed`].
    pub followed: [Option<String>; 3],
    /// Snapshots that were written for `--record`.
    pub recorded: Vec<String>,
    /// The steps that `--record` names.
    pub steps: Option<StepRange>,
    /// Whether the program was ended after them.
    pub was_stopped: bool,
    /// Reasons for which the recording is not as requested.
    pub problems: Vec<String>,
    /// What only ranks knew that did not run.
    pub peer_values: Vec<PeerValue>,
}

/// A rank of a job that ran without the others.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LoneRank {
    /// Its number.
    pub number: u32,
    /// Number of ranks of the job.
    pub world_size: u32,
}

/// A value that only another rank knows: this rank's own was taken instead.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct PeerValue {
    /// Kind of message, sender, and the function and line that received it.
    pub place: String,
    /// Number of times.
    pub times: u64,
}

/// Something that a program does by values that are not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Followed {
    /// A tensor has the size that they say.
    Sizes,
    /// A branch is taken.
    Conditions,
    /// A whole number is read, which may be a size, an index or a count.
    Numbers,
}

impl Followed {
    /// All of them, in the order of their numbers in the hook for Python.
    pub(crate) const ALL: [Self; 3] = [Self::Sizes, Self::Conditions, Self::Numbers];

    /// The counter of it.
    #[must_use]
    pub(crate) fn fact(self) -> CountedFact {
        match self {
            Self::Sizes => CountedFact::Sizes,
            Self::Conditions => CountedFact::Conditions,
            Self::Numbers => CountedFact::Numbers,
        }
    }

    /// One of them in words, and several.
    #[must_use]
    pub(crate) fn words(self) -> [&'static str; 2] {
        match self {
            Self::Sizes => ["size", "sizes"],
            Self::Conditions => ["condition", "conditions"],
            Self::Numbers => ["whole number", "whole numbers"],
        }
    }
}

object! {
    Report<'a>(outcome: &'a EndedRun<'a>, ledger: &'a Ledger) {
        schema: SCHEMA,
        tool: Tool(),
        gpu: Gpu(outcome.settings),
        command: outcome.command,
        rank: outcome.rank.map(|rank| rank.number),
        world_size: outcome.rank.map(|rank| rank.world_size),
        exit_code: outcome.exit_code,
        recorded: outcome.recorded,
        peer_values: outcome.peer_values,
        processes: ledger.fact(CountedFact::Processes),
        kernels: ledger.fact(CountedFact::Launches),
        reads: ledger.fact(CountedFact::Reads),
        reads_of_unset_values: ledger.fact(CountedFact::UnsetReads),
        reads_of_large_values: ledger.fact(CountedFact::LargeReads),
        reads_of_doubtful_values: ledger.fact(CountedFact::DoubtfulReads),
        followed_from_unknown_values: list(Followed::ALL.iter().filter_map(|&kind| following(outcome, kind))),
        allocations_that_did_not_fit: ledger.fact(CountedFact::OutOfMemory),
        highest_use: ledger.fact(CountedFact::HighestUse),
        cudnn_plans: ledger.fact(CountedFact::CudnnPlans),
        collectives: ledger.fact(CountedFact::Collectives),
        elapsed_times: ledger.fact(CountedFact::ElapsedTimes),
        graph_launches: ledger.fact(CountedFact::GraphLaunches),
        not_simulated: list(ledger.unanswered().map(Function)),
        only_answered: list(ledger.calls().iter().filter(|call| matches!(call.kind, AnswerKind::Done | AnswerKind::Makes)).map(Function)),
    }
}

object! {
    Tool() {
        name: "ptmem",
        version: env!("CARGO_PKG_VERSION"),
    }
}

object! {
    Gpu<'a>(settings: &'a Settings) {
        name: settings.card.name,
        compute_capability: settings.card.capability_text(),
        processors: settings.card.processors,
        memory: settings.memory,
        count: settings.gpus,
        fill: settings.fill,
        keep: settings.keep,
        events: settings.events.to_string(),
        addresses: settings.addresses.to_string(),
        unsupported: settings.unsupported.to_string(),
        cudnn_workspace: settings.cudnn_workspace,
    }
}

object! {
    Following<'a>(what: &'a str, count: u64, first: Option<&'a str>) {
        what,
        count,
        first,
    }
}

fn following<'a>(outcome: &'a EndedRun<'_>, kind: Followed) -> Option<Following<'a>> {
    let count = outcome.ledger.fact(kind.fact());
    let first = outcome.followed[kind as usize].as_deref();
    (count > 0).then_some(Following(kind.words()[1], count, first))
}

object! {
    Function<'a>(call: &'a Call) {
        name: call.name,
        calls: call.calls,
    }
}

/// Writes a run for machines, with the calls that were only answered.
///
/// # Errors
/// If it cannot be written to `out`.
pub(crate) fn write_json(outcome: &EndedRun<'_>, out: &mut dyn Write) -> io::Result<()> {
    json::write(&Report(outcome, &outcome.ledger), out)
}

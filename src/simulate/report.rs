//! The report at the end of a simulated run.

use serde::Serialize;

use super::{Call, Fact, Followed, Kind, Ledger, Settings, Unsupported};

/// Version of the JSON report.
const SCHEMA: &str = "ptmem.simulate/1";

/// A run that has ended.
#[derive(Debug)]
pub struct Outcome<'a> {
    /// The simulated cards.
    pub settings: &'a Settings,
    /// The rank that ran alone, if it did.
    pub rank: Option<Rank>,
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
    /// What only ranks knew that did not run.
    pub peer_values: Vec<PeerValue>,
}

/// A rank of a job that ran without the others.
#[derive(Debug, Clone, Copy)]
pub struct Rank {
    /// Its number.
    pub number: u32,
    /// Number of ranks of the job.
    pub world_size: u32,
}

/// A value that only another rank knows: this rank's own was taken instead.
#[derive(Debug, Clone, Serialize)]
pub struct PeerValue {
    /// Kind of message, sender, and the function and line that received it.
    pub place: String,
    /// Number of times.
    pub times: u64,
}

#[derive(Serialize)]
struct Report<'a> {
    schema: &'static str,
    tool: Tool,
    gpu: Gpu<'a>,
    command: &'a [String],
    rank: Option<u32>,
    world_size: Option<u32>,
    exit_code: u8,
    recorded: &'a [String],
    peer_values: &'a [PeerValue],
    processes: u64,
    kernels: u64,
    reads: u64,
    reads_of_unset_values: u64,
    reads_of_large_values: u64,
    reads_of_doubtful_values: u64,
    followed_from_unknown_values: Vec<Following<'a>>,
    allocations_that_did_not_fit: u64,
    highest_use: u64,
    cudnn_plans: u64,
    collectives: u64,
    elapsed_times: u64,
    graph_launches: u64,
    not_simulated: Vec<Function>,
    only_answered: Vec<Function>,
}

#[derive(Serialize)]
struct Tool {
    name: &'static str,
    version: &'static str,
}

#[derive(Serialize)]
struct Gpu<'a> {
    name: &'a str,
    compute_capability: String,
    processors: u32,
    memory: u64,
    count: u32,
    fill: u8,
    keep: u32,
    events: &'static str,
    addresses: &'static str,
    unsupported: &'static str,
    cudnn_workspace: u64,
}

#[derive(Serialize)]
struct Following<'a> {
    what: &'static str,
    count: u64,
    first: Option<&'a str>,
}

fn following<'a>(outcome: &'a Outcome<'_>, kind: Followed) -> Option<Following<'a>> {
    let count = outcome.ledger.fact(kind.fact());
    let first = outcome.followed[kind as usize].as_deref();
    (count > 0).then_some(Following { what: kind.words(true), count, first })
}

#[derive(Serialize)]
struct Function {
    name: &'static str,
    calls: u64,
}

impl From<&Call> for Function {
    fn from(call: &Call) -> Self {
        Self { name: call.name, calls: call.calls }
    }
}

/// A run for machines, with the calls that were only answered.
///
/// # Errors
///
/// None in practice: the report has no map with keys that are not text.
pub fn json(outcome: &Outcome<'_>) -> Result<String, serde_json::Error> {
    let Settings { card, gpus, memory, fill, keep, events, addresses, unsupported, cudnn_workspace } = outcome.settings;
    let unsupported: Unsupported = *unsupported;
    let ledger = &outcome.ledger;
    let answered = ledger.calls().iter().filter(|call| call.kind != Kind::Asks);
    let report = Report {
        schema: SCHEMA,
        tool: Tool { name: "ptmem", version: env!("CARGO_PKG_VERSION") },
        gpu: Gpu {
            name: card.name,
            compute_capability: card.capability_text(),
            processors: card.processors,
            memory: *memory,
            count: *gpus,
            fill: *fill,
            keep: *keep,
            events: events.name(),
            addresses: addresses.name(),
            unsupported: unsupported.name(),
            cudnn_workspace: *cudnn_workspace,
        },
        command: &outcome.command,
        rank: outcome.rank.map(|rank| rank.number),
        world_size: outcome.rank.map(|rank| rank.world_size),
        exit_code: outcome.exit_code,
        recorded: &outcome.recorded,
        peer_values: &outcome.peer_values,
        processes: ledger.fact(Fact::Processes),
        kernels: ledger.fact(Fact::Launches),
        reads: ledger.fact(Fact::Reads),
        reads_of_unset_values: ledger.fact(Fact::UnsetReads),
        reads_of_large_values: ledger.fact(Fact::LargeReads),
        reads_of_doubtful_values: ledger.fact(Fact::DoubtfulReads),
        followed_from_unknown_values: Followed::ALL.iter().filter_map(|&kind| following(outcome, kind)).collect(),
        allocations_that_did_not_fit: ledger.fact(Fact::OutOfMemory),
        highest_use: ledger.fact(Fact::HighestUse),
        cudnn_plans: ledger.fact(Fact::CudnnPlans),
        collectives: ledger.fact(Fact::Collectives),
        elapsed_times: ledger.fact(Fact::ElapsedTimes),
        graph_launches: ledger.fact(Fact::GraphLaunches),
        not_simulated: ledger.unanswered().map(Function::from).collect(),
        only_answered: answered.map(Function::from).collect(),
    };
    serde_json::to_string_pretty(&report).map(|text| crate::text::printable_json(text) + "\n")
}

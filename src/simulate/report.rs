//! The report at the end of a simulated run.

use serde::Serialize;

use super::{Call, Fact, Kind, Ledger, Settings, Unsupported};
use crate::units::Size;

/// Version of the JSON report.
const SCHEMA: &str = "ptmem.simulate/1";

/// A run that has ended.
#[derive(Debug)]
pub struct Outcome<'a> {
    /// The simulated cards.
    pub settings: &'a Settings,
    /// The command and its arguments.
    pub command: Vec<String>,
    /// Its exit code.
    pub exit_code: u8,
    /// Counts of the library.
    pub ledger: Ledger,
    /// Snapshots that were written for `--record`.
    pub recorded: Vec<String>,
}

/// One line for people: that nothing was computed, what was simulated, and what may differ from a real run.
#[must_use]
pub fn summary(outcome: &Outcome<'_>) -> String {
    let Settings { card, gpus, memory, fill, .. } = outcome.settings;
    let plural = if *gpus == 1 { "" } else { "s" };
    let memory = Size(*memory);
    let ledger = &outcome.ledger;
    if ledger.fact(Fact::Processes) == 0 {
        return "no process loaded the simulated GPU: the command is a static program, or one for another C library"
            .to_owned();
    }
    let mut parts = vec![format!("nothing was computed on {gpus} simulated GPU{plural} ({card}, {memory})")];
    if ledger.fact(Fact::DeviceCounts) == 0 {
        parts.push(
            "no process asked for a CUDA device: is this a PyTorch with CUDA (pip install torch on Linux)?".to_owned(),
        );
    }
    if ledger.fact(Fact::UnsetReads) > 0 {
        let (unset, reads) = (ledger.fact(Fact::UnsetReads), ledger.fact(Fact::Reads));
        parts.push(format!("{unset} of {reads} reads were of values that no copy had set: they read as {fill} (losses, norms, conditions)"));
    }
    if ledger.fact(Fact::LargeReads) > 0 {
        parts.push(format!("{} reads of values over 1 MiB read as {fill}", ledger.fact(Fact::LargeReads)));
    }
    if ledger.fact(Fact::CudnnPlans) > 0 {
        let workspace = Size(outcome.settings.cudnn_workspace);
        parts.push(format!(
            "{} cuDNN plans had a workspace of {workspace} (--cudnn-workspace)",
            ledger.fact(Fact::CudnnPlans)
        ));
    }
    if ledger.fact(Fact::ElapsedTimes) > 0 {
        parts.push(format!(
            "{} elapsed times were all the same: autotuning took its first candidates",
            ledger.fact(Fact::ElapsedTimes)
        ));
    }
    if ledger.fact(Fact::OutOfMemory) > 0 {
        parts.push(format!("{} allocations did not fit", ledger.fact(Fact::OutOfMemory)));
    }
    let unanswered: Vec<&str> = ledger.unanswered().map(|call| call.name).collect();
    if !unanswered.is_empty() {
        parts.push(format!("not simulated: {}", unanswered.join(", ")));
    }
    parts.join("; ")
}

#[derive(Serialize)]
struct Report<'a> {
    schema: &'static str,
    tool: Tool,
    gpu: Gpu<'a>,
    command: &'a [String],
    exit_code: u8,
    recorded: &'a [String],
    processes: u64,
    kernels: u64,
    reads: u64,
    reads_of_unset_values: u64,
    reads_of_large_values: u64,
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
    events: &'static str,
    addresses: &'static str,
    unsupported: &'static str,
    cudnn_workspace: u64,
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

/// The same for machines, with the calls that were only answered.
///
/// # Errors
///
/// None in practice: the report has no map with keys that are not text.
pub fn json(outcome: &Outcome<'_>) -> Result<String, serde_json::Error> {
    let Settings { card, gpus, memory, fill, events, addresses, unsupported, cudnn_workspace } = outcome.settings;
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
            events: events.name(),
            addresses: addresses.name(),
            unsupported: unsupported.name(),
            cudnn_workspace: *cudnn_workspace,
        },
        command: &outcome.command,
        exit_code: outcome.exit_code,
        recorded: &outcome.recorded,
        processes: ledger.fact(Fact::Processes),
        kernels: ledger.fact(Fact::Launches),
        reads: ledger.fact(Fact::Reads),
        reads_of_unset_values: ledger.fact(Fact::UnsetReads),
        reads_of_large_values: ledger.fact(Fact::LargeReads),
        allocations_that_did_not_fit: ledger.fact(Fact::OutOfMemory),
        highest_use: ledger.fact(Fact::HighestUse),
        cudnn_plans: ledger.fact(Fact::CudnnPlans),
        collectives: ledger.fact(Fact::Collectives),
        elapsed_times: ledger.fact(Fact::ElapsedTimes),
        graph_launches: ledger.fact(Fact::GraphLaunches),
        not_simulated: ledger.unanswered().map(Function::from).collect(),
        only_answered: answered.map(Function::from).collect(),
    };
    serde_json::to_string_pretty(&report).map(|text| text + "\n")
}

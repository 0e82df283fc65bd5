//! `ptmem.repeat/1`: the figures of all runs, and the limits that would have been calm.

use ptmem::report::json::Tool;
use ptmem::report::printable;
use ptmem::verdict::GrowthLimit;
use ptmem_base::json_writer::{list, object};

use super::spread::Spread;
use super::{GateRuns, MemberRuns};

object! {
    /// The report of all gates.
    pub(super) RepeatReport<'a>(runs: &'a [GateRuns]) {
        schema: "ptmem.repeat/1",
        tool: Tool(),
        gates: list(runs.iter().map(GateReport)),
    }
}

object! {
    GateReport<'a>(runs: &'a GateRuns) {
        name: runs.name,
        runs: runs.count,
        simulated: runs.is_simulated,
        devices: list(runs.members.iter().map(|member| MemberReport(member, runs))),
        proposed: runs.proposals(),
    }
}

object! {
    MemberReport<'a>(member: &'a MemberRuns, runs: &'a GateRuns) {
        name: printable(&member.name),
        metrics: list(member.spreads.iter().map(|spread| SpreadReport(spread, &runs.limits))),
        unknown: list(member.unknown.iter().map(|metric| metric.name())),
    }
}

object! {
    SpreadReport<'a>(spread: &'a Spread, limits: &'a [GrowthLimit]) {
        metric: spread.metric.name(),
        // One for each run.
        bytes: spread.bytes,
        min: spread.min(),
        median: spread.median(),
        max: spread.max(),
        spread: spread.width(),
        noise: spread.metric.noise(),
        limits: list(limits.iter().filter(|limit| spread.is_limited_by(limit)).map(|limit| LimitReport(spread, limit))),
    }
}

object! {
    LimitReport<'a>(spread: &'a Spread, limit: &'a GrowthLimit) {
        limit: limit.limit.to_string(),
        level: limit.level.name(),
        exceeded: spread.exceeding(&limit.limit),
        pairs: spread.pairs(),
    }
}

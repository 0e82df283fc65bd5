//! `ptmem.ranks/1`: one snapshot of each rank of a job.

use serde::Serialize;

use super::profile::ProfileReport;
use super::shared::{CheckReport, RankNumbers, SidedDiagnostic, TOOL, Tool, Values};
use super::with_stacks;
use crate::profile::StackTotal;
use crate::report::Options;
use crate::report::ranks::{self, Others, Shown};
use crate::verdict::{Reading, Readings, Verdict};

/// The report of the snapshots of a job.
#[derive(Debug, Serialize)]
pub(super) struct RanksReport<'a> {
    schema: &'static str,
    tool: Tool,
    path: Option<&'a str>,
    group_by: String,
    at: String,
    verdict: Option<&'static str>,
    exit_code: Option<u8>,
    imbalance: Option<u64>,
    median: Option<String>,
    worst: Option<String>,
    table: Vec<LineReport<'a>>,
    stacks: Vec<RowReport>,
    checks: Vec<CheckReport<'a>>,
    diagnostics: Vec<SidedDiagnostic<'a>>,
    ranks: Vec<ReadingReport<'a>>,
}

/// One device of one rank.
#[derive(Debug, Serialize)]
struct LineReport<'a> {
    name: String,
    rank: Option<u64>,
    node: Option<u64>,
    device: Option<u32>,
    verdict: Option<&'static str>,
    #[serde(flatten)]
    figures: Values<'a>,
}

/// A stack of the first rank, and the bytes that it holds on the others.
#[derive(Debug, Serialize)]
struct RowReport {
    label: String,
    key: String,
    bytes: u64,
    median: Option<i128>,
    ranks: usize,
}

#[derive(Debug, Serialize)]
struct ReadingReport<'a> {
    name: &'a str,
    rank: Option<u64>,
    node: Option<u64>,
    profile: ProfileReport<'a>,
}

impl<'a> RanksReport<'a> {
    pub(super) fn new(of: &'a Readings, options: &Options) -> Self {
        let lines = ranks::shown(of);
        let others = Others::held(&lines);
        let first = lines.first();
        let stacks = first.and_then(|line| line.device).map(|device| device.listed(options.top, 1)).unwrap_or_default();
        let medians = ranks::medians_of_stacks(&others, &stacks);
        let rows = stacks.iter().zip(medians).map(|(total, median)| RowReport::new(total, median, &others));
        let asked = of.readings.first().map(|reading| &reading.profile.options);
        let diagnostics = ranks::diagnostics_of_readings(of);
        Self {
            schema: "ptmem.ranks/1",
            tool: TOOL,
            path: of.ranks.paths.after.as_deref(),
            group_by: asked.map(|asked| asked.group_by.to_string()).unwrap_or_default(),
            at: asked.map(|asked| asked.at.to_string()).unwrap_or_default(),
            verdict: of.verdict().map(Verdict::name),
            exit_code: of.verdict().map(Verdict::exit_code),
            imbalance: of.ranks.imbalance.after,
            median: others.median.map(str::to_owned),
            worst: first.map(|line| line.name.clone()),
            table: lines.iter().map(LineReport::new).collect(),
            stacks: rows.collect(),
            checks: of.ranks.judgement.checks.iter().map(CheckReport::new).collect(),
            diagnostics: diagnostics.iter().map(|(side, found)| SidedDiagnostic::owned(*side, found)).collect(),
            ranks: of.readings.iter().map(|reading| ReadingReport::new(reading, &lines, options)).collect(),
        }
    }
}

impl<'a> LineReport<'a> {
    fn new(line: &Shown<'a>) -> Self {
        let RankNumbers { rank, node } = RankNumbers::of(&line.of.member);
        Self {
            name: line.name.clone(),
            rank,
            node,
            device: line.device.map(|device| device.device),
            verdict: line.of.judgement.as_ref().map(|judgement| judgement.verdict.name()),
            figures: Values(line.device),
        }
    }
}

impl RowReport {
    fn new(total: &StackTotal, median: Option<i128>, others: &Others<'_>) -> Self {
        Self {
            label: total.label.clone(),
            key: total.key.0.clone(),
            bytes: total.at.bytes,
            median,
            ranks: others.same(&total.key.0, i128::from(total.at.bytes)),
        }
    }
}

impl<'a> ReadingReport<'a> {
    fn new(reading: &'a Reading, lines: &[Shown<'_>], options: &Options) -> Self {
        let RankNumbers { rank, node } = RankNumbers::of(&reading.member);
        let has_stacks = with_stacks(lines, options).iter().any(|line| std::ptr::eq(line.of, reading));
        let profile = ProfileReport::new(&reading.profile, reading.judgement.as_ref(), has_stacks, options);
        Self { name: &reading.member.label, rank, node, profile }
    }
}

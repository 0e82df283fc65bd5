//! `ptmem.suite/1`: several comparisons, and what holds for the ranks of a job together.

use serde::Serialize;

use super::diff::DiffReport;
use super::shared::{ChangeReport, CheckReport, RankNumbers, SidedDiagnostic, TOOL, Tool};
use super::with_stacks;
use crate::diff::{Metric, Row};
use crate::report::Options;
use crate::report::known;
use crate::report::ranks::{self, Compared, Others};
use crate::verdict::{Comparison, Gate, Missing, Ranks};

/// The report of several comparisons.
#[derive(Debug, Serialize)]
pub(super) struct SuiteReport<'a> {
    schema: &'static str,
    tool: Tool,
    verdict: &'static str,
    exit_code: u8,
    comparisons: Vec<DiffReport<'a>>,
    ranks: Vec<JobReport<'a>>,
}

/// The ranks of a job together.
#[derive(Debug, Serialize)]
struct JobReport<'a> {
    name: Option<&'a str>,
    before: Option<&'a str>,
    after: Option<&'a str>,
    verdict: &'static str,
    missing: Vec<MissingReport<'a>>,
    imbalance: ChangeReport,
    median: Option<String>,
    worst: Option<String>,
    table: Vec<LineReport<'a>>,
    stacks: Vec<RowReport>,
    checks: Vec<CheckReport<'a>>,
    diagnostics: Vec<SidedDiagnostic<'a>>,
}

#[derive(Debug, Serialize)]
struct MissingReport<'a> {
    name: &'a str,
    rank: Option<u64>,
    node: Option<u64>,
    side: &'static str,
    path: &'a str,
}

/// One device of one rank.
#[derive(Debug, Serialize)]
struct LineReport<'a> {
    name: String,
    comparison: Option<&'a str>,
    rank: Option<u64>,
    node: Option<u64>,
    before_device: Option<u32>,
    after_device: Option<u32>,
    verdict: &'static str,
    peak: ChangeReport,
}

/// A stack of the worst rank, and its change on the others.
#[derive(Debug, Serialize)]
struct RowReport {
    label: String,
    key: String,
    delta: i128,
    median: Option<i128>,
    ranks: usize,
}

impl<'a> SuiteReport<'a> {
    pub(super) fn new(gate: &'a Gate, options: &Options) -> Self {
        let jobs: Vec<_> = gate.ranks.iter().map(|ranks| ranks::compared(gate, ranks)).collect();
        let comparisons = gate.comparisons.iter().map(|comparison| {
            let has_stacks = comparison.member.is_none() || is_listed(comparison, &jobs, options);
            DiffReport::new(comparison, has_stacks, options)
        });
        Self {
            schema: "ptmem.suite/1",
            tool: TOOL,
            verdict: gate.verdict().name(),
            exit_code: gate.verdict().exit_code(),
            comparisons: comparisons.collect(),
            ranks: gate.ranks.iter().zip(&jobs).map(|(of, lines)| JobReport::new(gate, of, lines, options)).collect(),
        }
    }
}

/// Whether the comparison of a rank is one of those whose stacks are in the report.
fn is_listed(comparison: &Comparison, jobs: &[Vec<Compared<'_>>], options: &Options) -> bool {
    let mut listed = jobs.iter().flat_map(|lines| with_stacks(lines, options));
    listed.any(|line| std::ptr::eq(line.of, comparison))
}

impl<'a> JobReport<'a> {
    fn new(gate: &'a Gate, of: &'a Ranks, lines: &[Compared<'a>], options: &Options) -> Self {
        let others = Others::changes(lines);
        let rows = lines.first().map(|line| line.rows(options)).unwrap_or_default();
        let medians = ranks::medians_of_rows(&others, &rows);
        let stacks = rows.iter().zip(medians).map(|(row, median)| RowReport::new(row, median, &others));
        let diagnostics = ranks::diagnostics_of_gate(gate, of);
        Self {
            name: of.name.as_deref(),
            before: of.paths.before.as_deref(),
            after: of.paths.after.as_deref(),
            verdict: gate.headline_of_job(of).verdict.name(),
            missing: of.missing.iter().map(MissingReport::new).collect(),
            imbalance: ChangeReport::new(of.imbalance),
            median: others.median.map(str::to_owned),
            worst: lines.first().map(|line| line.name.clone()),
            table: lines.iter().map(LineReport::new).collect(),
            stacks: stacks.collect(),
            checks: of.judgement.checks.iter().map(CheckReport::new).collect(),
            diagnostics: diagnostics.iter().map(|(side, found)| SidedDiagnostic::owned(*side, found)).collect(),
        }
    }
}

impl<'a> MissingReport<'a> {
    fn new(missing: &'a Missing) -> Self {
        let RankNumbers { rank, node } = RankNumbers::of(&missing.member);
        Self { name: &missing.member.label, rank, node, side: missing.side.name(), path: &missing.path }
    }
}

impl<'a> LineReport<'a> {
    fn new(line: &Compared<'a>) -> Self {
        let RankNumbers { rank, node } = line.of.member.as_ref().map(RankNumbers::of).unwrap_or_default();
        let peak = line.device.map(|device| known::change(Metric::Peak, device, &line.of.diff.profiles));
        Self {
            name: line.name.clone(),
            comparison: line.of.name.as_deref(),
            rank,
            node,
            before_device: line.device.and_then(|device| device.device.before),
            after_device: line.device.and_then(|device| device.device.after),
            verdict: line.of.judgement.verdict.name(),
            peak: ChangeReport::new(peak.unwrap_or_default()),
        }
    }
}

impl RowReport {
    fn new(row: &Row, median: Option<i128>, others: &Others<'_>) -> Self {
        Self {
            label: row.label.clone(),
            key: row.key.clone(),
            delta: row.delta(),
            median,
            ranks: others.same(&row.key, row.delta()),
        }
    }
}

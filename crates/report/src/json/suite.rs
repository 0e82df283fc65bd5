//! `ptmem.suite/1`: several comparisons, and what holds for the ranks of a job together.

use ptmem_compare::diff::{Row, RowKind};
use ptmem_judge::verdict::{Comparison, Gate, Headline, Job, MissingRank};

use super::diff::DiffReport;
use super::has_stacks;
use super::shared::{ChangeReport, CheckReport, PlaceInJob, SidedDiagnostic, Tool};
use crate::RenderOptions;
use crate::known;
use crate::ranks::{self, Compared, Others};
use ptmem_base::json_writer::{list, object};

object! {
    /// The report of several comparisons.
    pub(super) SuiteReport<'a>(gate: &'a Gate, jobs: &'a [JobTable<'a>], options: &'a RenderOptions) {
        schema: "ptmem.suite/1",
        tool: Tool(),
        verdict: gate.verdict().name(),
        exit_code: gate.verdict().exit_code(),
        comparisons: list(gate.leaves().map(|of| DiffReport(of, is_full(of, jobs, options), options))),
        ranks: list(jobs.iter().map(|job| JobReport(job, options))),
    }
}

/// A job with the remarks on all of its ranks.
pub(super) struct JobTable<'a> {
    pub(super) of: &'a Job<Comparison>,
    pub(super) lines: &'a [Compared<'a>],
    pub(super) others: Others<'a>,
}

/// Whether the stacks of a comparison are in the report.
fn is_full(comparison: &Comparison, jobs: &[JobTable<'_>], options: &RenderOptions) -> bool {
    comparison.member.is_none() || jobs.iter().any(|job| has_stacks(comparison, job.lines, options))
}

object! {
    JobReport<'a>(job: &'a JobTable<'a>, options: &'a RenderOptions) {
        name: job.of.ranks.name,
        before: job.of.ranks.paths.before,
        after: job.of.ranks.paths.after,
        verdict: job.of.headline().map(|Headline { verdict, .. }| verdict.name()),
        missing: list(job.of.ranks.missing.iter().map(MissingReport)),
        imbalance: ChangeReport(job.of.ranks.imbalance),
        median: job.others.median,
        worst: job.lines.first().map(|line| &line.name),
        table: list(job.lines.iter().map(LineReport)),
        stacks: list(rows(job, options).iter().map(|row| RowReport(row, &job.others))),
        checks: list(job.of.ranks.judgement.checks.iter().map(CheckReport)),
        diagnostics: list(ranks::diagnostics_of_job(job.of).iter().map(|(side, of)| SidedDiagnostic(*side, of))),
    }
}

/// The rows of the worst rank.
fn rows(job: &JobTable<'_>, options: &RenderOptions) -> Vec<Row> {
    job.lines.first().map(|line| line.rows(options)).unwrap_or_default()
}

object! {
    /// A stack of the worst rank, and its change on the others.
    RowReport<'a>(row: &'a Row, others: &'a Others<'a>) {
        label: row.label,
        key: row.key,
        delta: row.delta(),
        median: others.of_median(&row.key).filter(|_| !matches!(row.kind, RowKind::Others(_))),
        ranks: others.same(&row.key, row.delta()),
    }
}

object! {
    MissingReport<'a>(missing: &'a MissingRank) {
        name: missing.member.label,
        ..PlaceInJob(Some(&missing.member)),
        side: missing.side.name(),
        path: missing.path,
    }
}

object! {
    /// One device of one rank.
    LineReport<'a>(line: &'a Compared<'a>) {
        name: line.name,
        comparison: line.of.name,
        ..PlaceInJob(line.of.member.as_ref()),
        before_device: line.device.and_then(|device| device.device.before),
        after_device: line.device.and_then(|device| device.device.after),
        verdict: line.of.judgement.verdict.name(),
        peak: ChangeReport(known::peak(line.of, line.device)),
    }
}

//! `ptmem.ranks/1`: one snapshot of each rank of a job.

use super::profile::ProfileReport;
use super::shared::{CheckReport, PlaceInJob, SidedDiagnostic, Tool, Values};
use super::with_stacks;
use crate::Options;
use crate::json_writer::{list, object};
use crate::profile::StackTotal;
use crate::ranks::{self, Others, Shown};
use crate::verdict::{Reading, Readings, Verdict};

object! {
    /// The report of the snapshots of a job.
    pub(super) RanksReport<'a>(of: &'a Readings, lines: &'a [Shown<'a>], others: &'a Others<'a>, options: &'a Options) {
        schema: "ptmem.ranks/1",
        tool: Tool(),
        path: of.ranks.paths.after,
        group_by: of.readings.first().map(|reading| reading.profile.options.group_by.to_string()).unwrap_or_default(),
        at: of.readings.first().map(|reading| reading.profile.options.at.to_string()).unwrap_or_default(),
        verdict: of.verdict().map(Verdict::name),
        exit_code: of.verdict().map(Verdict::exit_code),
        imbalance: of.ranks.imbalance.after,
        median: others.median,
        worst: lines.first().map(|line| &line.name),
        table: list(lines.iter().map(LineReport)),
        stacks: list(stacks(lines, others, options).iter().map(|(total, median)| RowReport(total, *median, others))),
        checks: list(of.ranks.judgement.checks.iter().map(CheckReport)),
        diagnostics: list(ranks::diagnostics_of_readings(of).iter().map(|(side, found)| SidedDiagnostic(*side, found))),
        ranks: list(of.readings.iter().map(|reading| ReadingReport(reading, lines, options))),
    }
}

object! {
    /// One device of one rank.
    LineReport<'a>(line: &'a Shown<'a>) {
        name: line.name,
        ..PlaceInJob(Some(&line.of.member)),
        device: line.device.map(|device| device.device),
        verdict: line.of.judgement.as_ref().map(|judgement| judgement.verdict.name()),
        ..Values(line.device),
    }
}

/// The stacks of the first rank, each with its bytes on the rank in the middle.
fn stacks(lines: &[Shown<'_>], others: &Others<'_>, options: &Options) -> Vec<(StackTotal, Option<i128>)> {
    let device = lines.first().and_then(|line| line.device);
    let stacks = device.map(|device| device.listed(options.top, 1)).unwrap_or_default();
    let medians = ranks::medians_of_stacks(others, &stacks);
    stacks.into_iter().zip(medians).collect()
}

object! {
    /// A stack of the first rank, and the bytes that it holds on the others.
    RowReport<'a>(total: &'a StackTotal, median: Option<i128>, others: &'a Others<'a>) {
        label: total.label,
        key: total.key.0,
        bytes: total.at.bytes,
        median,
        ranks: others.same(&total.key.0, i128::from(total.at.bytes)),
    }
}

object! {
    ReadingReport<'a>(reading: &'a Reading, lines: &'a [Shown<'a>], options: &'a Options) {
        name: reading.member.label,
        ..PlaceInJob(Some(&reading.member)),
        profile: ProfileReport(&reading.profile, reading.judgement.as_ref(), has_stacks(reading, lines, options), options),
    }
}

/// Whether the stacks of a rank are in the report.
fn has_stacks(reading: &Reading, lines: &[Shown<'_>], options: &Options) -> bool {
    with_stacks(lines, options).iter().any(|line| std::ptr::eq(line.of, reading))
}

//! `ptmem.ranks/1`: one snapshot of each rank of a job.

use ptmem_judge::verdict::{Headline, Job, Judged, Reading};
use ptmem_trace::profile::{Bucket, StackTotal};

use super::has_stacks;
use super::profile::ProfileReport;
use super::shared::{CheckReport, MetricValues, PlaceInJob, SidedDiagnostic, Tool};
use crate::RenderOptions;
use crate::ranks::{self, Others, Shown};
use ptmem_base::json_writer::{list, object};

object! {
    /// The report of the snapshots of a job.
    pub(super) RanksReport<'a>(of: &'a Job<Reading>, lines: &'a [Shown<'a>], others: &'a Others<'a>, options: &'a RenderOptions) {
        schema: "ptmem.ranks/1",
        tool: Tool(),
        path: of.ranks.paths.after,
        group_by: of.members.first().map(|reading| reading.profile.options.group_by.to_string()).unwrap_or_default(),
        at: of.members.first().map(|reading| reading.profile.options.at.to_string()).unwrap_or_default(),
        verdict: of.headline().map(|Headline { verdict, .. }| verdict.name()),
        exit_code: of.headline().map(|Headline { verdict, .. }| verdict.exit_code()),
        imbalance: of.ranks.imbalance.after,
        median: others.median,
        worst: lines.first().map(|line| &line.name),
        table: list(lines.iter().map(LineReport)),
        stacks: list(stacks(lines, options).iter().map(|total| RowReport(total, others))),
        checks: list(of.ranks.judgement.checks.iter().map(CheckReport)),
        diagnostics: list(ranks::diagnostics_of_job(of).iter().map(|(side, found)| SidedDiagnostic(*side, found))),
        ranks: list(of.members.iter().map(|reading| ReadingReport(reading, lines, options))),
    }
}

object! {
    /// One device of one rank.
    LineReport<'a>(line: &'a Shown<'a>) {
        name: line.name,
        ..PlaceInJob(line.of.member.as_ref()),
        device: line.device.map(|device| device.device),
        verdict: line.of.judgement.as_ref().map(|judgement| judgement.verdict.name()),
        ..MetricValues(line.device),
    }
}

/// The stacks of the first rank.
fn stacks(lines: &[Shown<'_>], options: &RenderOptions) -> Vec<StackTotal> {
    let device = lines.first().and_then(|line| line.device);
    device.map(|device| device.listed(options.top(), 1)).unwrap_or_default()
}

object! {
    /// A stack of the first rank, and the bytes that it holds on the others.
    RowReport<'a>(total: &'a StackTotal, others: &'a Others<'a>) {
        label: total.label,
        key: total.key.0,
        bytes: total.at.bytes,
        median: others.of_median(&total.key.0).filter(|_| total.bucket != Some(Bucket::Others)),
        ranks: others.same(&total.key.0, i128::from(total.at.bytes)),
    }
}

object! {
    ReadingReport<'a>(reading: &'a Reading, lines: &'a [Shown<'a>], options: &'a RenderOptions) {
        name: reading.name(),
        ..PlaceInJob(reading.member.as_ref()),
        profile: ProfileReport(&reading.profile, reading.judgement.as_ref(), has_stacks(reading, lines, options), options),
    }
}

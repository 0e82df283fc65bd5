//! Findings that are one thing to look at, reported once.

use ptmem_base::text::{count, printable};
use ptmem_judge::verdict::{Level, Member, numbers};

use super::finding::{ExplainedCheck, MOST_ROWS, of_report};
use super::{RenderOptions, Report, grouped};

/// The findings, with those whose growth leads to one edit reported once, by the worst of them.
fn by_cause(findings: Vec<ExplainedCheck<'_>>) -> Vec<ExplainedCheck<'_>> {
    let groups = grouped(findings.into_iter().enumerate(), |(at, finding)| {
        let alone = finding.check.edit.is_none().then_some(*at);
        let rank = finding.member.map(|(member, _)| member.label.as_str());
        (
            alone,
            finding.comparison,
            rank,
            finding.check.device,
            finding.check.edit.as_ref().map(|edit| edit.index),
            finding.check.limit.level == Level::Fail,
        )
    });
    let merged = groups.into_iter().filter_map(|group| {
        let mut group = group.into_iter().map(|(_, finding)| finding);
        let mut first = group.next()?;
        let others: Vec<ExplainedCheck<'_>> = group.collect();
        for finding in others.iter().take(MOST_ROWS) {
            first.sentence += &format!("\nput down to the same edit: {}", finding.sentence);
        }
        let more = others.len().saturating_sub(MOST_ROWS) as u64;
        if more > 0 {
            first.sentence += &format!("\n{}", count(more, "more check", "more checks"));
        }
        Some(first)
    });
    merged.collect()
}

/// The findings, with those that several ranks share reported once, by the worst rank: hundreds of ranks that grew on
/// the same line are one thing to look at.
pub(super) fn across_ranks<'a>(report: &'a dyn Report, options: &'a RenderOptions) -> Vec<ExplainedCheck<'a>> {
    let findings = by_cause(of_report(report, options));
    let groups = grouped(findings.into_iter().enumerate(), |(at, finding)| {
        let check = finding.check;
        let figure = (check.of.name(), check.label(), &check.limit.text, check.limit.is_absolute);
        let job = finding.member.map(|(_, job)| job);
        let alone = job.is_none().then_some(*at);
        (alone, job, figure, check.outcome, check.limit.level == Level::Fail, finding.explanation.place.clone())
    });
    groups.into_iter().filter_map(worst).collect()
}

/// The worst of several equal findings, whose sentence names the rank and the others.
fn worst(findings: Vec<(usize, ExplainedCheck<'_>)>) -> Option<ExplainedCheck<'_>> {
    let members: Vec<&Member> = findings.iter().filter_map(|(_, of)| Some(of.member?.0)).collect();
    let worst = findings.into_iter().map(|(_, finding)| finding).reduce(|worst, other| {
        let is_worse = (other.check.figures.delta, other.check.figures.after)
            > (worst.check.figures.delta, worst.check.figures.after);
        if is_worse { other } else { worst }
    })?;
    let Some((member, job)) = worst.member else { return Some(worst) };
    let mut rest: Vec<&Member> = members.into_iter().filter(|other| *other != member).collect();
    rest.dedup();
    let mut sentence = format!("{}: {}", printable(&member.label), worst.sentence);
    if !rest.is_empty() {
        sentence += &printable(&format!("; the like on {}", numbers(&rest)));
    }
    Some(ExplainedCheck { sentence, comparison: job, ..worst })
}

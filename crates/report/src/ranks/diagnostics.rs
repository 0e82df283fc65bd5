//! The diagnostics of results, and those of all ranks of a job, each listed once with its ranks.

use ptmem_base::diagnostic::Diagnostic;
use ptmem_base::sides::Side;
use ptmem_judge::verdict::{Comparison, Job, JudgedSearch, Judgement, Member, Ranks, Readings, numbers};
use ptmem_trace::profile::Profile;

use crate::grouped;

/// A diagnostic, and the side that it concerns where that is one.
pub(crate) type Sided<'a> = (Option<Side>, &'a Diagnostic);

/// The diagnostics of both sides, then those of the comparison.
pub(crate) fn diagnostics_of_comparison(of: &Comparison) -> impl Iterator<Item = Sided<'_>> + Clone {
    let sides = of.diff.profiles.each().into_iter();
    let of_sides = sides.flat_map(|(side, profile)| profile.diagnostics.iter().map(move |found| (Some(side), found)));
    of_sides.chain(of.diff.diagnostics.iter().chain(&of.judgement.diagnostics).map(|found| (None, found)))
}

/// The diagnostics of a snapshot, then those of its judgement.
pub(crate) fn diagnostics_of_profile<'a>(
    profile: &'a Profile,
    judgement: Option<&'a Judgement>,
) -> impl Iterator<Item = &'a Diagnostic> + Clone {
    profile.diagnostics.iter().chain(judgement.into_iter().flat_map(|judgement| &judgement.diagnostics))
}

/// The diagnostics of a search for leaks, then those of its judgement.
pub(crate) fn diagnostics_of_search(finding: &JudgedSearch) -> impl Iterator<Item = &Diagnostic> + Clone {
    finding.search.diagnostics.iter().chain(&finding.judgement.diagnostics)
}

/// One diagnostic for all of one kind and side, which names the ranks; a job has `ranks` of them.
fn told(group: &[(&Member, Sided<'_>)], ranks: usize) -> Option<(Option<Side>, Diagnostic)> {
    let &(member, (side, first)) = group.first()?;
    let mut members: Vec<&Member> = group.iter().map(|(member, _)| *member).collect();
    members.dedup();
    let is_same = group.iter().all(|(_, (_, found))| found.message == first.message);
    let message = &first.message;
    let message = match (is_same, &members[1..]) {
        (true, _) if members.len() == ranks && ranks > 1 => format!("all ranks: {message}"),
        (true, _) => format!("{}: {message}", numbers(&members)),
        (false, []) => format!("{}: {message}", member.label),
        (false, rest) => format!("{}: {message} (and the like on {})", member.label, numbers(rest)),
    };
    Some((side, Diagnostic::new(first.code, None, message)))
}

/// The diagnostics of the ranks of a job, those of one kind and side as one, and then those of all ranks together.
fn merge<'a>(
    all: impl Iterator<Item = (&'a Member, Sided<'a>)>,
    ranks: usize,
    job: &Ranks,
) -> Vec<(Option<Side>, Diagnostic)> {
    let groups = grouped(all, |(_, (side, found))| (*side, found.code));
    let of_job = job.judgement.diagnostics.iter().map(|diagnostic| (None, diagnostic.clone()));
    groups.iter().filter_map(|group| told(group, ranks)).chain(of_job).collect()
}

/// The diagnostics of the comparisons of a job.
pub(crate) fn diagnostics_of_job(job: &Job) -> Vec<(Option<Side>, Diagnostic)> {
    let named = job.comparisons.iter().filter_map(|of| Some((of.member.as_ref()?, of)));
    let found = named.flat_map(|(member, of)| diagnostics_of_comparison(of).map(move |found| (member, found)));
    merge(found, job.comparisons.len(), &job.ranks)
}

/// The diagnostics of the snapshots of a job.
pub(crate) fn diagnostics_of_readings(readings: &Readings) -> Vec<(Option<Side>, Diagnostic)> {
    let found = readings.readings.iter().flat_map(|of| {
        let all = diagnostics_of_profile(&of.profile, of.judgement.as_ref());
        all.map(|found| (&of.member, (None, found)))
    });
    merge(found, readings.readings.len(), &readings.ranks)
}

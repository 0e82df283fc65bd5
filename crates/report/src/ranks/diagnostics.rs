//! The diagnostics of results, and those of all ranks of a job, each listed once with its ranks.

use ptmem_base::diagnostic::Diagnostic;
use ptmem_base::sides::Side;
use ptmem_judge::verdict::{Job, Judged, Member, Sided, Suite, numbers};

use crate::grouped;

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
pub(crate) fn diagnostics_of_job<T: Judged>(job: &Job<T>) -> Vec<(Option<Side>, Diagnostic)> {
    let named = job.members.iter().filter_map(|of| Some((of.member()?, of.diagnostics())));
    let all = named.flat_map(|(member, found)| found.into_iter().map(move |found| (member, found)));
    let groups = grouped(all, |(_, (side, found))| (*side, found.code));
    let of_job = job.ranks.judgement.diagnostics.iter().map(|diagnostic| (None, diagnostic.clone()));
    groups.iter().filter_map(|group| told(group, job.members.len())).chain(of_job).collect()
}

/// Names of single results that a diagnostic lists.
const MOST_NAMES: usize = 3;

/// The diagnostics of single results, each once, with the names of those that have it unless all do; then those of jobs.
pub(crate) fn diagnostics_of_suite<T: Judged>(suite: &Suite<T>) -> Vec<Diagnostic> {
    let singles = suite.singles().count();
    let all = suite.singles().flat_map(|of| of.diagnostics().into_iter().map(move |(_, found)| (of.name(), found)));
    let groups = grouped(all, |&(_, found)| (found.code, found.device, &found.message));
    let of_singles = groups.iter().filter_map(|group| named(group, singles));
    of_singles.chain(suite.jobs().flat_map(diagnostics_of_job).map(|(_, found)| found)).collect()
}

/// One diagnostic of several of all single results, with their names.
fn named(group: &[(Option<&str>, &Diagnostic)], singles: usize) -> Option<Diagnostic> {
    let &(_, first) = group.first()?;
    let mut names: Vec<&str> = group.iter().filter_map(|(name, _)| *name).collect();
    names.dedup();
    if names.is_empty() || names.len() == singles {
        return Some(first.clone());
    }
    let more = names.len().saturating_sub(MOST_NAMES);
    let are_more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let device = first.device.map(|device| format!("{device}: ")).unwrap_or_default();
    let message = format!("{}{are_more}: {device}{}", names[..names.len() - more].join(", "), first.message);
    Some(Diagnostic::new(first.code, None, message))
}

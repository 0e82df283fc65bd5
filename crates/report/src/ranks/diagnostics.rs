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

/// The diagnostics of single results, then those of jobs.
pub(crate) fn diagnostics_of_suite<T: Judged>(suite: &Suite<T>) -> Vec<Diagnostic> {
    let singles = suite.singles().flat_map(T::diagnostics).map(|(_, found)| found.clone());
    singles.chain(suite.jobs().flat_map(diagnostics_of_job).map(|(_, found)| found)).collect()
}

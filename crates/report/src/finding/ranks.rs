//! The checks of all ranks together, and what ranks have in common.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use super::{Explanation, Finding};
use crate::place::Place;
use crate::text::printable;
use crate::verdict::{Check, Level, Member, Outcome, Ranks, numbers};

/// The checks of all ranks together.
pub(super) fn findings(ranks: &Ranks) -> impl Iterator<Item = Finding<'_>> {
    let judgement = &ranks.judgement;
    judgement.checks.iter().map(move |check| {
        let finding = Finding::new(check, judgement, Some("all ranks".to_owned()), Explanation::default());
        Finding { comparison: ranks.name.as_deref(), ..finding }
    })
}

/// Findings of ranks that are equal in this are one thing to look at.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Likeness<'a> {
    /// The comparison of the job.
    job: Option<&'a str>,
    metric: String,
    scope: Option<&'a str>,
    limit: &'a str,
    outcome: Outcome,
    is_failure: bool,
    is_absolute: bool,
    place: Option<Place>,
}

impl<'a> Likeness<'a> {
    fn new(finding: &Finding<'a>, job: Option<&'a str>) -> Self {
        let check = finding.check;
        Self {
            job,
            metric: check.of.name(),
            scope: check.scope.as_deref(),
            limit: &check.limit,
            outcome: check.outcome,
            is_failure: check.level == Level::Fail,
            is_absolute: check.absolute,
            place: finding.explanation.place.clone(),
        }
    }
}

/// Findings that are alike, and the ranks that have them.
struct Group<'a> {
    worst: Finding<'a>,
    members: Vec<&'a Member>,
}

/// The findings with those that ranks of a job have in common told once, by the worst of them: that hundreds of ranks
/// grew on the same line is one thing to look at.
pub(crate) fn across_ranks(findings: Vec<Finding<'_>>) -> Vec<Finding<'_>> {
    let mut groups: Vec<Group<'_>> = Vec::new();
    let mut places = HashMap::new();
    for finding in findings {
        let Some((member, job)) = finding.member else {
            groups.push(Group { worst: finding, members: Vec::new() });
            continue;
        };
        match places.entry(Likeness::new(&finding, job)) {
            Entry::Vacant(entry) => {
                entry.insert(groups.len());
                groups.push(Group { worst: finding, members: vec![member] });
            }
            Entry::Occupied(entry) => groups[*entry.get()].add(finding, member),
        }
    }
    groups.into_iter().map(Group::into_finding).collect()
}

fn size(check: &Check) -> (Option<i128>, Option<u64>) {
    (check.delta, check.after)
}

impl<'a> Group<'a> {
    fn add(&mut self, finding: Finding<'a>, member: &'a Member) {
        if self.members.last() != Some(&member) {
            self.members.push(member);
        }
        if size(finding.check) > size(self.worst.check) {
            self.worst = finding;
        }
    }

    /// The worst of them, whose sentence names the rank and the others.
    fn into_finding(self) -> Finding<'a> {
        let Self { worst, members } = self;
        let Some((member, job)) = worst.member else { return worst };
        let rest: Vec<&Member> = members.into_iter().filter(|other| *other != member).collect();
        let mut sentence = format!("{}: {}", printable(&member.label), worst.sentence);
        if !rest.is_empty() {
            sentence += &printable(&format!("; the like on {}", numbers(&rest)));
        }
        Finding { sentence, comparison: job, ..worst }
    }
}

//! Diagnostics of all ranks of a job, each listed once with its ranks.

use std::collections::HashMap;

use crate::diagnostic::{Code, Diagnostic};
use crate::diff::Side;
use crate::verdict::{Comparison, Gate, Member, Ranks, Readings, numbers};

/// A diagnostic of one rank.
struct Found<'a> {
    side: Option<Side>,
    member: &'a Member,
    diagnostic: &'a Diagnostic,
}

/// The diagnostics of one kind and side.
struct Merged<'a> {
    side: Option<Side>,
    first: &'a Diagnostic,
    /// Whether all of them say the same.
    is_same: bool,
    members: Vec<&'a Member>,
}

impl<'a> Merged<'a> {
    fn add(&mut self, found: &Found<'a>) {
        self.is_same &= self.first.message == found.diagnostic.message;
        if self.members.last() != Some(&found.member) {
            self.members.push(found.member);
        }
    }

    /// One diagnostic for all, which names the ranks; a job has `ranks` of them.
    fn told(self, ranks: usize) -> (Option<Side>, Diagnostic) {
        let message = &self.first.message;
        let first = self.members.first().map_or("", |member| &member.label);
        let message = match (self.is_same, self.members.get(1..).unwrap_or_default()) {
            (true, _) if self.members.len() == ranks && ranks > 1 => format!("all ranks: {message}"),
            (true, _) => format!("{}: {message}", numbers(&self.members)),
            (false, []) => format!("{first}: {message}"),
            (false, rest) => format!("{first}: {message} (and the like on {})", numbers(rest)),
        };
        (self.side, Diagnostic::new(self.first.code, None, message))
    }
}

fn merge<'a>(all: impl Iterator<Item = Found<'a>>, ranks: usize) -> Vec<(Option<Side>, Diagnostic)> {
    let mut merged: Vec<Merged<'_>> = Vec::new();
    let mut places: HashMap<(Option<Side>, Code), usize> = HashMap::new();
    for found in all {
        let place = *places.entry((found.side, found.diagnostic.code)).or_insert(merged.len());
        match merged.get_mut(place) {
            Some(of_kind) => of_kind.add(&found),
            None => merged.push(Merged {
                side: found.side,
                first: found.diagnostic,
                is_same: true,
                members: vec![found.member],
            }),
        }
    }
    merged.into_iter().map(|of_kind| of_kind.told(ranks)).collect()
}

/// The diagnostics of the comparisons of a job.
pub(crate) fn diagnostics_of_gate(gate: &Gate, ranks: &Ranks) -> Vec<(Option<Side>, Diagnostic)> {
    let members = &gate.comparisons[ranks.members.clone()];
    let sides = [Some(Side::Before), Some(Side::After), None];
    let found = sides.into_iter().flat_map(|side| members.iter().flat_map(move |of| of_comparison(of, side)));
    with_job(merge(found, members.len()), ranks)
}

/// The diagnostics of one side of a comparison, or of the comparison itself.
fn of_comparison(comparison: &Comparison, side: Option<Side>) -> impl Iterator<Item = Found<'_>> {
    let Comparison { diff, judgement, member, .. } = comparison;
    let found: Vec<&Diagnostic> = match side {
        Some(side) => diff.profiles.of(side).diagnostics.iter().collect(),
        None => diff.diagnostics.iter().chain(&judgement.diagnostics).collect(),
    };
    found.into_iter().filter_map(move |diagnostic| Some(Found { side, member: member.as_ref()?, diagnostic }))
}

/// The diagnostics of the snapshots of a job.
pub(crate) fn diagnostics_of_readings(readings: &Readings) -> Vec<(Option<Side>, Diagnostic)> {
    let found = readings.readings.iter().flat_map(|reading| {
        let judged = reading.judgement.iter().flat_map(|judgement| &judgement.diagnostics);
        let all = reading.profile.diagnostics.iter().chain(judged);
        all.map(|diagnostic| Found { side: None, member: &reading.member, diagnostic })
    });
    with_job(merge(found, readings.readings.len()), &readings.ranks)
}

/// The same with those of all ranks together.
fn with_job(mut found: Vec<(Option<Side>, Diagnostic)>, ranks: &Ranks) -> Vec<(Option<Side>, Diagnostic)> {
    found.extend(ranks.judgement.diagnostics.iter().map(|diagnostic| (None, diagnostic.clone())));
    found
}

//! Decisions of a simulated run by values that are not known.

use std::collections::BTreeMap;

use ptmem_base::diagnostic::{Code, Diagnostic};
use ptmem_base::sides::Sides;
use ptmem_base::text::count;
use ptmem_snapshot::snapshot::{Guess, RunFacts};

use super::Profile;

/// Maximum number of places that a message names.
const MOST_PLACES: usize = 3;

/// The kinds of decisions that memory can depend on, each in the singular and in the plural.
const KINDS: [(&str, [&str; 2]); 2] = [
    ("conditions", ["condition of the program was", "conditions of the program were"]),
    ("sizes", ["size of a tensor was", "sizes of tensors were"]),
];

/// True for a function that the user knows, or a check of torchmetrics, which only raises an error.
fn is_known(at: &str, known: &[String]) -> bool {
    let is_check = at.starts_with("torchmetrics/") && at.ends_with("_tensor_validation");
    is_check || known.iter().any(|mark| mark == at)
}

/// The guesses of one kind outside of the functions that the user knows.
#[derive(Debug)]
struct Guesses<'r> {
    words: [&'static str; 2],
    count: u64,
    places: Vec<&'r Guess>,
    /// The line of the first, for recordings that do not name the places.
    first: Option<&'r str>,
}

impl<'r> Guesses<'r> {
    /// The guesses of each kind; `known` are places that memory does not depend on.
    fn of(run: &'r RunFacts, known: &[String]) -> Vec<Self> {
        let kinds = KINDS.into_iter().filter_map(|(kind, words)| {
            let (_, count, first) = run.followed.iter().find(|(what, ..)| what == kind)?;
            let all = run.guesses.iter().filter(|guess| guess.what == kind);
            let marked = all.clone().filter(|guess| is_known(&guess.at, known)).map(|guess| guess.count);
            let count = count.saturating_sub(marked.sum());
            let places = all.filter(|guess| !is_known(&guess.at, known)).collect();
            Some(Self { words, count, places, first: first.as_deref() })
        });
        kinds.filter(|guesses| guesses.count > 0).collect()
    }

    /// True if each place of these is one of the others.
    fn is_within(&self, others: &Self) -> bool {
        let mut places = self.places.iter();
        let are_others = places.all(|place| others.places.iter().any(|other| other.at == place.at));
        self.words == others.words && !self.places.is_empty() && are_others
    }

    /// The number of guesses and the sum of the guessed sizes, by function.
    fn counts(&self) -> BTreeMap<&str, [u64; 2]> {
        self.places.iter().map(|place| (&*place.at, [place.count, place.total])).collect()
    }

    /// True if these and the others are of the same functions, equally many of each, and of the same sizes.
    fn is_like(&self, others: &Self) -> bool {
        self.words == others.words && self.count == others.count && self.counts() == others.counts()
    }

    /// The places in words.
    fn described(&self) -> String {
        let named = self.places.iter().take(MOST_PLACES).map(|place| match place.line {
            Some(line) => format!("{} (line {line})", place.at),
            None => place.at.clone(),
        });
        let mut named: Vec<String> = named.collect();
        if let rest @ 1.. = self.places.len().saturating_sub(MOST_PLACES) {
            named.push(count(rest as u64, "other place", "other places"));
        }
        match self.first {
            Some(first) if named.is_empty() => format!(", first at {first}"),
            _ if named.is_empty() => String::new(),
            _ => format!(" in {}", named.join(", ")),
        }
    }

    fn told(&self) -> String {
        format!("{} guessed on simulated GPUs{}", count(self.count, self.words[0], self.words[1]), self.described())
    }

    fn diagnostic(&self) -> Diagnostic {
        let message = format!("{}: memory that depends on that was not measured", self.told());
        Diagnostic::new(Code::CourseGuessed, None, message)
    }
}

/// The warnings about guesses of a run.
pub(super) fn remarks(run: &RunFacts, known: &[String]) -> Vec<Diagnostic> {
    Guesses::of(run, known).iter().map(Guesses::diagnostic).collect()
}

impl Profile {
    /// Makes the warnings about guesses again, because a saved profile has those of the rules that it was saved with.
    pub(super) fn judge_guesses(&mut self) {
        self.diagnostics.retain(|found| found.code != Code::CourseGuessed);
        let run = self.run.iter();
        self.diagnostics.extend(run.flat_map(|run| remarks(run, &self.options.rules.known_guesses)));
    }
}

/// Removes the warnings about guesses of the before that the after repeats, at lines that may have moved. Guesses that both
/// sides made alike explain no difference: neither side warns of them.
pub fn tell_once(profiles: &mut Sides<Profile>) {
    let Sides { before, after } = profiles;
    let (Some(old), Some(new)) = (&before.run, &after.run) else { return };
    let new = Guesses::of(new, &after.options.rules.known_guesses);
    for guesses in Guesses::of(old, &before.options.rules.known_guesses) {
        let told = guesses.diagnostic();
        let repeated = new.iter().find(|others| guesses.is_within(others));
        let alike = repeated.filter(|others| guesses.is_like(others));
        let is_repeated = repeated.is_some_and(|others| alike.is_some() || others.diagnostic() != told);
        before.diagnostics.retain(|found| !is_repeated || *found != told);
        if let Some(others) = alike {
            let warning = others.diagnostic();
            after.diagnostics.retain(|found| *found != warning);
        }
    }
}

/// Memory of two recordings whose sizes follow from supposed ones, which are not the same on both sides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Supposed {
    /// How far the growth is not known.
    pub bytes: u64,
    /// The first line that supposed a size.
    pub first: Option<String>,
}

impl Supposed {
    /// Memory of supposed sizes, unless both sides supposed the same.
    #[must_use]
    pub fn of(profiles: &Sides<Profile>) -> Option<Self> {
        let sizes = profiles.each().map(|(_, profile)| sizes_of(profile));
        let [before, after] = &sizes;
        let alike = before.as_ref().zip(after.as_ref()).is_some_and(|(before, after)| before.is_like(after));
        let first = sizes.iter().flatten().find_map(|guesses| guesses.first.map(str::to_owned));
        let runs = profiles.each().into_iter().zip(&sizes).filter(|(_, sizes)| sizes.is_some());
        let bytes = runs.filter_map(|((_, profile), _)| Some(profile.run.as_ref()?.supposed)).sum();
        (!alike && bytes > 0).then_some(Self { bytes, first })
    }
}

/// The supposed sizes of a recording.
fn sizes_of(profile: &Profile) -> Option<Guesses<'_>> {
    let all = Guesses::of(profile.run.as_ref()?, &profile.options.rules.known_guesses);
    all.into_iter().find(|guesses| guesses.words == KINDS[1].1)
}

//! Decisions of a simulated run by values that are not known.

use std::collections::{BTreeMap, BTreeSet};

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
        let mut names: Vec<String> = self.places.iter().take(MOST_PLACES).map(|place| named(place)).collect();
        if let rest @ 1.. = self.places.len().saturating_sub(MOST_PLACES) {
            names.push(count(rest as u64, "other place", "other places"));
        }
        match self.first {
            Some(first) if names.is_empty() => format!(", first at {first}"),
            _ if names.is_empty() => String::new(),
            _ => format!(" in {}", names.join(", ")),
        }
    }

    fn diagnostic(&self) -> Diagnostic {
        let number = count(self.count, self.words[0], self.words[1]);
        let places = self.described();
        let message =
            format!("{number} guessed on simulated GPUs{places}: memory that depends on that was not measured");
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

/// The functions that supposed sizes in two recordings.
#[derive(Debug)]
pub struct SupposedSizes<'r>(Sides<Vec<&'r Guess>>);

/// Memory whose sizes follow from supposed ones that are not the same on both sides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unknown {
    /// How far the growth is not known.
    pub bytes: u64,
    /// The first function that supposed a size, with the line.
    pub first: String,
}

impl<'r> SupposedSizes<'r> {
    /// Those that the user does not know.
    pub fn of(profiles: &'r Sides<Profile>) -> Self {
        Self(profiles.map(|profile| {
            let all = profile.run.iter().flat_map(|run| &run.guesses).filter(|guess| guess.what == KINDS[1].0);
            all.filter(|guess| !is_known(&guess.at, &profile.options.rules.known_guesses)).collect()
        }))
    }

    /// True if a function did not suppose equally many sizes of the same sum on both sides. Where neither side names it, the
    /// user knows it.
    fn differs(&self, at: &str) -> bool {
        let found = self.0.map(|all| all.iter().find(|guess| guess.at == at).map(|guess| [guess.count, guess.total]));
        at.is_empty() || found.before != found.after
    }

    /// Memory of rows that is not known; each row has its bytes by function. `None` where all of it is known.
    pub fn unknown<'a>(&self, rows: impl Iterator<Item = &'a Sides<BTreeMap<String, u64>>>) -> Option<Unknown> {
        let mut functions = BTreeSet::new();
        let mut bytes = 0_u64;
        for row in rows {
            let own = row.map(|by| by.iter().filter(|(at, _)| self.differs(at)).collect::<Vec<_>>());
            let sums = own.map(|own| own.iter().fold(0_u64, |sum, (_, bytes)| sum.saturating_add(**bytes)));
            if sums.before != sums.after {
                bytes = bytes.saturating_add(sums.before).saturating_add(sums.after);
                functions.extend(own.each().into_iter().flat_map(|(_, own)| own.iter().map(|(at, _)| at.as_str())));
            }
        }
        let mut guesses = self.0.each().into_iter().flat_map(|(_, all)| all.iter().copied());
        let first = guesses.find(|guess| functions.contains(guess.at.as_str()));
        (bytes > 0).then(|| Unknown { bytes, first: first.map(named).unwrap_or_default() })
    }
}

/// The function of a guess, with the line of the first.
fn named(guess: &Guess) -> String {
    match guess.line {
        Some(line) => format!("{} (line {line})", guess.at),
        None => guess.at.clone(),
    }
}

//! The counters that the library leaves: facts, and calls of functions that it has only a name for.

#[path = "../library/src/fact.rs"]
mod fact;

pub(crate) use fact::CountedFact;

/// The library's list of names, of which each has a counter.
const NAMES_SOURCE: &str = include_str!("../library/src/names.txt");

/// The answer of the library to a function that it has only a name for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::EnumString)]
pub(crate) enum AnswerKind {
    /// Success is the whole answer.
    Done,
    /// It gives a handle.
    Makes,
    /// Not implemented: the program asks the function for a result that cannot be known.
    Asks,
    /// It returns "not supported" to the program.
    Refuses,
}

/// Calls of one function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Call {
    /// Name of the function.
    pub name: &'static str,
    /// The answer.
    pub kind: AnswerKind,
    /// Number of calls.
    pub calls: u64,
}

/// The counters of a run.
#[derive(Debug, Clone, Default)]
pub(crate) struct Ledger {
    facts: Vec<u64>,
    calls: Vec<Call>,
}

impl Ledger {
    /// Size of the file of counters.
    #[must_use]
    pub(crate) fn file_size() -> u64 {
        let counters = CountedFact::COUNT + names().count();
        counters as u64 * 8
    }

    /// Reads the file of counters, which the machine's own library wrote. A file that is too short reads as zeros.
    #[must_use]
    pub(crate) fn read(bytes: &[u8]) -> Self {
        let counters = bytes.as_chunks::<8>().0.iter().map(|word| u64::from_ne_bytes(*word));
        let mut counters = counters.chain(std::iter::repeat(0));
        let facts = counters.by_ref().take(CountedFact::COUNT).collect();
        let calls = names().zip(counters).map(|((kind, name), calls)| Call { name, kind, calls });
        Self { facts, calls: calls.filter(|call| call.calls > 0).collect() }
    }

    /// Number of times that something happened.
    #[must_use]
    pub(crate) fn fact(&self, fact: CountedFact) -> u64 {
        self.facts.get(fact as usize).copied().unwrap_or_default()
    }

    /// Functions that were called and only answered, by name.
    #[must_use]
    pub(crate) fn calls(&self) -> &[Call] {
        &self.calls
    }

    /// Called functions without an implementation.
    pub(crate) fn unanswered(&self) -> impl Iterator<Item = &Call> + Clone {
        self.calls.iter().filter(|call| matches!(call.kind, AnswerKind::Asks | AnswerKind::Refuses))
    }
}

/// Kinds and names in the order of the library's list: its lines are `Done cublasSaxpy`.
fn names() -> impl Iterator<Item = (AnswerKind, &'static str)> {
    let lines = NAMES_SOURCE.lines().filter_map(|line| line.split_once(' '));
    lines.filter_map(|(kind, name)| Some((kind.parse().ok()?, name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_belong_to_facts_and_then_to_names() {
        let mut counters = vec![0_u64; CountedFact::COUNT + names().count()];
        counters[CountedFact::Reads as usize] = 3;
        let asking = names().position(|(kind, _)| kind == AnswerKind::Asks).unwrap();
        counters[CountedFact::COUNT + asking] = 7;
        let bytes: Vec<u8> = counters.iter().flat_map(|counter| counter.to_ne_bytes()).collect();
        assert_eq!(bytes.len() as u64, Ledger::file_size());
        let ledger = Ledger::read(&bytes);
        assert_eq!(ledger.fact(CountedFact::Reads), 3);
        assert_eq!(ledger.fact(CountedFact::UnsetReads), 0);
        assert_eq!(ledger.unanswered().map(|call| call.calls).collect::<Vec<_>>(), [7]);
        assert_eq!(Ledger::read(&bytes[..9]).calls(), []);
    }

    #[test]
    fn names_are_sorted_for_the_search_in_the_library() {
        let all: Vec<_> = names().map(|(_, name)| name).collect();
        assert!(all.len() > 400 && all.is_sorted());
    }
}

//! Ways to accept the growth that fails a gate.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use crate::Options;
use crate::pattern::Pattern;
use crate::profile::Metric;
use crate::verdict::{About, Check, Comparison, Day, Gate, Level, Outcome, Verdict};

/// Entries that are proposed one by one: where there are more, one covers all stacks and one all phases.
const MOST_ENTRIES: usize = 10;

/// The subject of an entry that covers any stack.
const ALL_STACKS: &str = "pattern = \"*\"";

/// The subject of an entry that covers the peak inside any phase.
const ALL_PHASES: &str = "metric = \"phase:*\"";

/// The same of all modules.
const ALL_MODULES: &str = "metric = \"module:*\"";

/// The ways to accept the growth that fails a gate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Acceptance {
    /// Commands that record the growth in stored befores.
    pub(crate) commands: Vec<String>,
    /// The lines of the entries in `ptmem.toml`.
    pub(crate) entries: Vec<String>,
    /// Their last day.
    pub(crate) expires: Day,
    /// The label of a pull request that approves it.
    pub(crate) label: Option<String>,
}

impl Acceptance {
    /// The ways for a gate that fails by growth; none for any other.
    pub(super) fn new(gate: &Gate, options: &Options) -> Option<Self> {
        let ways = options.acceptance.as_ref().filter(|_| gate.verdict() == Verdict::Regression)?;
        let mut excesses = excesses(gate, subject);
        if excesses.len() > MOST_ENTRIES {
            excesses = self::excesses(gate, wide_subject);
        }
        if excesses.is_empty() {
            return None;
        }
        let mut excesses: Vec<(String, u128)> = excesses.into_iter().collect();
        excesses.sort_by_key(|(_, excess)| Reverse(*excess));
        let entries = excesses.iter().flat_map(|(text, excess)| entry(text, *excess, ways.expires)).collect();
        Some(Self { commands: ways.commands.clone(), entries, expires: ways.expires, label: ways.label.clone() })
    }
}

/// The bytes that each entry has to cover, by the line that names its subject. An entry covers all devices and ranks, so the
/// device that needs most of it counts.
fn excesses(gate: &Gate, subject: impl Fn(&Comparison, &Check) -> Option<String>) -> BTreeMap<String, u128> {
    let mut largest: BTreeMap<String, u128> = BTreeMap::new();
    for comparison in &gate.comparisons {
        let mut of_devices: HashMap<(Option<u32>, About, String), u128> = HashMap::new();
        for check in &comparison.judgement.checks {
            let left = excess(check).and_then(|excess| left_by_stacks(comparison, check, excess));
            let Some((subject, excess)) = subject(comparison, check).zip(left) else { continue };
            let sum = of_devices.entry((check.device, check.about(), subject)).or_default();
            // Stacks share what an entry allows; each phase may have all of it.
            let is_shared = matches!(check.about(), About::Stacks | About::StackHighest);
            *sum = if is_shared { *sum + excess } else { excess.max(*sum) };
        }
        for ((.., subject), excess) in of_devices {
            let most = largest.entry(subject).or_default();
            *most = excess.max(*most);
        }
    }
    largest
}

/// The excess of a check that the entries of stacks leave: they cover the peak as well, as far as these stacks raised
/// it.
fn left_by_stacks(comparison: &Comparison, check: &Check, excess_of_check: u128) -> Option<u128> {
    if check.about() != About::Metric(Metric::Peak) {
        return Some(excess_of_check);
    }
    let of_device = comparison.judgement.checks.iter().filter(|other| other.device == check.device);
    let of_stacks = of_device.filter(|other| other.about() == About::Stacks);
    excess_of_check.checked_sub(of_stacks.filter_map(excess).sum()).filter(|left| *left > 0)
}

/// The line of an entry that names the kind of subject of a check.
fn wide_subject(comparison: &Comparison, check: &Check) -> Option<String> {
    let wide = match check.about() {
        About::Stacks | About::StackHighest => ALL_STACKS,
        About::Phases => ALL_PHASES,
        About::Modules => ALL_MODULES,
        About::Metric(_)
        | About::Imbalance
        | About::Ranks
        | About::Leaks
        | About::OutOfMemory
        | About::Headroom
        | About::Growth => return subject(comparison, check),
    };
    Some(wide.to_owned())
}

/// The line of an entry that names the subject of a check.
fn subject(comparison: &Comparison, check: &Check) -> Option<String> {
    match check.about() {
        About::Metric(metric) => Some(format!("metric = {}", quoted(metric.name()))),
        About::Stacks | About::StackHighest => {
            check.scope.as_ref().map(|label| format!("pattern = {}", quoted(&Pattern::literal(label))))
        }
        About::Phases => {
            // An entry covers all occurrences of a phase, whose checks name one.
            let mut rows = comparison.diff.devices.iter().flat_map(|device| &device.phases);
            let row = rows.find(|row| check.key.as_ref().is_some_and(|key| row.key() == *key))?;
            Some(format!("metric = {}", quoted(&format!("phase:{}", Pattern::literal(&row.name)))))
        }
        About::Modules => check
            .scope
            .as_ref()
            .map(|path| format!("metric = {}", quoted(&format!("module:{}", Pattern::literal(path))))),
        About::Imbalance | About::Ranks | About::Leaks | About::OutOfMemory | About::Headroom | About::Growth => None,
    }
}

/// A string as JSON and TOML both write it.
fn quoted(text: &str) -> String {
    // Writing to memory cannot fail.
    crate::json_writer::line(&text).unwrap_or_default()
}

/// The bytes beyond the limit on growth of a check that fails.
fn excess(check: &Check) -> Option<u128> {
    if check.outcome != Outcome::Exceeded || check.level != Level::Fail || check.absolute {
        return None;
    }
    u128::try_from(check.delta?).ok()?.checked_sub(check.allowed?)
}

/// The lines of one entry.
fn entry(subject: &str, excess: u128, expires: Day) -> [String; 5] {
    [
        "[[accept]]".to_owned(),
        subject.to_owned(),
        format!("bytes = \"{}\"", rounded_up(excess)),
        "reason = \"why it is worth it\"".to_owned(),
        format!("expires = {expires}"),
    ]
}

/// A size in the next full MiB, or KiB where it is less than one.
fn rounded_up(bytes: u128) -> String {
    if bytes < 1 << 20 { format!("{}KiB", bytes.div_ceil(1 << 10)) } else { format!("{}MiB", bytes.div_ceil(1 << 20)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_rounded_up_so_that_the_entry_covers_the_growth() {
        assert_eq!(rounded_up(1), "1KiB");
        assert_eq!(rounded_up((1 << 20) - 1), "1024KiB");
        assert_eq!(rounded_up((1 << 20) + 1), "2MiB");
    }

    #[test]
    fn subjects_are_literal_patterns_in_quotes() {
        assert_eq!(quoted(&Pattern::literal("f (a\\b.py) [3]")), "\"f (a\\\\b.py) [3]\"");
    }
}

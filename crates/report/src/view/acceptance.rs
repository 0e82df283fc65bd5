//! Ways to accept the growth, or the improvement, that fails a gate.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use ptmem_base::device::DeviceId;
use ptmem_base::pattern::Pattern;
use ptmem_base::text::{count, printable};
use ptmem_base::units::Delta;
use ptmem_judge::verdict::{
    AcceptedBy, BESIDE_WORKSPACES, Check, Comparison, Day, Gate, Level, LimitKind, NamedThing, Outcome,
};

use crate::RenderOptions;

/// Names in an entry: where there are more, it covers all stacks and all phases.
const MOST_NAMES: usize = 10;

/// A way to accept the growth that fails a gate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WayToAccept {
    /// The advice, without the lines to add.
    pub(crate) sentence: String,
    /// The lines to copy.
    pub(crate) lines: Vec<String>,
    /// The language of these.
    pub(crate) language: &'static str,
}

/// The ways to accept the growth, if a gate fails because of growth and for no other reason.
pub(super) fn ways(gate: &Gate, options: &RenderOptions) -> Vec<WayToAccept> {
    let Some(given) = options.acceptance.as_ref().filter(|_| gate.fails_by_change_alone()) else {
        return Vec::new();
    };
    let mut entries = entries(gate, false);
    if entries.iter().any(|entry| entry.names.len() > MOST_NAMES) {
        entries = self::entries(gate, true);
    }
    if entries.is_empty() {
        return Vec::new();
    }
    entries.sort_by_key(|entry| Reverse(entry.excess));
    let entries = entries.iter().flat_map(|entry| entry.lines(given.expires)).collect();
    // A check stays inconclusive where growth is accepted of which only a bound is known.
    let mut checks = gate.leaves().flat_map(|of| &of.judgement.checks).filter(|check| excess(check).is_some());
    let decides = checks.all(|check| check.figures.bound.is_none());
    let command = WayToAccept {
        sentence: "for good, record it as the new before".to_owned(),
        lines: given.commands.clone(),
        language: "sh",
    };
    let entry = WayToAccept {
        sentence: format!("until {}, add to ptmem.toml (bytes beyond the limit)", given.expires),
        lines: entries,
        language: "toml",
    };
    let label = given.label.iter().map(|label| WayToAccept {
        sentence: format!("on this pull request, set the label {label}"),
        lines: Vec::new(),
        language: "text",
    });
    let command = Some(command).filter(|way| !way.lines.is_empty());
    command.into_iter().chain(Some(entry).filter(|_| decides)).chain(label).collect()
}

/// The longest list that stands in one line.
const LONGEST_LIST: usize = 72;

/// The key of an entry that names what may grow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
enum AcceptKey {
    Metric,
    Pattern,
    Through,
}

/// An entry that accepts the growth which leads to one edit, or all that leads to none. It covers all devices and ranks, so
/// the device that needs most of it counts.
#[derive(Debug, Default)]
struct AcceptEntry {
    /// What may grow.
    names: BTreeSet<(AcceptKey, String)>,
    /// The bytes that it has to cover.
    excess: u128,
    /// The growth that needs these, in words.
    why: String,
    /// Excesses and numbers of the stacks of each device of a comparison, which share the bytes: at the peak, and the most held.
    stacks: BTreeMap<(Option<DeviceId>, bool), (u128, u64)>,
}

impl AcceptEntry {
    fn add(&mut self, check: &Check, excess: u128) {
        let is_highest = check.kind() == LimitKind::StackHighest;
        if is_highest || check.kind() == LimitKind::Stacks {
            let (sum, number) = self.stacks.entry((check.device, is_highest)).or_default();
            *sum += excess;
            *number += 1;
        } else {
            let beside =
                if check.figures.is_beside_workspaces { format!(" {BESIDE_WORKSPACES}") } else { String::new() };
            let name = check.label().map_or_else(|| check.of.name(), printable) + &beside;
            let allowed = check.limit.allowed.and_then(|allowed| i128::try_from(allowed).ok()).map(Delta);
            let grown = Delta(check.figures.delta.unwrap_or_default());
            self.raise(excess, &format!("{name}: {grown}, allowed {}", allowed.unwrap_or(Delta(0))));
        }
    }

    /// Takes the stacks of a comparison, all of which were added.
    fn end_comparison(&mut self) {
        for (_, (sum, number)) in std::mem::take(&mut self.stacks) {
            self.raise(sum, &format!("beyond the limit in {}", count(number, "stack", "stacks")));
        }
    }

    /// Makes it cover so many bytes.
    fn raise(&mut self, excess: u128, why: &str) {
        if excess > self.excess {
            self.excess = excess;
            why.clone_into(&mut self.why);
        }
    }

    fn lines(&self, expires: Day) -> Vec<String> {
        let bytes = format!("bytes = \"{}\" # {}", rounded_up(self.excess), self.why);
        let rest = [bytes, "reason = \"why it is worth it\"".to_owned(), format!("expires = {expires}")];
        let keys =
            [AcceptKey::Metric, AcceptKey::Pattern, AcceptKey::Through].into_iter().flat_map(|key| self.lines_of(key));
        ["[[accept]]".to_owned()].into_iter().chain(keys).chain(rest).collect()
    }

    /// The lines of a key: a text, or a list of several, each in a line of its own where one line would be long.
    fn lines_of(&self, key: AcceptKey) -> Vec<String> {
        let of_key = self.names.iter().filter(|(other, _)| *other == key);
        let names: Vec<String> = of_key.map(|(_, name)| quoted(name)).collect();
        let key = <&str>::from(key);
        let list = format!("{key} = [{}]", names.join(", "));
        match &names[..] {
            [] => Vec::new(),
            [one] => vec![format!("{key} = {one}")],
            _ if list.len() <= LONGEST_LIST => vec![list],
            several => {
                let items = several.iter().map(|name| format!("  {name},"));
                [format!("{key} = [")].into_iter().chain(items).chain(["]".to_owned()]).collect()
            }
        }
    }
}

/// The entries that a gate proposes.
fn entries(gate: &Gate, is_wide: bool) -> Vec<AcceptEntry> {
    let mut entries: BTreeMap<Option<String>, AcceptEntry> = BTreeMap::new();
    for comparison in gate.leaves() {
        let failing = comparison.judgement.checks.iter().filter(|check| excess(check).is_some());
        for check in failing.flat_map(|check| [Some(check), check.beside.as_deref()]).flatten() {
            let through = through(comparison, check);
            let by_edit = through.clone().map(|name| (AcceptKey::Through, name));
            let name = by_edit.or_else(|| subject(comparison, check, is_wide));
            let Some((name, excess)) = name.zip(excess(check)) else { continue };
            let entry = entries.entry(through).or_default();
            entry.names.insert(name);
            entry.add(check, excess);
        }
        entries.values_mut().for_each(AcceptEntry::end_comparison);
    }
    entries.into_values().filter(|entry| entry.excess > 0).collect()
}

/// The name of the edit which explains the growth of a check: it covers every figure of the device, and the stacks that lead to
/// the edit.
fn through(comparison: &Comparison, check: &Check) -> Option<String> {
    let device = comparison.diff.devices.iter().find(|device| device.id() == check.device)?;
    check.accepted_edit(device)?.name().map(Pattern::literal)
}

/// The name of the subject of a check, or of all subjects of its kind.
fn subject(comparison: &Comparison, check: &Check, is_wide: bool) -> Option<(AcceptKey, String)> {
    let thing = match check.kind().accepted_by() {
        AcceptedBy::Metric => return Some((AcceptKey::Metric, check.of.name())),
        AcceptedBy::Nothing(_) => return None,
        AcceptedBy::Name(thing) => thing,
    };
    let name = match thing {
        NamedThing::Stack | NamedThing::Module | NamedThing::Pool => check.label()?,
        NamedThing::Phase => {
            // An entry covers all occurrences of a phase, whose checks name one.
            let mut rows = comparison.diff.devices.iter().flat_map(|device| &device.phases);
            let row = rows.find(|row| check.key().is_some_and(|key| row.key() == key))?;
            &*row.name
        }
    };
    let pattern = if is_wide { "*".to_owned() } else { Pattern::literal(name) };
    let host = if check.of.of_host { "host:" } else { "" };
    Some(match thing {
        NamedThing::Phase | NamedThing::Module | NamedThing::Pool => {
            (AcceptKey::Metric, format!("{host}{}:{pattern}", check.kind().name()))
        }
        // What a stack holds stands for the most that it held, too.
        NamedThing::Stack if check.of.of_host => (AcceptKey::Metric, format!("{host}stack:{pattern}")),
        NamedThing::Stack => (AcceptKey::Pattern, pattern),
    })
}

/// A string as JSON and TOML both write it, without the `##[` that a log of GitHub takes for a command.
fn quoted(text: &str) -> String {
    // Writing to memory cannot fail.
    ptmem_base::json_writer::line(&text).unwrap_or_default().replace("##[", "##\\u005b")
}

/// The bytes beyond the limit on growth, or shrinkage, of a check that fails.
fn excess(check: &Check) -> Option<u128> {
    if check.outcome != Outcome::Exceeded || check.limit.level != Level::Fail || check.limit.is_absolute {
        return None;
    }
    check.figures.delta?.unsigned_abs().checked_sub(check.limit.allowed?)
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
        // Reports print it as it is.
        assert_eq!(quoted("f ##[error]"), printable("\"f ##\\u005berror]\""));
    }
}

//! Ways to accept the growth that fails a gate.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use ptmem_base::device::DeviceId;
use ptmem_base::pattern::Pattern;
use ptmem_judge::verdict::{About, Check, Comparison, Day, Gate, Level, Outcome};
use ptmem_trace::profile::Metric;

use crate::RenderOptions;

/// Entries that are proposed one by one: where there are more, one covers all stacks and one all phases.
const MOST_ENTRIES: usize = 10;

/// A way to accept the growth that fails a gate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Way {
    /// The advice, without the lines to add.
    pub(crate) sentence: String,
    /// The lines to copy.
    pub(crate) lines: Vec<String>,
    /// The language of these.
    pub(crate) language: &'static str,
}

/// The ways to accept the growth, if a gate fails because of growth and for no other reason.
pub(super) fn ways(gate: &Gate, options: &RenderOptions) -> Vec<Way> {
    let Some(given) = options.acceptance.as_ref().filter(|_| gate.fails_by_growth_alone()) else {
        return Vec::new();
    };
    let mut excesses = excesses(gate, false);
    if excesses.len() > MOST_ENTRIES {
        excesses = self::excesses(gate, true);
    }
    if excesses.is_empty() {
        return Vec::new();
    }
    let mut excesses: Vec<(String, u128)> = excesses.into_iter().collect();
    excesses.sort_by_key(|(_, excess)| Reverse(*excess));
    let entries = excesses.iter().flat_map(|(text, excess)| entry(text, *excess, given.expires)).collect();
    let command = Way {
        sentence: "for good, record it as the new before".to_owned(),
        lines: given.commands.clone(),
        language: "sh",
    };
    let entry = Way {
        sentence: format!("until {}, add to ptmem.toml (bytes beyond the limit)", given.expires),
        lines: entries,
        language: "toml",
    };
    let label = given.label.iter().map(|label| Way {
        sentence: format!("on this pull request, set the label {label}"),
        lines: Vec::new(),
        language: "text",
    });
    [command].into_iter().filter(|way| !way.lines.is_empty()).chain([entry]).chain(label).collect()
}

/// The bytes that each entry has to cover, by the line that names its subject. An entry covers all devices and ranks, so the
/// device that needs most of it counts.
fn excesses(gate: &Gate, is_wide: bool) -> BTreeMap<String, u128> {
    let mut largest: BTreeMap<String, u128> = BTreeMap::new();
    for comparison in gate.leaves() {
        let mut of_devices: HashMap<(Option<DeviceId>, About, String), u128> = HashMap::new();
        for check in &comparison.judgement.checks {
            let through = through(comparison, check);
            let left = excess(check).and_then(|excess| match through {
                Some(_) => Some(excess),
                None => left_by_stacks(comparison, check, excess),
            });
            let subject = through.or_else(|| subject(comparison, check, is_wide));
            let Some((subject, excess)) = subject.zip(left) else { continue };
            let sum = of_devices.entry((check.device, check.about(), subject)).or_default();
            // Stacks share the bytes that an entry allows; each phase may use all of them.
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

/// The line of an entry that names the edit which explains the growth of a check: it covers every figure of the device, and the
/// stacks that lead to the edit.
fn through(comparison: &Comparison, check: &Check) -> Option<String> {
    let device = comparison.diff.devices.iter().find(|device| device.id() == check.device)?;
    let edit = device.edit(check.accepted_edit(device)?)?;
    let package = edit.package().map(|(name, _)| name);
    let name = package.or(edit.whole_file()).or_else(|| edit.shown().map(|(_, _, _, text)| text))?;
    Some(format!("through = {}", quoted(&Pattern::literal(name))))
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

/// The line of an entry that names the subject of a check, or all subjects of its kind.
fn subject(comparison: &Comparison, check: &Check, is_wide: bool) -> Option<String> {
    let name = match check.about() {
        About::Metric(_) => return Some(format!("metric = {}", quoted(&check.of.name()))),
        About::Stacks | About::StackHighest | About::Modules | About::Pools => check.scope.as_ref()?,
        About::Phases => {
            // An entry covers all occurrences of a phase, whose checks name one.
            let mut rows = comparison.diff.devices.iter().flat_map(|device| &device.phases);
            let row = rows.find(|row| check.key.as_ref().is_some_and(|key| row.key() == *key))?;
            &*row.name
        }
        About::Imbalance | About::Ranks | About::Leaks | About::OutOfMemory | About::Headroom | About::Growth => {
            return None;
        }
    };
    let pattern = if is_wide { "*".to_owned() } else { Pattern::literal(name) };
    let host = if check.of.of_host { "host:" } else { "" };
    Some(match check.about() {
        about @ (About::Phases | About::Modules | About::Pools) => {
            format!("metric = {}", quoted(&format!("{host}{}:{pattern}", about.name())))
        }
        // What a stack holds stands for the most that it held, too.
        _ if check.of.of_host => format!("metric = {}", quoted(&format!("{host}stack:{pattern}"))),
        _ => format!("pattern = {}", quoted(&pattern)),
    })
}

/// A string as JSON and TOML both write it.
fn quoted(text: &str) -> String {
    // Writing to memory cannot fail.
    ptmem_base::json_writer::line(&text).unwrap_or_default()
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

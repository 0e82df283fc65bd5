//! The stored before: how to record an improvement over it, and rewriting it.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Result;
use ptmem::diagnostic::{Code, Diagnostic};
use ptmem::diff::DeviceDiff;
use ptmem::phase::Source;
use ptmem::profile::{Kind, Raise, saved};
use ptmem::sides::Sides;
use ptmem::units::{Delta, format_percent};
use ptmem::verdict::{Comparison, Target, Verdict};

use super::super::args::{ConfigArguments, DiffArguments};
use super::super::output;

/// The figures of the after against those of the before.
struct Changes {
    /// In words, figures that are higher, or not known on both sides.
    higher: Vec<String>,
    /// Figures that are lower.
    lower: Vec<String>,
    /// The most bytes that a figure is lower by.
    most: u128,
}

fn changes(comparison: &Comparison) -> Changes {
    let mut changes = Changes { higher: Vec::new(), lower: Vec::new(), most: 0 };
    let checks = comparison.judgement.checks.iter();
    let limited: Vec<&Target> = checks.filter_map(|check| check.of.target()).collect();
    for device in &comparison.diff.devices {
        for (metric, change) in &device.metrics {
            let name = format!("{} {}", device.name(), metric.name());
            match change.delta() {
                // Unknown on both sides does not count as a change.
                None if change.before == change.after => {}
                None => changes.higher.push(format!("{name} is known on one side only")),
                Some(0) => {}
                Some(delta) => {
                    let percent = change.before.and_then(|before| format_percent(delta, before));
                    let percent = percent.map(|percent| format!(" ({percent})")).unwrap_or_default();
                    let text = format!("{name} {}{percent}", Delta(delta));
                    if delta > 0 {
                        changes.higher.push(text);
                    } else {
                        changes.most = changes.most.max(delta.unsigned_abs());
                        changes.lower.push(text);
                    }
                }
            }
        }
        // Phases with a limit, by their names.
        let mut rose: BTreeMap<&str, i128> = BTreeMap::new();
        let mut fell: BTreeMap<&str, i128> = BTreeMap::new();
        for row in device.phases.iter().filter(|row| limited.iter().any(|target| target.is_about_phase(&row.name))) {
            let side = if row.delta() > Some(0) { &mut rose } else { &mut fell };
            let most = side.entry(&row.name).or_default();
            *most = row.delta().filter(|delta| delta.abs() > most.abs()).unwrap_or(*most);
        }
        fell.retain(|_, delta| *delta != 0);
        changes.higher.extend(phases_in_words(device, &rose));
        changes.lower.extend(phases_in_words(device, &fell));
        let most = fell.values().map(|delta| delta.unsigned_abs()).max();
        changes.most = changes.most.max(most.unwrap_or(0));
    }
    changes
}

/// Phases of a device whose peak changed, in words.
fn phases_in_words(device: &DeviceDiff, phases: &BTreeMap<&str, i128>) -> Vec<String> {
    phases.iter().map(|(name, delta)| format!("{} phase {name} {}", device.name(), Delta(*delta))).collect()
}

/// Note on how to record an improvement over a stored before.
pub(super) fn improvement(comparison: &Comparison, arguments: &DiffArguments) -> Option<Diagnostic> {
    let sides = &comparison.diff.profiles;
    let Changes { higher, lower, most } = changes(comparison);
    let stored = sides.before.source.kind == Kind::Profile && comparison.judgement.verdict == Verdict::Pass;
    if !stored || !higher.is_empty() || most < u128::from(comparison.min_delta.max(1)) {
        return None;
    }
    let command = command(comparison, arguments);
    let message = format!("less than the stored before: {}. Record it: `{command}`", lower.join(", "));
    Some(Diagnostic::new(Code::Improved, None, message))
}

/// The command that rewrites the before of a comparison with its after.
fn command(comparison: &Comparison, arguments: &DiffArguments) -> String {
    let sides = &comparison.diff.profiles;
    let before = shell_word(&sides.before.source.path);
    let after = shell_word(&sides.after.source.path);
    let config = match &arguments.config {
        ConfigArguments { no_config: true, .. } => " --no-config".to_owned(),
        ConfigArguments { config: Some(path), .. } => format!(" --config {}", shell_word(&path.display().to_string())),
        ConfigArguments { config: None, .. } => String::new(),
    };
    format!("ptmem diff --update {before} {after}{config}")
}

/// The command that accepts the growth by which a comparison with a stored before fails.
pub(super) fn accepting(comparison: &Comparison, arguments: &DiffArguments) -> Option<String> {
    let sides = &comparison.diff.profiles;
    let has_files = sides.each().into_iter().all(|(_, profile)| profile.source.path != "-");
    let is_stored = sides.before.source.kind == Kind::Profile && comparison.member.is_none();
    let can_update = has_files && is_stored && comparison.judgement.fails_by_growth_alone();
    can_update.then(|| format!("{} --allow-raise --reason \"why it is worth it\"", command(comparison, arguments)))
}

/// A path as it is typed in a shell.
pub(super) fn shell_word(path: &str) -> String {
    if !path.is_empty() && path.chars().all(|c| c.is_alphanumeric() || "/._-+,:=@%".contains(c)) {
        path.to_owned()
    } else {
        format!("'{}'", path.replace('\'', "'\\''"))
    }
}

/// Rewrites the stored before with the after; returns a note on the result.
pub(super) fn update(path: &Path, comparison: &Comparison, reason: Option<&str>) -> Result<String> {
    let name = path.display();
    let Sides { before, after } = &comparison.diff.profiles;
    let accepts = comparison.judgement.fails_by_growth_alone();
    if accepts && reason.is_none() {
        return Ok(format!(
            "{name} stays as it is: the verdict is {}. To accept the growth: --allow-raise --reason TEXT",
            comparison.judgement.verdict.name()
        ));
    }
    if comparison.judgement.verdict != Verdict::Pass && !accepts {
        return Ok(format!(
            "{name} stays as it is: the verdict is {}. To record the after in any case, run without limits: \
             ptmem diff --no-config --update {} {} --allow-raise --reason TEXT",
            comparison.judgement.verdict.name(),
            shell_word(&before.source.path),
            shell_word(&after.source.path)
        ));
    }
    let Changes { higher, lower, .. } = changes(comparison);
    let stacks_changed = comparison.diff.devices.iter().flat_map(|device| &device.rows).any(|row| row.delta() != 0);
    let phases = comparison.diff.devices.iter().flat_map(|device| &device.phases);
    // The file does not keep passes: they follow from the stacks that it lists.
    let phases_changed = phases.filter(|row| row.source != Source::Pass).any(|row| row.delta() != Some(0));
    if higher.is_empty() && lower.is_empty() && !stacks_changed && !phases_changed {
        return Ok(format!("{name} stays as it is: nothing has changed"));
    }
    let mut raises = before.raises.clone();
    match reason {
        _ if higher.is_empty() => {}
        Some(reason) => raises.push(Raise { reason: reason.to_owned(), changes: higher.clone() }),
        None => {
            return Ok(format!(
                "{name} stays as it is: figures would rise ({}). To record them: --allow-raise --reason TEXT",
                higher.join(", ")
            ));
        }
    }
    let text = saved::text_of(after, &raises)?;
    output::write_file(path, text.as_bytes())?;
    let changes: Vec<_> = lower.into_iter().chain(higher).collect();
    let parts = if stacks_changed { "stacks alone changed" } else { "phases alone changed" };
    let changes = if changes.is_empty() { parts.to_owned() } else { changes.join(", ") };
    let accepted = comparison.judgement.checks.iter().any(|check| check.accepted);
    let hint = if accepted { ". It holds the accepted growth now: remove that from ptmem.toml" } else { "" };
    Ok(format!("{name} updated: {changes}{hint}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_quoted_where_a_shell_would_split_them() {
        assert_eq!(shell_word("a/b-1.pkl"), "a/b-1.pkl");
        assert_eq!(shell_word("a b's.pkl"), "'a b'\\''s.pkl'");
    }
}

//! The stored before: how to record an improvement over it, and rewriting it.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::Result;
use ptmem::diagnostic::{Code, Diagnostic};
use ptmem::phase::Source;
use ptmem::profile::{InputKind, Profile, Raise, saved};
use ptmem::sides::Sides;
use ptmem::units::{Delta, format_percent};
use ptmem::verdict::{About, Comparison, Verdict};

use super::super::args::DiffArguments;
use super::super::output;

/// Figures of the after that are not those of the before, in words.
#[derive(Default)]
struct Changes {
    lower: Vec<String>,
    /// Those as well that are known on one side only.
    higher: Vec<String>,
    /// Bytes of the largest change.
    most: u128,
}

impl Changes {
    fn add(&mut self, words: String, delta: Option<i128>) {
        self.most = self.most.max(delta.map_or(0, i128::unsigned_abs));
        if delta.is_some_and(i128::is_negative) { self.lower.push(words) } else { self.higher.push(words) }
    }
}

fn changes(comparison: &Comparison) -> Changes {
    let mut changes = Changes::default();
    let checks = &comparison.judgement.checks;
    for device in &comparison.diff.devices {
        for (metric, change) in device.metrics.iter().filter(|(_, change)| change.before != change.after) {
            let name = format!("{} {}", device.name(), metric.name());
            let delta = change.gained();
            let percent = change.before.zip(delta).and_then(|(before, delta)| format_percent(delta, before));
            let percent = percent.map(|percent| format!(" ({percent})")).unwrap_or_default();
            let words = match delta {
                Some(delta) => format!("{name} {}{percent}", Delta(delta)),
                None => format!("{name} is known on one side only"),
            };
            changes.add(words, delta);
        }
        // Phases with a limit: of each the occurrence that rose most, and the one that fell most.
        let mut most: BTreeMap<(&str, bool), i128> = BTreeMap::new();
        for row in device.phases.iter().filter(|row| checks.iter().any(|check| check.of.is_about_phase(&row.name))) {
            let delta = row.delta().unwrap_or(0);
            let found = most.entry((&row.name, delta > 0)).or_default();
            *found = if delta.abs() > found.abs() { delta } else { *found };
        }
        for ((name, _), delta) in most.into_iter().filter(|(_, delta)| *delta != 0) {
            changes.add(format!("{} phase {name} {}", device.name(), Delta(delta)), Some(delta));
        }
    }
    changes
}

/// Note on how to record an improvement over a stored before.
pub(crate) fn improvement(comparison: &Comparison, arguments: &DiffArguments) -> Option<Diagnostic> {
    let sides = &comparison.diff.profiles;
    let Changes { lower, higher, most } = changes(comparison);
    let judgement = &comparison.judgement;
    let stored = is_stored(sides) && judgement.verdict == Verdict::Pass && judgement.unlike.is_none();
    if !stored || !higher.is_empty() || most < u128::from(comparison.min_delta.max(1)) {
        return None;
    }
    let command = command(comparison, arguments);
    let message = format!("less than the stored before: {}. Record it: `{command}`", lower.join(", "));
    Some(Diagnostic::new(Code::Improved, None, message))
}

/// True if the after can take the place of the before.
fn is_stored(sides: &Sides<Profile>) -> bool {
    let kinds = sides.map(|profile| profile.source.kind);
    kinds.before == InputKind::Profile || kinds.before == InputKind::Numbers && kinds.after == InputKind::Numbers
}

/// The command that rewrites the before of a comparison with its after.
fn command(comparison: &Comparison, arguments: &DiffArguments) -> String {
    let sides = &comparison.diff.profiles;
    let before = shell_word(&sides.before.source.path);
    let after = shell_word(&sides.after.source.path);
    let config = arguments.config.config.as_ref();
    let config =
        config.map(|path| format!(" --config {}", shell_word(&path.display().to_string()))).unwrap_or_default();
    format!("ptmem diff --update {before} {after}{config}")
}

/// The command that accepts the growth by which a comparison with a stored before fails.
pub(crate) fn accepting(comparison: &Comparison, arguments: &DiffArguments) -> Option<String> {
    let sides = &comparison.diff.profiles;
    let has_files = sides.each().into_iter().all(|(_, profile)| profile.source.path != "-");
    let is_stored = is_stored(sides) && comparison.member.is_none();
    let can_update = has_files && is_stored && comparison.judgement.fails_by_growth_alone();
    can_update.then(|| format!("{} --allow-raise \"why it is worth it\"", command(comparison, arguments)))
}

/// A path as it is typed in a shell.
pub(crate) fn shell_word(path: &str) -> String {
    if !path.is_empty() && path.chars().all(|c| c.is_alphanumeric() || "/._-+,:=@%".contains(c)) {
        path.to_owned()
    } else {
        format!("'{}'", path.replace('\'', "'\\''"))
    }
}

/// Rewrites the stored before with the after; returns a note on the result.
pub(crate) fn update(path: &Path, comparison: &Comparison, reason: Option<&str>) -> Result<String> {
    let name = path.display();
    let Sides { before, after } = &comparison.diff.profiles;
    let accepts = comparison.judgement.fails_by_growth_alone();
    if accepts && reason.is_none() {
        return Ok(format!(
            "{name} stays as it is: the verdict is {}. To accept the growth: --allow-raise REASON",
            comparison.judgement.verdict.name()
        ));
    }
    if comparison.judgement.verdict != Verdict::Pass && !accepts {
        let [before, after] = [before, after].map(|side| shell_word(&side.source.path));
        // Memory that runs out fails without limits, too.
        let runs_out = comparison.judgement.checks.iter().any(|check| check.about() == About::OutOfMemory);
        let way = if runs_out {
            format!(": ptmem profile {after} -o {before}")
        } else {
            format!(", run without limits: ptmem diff --config none --update {before} {after} --allow-raise REASON")
        };
        return Ok(format!(
            "{name} stays as it is: the verdict is {}. To record the after in any case{way}",
            comparison.judgement.verdict.name(),
        ));
    }
    if let Some(unlike) = comparison.judgement.unlike.as_ref().filter(|_| reason.is_none()) {
        let [before, after] = [before, after].map(|side| shell_word(&side.source.path));
        return Ok(format!(
            "{name} stays as it is: {unlike}. To record the after in any case: ptmem profile {after} -o {before}"
        ));
    }
    let Changes { lower, higher, .. } = changes(comparison);
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
                "{name} stays as it is: figures would rise ({}). To record them: --allow-raise REASON",
                higher.join(", ")
            ));
        }
    }
    // Figures keep the form that they have.
    let text = match (before.source.kind, after.source.kind) {
        (InputKind::Numbers, InputKind::Numbers) => fs::read(&after.source.path)?,
        _ => saved::text_of(after, &raises)?.into_bytes(),
    };
    output::write_file(path, &text)?;
    let changes: Vec<_> = lower.into_iter().chain(higher).collect();
    let parts = if stacks_changed { "only stacks changed" } else { "only phases changed" };
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

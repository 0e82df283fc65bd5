//! The stored before of a gate: how to record an improvement over it, and rewriting it.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Result, bail};
use ptmem::diagnostic::{Code, Diagnostic};
use ptmem::diff::{PhaseRow, Row};
use ptmem::phase::PhaseSource;
use ptmem::profile::{InputKind, Raise, Serving, saved};
use ptmem::sides::Sides;
use ptmem::units::{Delta, format_percent};
use ptmem::verdict::{Check, Comparison, LimitKind, Outcome, Verdict};

use super::super::output;
use super::super::words::word;
use super::arguments::GateArguments;

/// Figures of the after that are not those of the before, in words.
#[derive(Default)]
struct Changes {
    /// Those that are better: lower, but for a capacity.
    better: Vec<String>,
    /// Those that are worse, or known on one side only.
    worse: Vec<String>,
    /// The largest change in bytes.
    most: u128,
    /// True if the tokens of a server changed by a hundredth or more: `min-delta` is a size.
    has_other_tokens: bool,
}

impl Changes {
    /// Adds a change that makes something worse by this many bytes.
    fn add(&mut self, words: String, delta: Option<i128>) {
        self.most = self.most.max(delta.map_or(0, i128::unsigned_abs));
        self.sort_in(words, delta);
    }

    fn sort_in(&mut self, words: String, delta: Option<i128>) {
        if delta.is_some_and(i128::is_negative) { self.better.push(words) } else { self.worse.push(words) }
    }
}

fn changes(comparison: &Comparison) -> Changes {
    let mut changes = Changes::default();
    changes.add_devices(comparison);
    changes.add_serving(comparison);
    changes.add_checked(&comparison.judgement.checks);
    changes
}

impl Changes {
    /// Adds the metrics of the devices, and their phases with a limit.
    fn add_devices(&mut self, comparison: &Comparison) {
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
                self.add(words, delta);
            }
            // Phases with a limit: of each the occurrence that rose most, and the one that fell most.
            let mut most: BTreeMap<(&str, &str, bool), i128> = BTreeMap::new();
            for (row, (figure, delta)) in
                device.phases.iter().flat_map(|row| limited(row, checks).map(move |of| (row, of)))
            {
                let found = most.entry((figure, &row.name, delta > 0)).or_default();
                *found = if delta.abs() > found.abs() { delta } else { *found };
            }
            for ((figure, name, _), delta) in most.into_iter().filter(|(.., delta)| *delta != 0) {
                self.add(format!("{} {figure} {name} {}", device.name(), Delta(delta)), Some(delta));
            }
        }
    }

    /// Adds what a server states.
    fn add_serving(&mut self, comparison: &Comparison) {
        for figure in Serving::ALL {
            let sides = comparison.diff.profiles.map(|profile| profile.serving.get(&figure).map(|of| of.value));
            if sides.before == sides.after {
                continue;
            }
            let name = figure.name();
            let Some(Sides { before, after }) = sides.both() else {
                self.add(format!("{name} is known on one side only"), None);
                continue;
            };
            let delta = i128::from(after) - i128::from(before);
            let words = format!("{name} {} -> {}", figure.shown(before), figure.shown(after));
            let worse_by = Some(if figure.is_capacity() { -delta } else { delta });
            if figure == Serving::KvCacheTokens {
                self.has_other_tokens = delta.unsigned_abs() * 100 >= u128::from(before);
                self.sort_in(words, worse_by);
            } else {
                self.add(words, worse_by);
            }
        }
    }

    /// Adds what else is beyond its limit, such as a stack, and memory outside of the allocator: no metric shows them.
    fn add_checked(&mut self, checks: &[Check]) {
        let growth = checks.iter().filter(|check| !check.limit.is_absolute && !check.is_of_phases());
        for check in growth.filter(|check| !matches!(check.kind(), LimitKind::Metric(_) | LimitKind::Serving(_))) {
            let is_listed = check.outcome == Outcome::Exceeded || check.kind() == LimitKind::Outside;
            let Some(delta) = check.figures.delta.filter(|delta| is_listed && *delta != 0) else { continue };
            let device = check.device.map(|device| format!("{device} ")).unwrap_or_default();
            let words = format!("{device}{} {}", check.subject(), Delta(delta));
            // Of two limits, one may only warn.
            if !self.better.contains(&words) && !self.worse.contains(&words) {
                self.add(words, Some(delta));
            }
        }
    }
}

/// The changes of the figures of a phase that checks are about, with their names.
fn limited<'c>(row: &PhaseRow, checks: &'c [Check]) -> impl Iterator<Item = (&'static str, i128)> + use<'c> {
    let reserved = row.of_reserved().reserved;
    let figures =
        [(LimitKind::Phases, "phase", row.peak), (LimitKind::ReservedInPhases, "reserved in phase", reserved)];
    let name = Arc::clone(&row.name);
    let limited = figures
        .into_iter()
        .filter(move |(kind, ..)| checks.iter().any(|of| of.kind() == *kind && of.of.is_about_phase(&name)));
    limited.map(|(_, figure, change)| (figure, change.gained().unwrap_or(0)))
}

/// Note on how to record an improvement over a stored before.
pub(super) fn improvement(comparison: &Comparison, arguments: &GateArguments) -> Option<Diagnostic> {
    let Changes { better, worse, most, has_other_tokens } = changes(comparison);
    let matters = has_other_tokens || most >= u128::from(comparison.min_delta.max(1));
    let judgement = &comparison.judgement;
    let stored = is_stored(comparison) && judgement.verdict == Verdict::Pass && judgement.unlike.is_none();
    if !stored || !worse.is_empty() || !matters {
        return None;
    }
    let command = command(comparison, arguments);
    let message = format!("better than the stored before: {}. Record it: `{command}`", better.join(", "));
    Some(Diagnostic::new(Code::Improved, None, message))
}

/// True if the after can take the place of the before.
fn is_stored(comparison: &Comparison) -> bool {
    let Sides { before, after } = comparison.diff.profiles.map(|profile| profile.source.kind);
    let is_of_numbers = before == InputKind::Numbers && after == InputKind::Numbers;
    comparison.member.is_none() && (before == InputKind::Profile || is_of_numbers)
}

/// The command that rewrites the stored before of a gate with its after.
fn command(comparison: &Comparison, arguments: &GateArguments) -> String {
    let gate = word(comparison.name.as_deref().unwrap_or_default());
    let config = arguments.config.config.as_ref();
    let config = config.map(|path| format!(" --config {}", word(&path.display().to_string()))).unwrap_or_default();
    format!("ptmem gate {gate} --update{config}")
}

/// The command that accepts the growth, or the improvement, by which a comparison with a stored before fails.
pub(super) fn accepting(comparison: &Comparison, arguments: &GateArguments) -> Option<String> {
    if !is_stored(comparison) || !comparison.judgement.fails_by_change_alone() {
        return None;
    }
    let rises = !comparison.judgement.fails_by_improvement_alone() || !changes(comparison).worse.is_empty();
    let reason = if rises { " --allow-raise \"why it is worth it\"" } else { "" };
    Some(format!("{}{reason}", command(comparison, arguments)))
}

/// The command that makes an after the stored before, whatever its figures are.
pub(super) fn storing(before: &str, after: &str, kind: InputKind) -> String {
    let [before, after] = [before, after].map(word);
    match kind {
        InputKind::Numbers => format!("cp {after} {before}"),
        InputKind::Snapshot | InputKind::Segments | InputKind::Profile => format!("ptmem profile {after} -o {before}"),
    }
}

/// What came of rewriting a stored before.
pub(super) struct Updated {
    /// In words.
    pub(super) note: String,
    /// Whether the after passes from now on: it is the before.
    pub(super) is_recorded: bool,
}

/// Rewrites the stored before with the after.
pub(super) fn update(comparison: &Comparison, reason: Option<&str>) -> Result<Updated> {
    let Sides { before, after } = &comparison.diff.profiles;
    let name = &before.source.path;
    require_whole(name)?;
    let judgement = &comparison.judgement;
    let kept =
        |why: &str, way: &str| Ok(Updated { note: format!("{name} stays as it is: {why}. {way}"), is_recorded: false });
    let anyway = format!("To record the after in any case: {}", storing(name, &after.source.path, after.source.kind));
    let accepts = judgement.fails_by_change_alone();
    let passes = judgement.verdict == Verdict::Pass || judgement.fails_by_improvement_alone();
    if !passes && (!accepts || reason.is_none()) {
        let why = format!("the verdict is {}", judgement.verdict.name());
        return kept(&why, if accepts { "To accept the growth: --allow-raise REASON" } else { &anyway });
    }
    if let Some(unlike) = judgement.unlike.as_ref().filter(|_| reason.is_none()) {
        return kept(&unlike.to_string(), &anyway);
    }
    let Changes { better, worse, .. } = changes(comparison);
    let rest = UnmeasuredChanges::of(comparison);
    if worse.is_empty() && better.is_empty() && !rest.stacks && !rest.phases {
        return Ok(Updated { note: format!("{name} stays as it is: nothing has changed"), is_recorded: true });
    }
    let mut raises = before.raises.clone();
    match reason {
        _ if worse.is_empty() => {}
        Some(reason) => raises.push(Raise { reason: reason.to_owned(), changes: worse.clone() }),
        None => {
            let why = format!("figures do not improve ({})", worse.join(", "));
            return kept(&why, "To record them: --allow-raise REASON");
        }
    }
    // Figures keep the form that they have.
    let text = match (before.source.kind, after.source.kind) {
        (InputKind::Numbers, InputKind::Numbers) => fs::read(&after.source.path)?,
        _ => saved::bytes_of(after, &raises).map_err(ptmem::profile::ProfileError::from)?,
    };
    output::write_file(Path::new(name), &text)?;
    let changes: Vec<_> = better.into_iter().chain(worse).collect();
    let parts = if rest.stacks { "only stacks changed" } else { "only phases changed" };
    let changes = if changes.is_empty() { parts.to_owned() } else { changes.join(", ") };
    let accepted = judgement.checks.iter().any(Check::is_accepted);
    let hint = if accepted { ". It holds the accepted growth now: remove that from ptmem.toml" } else { "" };
    Ok(Updated { note: format!("{name} updated: {changes}{hint}"), is_recorded: true })
}

/// Changes of what has no figure of its own.
struct UnmeasuredChanges {
    stacks: bool,
    phases: bool,
}

impl UnmeasuredChanges {
    fn of(comparison: &Comparison) -> Self {
        let devices = &comparison.diff.devices;
        let mut phases = devices.iter().flat_map(|device| &device.phases);
        Self {
            stacks: devices.iter().flat_map(|device| &device.rows).any(has_changed),
            // The file does not keep passes: they follow from the stacks that it lists.
            phases: phases.any(|row| row.source != PhaseSource::Pass && row.delta() != Some(0)),
        }
    }
}

/// Whether a stack holds another amount at the compared place, or its most at any moment is another one.
fn has_changed(row: &Row) -> bool {
    row.delta() != 0 || row.highest.both().is_some_and(|Sides { before, after }| before != after)
}

/// Requires that a stored before is a file, not a case of one.
fn require_whole(name: &str) -> Result<()> {
    match name.rsplit_once('#').filter(|_| !Path::new(name).exists()) {
        Some((file, case)) => {
            bail!("--update rewrites whole files; measure the case '{case}' of {file} again, with ptmem_gate.measure()")
        }
        None => Ok(()),
    }
}

//! A result in short, for the formats of CI systems: the verdict, the peak that explains it, and the remarks.

use std::cmp::Reverse;
use std::collections::HashSet;

use ptmem_base::diagnostic::{Code, Diagnostic, Severity};
use ptmem_compare::diff::{Change, ChangeKind, DeviceDiff, Metric};
use ptmem_judge::verdict::{Check, Comparison, Gate, Judgement, Verdict, diagnostics_of_snapshot};
use ptmem_trace::profile::{DeviceProfile, Profile};

use super::known;

/// A result in short.
#[derive(Debug, Default)]
pub struct Summary {
    /// `None` if nothing was judged.
    pub(super) verdict: Option<Verdict>,
    /// The peak of the device that fared worst.
    pub(super) peak: Change,
    /// Whether anything differs.
    pub(super) has_changed: bool,
    /// Whether limits were expected, and none was given.
    pub(super) lacks_limits: bool,
    /// All remarks. Those of the ranks of a job are written once for all.
    pub(super) diagnostics: Vec<Diagnostic>,
}

impl Summary {
    /// Of one snapshot, with the checks of absolute limits if there were any.
    pub(super) fn of_profile(profile: &Profile, judgement: Option<&Judgement>) -> Self {
        let diagnostics = diagnostics_of_snapshot(profile, judgement).into_iter();
        Self {
            verdict: judgement.map(|judgement| judgement.verdict),
            peak: highest_peak(profile.devices.iter()),
            diagnostics: diagnostics.map(|(_, found)| found.clone()).collect(),
            ..Self::default()
        }
    }

    /// Warnings, and growth that passes only because it was agreed to; each once, although it may hold for both sides.
    pub(super) fn announcements(&self) -> Vec<&Diagnostic> {
        let mut seen = HashSet::new();
        let is_told = |of: &Diagnostic| of.severity() == Severity::Warning || of.code == Code::AcceptedGrowth;
        let told = self.diagnostics.iter().filter(|of| is_told(of));
        let mut found: Vec<_> = told.filter(|of| seen.insert((of.code, of.device, &of.message))).collect();
        // Annotations end after some.
        found.sort_by_key(|of| !of.code.is_announced());
        found
    }
}

/// The highest peak of one side. With one unknown peak, it is not known either.
pub(super) fn highest_peak<'d>(devices: impl Iterator<Item = &'d DeviceProfile>) -> Change {
    let active = devices.filter(|device| device.is_active_device());
    let peaks: Option<Vec<u64>> = active.map(|device| known::value(Metric::Peak, device)).collect();
    Change { before: None, after: peaks.and_then(|peaks| peaks.into_iter().max()) }
}

/// The peak of the device that fared worst, in the comparison that did.
pub(super) fn worst_peak(gate: &Gate) -> Option<Change> {
    let Comparison { diff, judgement, .. } = gate.worst_first().into_iter().next()?;
    let devices = diff.devices.iter().filter(|device| !device.is_host());
    let worst = devices.min_by_key(|device| Reverse((judgement.standing(device.id()), growth(device))));
    Some(known::change(Metric::Peak, worst?, &diff.profiles))
}

fn growth(device: &DeviceDiff) -> i128 {
    device.metric(Metric::Peak).gained().unwrap_or(i128::MIN)
}

/// True if a figure or a stack changed, or a phase where there is a limit on phases.
pub(super) fn has_changed(comparison: &Comparison) -> bool {
    let phases_matter = comparison.judgement.checks.iter().any(Check::is_of_phases);
    comparison.diff.devices.iter().any(|device| {
        let metrics = device.metrics.iter().any(|(_, change)| change.gained().is_some_and(|delta| delta != 0));
        let phases = phases_matter && device.phases.iter().any(|row| row.delta() != Some(0));
        metrics || phases || device.rows.iter().any(|row| row.change != ChangeKind::Same)
    })
}

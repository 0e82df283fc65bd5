//! `name=value` lines for the file that `GITHUB_OUTPUT` names: the verdict, and the peak that explains it.

use std::cmp::Reverse;
use std::fmt::Display;

use ptmem_base::units::percent;
use ptmem_compare::diff::{Change, ChangeKind, DeviceDiff, Metric};
use ptmem_judge::verdict::{Check, Comparison, Gate, Job, Verdict};
use ptmem_trace::profile::DeviceProfile;

use super::github::diagnostics;
use super::{RenderOptions, Subject, known};

/// The outputs of a step.
#[derive(Debug, Default)]
struct Outputs {
    /// `None` if nothing was judged.
    verdict: Option<Verdict>,
    /// The peak of the device that fared worst.
    peak: Change,
    /// Whether anything differs.
    changed: bool,
    /// Whether reviewers must be informed even if the verdict is a pass.
    announce: bool,
    /// Whether a label approves the growth.
    approved: bool,
}

pub(super) fn render(subject: Subject<'_>, options: &RenderOptions) -> String {
    let nothing = Outputs {
        approved: options.approval.is_some(),
        announce: diagnostics(subject).iter().any(|found| found.code.is_announced()),
        ..Outputs::default()
    };
    let outputs = match subject {
        Subject::Gate(gate) => Outputs {
            verdict: Some(gate.verdict()),
            peak: worst_peak(gate).unwrap_or_default(),
            changed: gate.leaves().any(has_changed),
            ..nothing
        },
        Subject::Profile(profile, judgement) => Outputs {
            verdict: judgement.map(|judgement| judgement.verdict),
            peak: highest_peak(profile.devices.iter()),
            ..nothing
        },
        Subject::Leaks(gate) => Outputs {
            verdict: Some(gate.verdict()),
            changed: gate.leaves().any(|finding| finding.search.leaks().next().is_some()),
            ..nothing
        },
        Subject::Ranks(readings) => Outputs {
            verdict: readings.jobs().find_map(Job::headline).map(|headline| headline.verdict),
            peak: highest_peak(readings.leaves().flat_map(|reading| &reading.profile.devices)),
            ..nothing
        },
        Subject::Study(_) => nothing,
    };
    outputs.lines()
}

/// The highest peak of one side. With one unknown peak, it is not known either.
fn highest_peak<'d>(devices: impl Iterator<Item = &'d DeviceProfile>) -> Change {
    let active = devices.filter(|device| device.is_active_device());
    let peaks: Option<Vec<u64>> = active.map(|device| known::value(Metric::Peak, device)).collect();
    Change { before: None, after: peaks.and_then(|peaks| peaks.into_iter().max()) }
}

impl Outputs {
    fn lines(&self) -> String {
        let delta = self.peak.gained();
        let share = delta.zip(self.peak.before).and_then(|(delta, before)| percent(delta, before));
        [
            line("verdict", Some(self.verdict.map_or("none", Verdict::name))),
            line("exit-code", Some(self.verdict.map_or(0, Verdict::exit_code))),
            line("peak-before", self.peak.before),
            line("peak-after", self.peak.after),
            line("delta", delta),
            line("percent", share),
            line("changed", Some(self.changed)),
            line("announce", Some(self.announce)),
            line("approved", Some(self.approved)),
        ]
        .concat()
    }
}

/// An output; empty where the value is not known.
fn line(name: &str, value: Option<impl Display>) -> String {
    match value {
        Some(value) => format!("{name}={value}\n"),
        None => format!("{name}=\n"),
    }
}

/// The peak of the device that fared worst, in the comparison that did.
fn worst_peak(gate: &Gate) -> Option<Change> {
    let Comparison { diff, judgement, .. } = gate.worst_first().into_iter().next()?;
    let devices = diff.devices.iter().filter(|device| !device.is_host());
    let worst = devices.min_by_key(|device| Reverse((judgement.standing(device.id()), growth(device))));
    Some(known::change(Metric::Peak, worst?, &diff.profiles))
}

fn growth(device: &DeviceDiff) -> i128 {
    device.metric(Metric::Peak).gained().unwrap_or(i128::MIN)
}

/// True if a figure or a stack changed, or a phase where there is a limit on phases.
fn has_changed(comparison: &Comparison) -> bool {
    let phases_matter = comparison.judgement.checks.iter().any(Check::is_of_phases);
    comparison.diff.devices.iter().any(|device| {
        let metrics = device.metrics.iter().any(|(_, change)| change.gained().is_some_and(|delta| delta != 0));
        let phases = phases_matter && device.phases.iter().any(|row| row.delta() != Some(0));
        metrics || phases || device.rows.iter().any(|row| row.change != ChangeKind::Same)
    })
}

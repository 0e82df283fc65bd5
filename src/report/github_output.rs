//! `name=value` lines for the file that `GITHUB_OUTPUT` names: the verdict, and the peak that explains it.

use super::Subject;
use crate::diff::{Change, Kind, Metric};
use crate::units::percent;
use crate::verdict::{Check, Comparison, Gate, Judgement, Verdict};

/// The peaks are those of the device that fared worst.
pub(super) fn render(subject: Subject<'_>) -> String {
    let (verdict, change, changed) = match subject {
        Subject::Gate(gate) => (Some(gate.verdict()), gate_peak(gate), gate.comparisons.iter().any(changed)),
        Subject::Profile(profile, judgement) => {
            let peaks = profile.devices.iter().filter_map(|device| Metric::Peak.value(device));
            (judgement.map(|j: &Judgement| j.verdict), Change { before: None, after: peaks.max() }, false)
        }
        Subject::Leaks(gate) => {
            let leaks = gate.findings.iter().any(|finding| finding.search.leaks().next().is_some());
            (Some(gate.verdict()), Change { before: None, after: None }, leaks)
        }
        Subject::Ranks(readings) => {
            let profiles = subject.profiles().into_iter().flat_map(|(_, profile, _)| &profile.devices);
            let peaks = profiles.filter_map(|device| Metric::Peak.value(device));
            (readings.verdict(), Change { before: None, after: peaks.max() }, false)
        }
    };
    let number = |number: Option<String>| number.unwrap_or_default();
    let delta = change.delta();
    let share = delta.zip(change.before).and_then(|(delta, before)| percent(delta, before));
    [
        ("verdict", verdict.map_or_else(|| "none".to_owned(), |verdict| verdict.name().to_owned())),
        ("exit-code", verdict.map_or(0, Verdict::exit_code).to_string()),
        ("peak-before", number(change.before.map(|bytes| bytes.to_string()))),
        ("peak-after", number(change.after.map(|bytes| bytes.to_string()))),
        ("delta", number(delta.map(|delta| delta.to_string()))),
        ("percent", number(share.map(|share| share.to_string()))),
        ("changed", changed.to_string()),
    ]
    .map(|(name, value)| format!("{name}={value}\n"))
    .concat()
}

fn gate_peak(gate: &Gate) -> Change {
    let worst = gate.worst_first().into_iter().next().and_then(|Comparison { diff, judgement, .. }| {
        let growth = |device: &&crate::diff::DeviceDiff| device.metric(Metric::Peak).delta().unwrap_or(i128::MIN);
        diff.devices
            .iter()
            .min_by_key(|device| std::cmp::Reverse((judgement.standing(device.ordinal()), growth(device))))
    });
    worst.map_or(Change { before: None, after: None }, |device| device.metric(Metric::Peak))
}

/// Whether any figure or stack changed, or a phase where there is a limit on phases.
fn changed(comparison: &Comparison) -> bool {
    let of_phases = comparison.judgement.checks.iter().any(Check::is_of_phases);
    comparison.diff.devices.iter().any(|device| {
        let metrics = device.metrics.iter().any(|(_, change)| change.delta().is_some_and(|delta| delta != 0));
        let phases = of_phases && device.phases.iter().any(|row| row.delta() != Some(0));
        metrics || phases || device.rows.iter().any(|row| row.change != Kind::Same)
    })
}

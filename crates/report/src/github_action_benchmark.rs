//! The figures of the after, or of the only snapshot, for github-action-benchmark.

use std::io::{self, Write};

use ptmem_compare::diff::Metric;
use ptmem_judge::verdict::{About, Gate, JudgedSearch, Ranks, Readings};
use ptmem_trace::profile::{DeviceProfile, Profile};

use super::{Subject, known};
use ptmem_base::json_writer::{self as json, list, object};

/// The JSON of github-action-benchmark (`customSmallerIsBetter`).
pub(super) fn write(subject: Subject<'_>, out: &mut dyn Write) -> io::Result<()> {
    let series = series(subject);
    let entries =
        series.iter().flat_map(|(name, figures)| figures.iter().map(|(metric, value)| Entry(name, metric, *value)));
    json::write(&list(entries), out)
}

object! {
    Entry<'a>(series: &'a str, metric: &'a str, value: u64) {
        name: format!("{series}: {metric}"),
        unit: "bytes",
        value,
    }
}

/// Comparison and device, with its bytes by metric where they are known: of the after, or of the only snapshot.
type Series = (String, Vec<(&'static str, u64)>);

/// The figures of every device that did anything.
fn series(subject: Subject<'_>) -> Vec<Series> {
    match subject {
        Subject::Gate(gate) => of_gate(gate),
        Subject::Profile(profile, _) => of_profile(None, profile),
        Subject::Leaks(gate) => gate.findings.iter().flat_map(of_leaks).collect(),
        Subject::Ranks(readings) => of_readings(readings),
        Subject::History(_) | Subject::Scale(_) | Subject::Settings(_) => Vec::new(),
    }
}

fn of_gate(gate: &Gate) -> Vec<Series> {
    let all = gate.comparisons().flat_map(|of| of_profile(of.name.as_deref(), &of.diff.profiles.after));
    all.chain(gate.jobs().filter_map(|job| imbalance(&job.ranks))).collect()
}

fn of_readings(readings: &Readings) -> Vec<Series> {
    let all = readings.readings.iter().flat_map(|of| of_profile(Some(&of.member.label), &of.profile));
    all.chain(imbalance(&readings.ranks)).collect()
}

fn of_profile(name: Option<&str>, profile: &Profile) -> Vec<Series> {
    let active = profile.devices.iter().filter(|device| device.is_active());
    active.map(|device| (scoped(name, device.device), figures(device))).collect()
}

/// Every metric that is known: one that is not is left out.
fn figures(device: &DeviceProfile) -> Vec<(&'static str, u64)> {
    Metric::ALL.into_iter().filter_map(|metric| Some((metric.name(), known::value(metric, device)?))).collect()
}

/// The device, within the comparison or the rank where there are several.
fn scoped(name: Option<&str>, device: u32) -> String {
    match name {
        Some(name) => format!("{name}/device {device}"),
        None => format!("device {device}"),
    }
}

/// The imbalance of the ranks of a job, where it is known.
fn imbalance(ranks: &Ranks) -> Option<Series> {
    let name = ranks.name.as_ref().map_or_else(|| "ranks".to_owned(), |name| format!("{name}/ranks"));
    Some((name, vec![(About::Imbalance.name(), ranks.imbalance.after?)]))
}

/// The leaks of every device with a clear result, in bytes per snapshot or step.
fn of_leaks(finding: &JudgedSearch) -> Vec<Series> {
    let search = &finding.search;
    let clear = search.devices.iter().filter(|device| device.unclear.is_none());
    let series = clear.map(|device| {
        let leaked = u64::try_from(device.bytes_per_step()).unwrap_or(0);
        (scoped(search.name.as_deref(), device.device), vec![("leak", leaked)])
    });
    series.collect()
}

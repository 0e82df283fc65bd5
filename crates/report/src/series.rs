//! The figures by which a history is kept: those of the after, or of the only snapshot.

use super::{Subject, known};
use crate::diff::Metric;
use crate::leak::DeviceLeaks;
use crate::profile::{DeviceProfile, Profile};
use crate::verdict::{About, Finding, Gate, Ranks, Readings};

/// The figures of one device of the after, or of the only snapshot.
#[derive(Debug)]
pub(super) struct Series {
    /// Comparison and device.
    pub(super) name: String,
    /// Bytes by metric, where they are known.
    pub(super) figures: Vec<(&'static str, u64)>,
}

/// The figures of every device that did anything.
pub(super) fn series(subject: Subject<'_>) -> Vec<Series> {
    match subject {
        Subject::Gate(gate) => of_gate(gate),
        Subject::Profile(profile, _) => of_profile(None, profile),
        Subject::Leaks(gate) => gate.findings.iter().flat_map(of_leaks).collect(),
        Subject::Ranks(readings) => of_readings(readings),
        Subject::History(_) | Subject::Scale(_) => Vec::new(),
    }
}

fn of_gate(gate: &Gate) -> Vec<Series> {
    let mut series = Vec::new();
    for comparison in &gate.comparisons {
        series.extend(of_profile(comparison.name.as_deref(), &comparison.diff.profiles.after));
    }
    series.extend(gate.ranks.iter().filter_map(imbalance));
    series
}

fn of_readings(readings: &Readings) -> Vec<Series> {
    let mut series = Vec::new();
    for reading in &readings.readings {
        series.extend(of_profile(Some(&reading.member.label), &reading.profile));
    }
    series.extend(imbalance(&readings.ranks));
    series
}

fn of_profile(name: Option<&str>, profile: &Profile) -> Vec<Series> {
    let active = profile.devices.iter().filter(|device| device.is_active());
    active.map(|device| Series { name: scoped(name, device.device), figures: figures(device) }).collect()
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
    Some(Series { name, figures: vec![(About::Imbalance.name(), ranks.imbalance.after?)] })
}

/// The leaks of every device with a clear result, in bytes per snapshot or step.
fn of_leaks(finding: &Finding) -> Vec<Series> {
    let search = &finding.search;
    let clear = search.devices.iter().filter(|device| device.unclear.is_none());
    clear
        .map(|device| Series { name: scoped(search.name.as_deref(), device.device), figures: vec![leaked(device)] })
        .collect()
}

fn leaked(device: &DeviceLeaks) -> (&'static str, u64) {
    ("leak", u64::try_from(device.bytes_per_step()).unwrap_or(0))
}

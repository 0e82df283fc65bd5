//! The figures by which a history is kept, and the JSON of github-action-benchmark (`customSmallerIsBetter`).

use serde::Serialize;

use super::Subject;
use crate::diff::Metric;
use crate::profile::Profile;
use crate::verdict::{Finding, IMBALANCE, Ranks};

/// The figures of one device of the after, or of the only snapshot.
pub(super) struct Series {
    /// Comparison and device.
    pub(super) name: String,
    /// What is known, in bytes.
    pub(super) figures: Vec<(&'static str, u64)>,
}

/// The figures of every device that did anything.
pub(super) fn series(subject: Subject<'_>) -> Vec<Series> {
    let of = |name: Option<&str>, profile: &Profile| -> Vec<Series> {
        let active = profile.devices.iter().filter(|device| device.is_active());
        let series = active.map(|device| {
            let device_name = format!("device {}", device.device);
            let value = |metric: Metric| Some((metric.name(), metric.value(device)?));
            Series {
                name: name.map_or_else(|| device_name.clone(), |name| format!("{name}/{device_name}")),
                figures: Metric::ALL.into_iter().filter_map(value).collect(),
            }
        });
        series.collect()
    };
    let across = |ranks: &Ranks| {
        let figures = ranks.imbalance.after.map(|imbalance| vec![(IMBALANCE, imbalance)]);
        let name = ranks.name.as_ref().map_or_else(|| "ranks".to_owned(), |name| format!("{name}/ranks"));
        Some(Series { name, figures: figures? })
    };
    match subject {
        Subject::Gate(gate) => {
            let comparisons = gate.comparisons.iter().flat_map(|c| of(c.name.as_deref(), &c.diff.profiles.after));
            comparisons.chain(gate.ranks.iter().filter_map(across)).collect()
        }
        Subject::Profile(profile, _) => of(None, profile),
        Subject::Leaks(gate) => gate.findings.iter().flat_map(leaked).collect(),
        Subject::Ranks(readings) => {
            let all = subject.profiles().into_iter().flat_map(|(name, profile, _)| of(name, profile));
            all.chain(across(&readings.ranks)).collect()
        }
    }
}

/// What leaks on every device, in bytes per snapshot or step.
fn leaked(finding: &Finding) -> Vec<Series> {
    let search = &finding.search;
    let series = search.devices.iter().filter(|device| device.unclear.is_none()).map(|device| {
        let device_name = format!("device {}", device.device);
        let leaked = u64::try_from(device.bytes_per_step()).unwrap_or(0);
        Series {
            name: search.name.as_deref().map_or_else(|| device_name.clone(), |name| format!("{name}/{device_name}")),
            figures: vec![("leak", leaked)],
        }
    });
    series.collect()
}

#[derive(Serialize)]
struct Entry {
    name: String,
    unit: &'static str,
    value: u64,
}

pub(super) fn render(subject: Subject<'_>) -> Result<String, serde_json::Error> {
    let entries: Vec<Entry> = series(subject)
        .into_iter()
        .flat_map(|Series { name, figures }| {
            figures.into_iter().map(move |(metric, value)| Entry {
                name: format!("{name}: {metric}"),
                unit: "bytes",
                value,
            })
        })
        .collect();
    Ok(serde_json::to_string_pretty(&entries)? + "\n")
}

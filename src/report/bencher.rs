//! Bencher Metric Format: per device the figures of the after.

use std::collections::BTreeMap;

use serde::Serialize;

use super::Subject;
use super::series::series;

#[derive(Serialize)]
struct Value {
    value: u64,
}

pub(super) fn render(subject: Subject<'_>) -> Result<String, serde_json::Error> {
    let benchmarks: BTreeMap<String, BTreeMap<&str, Value>> = series(subject)
        .into_iter()
        .map(|series| {
            let figures = series.figures.into_iter().map(|(metric, value)| (metric, Value { value }));
            (series.name, figures.collect())
        })
        .collect();
    Ok(serde_json::to_string_pretty(&benchmarks)? + "\n")
}

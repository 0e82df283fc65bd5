//! Bencher Metric Format: per device the figures of the after.

use std::collections::BTreeMap;

use serde::Serialize;

use super::Subject;
use super::series::series;

#[derive(Debug, Serialize)]
struct Value {
    value: u64,
}

pub(super) fn render(subject: Subject<'_>) -> Result<String, serde_json::Error> {
    let mut benchmarks: BTreeMap<String, BTreeMap<&str, Value>> = BTreeMap::new();
    for series in series(subject) {
        let figures = series.figures.into_iter().map(|(metric, value)| (metric, Value { value }));
        benchmarks.insert(series.name, figures.collect());
    }
    Ok(crate::text::printable_json(serde_json::to_string_pretty(&benchmarks)?) + "\n")
}

//! The JSON of github-action-benchmark (`customSmallerIsBetter`).

use serde::Serialize;

use super::Subject;
use super::series::series;

#[derive(Debug, Serialize)]
struct Entry {
    name: String,
    unit: &'static str,
    value: u64,
}

pub(super) fn render(subject: Subject<'_>) -> Result<String, serde_json::Error> {
    let mut entries = Vec::new();
    for series in series(subject) {
        for (metric, value) in series.figures {
            entries.push(Entry { name: format!("{}: {metric}", series.name), unit: "bytes", value });
        }
    }
    Ok(crate::text::printable_json(serde_json::to_string_pretty(&entries)?) + "\n")
}

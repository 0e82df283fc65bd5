//! The JSON of github-action-benchmark (`customSmallerIsBetter`).

use std::io::{self, Write};

use super::Subject;
use super::series::series;
use crate::json_writer::{self as json, list, object};

object! {
    Entry<'a>(series: &'a str, metric: &'a str, value: u64) {
        name: format!("{series}: {metric}"),
        unit: "bytes",
        value,
    }
}

pub(super) fn write(subject: Subject<'_>, out: &mut dyn Write) -> io::Result<()> {
    let series = series(subject);
    let entries = series.iter().flat_map(|of| of.figures.iter().map(|(metric, value)| Entry(&of.name, metric, *value)));
    json::write(&list(entries), out)
}

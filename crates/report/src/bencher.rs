//! Bencher Metric Format: per device the figures of the after.

use std::collections::BTreeMap;
use std::io::{self, Write};

use super::Subject;
use super::series::series;
use crate::json_writer::{self as json, object};

object! {
    Value(value: u64) {
        value,
    }
}

pub(super) fn write(subject: Subject<'_>, out: &mut dyn Write) -> io::Result<()> {
    let mut benchmarks: BTreeMap<String, BTreeMap<&str, Value>> = BTreeMap::new();
    for series in series(subject) {
        let figures = series.figures.into_iter().map(|(metric, value)| (metric, Value(value)));
        benchmarks.insert(series.name, figures.collect());
    }
    json::write(&benchmarks, out)
}

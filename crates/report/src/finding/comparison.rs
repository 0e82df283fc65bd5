//! The checks of a comparison.

use std::collections::HashMap;

use super::{Explanation, Finding, MOST_ROWS, Row};
use crate::Options;
use crate::diff::{self, DeviceDiff, RowKind, Sides};
use crate::place::Place;
use crate::profile::DeviceProfile;
use crate::stack::Code;
use crate::verdict::{About, Check, Comparison, Outcome};

/// The rows of a comparison by device and key.
type RowsByKey<'d> = HashMap<(Option<u32>, &'d str), &'d diff::Row>;

pub(super) fn findings<'a>(comparison: &'a Comparison, codes: &Sides<Code<'a>>, options: &Options) -> Vec<Finding<'a>> {
    let Comparison { diff, judgement, .. } = comparison;
    let mut rows = RowsByKey::new();
    for device in &diff.devices {
        rows.extend(device.rows.iter().map(|row| ((device.ordinal(), row.key.as_str()), row)));
    }
    let findings = judgement.checks.iter().map(|check| {
        let device = diff.devices.iter().find(|device| device.ordinal() == check.device);
        let explanation = device.map(|device| explain(check, device, comparison, &rows, codes, options));
        Finding::new(check, judgement, device.map(DeviceDiff::name), explanation.unwrap_or_default())
    });
    findings.collect()
}

/// The stack that a check is about, or that explains a figure best.
fn explain<'a>(
    check: &Check,
    device: &DeviceDiff,
    comparison: &Comparison,
    rows: &RowsByKey<'_>,
    codes: &Sides<Code<'a>>,
    options: &Options,
) -> Explanation<'a> {
    if check.outcome != Outcome::Exceeded {
        return Explanation::default();
    }
    if check.about() == About::OutOfMemory {
        let after = device.index.after.map(|index| &comparison.diff.profiles.after.devices[index]);
        return Explanation::of_stack(&codes.after, after.and_then(DeviceProfile::failed_stack), options);
    }
    let culprit = match &check.key {
        Some(key) => rows.get(&(check.device, key.as_str())).copied(),
        None => grew_most(device, &codes.after),
    };
    let mut explanation = Explanation::of_stack(&codes.after, culprit.and_then(|row| row.stack.after), options);
    // GitHub shows an annotation among the lines of the change where it has one of them.
    if let Some(line) = culprit.and_then(touched_line) {
        explanation.place = Some(line);
    }
    // The sentence of a check of one stack has its figures.
    let rows = if check.key.is_none() { grown_rows(device) } else { Vec::new() };
    Explanation { rows, ..explanation }
}

/// The line of the after that the change touches on the way to a stack.
fn touched_line(row: &diff::Row) -> Option<Place> {
    let first = row.touched.lines.after.first()?;
    Some(Place { path: first.path.clone(), line: first.line })
}

fn grown_rows(device: &DeviceDiff) -> Vec<Row> {
    let grew = device.rows.iter().filter(|row| row.delta() > 0).take(MOST_ROWS);
    grew.map(|row| Row::Change {
        label: row.label.clone(),
        before: row.held.before.bytes,
        after: row.held.after.bytes,
        is_touched: row.touched.is_some(),
    })
    .collect()
}

/// The stack that explains the growth of a figure: that which grew most, before all one with a line of the user.
pub(crate) fn grew_most<'d>(device: &'d DeviceDiff, after: &Code<'_>) -> Option<&'d diff::Row> {
    let mut grew = device.rows.iter().filter(|row| row.kind == RowKind::Stack && row.delta() > 0);
    let first = grew.clone().next();
    grew.find(|row| row.stack.after.is_some_and(|stack| after.user_site(stack).is_some())).or(first)
}

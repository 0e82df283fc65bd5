//! The edit of the change that a regression leads to.

use ptmem_compare::cause::Cause;
use ptmem_compare::diff::{DeviceDiff, Diff};
use ptmem_trace::profile::Metric;

use super::{About, Check, Judgement, Outcome, Verdict};

/// Adds the edits that checks lead to, and the sentence about the one that explains the verdict.
pub(super) fn complete(mut judgement: Judgement, diff: &Diff) -> Judgement {
    for check in judgement.checks.iter_mut().filter(|check| check.outcome == Outcome::Exceeded && check.delta > Some(0))
    {
        let device = diff.devices.iter().find(|device| device.ordinal() == check.device);
        check.edit = device.and_then(|device| edit(check, device, device.cause.as_ref()?));
    }
    if judgement.verdict == Verdict::Regression {
        let decisive = judgement.decisive().filter(|check| check.delta > Some(0));
        let device = decisive.and_then(|check| diff.devices.iter().find(|device| device.ordinal() == check.device));
        judgement.cause = device.and_then(|device| device.cause.as_ref()?.lead());
    }
    judgement
}

/// The edit that the growth of a figure leads to: the rows are those of the peak.
fn edit(check: &Check, device: &DeviceDiff, cause: &Cause) -> Option<usize> {
    match check.about() {
        About::Metric(Metric::Peak) => cause.leading().map(|share| share.edit),
        About::Stacks | About::StackHighest => {
            device.rows.iter().find(|row| Some(&row.key) == check.key.as_ref())?.edit
        }
        _ => None,
    }
}

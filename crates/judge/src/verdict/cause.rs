//! The edit of the change that a regression leads to.

use ptmem_base::text::count;
use ptmem_compare::diff::cause::Cause;
use ptmem_compare::diff::{DeviceDiff, Diff};
use ptmem_trace::profile::Metric;

use super::{About, Check, Judgement, Outcome, Verdict};

/// Checks that are named behind another one.
const MOST_NAMED: usize = 10;

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

impl Judgement {
    /// The checks, with those that exceed their limits by growth that leads to one edit put behind the worst of them.
    #[must_use]
    pub fn by_cause(&self) -> Vec<(&Check, Vec<&Check>)> {
        let mut groups: Vec<(&Check, Vec<&Check>)> = Vec::new();
        for check in &self.checks {
            let is_same = |(first, _): &&mut (&Check, Vec<&Check>)| {
                check.edit.is_some()
                    && (first.edit, first.device, first.level) == (check.edit, check.device, check.level)
            };
            match groups.iter_mut().find(is_same) {
                Some((_, others)) => others.push(check),
                None => groups.push((check, Vec::new())),
            }
        }
        groups
    }

    /// The sentence of a check, and the names of others whose growth leads to the same edit.
    #[must_use]
    pub fn sentence_of_cause(&self, check: &Check, others: &[&Check]) -> String {
        let names = others.iter().take(MOST_NAMED).map(|check| check.subject()).collect::<Vec<_>>().join(", ");
        let more = if others.len() > MOST_NAMED { ", …" } else { "" };
        let sentence = self.sentence(check);
        match others.len() as u64 {
            0 => sentence,
            number => {
                format!(
                    "{sentence}; {} to the same edit: {names}{more}",
                    count(number, "more check leads", "more checks lead")
                )
            }
        }
    }
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

//! The part of a growth that comes through lines which the change of the code touches.

use super::judge::Judge;
use super::{About, Check};
use crate::diff::{DeviceDiff, Diff, Metric};
use crate::profile::Moment;
use crate::units::Size;

impl Judge {
    /// Adds it to every check of growth at the moment whose stacks are compared.
    pub(super) fn touched(&mut self, diff: &Diff) {
        for check in self.checks.iter_mut().filter(|check| check.delta.is_some_and(|delta| delta > 0)) {
            check.touched = touched(check, diff);
        }
    }
}

fn touched(check: &Check, diff: &Diff) -> Option<i128> {
    let device = diff.devices.iter().find(|device| device.ordinal() == check.device)?;
    let of_device = device.touched?;
    match check.about() {
        About::Metric(metric) => is_at(metric, &diff.profiles.after.options.at).then_some(of_device),
        About::Stacks => of_stack(check, device),
        // Lines are known of what stacks hold at the moment that is compared, not of the most that they held.
        _ => None,
    }
}

fn of_stack(check: &Check, device: &DeviceDiff) -> Option<i128> {
    let key = check.key.as_deref()?;
    device.rows.iter().find(|row| row.key == key).map(|row| row.touched.delta)
}

/// True if the stacks at a moment add up to the metric.
fn is_at(metric: Metric, moment: &Moment) -> bool {
    matches!(
        (metric, moment),
        (Metric::Peak, Moment::Peak | Moment::Aligned(_))
            | (Metric::Baseline, Moment::Baseline)
            | (Metric::End, Moment::End)
    )
}

/// The part in words, to follow those of the growth; nothing where it is zero: a change that only widens a layer or drops a
/// `no_grad` grows stacks of lines that it leaves as they are, and must not read as if it were not the cause.
pub(super) fn words(touched: i128, growth: i128) -> String {
    const THROUGH: &str = "through lines that this change touches";
    match touched {
        ..=0 => String::new(),
        // More than all where other lines shrank.
        _ if touched >= growth => format!(", all of it {THROUGH}"),
        _ => format!(", {} of it {THROUGH}", Size(u64::try_from(touched).unwrap_or(u64::MAX))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_part_is_all_or_some_of_the_growth_and_no_word_where_it_is_none() {
        let through = "through lines that this change touches";
        for (touched, expected) in [(10, "10 B of it"), (20, "all of it"), (30, "all of it")] {
            assert_eq!(words(touched, 20), format!(", {expected} {through}"));
        }
        for touched in [-1, 0] {
            assert_eq!(words(touched, 20), "");
        }
    }
}

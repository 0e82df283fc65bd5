//! Shares and sums of numbers of allocations.

use super::parts::Counts;

pub(super) fn sum(counts: &Counts) -> u64 {
    counts.values().copied().fold(0, u64::saturating_add)
}

pub(super) fn thousandths(part: u64, whole: u64) -> u64 {
    let share = (u128::from(part) * 1000).checked_div(whole.into()).unwrap_or(0);
    u64::try_from(share).unwrap_or(u64::MAX)
}

#[allow(clippy::cast_precision_loss, reason = "only compared with other approximate figures")]
pub(super) fn float(number: u64) -> f64 {
    number as f64
}

pub(super) fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { float(part) / float(whole) }
}

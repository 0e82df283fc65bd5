//! Changes in words, and how far they are known.

use ptmem_base::units::{Size, format_percent};

/// How far a change is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bound {
    /// The growth is at least that large.
    AtLeast,
    /// The growth is at most that large.
    AtMost,
}

/// A change in words, with its percentage where the value before is known.
pub(super) fn change(delta: i128, before: Option<u64>, bound: Option<Bound>) -> String {
    let direction = match (delta, bound) {
        (0, Some(Bound::AtMost)) => return "did not grow".to_owned(),
        (0, _) => return "did not change".to_owned(),
        (1.., None) => "grew",
        (1.., Some(Bound::AtLeast)) => "grew by at least",
        (1.., Some(Bound::AtMost)) => "grew by at most",
        (_, None | Some(Bound::AtLeast)) => "shrank",
        (_, Some(Bound::AtMost)) => "shrank by at least",
    };
    by(direction, delta, before)
}

/// A change for the better beyond a limit on both sides; where a side lacks a part, it is a lower bound.
pub(super) fn improved(delta: i128, before: Option<u64>, bound: Option<Bound>) -> String {
    by(if bound.is_some() { "improved by at least" } else { "improved by" }, delta, before)
}

fn by(direction: &str, delta: i128, before: Option<u64>) -> String {
    let percent = before.and_then(|before| format_percent(delta, before));
    let percent = percent.map(|percent| format!(" ({percent})")).unwrap_or_default();
    format!("{direction} {}{percent}", Size(saturated(delta.unsigned_abs())))
}

pub(super) fn saturated(bytes: u128) -> u64 {
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

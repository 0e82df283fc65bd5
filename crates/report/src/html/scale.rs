//! Scales of charts: thousandths of their width and height, and the lines of a grid at round sizes.

use crate::units::Size;

/// The width and the height of every chart in its own units.
pub(super) const SPAN: u64 = 1_000;

/// A number in thousandths of a unit, printed without trailing zeros.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Milli(pub(super) i64);

impl std::fmt::Display for Milli {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let sign = if self.0 < 0 { "-" } else { "" };
        let whole = self.0.unsigned_abs() / 1_000;
        let rest = self.0.unsigned_abs() % 1_000;
        if rest == 0 {
            return write!(f, "{sign}{whole}");
        }
        let digits = format!("{rest:03}");
        write!(f, "{sign}{whole}.{}", digits.trim_end_matches('0'))
    }
}

/// `part` of `whole` in units of a scale of `span`, to a thousandth.
pub(super) fn share(part: u64, whole: u64, span: u64) -> Milli {
    let value = (u128::from(part) * u128::from(span) * 1_000 + u128::from(whole) / 2).checked_div(whole.into());
    Milli(value.and_then(|value| i64::try_from(value).ok()).unwrap_or(0))
}

/// A range of one of the three scales along the recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Domain {
    pub(super) from: i64,
    pub(super) to: i64,
}

impl Domain {
    /// The range of values; none where there are none.
    pub(super) fn of(values: impl Iterator<Item = i64> + Clone) -> Option<Self> {
        Some(Self { from: values.clone().min()?, to: values.max()? })
    }

    /// A value in units of a scale of `span`.
    pub(super) fn place(&self, value: i64, span: u64) -> Milli {
        let inside = value.clamp(self.from, self.to);
        share(inside.abs_diff(self.from), self.to.abs_diff(self.from).max(1), span)
    }
}

/// Round sizes from 0 up to the top of a chart, about five of them.
pub(super) fn ticks(top: u64) -> Vec<u64> {
    let least = (top / 5).max(1);
    let unit = 1_u64 << (least.ilog2() / 10 * 10);
    let in_units = least.div_ceil(unit);
    let steps = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1_024, 2_048];
    let step = steps.into_iter().find(|&step| step >= in_units).unwrap_or(in_units).saturating_mul(unit);
    (0..).map(|number: u64| number.saturating_mul(step)).take_while(|&tick| tick <= top).take(12).collect()
}

/// A round size as an axis has it: `20 GiB`, not `20.00 GiB`.
pub(super) fn tick_label(bytes: u64) -> String {
    Size(bytes).to_string().replace(".00 ", " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(top: u64) -> Vec<String> {
        ticks(top).into_iter().map(tick_label).collect()
    }

    #[test]
    fn ticks_are_round_sizes_within_the_chart() {
        assert_eq!(ticks(100), [0, 20, 40, 60, 80, 100]);
        assert_eq!(labels(350 << 20), ["0 B", "100 MiB", "200 MiB", "300 MiB"]);
        assert_eq!(labels(75 << 30), ["0 B", "20 GiB", "40 GiB", "60 GiB"]);
        assert_eq!(ticks(0), [0]);
        assert!(ticks(u64::MAX).len() > 2);
    }

    #[test]
    fn places_are_printed_shortly() {
        assert_eq!(share(1, 3, SPAN).to_string(), "333.333");
        assert_eq!(share(1, 2, 100).to_string(), "50");
        assert_eq!(share(1, 0, 100).to_string(), "0");
        assert_eq!(Domain { from: -5, to: 15 }.place(0, 100).to_string(), "25");
        assert_eq!(Milli(-1_500).to_string(), "-1.5");
    }
}

//! Scales of charts: places along their width and height, and the lines of a grid at round sizes.

use crate::units::Size;

/// The width and the height of every chart in its own units.
pub(super) const SPAN: u64 = 1_000;

/// A place or a length in a picture.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub(super) struct Place(pub(super) f64);

/// To a hundredth, without trailing zeros.
impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", (self.0 * 100.0).round() / 100.0 + 0.0)
    }
}

/// `part` of `whole` in units of a scale of `span`.
pub(super) fn share(part: u64, whole: u64, span: u64) -> Place {
    if whole == 0 { Place(0.0) } else { Place(part as f64 / whole as f64 * span as f64) }
}

/// A range of a scale.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Domain {
    pub(super) from: f64,
    pub(super) to: f64,
}

impl Domain {
    /// A value in units of a scale of `span`.
    pub(super) fn place(&self, value: f64, span: u64) -> Place {
        let part = (value - self.from) / (self.to - self.from).max(f64::MIN_POSITIVE);
        Place(part.clamp(0.0, 1.0) * span as f64)
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
        assert_eq!(share(1, 3, SPAN).to_string(), "333.33");
        assert_eq!(share(1, 2, 100).to_string(), "50");
        assert_eq!(share(1, 0, 100).to_string(), "0");
        assert_eq!(Domain { from: -5.0, to: 15.0 }.place(0.0, 100).to_string(), "25");
        assert_eq!(Place(-1.5).to_string(), "-1.5");
        assert_eq!(Place(-0.001).to_string(), "0");
    }
}

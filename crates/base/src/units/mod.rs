//! Bytes and percentages: parse, format, compare exactly.
//!
//! Sizes are printed in binary units and read in binary (`MiB`) and decimal (`MB`) ones. No
//! comparison goes through a floating-point number.

mod limit;

use std::fmt;

pub use limit::{Limit, ParseError, parse_size};

/// A unit of sizes.
pub struct Unit {
    /// Its name: `MiB`.
    pub name: &'static str,
    bytes: u64,
}

impl Unit {
    /// The largest binary unit that does not exceed a size.
    pub fn of(bytes: u64) -> &'static Self {
        BINARY.iter().rev().find(|unit| unit.bytes <= bytes).unwrap_or(&BINARY[0])
    }

    fn divides(&self, bytes: u64) -> bool {
        bytes.is_multiple_of(self.bytes)
    }

    /// The number of these units in a size, to three decimals without trailing zeros.
    pub fn number(&self, bytes: u64) -> String {
        let thousandths = scaled_quotient(bytes.into(), 1000, self.bytes.into());
        let number = format!("{}.{:03}", thousandths / 1000, thousandths % 1000);
        number.trim_end_matches('0').trim_end_matches('.').to_owned()
    }
}

/// Bytes that the CUDA context with its kernels takes of a card, estimated by the number of multiprocessors: 150 MiB on any card, and
/// 3 MiB for each of them, for local memory of their threads and the queues of `printf`.
pub fn cuda_context(processors: u64) -> u64 {
    processors.saturating_mul(3 << 20).saturating_add(150 << 20)
}

static BINARY: [Unit; 7] = [
    Unit { name: "B", bytes: 1 },
    Unit { name: "KiB", bytes: 1 << 10 },
    Unit { name: "MiB", bytes: 1 << 20 },
    Unit { name: "GiB", bytes: 1 << 30 },
    Unit { name: "TiB", bytes: 1 << 40 },
    Unit { name: "PiB", bytes: 1 << 50 },
    Unit { name: "EiB", bytes: 1 << 60 },
];

const DECIMAL: [Unit; 6] = [
    Unit { name: "kB", bytes: 1_000 },
    Unit { name: "MB", bytes: 1_000_000 },
    Unit { name: "GB", bytes: 1_000_000_000 },
    Unit { name: "TB", bytes: 1_000_000_000_000 },
    Unit { name: "PB", bytes: 1_000_000_000_000_000 },
    Unit { name: "EB", bytes: 1_000_000_000_000_000_000 },
];

/// A number of bytes that prints as `1.25 GiB`, to two decimals, whole below 1 KiB.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Size(pub u64);

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format_magnitude(u128::from(self.0)))
    }
}

/// A size as a user writes it, printed in decimal units if it is a whole number only in those: `100 MB`, not `95.37
/// MiB`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GivenSize(pub u64);

impl fmt::Display for GivenSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut units = DECIMAL.iter().zip(&BINARY[1..]).rev();
        match units.find(|(decimal, binary)| decimal.divides(self.0) && !binary.divides(self.0)) {
            Some((unit, _)) => write!(f, "{} {}", self.0 / unit.bytes, unit.name),
            None => Size(self.0).fmt(f),
        }
    }
}

/// A signed change in bytes that prints as `+1.25 GiB`, `-512 B` or `0 B`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Delta(pub i128);

impl fmt::Display for Delta {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = match self.0 {
            0 => "",
            1.. => "+",
            _ => "-",
        };
        f.pad(&format!("{sign}{}", format_magnitude(self.0.unsigned_abs())))
    }
}

fn format_magnitude(bytes: u128) -> String {
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut index = 1;
    loop {
        let unit = &BINARY[index];
        let hundredths = scaled_quotient(bytes, 100, unit.bytes.into());
        // 1023.999 MiB would round to 1024.00 MiB: say 1.00 GiB.
        if hundredths < 102_400 || index + 1 == BINARY.len() {
            return format!("{}.{:02} {}", hundredths / 100, hundredths % 100, unit.name);
        }
        index += 1;
    }
}

/// `value * scale / divisor`, rounded half up; saturates where the product leaves 128 bits.
fn scaled_quotient(value: u128, scale: u128, divisor: u128) -> u128 {
    value.saturating_mul(scale).saturating_add(divisor / 2) / divisor
}

/// Growth to this multiple of the amount before is printed as a multiple, not in percent.
const MULTIPLE_FROM: u128 = 11;

/// The change from `before` by `delta` in percent, as `+7.1 %`; `None` where `before` is 0.
///
/// One decimal; a change below 0.1 % gets more, up to six, as it would else exceed a limit that it keeps. From tenfold growth on it is what there is
/// now as a multiple of what there was, as `42 times`.
pub fn format_percent(delta: i128, before: u64) -> Option<String> {
    if before == 0 {
        return None;
    }
    let sign = match delta {
        0 => return Some("0 %".to_owned()),
        1.. => '+',
        _ => '-',
    };
    let now = i128::from(before).saturating_add(delta).unsigned_abs();
    if delta > 0 && now >= u128::from(before) * MULTIPLE_FROM {
        return Some(format!("{} times", scaled_quotient(now, 1, u128::from(before))));
    }
    for decimals in [1_u32, 2, 3, 4, 5, 6] {
        let scale = 10_u128.pow(decimals);
        let is_visible = delta.unsigned_abs().saturating_mul(100 * scale) >= u128::from(before);
        if is_visible || decimals == 6 {
            let digits = scaled_quotient(delta.unsigned_abs(), 100 * scale, u128::from(before));
            let whole = digits / scale;
            let fraction = digits % scale;
            return Some(format!("{sign}{whole}.{fraction:0width$} %", width = decimals as usize));
        }
    }
    None
}

/// The change in percent, rounded to six decimals so that the same figures print the same everywhere.
pub fn percent(delta: i128, before: u64) -> Option<f64> {
    if before == 0 {
        return None;
    }
    let percent = approximate(delta) / approximate(before) * 100.0;
    Some((percent * 1e6).round() / 1e6)
}

/// A number for estimates, charts and comparisons with such. It is exact up to 2^53, which is more than any device has.
#[allow(clippy::cast_precision_loss, reason = "that is what approximate says")]
pub fn approximate(number: impl Into<i128>) -> f64 {
    number.into() as f64
}

/// An estimate that is never below 0 as a whole number.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the cast saturates")]
pub fn whole(estimate: f64) -> u64 {
    estimate.round() as u64
}

/// The share of `part` in `whole` in percent with one decimal; `None` where `whole` is 0.
pub fn format_share(part: u64, whole: u64) -> Option<String> {
    if whole == 0 {
        return None;
    }
    let tenths = scaled_quotient(u128::from(part), 1000, u128::from(whole));
    Some(format!("{}.{} %", tenths / 10, tenths % 10))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_print_in_binary_units_and_never_as_1024_of_one() {
        for (bytes, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.00 KiB"),
            (1_048_575, "1.00 MiB"),
            (1_342_177_280, "1.25 GiB"),
            (u64::MAX, "16.00 EiB"),
        ] {
            assert_eq!(Size(bytes).to_string(), text);
        }
        assert_eq!(Delta(-512).to_string(), "-512 B");
        assert_eq!(Delta(0).to_string(), "0 B");
        assert_eq!(Delta(i128::from(u64::MAX)).to_string(), "+16.00 EiB");
        assert_eq!(format!("{:>10}|", Size(5)), "       5 B|");
    }

    #[test]
    fn numbers_of_a_unit_have_three_decimals_at_most() {
        let unit = Unit::of(1536 << 20);
        assert_eq!((unit.name, unit.number(1536 << 20)), ("GiB", "1.5".to_owned()));
        assert_eq!((unit.number(1 << 20), unit.number(0)), ("0.001".to_owned(), "0".to_owned()));
        assert_eq!((Unit::of(0).name, Unit::of(1023).number(1023)), ("B", "1023".to_owned()));
        assert_eq!(Unit::of(u64::MAX).name, "EiB");
    }

    #[test]
    fn percentages_keep_what_is_small_visible() {
        assert_eq!(format_percent(71, 1000).as_deref(), Some("+7.1 %"));
        assert_eq!(format_percent(-1, 100_000).as_deref(), Some("-0.001 %"));
        assert_eq!(format_percent(50, 100_000).as_deref(), Some("+0.05 %"));
        assert_eq!(format_percent(1, 1000).as_deref(), Some("+0.1 %"));
        assert_eq!(format_percent(0, 5).as_deref(), Some("0 %"));
        assert_eq!(format_percent(5, 0), None);
        assert_eq!(format_percent(99, 10).as_deref(), Some("+990.0 %"));
        assert_eq!(format_percent(100, 10).as_deref(), Some("11 times"));
        assert_eq!(format_percent(40_327, 1_000).as_deref(), Some("41 times"));
        assert_eq!(format_percent(i128::MAX, 1).as_deref(), Some("170141183460469231731687303715884105727 times"));
        assert_eq!(format_share(1, 3).as_deref(), Some("33.3 %"));
        assert_eq!(format_share(0, 0), None);
    }
}

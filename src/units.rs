//! Bytes and percentages: parse, format, compare exactly.
//!
//! Sizes are printed in binary units and read in binary (`MiB`) and decimal (`MB`) ones. No
//! comparison goes through a floating-point number.

use std::fmt;

/// A unit of sizes.
pub(crate) struct Unit {
    /// Its name: `MiB`.
    pub(crate) name: &'static str,
    bytes: u64,
}

impl Unit {
    /// The largest binary unit that is no larger than a size.
    pub(crate) fn of(bytes: u64) -> &'static Self {
        BINARY.iter().rev().find(|unit| unit.bytes <= bytes).unwrap_or(&BINARY[0])
    }

    /// The number of these units in a size, to three decimals without trailing zeros.
    pub(crate) fn number(&self, bytes: u64) -> String {
        let thousandths = scaled_quotient(bytes.into(), 1000, self.bytes.into());
        let number = format!("{}.{:03}", thousandths / 1000, thousandths % 1000);
        number.trim_end_matches('0').trim_end_matches('.').to_owned()
    }
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
    Unit { name: "KB", bytes: 1_000 },
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

/// A size as a user gives it, which prints in decimal units where it is whole in them alone: `100 MB`, not `95.37 MiB`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GivenSize(pub u64);

impl fmt::Display for GivenSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const DECIMAL: [(u64, &str); 4] =
            [(1_000_000_000_000, "TB"), (1_000_000_000, "GB"), (1_000_000, "MB"), (1_000, "kB")];
        let whole = DECIMAL.iter().find(|(unit, _)| self.0.is_multiple_of(*unit)).filter(|_| self.0 > 0);
        match whole {
            Some((1_000, name)) if !self.0.is_multiple_of(1 << 10) => write!(f, "{} {name}", self.0 / 1_000),
            Some((unit, name)) if *unit > 1_000 && !self.0.is_multiple_of(1 << 20) => {
                write!(f, "{} {name}", self.0 / unit)
            }
            _ => Size(self.0).fmt(f),
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
/// One decimal; a change that would print as `0.0` gets more, up to six. From tenfold growth on it is what there is
/// now as a multiple of what there was, as `42 times`.
#[must_use]
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
        let digits = scaled_quotient(delta.unsigned_abs(), 100 * scale, u128::from(before));
        if digits != 0 || decimals == 6 {
            let whole = digits / scale;
            let fraction = digits % scale;
            return Some(format!("{sign}{whole}.{fraction:0width$} %", width = decimals as usize));
        }
    }
    None
}

/// The change in percent, rounded to six decimals so that the same figures print the same everywhere.
#[must_use]
pub fn percent(delta: i128, before: u64) -> Option<f64> {
    if before == 0 {
        return None;
    }
    #[allow(clippy::cast_precision_loss, reason = "for people and charts; the bytes are beside it")]
    let percent = delta as f64 / before as f64 * 100.0;
    Some((percent * 1e6).round() / 1e6)
}

/// The share of `part` in `whole` in percent with one decimal; `None` where `whole` is 0.
#[must_use]
pub fn format_share(part: u64, whole: u64) -> Option<String> {
    if whole == 0 {
        return None;
    }
    let tenths = scaled_quotient(u128::from(part), 1000, u128::from(whole));
    Some(format!("{}.{} %", tenths / 10, tenths % 10))
}

/// The error of reading a size or a percentage.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParseError {
    /// The text is empty where a number was expected.
    #[error("expected a size such as 200MiB, 1.5GB or 0")]
    Empty,
    /// The number before the unit cannot be read.
    #[error("'{0}' is not a number; expected digits with an optional decimal point, such as 1.5")]
    Number(String),
    /// A number below zero.
    #[error("'{0}' is negative; limits and sizes start at 0")]
    Negative(String),
    /// The unit is not known.
    #[error("unknown unit '{0}'; accepted are B, KiB, MiB, GiB, TiB, PiB, EiB and KB, MB, GB, TB, PB, EB")]
    Unit(String),
    /// A number other than 0 without a unit.
    #[error("'{0}' has no unit; write {0}B, {0}MiB or {0}GiB (or {0}% in a growth limit)")]
    NoUnit(String),
    /// More than 2^64-1 bytes.
    #[error("'{0}' is more than 2^64-1 bytes")]
    TooLarge(String),
    /// A size that is not a whole number of bytes.
    #[error("'{0}' is not a whole number of bytes")]
    Fraction(String),
}

impl ParseError {
    fn number(text: &str) -> Self {
        Self::Number(text.to_owned())
    }
}

/// A non-negative decimal number without rounding: `digits / 10^decimals`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Decimal {
    digits: u64,
    decimals: u32,
}

impl Decimal {
    fn parse(text: &str) -> Result<Self, ParseError> {
        if text.starts_with('-') {
            return Err(ParseError::Negative(text.to_owned()));
        }
        let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
        let fraction = fraction.trim_end_matches('0');
        if whole.is_empty() && fraction.is_empty() || fraction.len() > 12 {
            return Err(ParseError::number(text));
        }
        let mut digits = 0_u64;
        for c in whole.chars().chain(fraction.chars()) {
            let digit = c.to_digit(10).ok_or_else(|| ParseError::number(text))?;
            digits = digits
                .checked_mul(10)
                .and_then(|d| d.checked_add(u64::from(digit)))
                .ok_or_else(|| ParseError::TooLarge(text.to_owned()))?;
        }
        let decimals = u32::try_from(fraction.len()).map_err(|_| ParseError::number(text))?;
        Ok(Self { digits, decimals })
    }
}

/// Reads a size: `200MiB`, `1.5 GB`, `4096B`, `0`. A number without a unit is refused unless it is 0,
/// because a forgotten unit is a limit a million times too small.
///
/// # Errors
/// If the text is not a size; the error names the accepted units.
pub fn parse_size(text: &str) -> Result<u64, ParseError> {
    let text = text.trim();
    if text.is_empty() {
        return Err(ParseError::Empty);
    }
    let split = text
        .char_indices()
        .find(|&(i, c)| !(c.is_ascii_digit() || c == '.' || i == 0 && (c == '-' || c == '+')))
        .map_or(text.len(), |(i, _)| i);
    let number = &text[..split];
    let unit = text[split..].trim();
    if number.is_empty() {
        return Err(ParseError::number(text));
    }
    let value = Decimal::parse(number)?;
    let factor = match unit {
        "" if value.digits == 0 => 1,
        "" => return Err(ParseError::NoUnit(number.to_owned())),
        _ => BINARY
            .iter()
            .chain(&DECIMAL)
            .find(|known| known.name.eq_ignore_ascii_case(unit))
            .map(|known| known.bytes)
            .ok_or_else(|| ParseError::Unit(unit.to_owned()))?,
    };
    let scale = 10_u128.pow(value.decimals);
    let product = u128::from(value.digits) * u128::from(factor);
    if product % scale != 0 && unit.eq_ignore_ascii_case("b") {
        return Err(ParseError::Fraction(text.to_owned()));
    }
    u64::try_from(product / scale).map_err(|_| ParseError::TooLarge(text.to_owned()))
}

/// Permitted growth of a figure: a share of the before, plus a fixed amount. Reads and prints as `5%`,
/// `200MiB`, `5%+128MiB` or `0`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limit {
    percent: Option<Decimal>,
    bytes: Option<u64>,
}

impl Limit {
    /// Reads a limit.
    ///
    /// # Errors
    /// If the text is not a limit; the error names what is accepted.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        let mut limit = Self { percent: None, bytes: None };
        if text.trim().is_empty() {
            return Err(ParseError::Empty);
        }
        for part in text.split('+') {
            let part = part.trim();
            if let Some(number) = part.strip_suffix('%') {
                if limit.percent.is_some() {
                    return Err(ParseError::number(text));
                }
                limit.percent = Some(Decimal::parse(number.trim())?);
            } else {
                if limit.bytes.is_some() {
                    return Err(ParseError::number(text));
                }
                limit.bytes = Some(parse_size(part)?);
            }
        }
        Ok(limit)
    }

    /// The growth in bytes that the limit allows on a figure of `before` bytes, rounded down.
    #[must_use]
    pub fn allowed(&self, before: u64) -> u128 {
        let percent =
            self.percent.map_or(0, |p| u128::from(before) * u128::from(p.digits) / (100 * 10_u128.pow(p.decimals)));
        percent + u128::from(self.bytes.unwrap_or(0))
    }

    /// Whether a change of `delta` bytes stays within the limit. Exactly the limit is within.
    #[must_use]
    pub fn holds(&self, before: u64, delta: i128) -> bool {
        // A whole number of bytes exceeds a limit exactly when it exceeds its floor.
        delta <= 0 || delta.unsigned_abs() <= self.allowed(before)
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(Decimal { digits, decimals }) = self.percent {
            let scale = 10_u64.pow(decimals);
            write!(f, "{}", digits / scale)?;
            if decimals > 0 {
                write!(f, ".{:0width$}", digits % scale, width = decimals as usize)?;
            }
            f.write_str(" %")?;
            if self.bytes.is_some() {
                f.write_str(" + ")?;
            }
        }
        match self.bytes {
            Some(bytes) => GivenSize(bytes).fmt(f),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_print_in_the_units_in_which_they_are_whole() {
        for (given, printed) in
            [("100MB", "100 MB"), ("1.5GB", "1500 MB"), ("100MiB", "100.00 MiB"), ("10TB", "10 TB"), ("0", "0 B")]
        {
            assert_eq!(GivenSize(parse_size(given).unwrap()).to_string(), printed);
        }
        assert_eq!(Limit::parse("5%+100MB").unwrap().to_string(), "5 % + 100 MB");
    }

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
    fn sizes_are_read_in_both_kinds_of_units() {
        for (text, bytes) in [
            ("0", 0),
            ("4096B", 4096),
            ("200MiB", 209_715_200),
            ("200 MB", 200_000_000),
            ("1.5gib", 1_610_612_736),
            (".5KiB", 512),
            ("0.3KiB", 307),
        ] {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
        for text in ["", "5", "5 percent", "-3MiB", "5GB%", "1e3MiB", "MiB", "1.5B", "99999999EiB", "1..2MiB"] {
            assert!(parse_size(text).is_err(), "{text}");
        }
    }

    #[test]
    fn limits_are_exact_at_the_border() {
        let five = Limit::parse("5%").unwrap();
        assert!(five.holds(1000, 50));
        assert!(!five.holds(1000, 51));
        assert!(five.holds(0, 0));
        assert!(!five.holds(0, 1), "a percentage of zero allows nothing");
        assert!(five.holds(u64::MAX, -1));
        assert!(Limit::parse("0").unwrap().holds(7, 0));
        assert!(!Limit::parse("0").unwrap().holds(u64::MAX, 1));
        let sum = Limit::parse("0.5% + 1KiB").unwrap();
        assert_eq!(sum.allowed(200_000), 1000 + 1024);
        assert_eq!(sum.to_string(), "0.5 % + 1.00 KiB");
        let all = Limit::parse("100%").unwrap();
        assert!(all.holds(u64::MAX, i128::from(u64::MAX)));
        for text in ["", "5 percent", "-3%", "5GB%", "5%+5%", "1MiB+1MiB", "%", "+"] {
            assert!(Limit::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn percentages_keep_what_is_small_visible() {
        assert_eq!(format_percent(71, 1000).as_deref(), Some("+7.1 %"));
        assert_eq!(format_percent(-1, 100_000).as_deref(), Some("-0.001 %"));
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

//! Sizes and limits as users give them.

use std::fmt;

use super::{BINARY, DECIMAL, GivenSize};

/// The error of reading a size or a percentage, in words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ParseError(String);

impl ParseError {
    fn empty() -> Self {
        Self("expected a size such as 200MiB, 1.5GB or 0".to_owned())
    }

    fn unit(number: &str, unit: &str) -> Self {
        if unit == "%" {
            return Self(format!("'{number}%' is a percentage; expected a size such as 200MiB"));
        }
        // The first letters of a unit, as other tools write it: 12G, 12Gi.
        let names = BINARY.iter().chain(&DECIMAL).map(|unit| unit.name);
        let meant = names.filter(|name| name.get(..unit.len()).is_some_and(|part| part.eq_ignore_ascii_case(unit)));
        match &meant.map(|name| format!("{number}{name}")).collect::<Vec<_>>()[..] {
            [] => Self(format!("unknown unit '{unit}'; {UNITS}")),
            meant => Self(format!("unknown unit '{unit}'; write {}", meant.join(" or "))),
        }
    }

    fn number(text: &str) -> Self {
        Self(format!("'{text}' is not a number; expected digits with an optional decimal point, such as 1.5"))
    }

    fn twice(text: &str) -> Self {
        Self(format!("'{text}' adds two of a kind; expected one percentage and one size, such as 5%+128MiB"))
    }

    fn too_large(text: &str) -> Self {
        Self(format!("'{text}' is more than 2^64-1 bytes"))
    }
}

/// The units that are read, in words.
const UNITS: &str = "accepted are B, KiB, MiB, GiB, TiB, PiB, EiB and KB, MB, GB, TB, PB, EB";

/// A non-negative decimal number without rounding: `digits / 10^decimals`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Decimal {
    digits: u64,
    decimals: u32,
}

impl Decimal {
    fn parse(text: &str) -> Result<Self, ParseError> {
        if text.starts_with('-') {
            return Err(ParseError(format!("'{text}' is negative; limits and sizes start at 0")));
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
                .ok_or_else(|| ParseError::too_large(text))?;
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
        return Err(ParseError::empty());
    }
    let split = text
        .char_indices()
        .find(|&(i, c)| !(c.is_ascii_digit() || c == '.' || i == 0 && (c == '-' || c == '+')))
        .map_or(text.len(), |(i, _)| i);
    let number = &text[..split];
    let unit = text[split..].trim();
    if number.is_empty() {
        return Err(ParseError(format!(
            "'{text}' is not a size; expected a number with a unit, such as 200MiB or 1.5GB"
        )));
    }
    let value = Decimal::parse(number)?;
    let factor = match unit {
        "" if value.digits == 0 => 1,
        "" => {
            let hint = format!("write {number}B, {number}MiB or {number}GiB (or {number}% in a growth limit)");
            return Err(ParseError(format!("'{number}' has no unit; {hint}")));
        }
        _ => BINARY
            .iter()
            .chain(&DECIMAL)
            .find(|known| known.name.eq_ignore_ascii_case(unit))
            .map(|known| known.bytes)
            .ok_or_else(|| ParseError::unit(number, unit))?,
    };
    let scale = 10_u128.pow(value.decimals);
    let product = u128::from(value.digits) * u128::from(factor);
    if product % scale != 0 && unit.eq_ignore_ascii_case("b") {
        return Err(ParseError(format!("'{text}' is not a whole number of bytes")));
    }
    u64::try_from(product / scale).map_err(|_| ParseError::too_large(text))
}

/// Permitted growth of a figure: a share of the before, plus a fixed amount. Reads and prints as `5%`,
/// `200MiB`, `5%+128MiB` or `0`. With `±` or `+-` in front, the figure may not shrink by more either.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limit {
    percent: Option<Decimal>,
    bytes: Option<u64>,
    is_two_sided: bool,
}

/// The sign in front of a limit on changes in both directions, and how it is typed.
const BOTH_SIGNS: [&str; 2] = ["±", "+-"];

impl Limit {
    /// Reads a limit.
    ///
    /// # Errors
    /// If the text is not a limit; the error names what is accepted.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        let change = BOTH_SIGNS.iter().find_map(|sign| text.trim().strip_prefix(sign));
        let mut limit = Self { percent: None, bytes: None, is_two_sided: change.is_some() };
        let size = change.unwrap_or(text);
        if size.trim().is_empty() {
            return Err(ParseError::empty());
        }
        for part in size.split('+') {
            let part = part.trim();
            if let Some(number) = part.strip_suffix('%') {
                if limit.percent.is_some() {
                    return Err(ParseError::twice(text));
                }
                limit.percent = Some(Decimal::parse(number.trim())?);
            } else {
                if limit.bytes.is_some() {
                    return Err(ParseError::twice(text));
                }
                limit.bytes = Some(parse_size(part)?);
            }
        }
        Ok(limit)
    }

    /// The growth in bytes that the limit allows on a figure of `before` bytes, rounded down.
    pub fn allowed(&self, before: u64) -> u128 {
        let percent =
            self.percent.map_or(0, |p| u128::from(before) * u128::from(p.digits) / (100 * 10_u128.pow(p.decimals)));
        percent + u128::from(self.bytes.unwrap_or(0))
    }

    /// True if it limits shrinkage as well.
    pub fn is_two_sided(&self) -> bool {
        self.is_two_sided
    }

    /// Whether a change of `delta` bytes stays within the limit. Exactly the limit is within.
    pub fn holds(&self, before: u64, delta: i128) -> bool {
        self.excess(before, delta) <= 0
    }

    /// The bytes by which a change of `delta` is beyond the limit, in either direction where it limits both; up to 0 within it.
    pub fn excess(&self, before: u64, delta: i128) -> i128 {
        let change = if self.is_two_sided { delta.saturating_abs() } else { delta };
        // A whole number of bytes exceeds a limit exactly when it exceeds its floor.
        let allowed = i128::try_from(self.allowed(before)).unwrap_or(i128::MAX);
        change.saturating_sub(allowed)
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_two_sided {
            f.write_str(BOTH_SIGNS[0])?;
        }
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
    fn a_limit_on_both_sides_holds_shrinkage() {
        for text in ["±5%+1KiB", "+-5%+1KiB", " +- 5% + 1KiB"] {
            let both = Limit::parse(text).unwrap();
            assert_eq!((both.to_string().as_str(), both.is_two_sided()), ("±5 % + 1.00 KiB", true), "{text}");
            assert!(both.holds(100, 1029) && both.holds(100, -1029), "{text}");
            assert!(!both.holds(100, 1030) && !both.holds(100, -1030), "{text}");
        }
        assert!(!Limit::parse("±0").unwrap().holds(7, -1) && Limit::parse("0").unwrap().holds(7, -1));
        for text in ["±", "+-", "-+5%", "±±5%", "5%±", "±-5%", "-5%"] {
            assert!(Limit::parse(text).is_err(), "{text}");
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
        let error = |text: &str| parse_size(text).unwrap_err().to_string();
        assert_eq!(error("12G"), "unknown unit 'G'; write 12GiB or 12GB");
        assert_eq!(error("1.5 mi"), "unknown unit 'mi'; write 1.5MiB");
        assert_eq!(error("5 %"), "'5%' is a percentage; expected a size such as 200MiB");
        let twice = Limit::parse("5%+6%").unwrap_err().to_string();
        assert!(twice.contains("expected one percentage and one size"), "{twice}");
        // The example has a unit, without which it would be refused.
        let word = Limit::parse("lots").unwrap_err().to_string();
        assert_eq!(word, "'lots' is not a size; expected a number with a unit, such as 200MiB or 1.5GB");
    }
}

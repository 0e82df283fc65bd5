//! Parts of equal length: a number of events, a time, or steps.

use std::fmt;
use std::str::FromStr;

use ptmem_base::pattern::Pattern;

use crate::trace::{Window, WindowCounters};

/// Maximum number of parts; more would not be readable as a table.
pub const MOST_INTERVALS: usize = 10_000;

/// How long a part is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Every {
    /// Number of events.
    Events(u64),
    /// Microseconds.
    Time(u64),
    /// Number of steps, of matching names if a pattern is given.
    Steps(u64, Option<Pattern>),
}

/// The error of reading a length.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "invalid length '{0}'; expected a whole number of steps, events or a time, such as 10steps, 1000events, 500ms or 1s"
)]
pub struct ParseEveryError(String);

impl FromStr for Every {
    type Err = ParseEveryError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::parse(text).ok_or_else(|| ParseEveryError(text.to_owned()))
    }
}

impl fmt::Display for Every {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Events(1) => f.write_str("1event"),
            Self::Events(number) => write!(f, "{number}events"),
            Self::Time(us) if us.is_multiple_of(1_000_000) => write!(f, "{}s", us / 1_000_000),
            Self::Time(us) if us.is_multiple_of(1_000) => write!(f, "{}ms", us / 1_000),
            Self::Time(us) => write!(f, "{us}us"),
            Self::Steps(1, _) => f.write_str("1step"),
            Self::Steps(number, _) => write!(f, "{number}steps"),
        }
    }
}

impl Every {
    fn parse(text: &str) -> Option<Self> {
        let split = text.find(|c: char| !c.is_ascii_digit())?;
        let number = text[..split].parse::<u64>().ok().filter(|&number| number > 0)?;
        let microseconds = match text[split..].trim() {
            "event" | "events" => return Some(Self::Events(number)),
            "step" | "steps" => return Some(Self::Steps(number, None)),
            "us" => 1,
            "ms" => 1_000,
            "s" => 1_000_000,
            "min" => 60_000_000,
            _ => return None,
        };
        number.checked_mul(microseconds).map(Self::Time)
    }
}

/// A part of a history, and the bytes held in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interval {
    /// From where to where, in words.
    pub name: String,
    /// Its place in the history.
    pub window: Window,
    /// The memory held in it.
    pub held: WindowCounters,
    /// The most reserved bytes within it, where they are known.
    pub reserved_peak: Option<u64>,
}

/// A fact about a history without which it cannot be divided.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Lack {
    /// The times of events, which releases before 2.2 do not write.
    #[error("the events have no times (PyTorch before 2.2)")]
    Times,
    /// The times of all events, of which a saved profile has a few.
    #[error("a saved profile keeps the times of few events")]
    AllTimes,
    /// Steps.
    #[error("no steps are found")]
    Steps,
    /// Steps whose names match this pattern.
    #[error("no step is named '{0}'")]
    StepsNamed(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_read_and_printed() {
        for text in ["1event", "1step", "10steps", "1000events", "500ms", "1s", "90s", "7us"] {
            assert_eq!(text.parse::<Every>().unwrap().to_string(), text);
        }
        assert_eq!("2min".parse(), Ok(Every::Time(120_000_000)));
        assert_eq!("1500ms".parse::<Every>().unwrap().to_string(), "1500ms");
        for text in
            ["", "5", "0s", "s", "-1s", "1.5s", "1h", "10 stepz", "99999999999999999999events", "18446744073709551615s"]
        {
            assert!(text.parse::<Every>().is_err(), "{text}");
        }
    }
}

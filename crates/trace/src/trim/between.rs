//! Windows of a history.

use std::fmt;
use std::str::FromStr;

use crate::profile::Moment;

/// A window of the history, from one moment to a later one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Between {
    /// Its beginning.
    pub from: Moment,
    /// Its end.
    pub to: Moment,
}

/// The error of reading a window.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "invalid window '{0}'; expected two moments such as event:1000..event:5000, 1000..5000, baseline..peak or \
     time:0.5..end"
)]
pub struct ParseBetweenError(String);

impl FromStr for Between {
    type Err = ParseBetweenError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let ends = text.split_once("..");
        let ends = ends.and_then(|(from, to)| moment(from, Moment::Baseline).zip(moment(to, Moment::End)));
        let (from, to) = ends.ok_or_else(|| ParseBetweenError(text.to_owned()))?;
        Ok(Self { from, to })
    }
}

/// A moment; a number is an event, and nothing is the moment `open`.
fn moment(text: &str, open: Moment) -> Option<Moment> {
    match (text, text.parse()) {
        ("", _) => Some(open),
        (_, Ok(event)) => Some(Moment::Event(event)),
        (_, Err(_)) => text.parse().ok().filter(Moment::can_end_a_window),
    }
}

impl fmt::Display for Between {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}..{}", self.from, self.to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_are_read() {
        for (text, read) in [
            ("event:10..event:20", "event:10..event:20"),
            ("10..20", "event:10..event:20"),
            ("..peak", "baseline..peak"),
            ("oom..", "oom..end"),
            ("phase:step#1:start..phase:step#1:end", "phase:step#1:start..phase:step#1:end"),
            ("time:0.5..time:1.25", "time:0.500000..time:1.250000"),
        ] {
            assert_eq!(text.parse::<Between>().unwrap().to_string(), read);
        }
        for text in ["", "peak", "10-20", "10...20", "-1..4", "noon..end", "aligned..end"] {
            assert!(text.parse::<Between>().is_err(), "{text}");
        }
    }
}

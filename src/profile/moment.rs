//! Moments at which one can ask who held the memory.

use std::fmt;
use std::str::FromStr;

use crate::replay::{History, Position, Replay};
use crate::snapshot::{Event, Snapshot};

/// A moment of a history.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Moment {
    /// Before the first event.
    Baseline,
    /// At the allocated peak.
    #[default]
    Peak,
    /// At the dump.
    End,
    /// At the first failed allocation.
    Oom,
    /// Just after an event, counted from 0.
    Event(u32),
    /// Microseconds after the first event of any device.
    Time(i64),
}

/// The error of reading a moment.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "invalid moment '{0}'; expected peak, baseline, end, oom, event:N (from 0) or time:SECONDS (since the first event)"
)]
pub struct ParseMomentError(String);

impl FromStr for Moment {
    type Err = ParseMomentError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let bad = || ParseMomentError(text.to_owned());
        Ok(match text {
            "baseline" => Self::Baseline,
            "peak" => Self::Peak,
            "end" => Self::End,
            "oom" => Self::Oom,
            _ => match text.split_once(':').ok_or_else(bad)? {
                ("event", number) => Self::Event(number.parse().map_err(|_| bad())?),
                ("time", seconds) => Self::Time(microseconds(seconds).ok_or_else(bad)?),
                _ => return Err(bad()),
            },
        })
    }
}

/// Reads seconds with up to six decimals.
fn microseconds(text: &str) -> Option<i64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    if whole.is_empty() || fraction.len() > 6 || !digits(whole) || !digits(fraction) {
        return None;
    }
    let fraction: i64 = format!("{fraction:0<6}").parse().ok()?;
    whole.parse::<i64>().ok()?.checked_mul(1_000_000)?.checked_add(fraction)
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Baseline => f.write_str("baseline"),
            Self::Peak => f.write_str("peak"),
            Self::End => f.write_str("end"),
            Self::Oom => f.write_str("oom"),
            Self::Event(index) => write!(f, "event:{index}"),
            Self::Time(us) => write!(f, "time:{}.{:06}", us / 1_000_000, us % 1_000_000),
        }
    }
}

/// The first and the last time that any device of a snapshot has, so that one time means one moment on all of them.
pub(crate) fn span(snapshot: &Snapshot) -> Option<(i64, i64)> {
    let devices = snapshot.devices.values();
    let first = devices.clone().filter_map(|device| snapshot.events_of(device).first()?.time()).min()?;
    let last = devices.filter_map(|device| snapshot.events_of(device).last()?.time()).max()?;
    Some((first, last))
}

impl Moment {
    /// Where the moment is in a history, or `None` where the history has none such. `span` is from the first to the last
    /// time that any device has.
    pub(crate) fn position(self, events: &[Event], replay: &Replay, span: Option<(i64, i64)>) -> Option<Position> {
        match self {
            Self::Baseline => Some(Position::START),
            // Where only the state at the dump is known, that one is shown.
            Self::Peak if replay.figures.history == History::StateOnly => Some(replay.dump),
            Self::Peak => replay.figures.allocated.peak_at,
            Self::End => Some(replay.dump),
            Self::Oom => replay.figures.first_oom(),
            Self::Event(index) => ((index as usize) < events.len()).then(|| Position::after(index as usize)),
            Self::Time(us) => {
                let (first, last) = span?;
                let until = first.checked_add(us).filter(|&until| until <= last)?;
                let later = events.iter().position(|event| event.time().is_some_and(|time| time > until));
                Some(later.unwrap_or(events.len()).checked_sub(1).map_or(Position::START, Position::after))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_read_and_printed() {
        for text in ["peak", "baseline", "end", "oom", "event:17", "time:1.250000"] {
            assert_eq!(text.parse::<Moment>().unwrap().to_string(), text);
        }
        assert_eq!("time:0.5".parse(), Ok(Moment::Time(500_000)));
        for text in ["", "Peak", "event:", "event:-1", "time:", "time:-1", "time:1e3", "time:1.1234567", "phase:x"] {
            assert!(text.parse::<Moment>().is_err(), "{text}");
        }
    }
}

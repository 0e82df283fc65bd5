//! Windows of a history.

use crate::profile::Moment;

/// The error of reading a window.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "invalid window '{0}'; expected two moments such as event:1000..event:5000, 1000..5000, baseline..peak or \
     time:0.5..end"
)]
pub struct ParseBetweenError(String);

/// Reads a window of the history, from one moment to a later one.
///
/// # Errors
/// If the text is none.
pub fn between(text: &str) -> Result<[Moment; 2], ParseBetweenError> {
    let ends =
        text.split_once("..").and_then(|(from, to)| Some([moment(from, Moment::Baseline)?, moment(to, Moment::End)?]));
    ends.ok_or_else(|| ParseBetweenError(text.to_owned()))
}

/// A moment; a number is an event, and nothing is the moment `open`.
fn moment(text: &str, open: Moment) -> Option<Moment> {
    match (text, text.parse()) {
        ("", _) => Some(open),
        (_, Ok(event)) => Some(Moment::Event(event)),
        (_, Err(_)) => text.parse().ok().filter(Moment::can_end_a_window),
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
            let [from, to] = between(text).unwrap();
            assert_eq!(format!("{from}..{to}"), read);
        }
        for text in ["", "peak", "10-20", "10...20", "-1..4", "noon..end", "aligned..end"] {
            assert!(between(text).is_err(), "{text}");
        }
    }
}

//! Moments at which memory is attributed to stacks.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// A moment of a history.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
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
    /// At a point of a phase.
    Phase(Arc<PhaseMoment>),
    /// At the highest allocated bytes between two moments.
    Between(Arc<[Moment; 2]>),
    /// At the peak of the after, and at the matching place of the before.
    Aligned,
}

/// A point of a phase.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PhaseMoment {
    /// The name of the phase.
    pub name: String,
    /// Number of the occurrence, from 0 as in reports; `None` for the one with the highest peak.
    pub number: Option<u32>,
    /// The point within it.
    pub point: PhasePoint,
}

/// Where in a phase a moment lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::IntoStaticStr, strum::EnumString)]
#[strum(serialize_all = "kebab-case")]
pub enum PhasePoint {
    /// Just before its first event.
    Start,
    /// At the highest allocated bytes within it.
    Peak,
    /// Just after its last event.
    End,
}

ptmem_base::named!(PhasePoint);

/// The error of reading a moment.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "invalid moment '{0}'; expected peak, baseline, end, oom, event:N (from 0), time:SECONDS (since the first event), \
     phase:NAME[#N]:start, :peak or :end, or two of them, as in baseline..end"
)]
pub struct ParseMomentError(String);

impl FromStr for Moment {
    type Err = ParseMomentError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        // Saved texts name a window so.
        let window = text.strip_prefix("between:").unwrap_or(text);
        Self::between(window).or_else(|| Self::parse(text)).ok_or_else(|| ParseMomentError(text.to_owned()))
    }
}

impl PhaseMoment {
    /// Reads `NAME:peak` or `NAME#3:peak`; names may hold colons and number signs themselves.
    fn parse(text: &str) -> Option<Self> {
        let (phase, point) = text.rsplit_once(':')?;
        let point = point.parse().ok()?;
        let moment = Self::numbered(phase, point).unwrap_or(Self { name: phase.to_owned(), number: None, point });
        (!moment.name.is_empty()).then_some(moment)
    }

    /// A point of the phase `NAME#3`.
    fn numbered(text: &str, point: PhasePoint) -> Option<Self> {
        let (name, number) = text.rsplit_once('#')?;
        Some(Self { name: name.to_owned(), number: Some(number.parse().ok()?), point })
    }
}

impl Moment {
    /// Reads every moment but the highest of a window.
    fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "baseline" => Self::Baseline,
            "peak" => Self::Peak,
            "end" => Self::End,
            "oom" => Self::Oom,
            "aligned" => Self::Aligned,
            _ => match text.split_once(':')? {
                ("event", number) => Self::Event(number.parse().ok()?),
                ("time", seconds) => Self::Time(microseconds(seconds)?),
                ("phase", phase) => Self::Phase(Arc::new(PhaseMoment::parse(phase)?)),
                _ => return None,
            },
        })
    }

    /// The highest allocated bytes of a window `MOMENT..MOMENT`.
    fn between(window: &str) -> Option<Self> {
        // The name of a phase may hold two dots.
        let mut splits = window.match_indices("..").map(|(at, dots)| (&window[..at], &window[at + dots.len()..]));
        let ends = splits.find_map(|(from, to)| Some([Self::parse(from)?, Self::parse(to)?]))?;
        ends.iter().all(Self::can_end_a_window).then(|| Self::Between(Arc::new(ends)))
    }

    /// True if a window can begin or end at it.
    fn can_end_a_window(&self) -> bool {
        !matches!(self, Self::Between(_) | Self::Aligned)
    }

    /// The moment itself, or the ends of its window.
    fn ends(&self) -> &[Self] {
        if let Self::Between(ends) = self { &ends[..] } else { std::slice::from_ref(self) }
    }

    /// True if it depends on the times of events.
    pub fn needs_times(&self) -> bool {
        self.ends().iter().any(|end| matches!(end, Self::Time(_)))
    }

    /// The names of the phases that it mentions.
    pub fn phase_names(&self) -> Vec<&str> {
        let names =
            self.ends().iter().filter_map(|end| if let Self::Phase(phase) = end { Some(&*phase.name) } else { None });
        names.collect()
    }
}

/// Reads seconds with up to six decimals.
fn microseconds(text: &str) -> Option<i64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    if whole.is_empty() || fraction.len() > 6 || !whole.bytes().chain(fraction.bytes()).all(|b| b.is_ascii_digit()) {
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
            Self::Phase(phase) => {
                let number = phase.number.map(|number| format!("#{number}")).unwrap_or_default();
                write!(f, "phase:{}{number}:{}", phase.name, phase.point.name())
            }
            Self::Between(ends) => write!(f, "between:{}..{}", ends[0], ends[1]),
            Self::Aligned => f.write_str("aligned"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_read_and_printed() {
        for text in [
            "peak",
            "baseline",
            "end",
            "oom",
            "event:17",
            "time:1.250000",
            "aligned",
            "phase:forward:peak",
            "phase:Optimizer.step#AdamW.step#3:end",
            "phase:## a: b ##:start",
            "between:event:3..event:9",
            "between:phase:a..b#2:start..end",
        ] {
            assert_eq!(text.parse::<Moment>().unwrap().to_string(), text);
        }
        assert_eq!("time:0.5".parse(), Ok(Moment::Time(500_000)));
        assert_eq!("baseline..peak".parse::<Moment>().unwrap().to_string(), "between:baseline..peak");
        // A single phase whose name has dots is not a window.
        assert_eq!("phase:a..b:end".parse::<Moment>().unwrap().to_string(), "phase:a..b:end");
        for text in ["", "Peak", "event:", "event:-1", "time:", "time:-1", "time:1e3", "time:1.1234567", "phase:x"] {
            assert!(text.parse::<Moment>().is_err(), "{text}");
        }
        for text in
            ["phase::peak", "phase:#0:peak", "phase:x:middle", "between:peak", "between:peak..between:peak..end"]
        {
            assert!(text.parse::<Moment>().is_err(), "{text}");
        }
    }
}

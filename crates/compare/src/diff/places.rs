//! The places at which a device is compared: the peak of the after, and the corresponding place of the before.

use ptmem_base::sides::Side;
use ptmem_base::text::thousands;
use ptmem_trace::phase::PhaseSource;
use ptmem_trace::profile::{DeviceProfile, Moment, Profile};
use ptmem_trace::replay::Position;
use ptmem_trace::stack::Grouper;

use super::row::Row;
use crate::align::{Alignment, MissingPart};
use ptmem_base::sides::Sides;

/// The places of both sides whose rows are compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ComparedPlaces {
    /// The place on each side.
    pub at: Sides<Place>,
    /// The peak of the before; `None` where it is not known.
    pub before_peak: Option<Place>,
    /// The reason why the two places do not correspond; `None` where they do.
    pub reason: Option<Apart>,
}

/// A place in the history of a side.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Place {
    /// Where it is.
    #[serde(rename = "event")]
    pub at: Position,
    /// The step that repeats in which it lies, from 0; `None` where none does.
    pub step: Option<u64>,
    /// The innermost phase that is open there.
    pub phase: Option<String>,
    /// Bytes allocated there.
    pub allocated: u64,
}

/// The reasons why the places of both sides are not the same place of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
#[non_exhaustive]
pub enum Apart {
    /// Each side has the requested moment.
    Asked,
    /// A side has no history, or figures that are only bounds.
    NotKnown,
    /// A side does not have the order of its allocations.
    NoOrder,
    /// The before lacks the part of the program in which the peak of the after lies.
    PartMissing,
    /// The histories have nothing like each other's course.
    NotAlike,
}

impl Apart {
    /// Its name in machine-readable output.
    pub fn code(self) -> &'static str {
        self.into()
    }

    /// The reason in words; `None` if the places are not expected to correspond.
    pub(super) fn words(self) -> Option<&'static str> {
        match self {
            Self::Asked => None,
            Self::NotKnown => Some("the figures of a side are only bounds"),
            Self::NoOrder => Some("one side lacks the order of its allocations"),
            Self::PartMissing => Some("the before lacks the part that contains the peak of the after"),
            Self::NotAlike => Some("the histories are not alike"),
        }
    }
}

impl ComparedPlaces {
    /// The places of a device; `None` where a side has no such moment.
    pub(super) fn new(
        profiles: &Sides<Profile>,
        devices: Sides<&DeviceProfile>,
        alignment: Option<&Alignment>,
        missing: &[MissingPart],
    ) -> Option<Self> {
        let [of_before, of_after] = Side::BOTH.map(|side| alignment.map(|alignment| (alignment, side)));
        let Sides { before, after } = devices;
        let at = Sides {
            before: Place::new(before, before.at?, before.allocated_at(), of_before),
            after: Place::new(after, after.at?, after.allocated_at(), of_after),
        };
        let peak = before.figures.allocated.peak_at.zip(before.figures.allocated.peak);
        let before_peak = peak.map(|(at, bytes)| Place::new(before, at, bytes, of_before));
        Some(Self { at, before_peak, reason: apart(profiles, devices, alignment, missing) })
    }

    /// By how much the peak of the before is higher than the place that is compared.
    pub fn higher_elsewhere(&self) -> u64 {
        let peak = self.before_peak.as_ref().filter(|_| self.reason.is_none());
        peak.map_or(0, |peak| peak.allocated.saturating_sub(self.at.before.allocated))
    }

    /// The row that makes the rows add up to the change of the peak if the peak of the before is elsewhere. `peak` is
    /// its place in the program.
    pub(super) fn closing_row(&self, peak: Option<&str>) -> Option<Row> {
        let event = self.before_peak.as_ref().map(|peak| in_words(peak.at)).unwrap_or_default();
        let bytes = self.higher_elsewhere();
        (bytes > 0).then(|| Row::peak_elsewhere(bytes, peak.unwrap_or(&event)))
    }
}

impl Place {
    fn new(device: &DeviceProfile, at: Position, allocated: u64, alignment: Option<(&Alignment, Side)>) -> Self {
        let step = alignment.and_then(|(alignment, side)| alignment.step(side, at)).map(|step| step as u64);
        Self { at, step, phase: phase(device, at), allocated }
    }
}

/// The name and number of the innermost phase that is open at a place, of those that the program names.
fn phase(device: &DeviceProfile, at: Position) -> Option<String> {
    let named = device.phases.all.iter().filter(|phase| phase.source != PhaseSource::Pass);
    let open = named.filter(|phase| phase.window.from < at && at <= phase.window.to);
    open.max_by_key(|phase| phase.depth).map(|phase| format!("{} #{}", phase.name, phase.number))
}

/// A place in words.
fn in_words(at: Position) -> String {
    at.event().map_or_else(|| "the start".to_owned(), |event| format!("event {}", thousands(event.into())))
}

/// The reason why the places of a device do not correspond.
fn apart(
    profiles: &Sides<Profile>,
    devices: Sides<&DeviceProfile>,
    alignment: Option<&Alignment>,
    missing: &[MissingPart],
) -> Option<Apart> {
    if profiles.before.options.at != Moment::Aligned {
        return Some(Apart::Asked);
    }
    if !devices.each().into_iter().all(|(_, device)| device.has_known_peak()) {
        return Some(Apart::NotKnown);
    }
    if devices.before.peak_of_after.is_some() {
        return None;
    }
    Some(match alignment {
        Some(_) if missing.iter().any(|missing| missing.side == Side::Before) => Apart::PartMissing,
        Some(_) => Apart::NotAlike,
        None => Apart::NoOrder,
    })
}

/// The place of the peak of a side in the program: the label of the allocation that made it, by its own line, the innermost phase
/// that was open, and the event. `None` where it is not known, or is the start.
pub(super) fn of_peak(device: &DeviceProfile, grouper: &Grouper<'_>) -> Option<String> {
    let event = device.figures.allocated.peak_at?.event()?;
    // A group sums several lines, and its label names the one that holds most.
    let label = device.trace.begun_by(event)?.origin.label(|stack| grouper.label(stack));
    let phase = phase(device, Position::after(event as usize));
    let phase = phase.map(|phase| format!(" in {phase}")).unwrap_or_default();
    Some(format!("{label}{phase} (event {})", thousands(event.into())))
}

//! The correspondence of two recordings: where they are compared, the parts that one of them lacks, and peaks that moved.

use std::fmt;
use std::sync::Arc;

use super::places::phase;
use super::stacks::paired;
use super::{DeviceDiff, Options, Sides};
use crate::align::{Alignment, End, Missing, Run, Unclear};
use crate::diagnostic::{Code, Diagnostic};
use crate::profile::{Bucket, DeviceProfile, History, Moment, Places, Profile};
use crate::replay::Position;
use crate::stack::{GroupBy, Grouper, Paired};
use crate::text::thousands;
use crate::trace::Origin;

/// How a device of both sides corresponds.
#[derive(Debug, Default)]
pub(super) struct Aligned {
    /// The alignment, where both tell in which order they allocate.
    pub(super) alignment: Option<Alignment>,
    /// The places of the peaks in the program, where they are known.
    pub(super) peaks: Sides<Option<PeakPlace>>,
    /// True if these are different places.
    pub(super) peak_moved: bool,
}

/// Aligns every pair of devices. Stacks are told apart as they are by default, however the comparison groups them.
pub(super) fn align(profiles: &Sides<Profile>, pairs: &[Sides<Option<usize>>], options: Options) -> Vec<Aligned> {
    let groupers = profiles.map(|profile| profile.grouper_by(GroupBy::Stack));
    let mut aligned = Vec::with_capacity(pairs.len());
    for index in pairs {
        let devices = index.both().map(|index| Sides {
            before: &profiles.before.devices[index.before],
            after: &profiles.after.devices[index.after],
        });
        aligned.push(devices.map(|devices| Aligned::new(devices, &groupers, options)).unwrap_or_default());
    }
    aligned
}

/// The alignment of a device of two profiles, whatever they are grouped by.
pub(crate) fn alignment(profiles: Sides<&Profile>, index: Sides<usize>) -> Option<Alignment> {
    let groupers = profiles.map(|profile| profile.grouper_by(GroupBy::Stack));
    let devices = Sides { before: &profiles.before.devices[index.before], after: &profiles.after.devices[index.after] };
    Aligned::new(devices, &groupers, Options::default()).alignment
}

impl Aligned {
    fn new(devices: Sides<&DeviceProfile>, groupers: &Sides<Grouper<'_>>, options: Options) -> Self {
        let totals =
            Sides { before: devices.before.grouped(&groupers.before), after: devices.after.grouped(&groupers.after) };
        let runs = Sides {
            before: Run { device: devices.before, totals: &totals.before, grouper: &groupers.before },
            after: Run { device: devices.after, totals: &totals.after, grouper: &groupers.after },
        };
        let paired = paired(totals.map(|totals| &**totals), groupers.map(|grouper| grouper), options);
        let peaks = runs.map(PeakPlace::of);
        let places = peaks.map(Option::as_ref).both();
        Self {
            alignment: Alignment::new(&runs, &paired),
            peak_moved: places.is_some_and(|places| !is_same_place(places, &paired)),
            peaks,
        }
    }
}

/// Looks at both sides where the program does the same: at the peak of the after, and at the place of the before that
/// corresponds to it.
pub(super) fn look_at_peaks(profiles: &mut Sides<Profile>, pairs: &[Sides<Option<usize>>], aligned: &[Aligned]) {
    let mut places = Places::new();
    for (index, aligned) in pairs.iter().zip(aligned) {
        let (Some(index), Some(alignment)) = (index.both(), &aligned.alignment) else { continue };
        let before = &profiles.before.devices[index.before];
        let after = &profiles.after.devices[index.after];
        if before.has_known_peak() && after.has_known_peak() {
            let place = after.figures.allocated.peak_at.and_then(|at| alignment.before_of(at));
            places.extend(place.map(|place| (before.device, place)));
        }
    }
    profiles.before.look_at(Moment::Aligned(Arc::new(places)));
    profiles.after.look_at(Moment::Aligned(Arc::default()));
}

/// The place of a peak in the program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeakPlace {
    /// The label of the stack whose allocation made it, and the innermost phase that was open.
    pub label: String,
    event: u32,
    /// The group that made it.
    group: Option<usize>,
    key: String,
    /// The function to blame.
    function: Option<String>,
}

impl fmt::Display for PeakPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (event {})", self.label, thousands(self.event.into()))
    }
}

impl PeakPlace {
    /// The place of the peak of a side; `None` where it is not known, or is the start.
    fn of(run: &Run<'_>) -> Option<Self> {
        let Run { device, totals, grouper } = *run;
        let event = device.figures.allocated.peak_at?.event()?;
        let class = device.trace.begun_by(event)?;
        let (label, key) = match class.origin {
            Origin::Stack(stack) => (grouper.code().label(stack), grouper.key(stack).0),
            Origin::Bucket(_) => (Bucket::NoFrames.label().to_owned(), Bucket::NoFrames.label().to_owned()),
        };
        let group = totals.iter().position(|total| total.key.0 == key);
        let label = group.map_or(label, |group| totals[group].label.clone());
        let code = grouper.code();
        let function = match class.origin {
            Origin::Stack(stack) => code.site(stack).map(|site| code.text_at(site, None)),
            _ => None,
        };
        let phase = phase(device, Position::after(event as usize));
        let phase = phase.map(|phase| format!(" in {phase}")).unwrap_or_default();
        Some(Self { label: format!("{label}{phase}"), event, group, key, function })
    }
}

/// True if two peaks are the same place of the program.
fn is_same_place(places: Sides<&PeakPlace>, paired: &Paired) -> bool {
    let Sides { before, after } = places;
    let is_pair =
        before.group.zip(after.group).is_some_and(|pair| paired.pairs.contains(&pair) || paired.parts.contains(&pair));
    let is_same_function = before.function.is_some() && before.function == after.function;
    before.key == after.key || is_pair || is_same_function
}

impl Missing {
    /// The part in words: `the first 40.2 % of its allocations`.
    #[must_use]
    pub fn part(&self) -> String {
        let which = match self.end {
            End::Head => "first",
            End::Tail => "last",
        };
        format!("the {which} {}.{} % of the allocations", self.share / 10, self.share % 10)
    }

    /// Why it is missing, in words; `ran_out` where memory ran out on the side that lacks it.
    #[must_use]
    pub fn cause(&self, ran_out: bool) -> &'static str {
        match self.end {
            End::Head => "the ring buffer dropped it, or the recording began later",
            End::Tail if ran_out => "memory ran out there",
            End::Tail => "the recording ended earlier",
        }
    }
}

/// Adds a diagnostic for every part that a side lacks, and where the peak lies elsewhere.
pub(super) fn tell(profiles: &Sides<Profile>, device: &DeviceDiff, found: &mut Vec<Diagnostic>) {
    if let (true, Some(before), Some(after)) = (device.peak_moved, &device.peaks.before, &device.peaks.after) {
        let message = format!("the peak moved: before at {before}, after at {after}");
        found.push(Diagnostic::new(Code::PeakMoved, device.ordinal(), message));
    }
    tell_unchecked(profiles, device, found);
    for missing in &device.missing {
        let other = missing.side.other();
        let events = device.index.of(other).map_or(0, |index| profiles.of(other).devices[index].events);
        let lacking = device.index.of(missing.side).map(|index| &profiles.of(missing.side).devices[index]);
        let ran_out = lacking.is_some_and(DeviceProfile::ran_out_of_memory);
        let advice = match missing.end {
            End::Tail if ran_out => "Record both sides where memory suffices".to_owned(),
            end => how_to_record(end, events),
        };
        let message = format!(
            "the {} lacks {} that the {other} records: {}. {advice}",
            missing.side,
            missing.part(),
            missing.cause(ran_out),
        );
        found.push(Diagnostic::new(Code::PartMissing, device.ordinal(), message));
    }
}

/// Adds that missing parts were not checked, where the order of allocations of a side is not known.
fn tell_unchecked(profiles: &Sides<Profile>, device: &DeviceDiff, found: &mut Vec<Diagnostic>) {
    let Some(index) = device.index.both() else { return };
    let devices = Sides { before: &profiles.before.devices[index.before], after: &profiles.after.devices[index.after] };
    if !devices.each().into_iter().all(|(_, device)| has_allocations(device)) {
        return;
    }
    if let Some(unclear) = device.parts_unclear {
        let counts = devices.map(|device| thousands(device.figures.allocation_count));
        let message = format!(
            "the before records {} allocations, the after {}, and whether one side lacks a part of the other is not known: {}",
            counts.before,
            counts.after,
            why_unclear(unclear)
        );
        found.push(Diagnostic::new(Code::PartsNotChecked, device.ordinal(), message));
    }
}

/// The advice where parts cannot be told.
const RECORD_THE_SAME: &str = "Record both sides from the same place to the same place";

/// The reason in words, with what to do.
fn why_unclear(unclear: Unclear) -> String {
    match unclear {
        Unclear::Unlike => {
            format!(
                "too few of them have the same stack and size to tell. {RECORD_THE_SAME}, with stacks (context='all')"
            )
        }
        Unclear::Short(side) => format!("those of the {side} are too few to tell. {RECORD_THE_SAME}"),
        Unclear::Rest(side) => format!(
            "those of the {side} are, one by one, a part of those of the {}, so that either its recording or its program \
             is shorter. {RECORD_THE_SAME}",
            side.other()
        ),
    }
}

/// Whether allocations of a device were recorded.
fn has_allocations(device: &DeviceProfile) -> bool {
    device.figures.history == History::Recorded && device.figures.allocation_count > 0
}

/// The line that records all of it.
fn how_to_record(end: End, events: u64) -> String {
    let entries = room_for(events);
    match end {
        End::Head => format!(
            "Record both sides from the same place on, with room for all events: \
             torch.cuda.memory._record_memory_history(max_entries={entries})"
        ),
        End::Tail => "Dump both sides at the same place, after the last step: \
                      torch.cuda.memory._dump_snapshot(PATH)"
            .to_owned(),
    }
}

/// Entries for twice the number of events, rounded up to a round number.
fn room_for(events: u64) -> u64 {
    let wanted = events.saturating_mul(2).max(100_000);
    let unit = 10_u64.saturating_pow(wanted.ilog10());
    wanted.div_ceil(unit).saturating_mul(unit)
}

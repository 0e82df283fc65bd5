//! Parts that one of two recordings lacks, and peaks that moved, as diagnostics.

use std::fmt;
use std::sync::Arc;

use super::places::{has_known_peak, phase};
use super::stacks::paired;
use super::{DeviceDiff, Options, Sides};
use crate::align::{End, Missing, Parts, Run, Unclear, corresponding_allocation, missing as missing_parts};
use crate::diagnostic::{Code, Diagnostic};
use crate::profile::course::{Course, Symbol};
use crate::profile::{Bucket, DeviceProfile, History, Kind, Moment, Places, Profile, StackTotal};
use crate::replay::Position;
use crate::stack::{GroupBy, Grouper, Paired};
use crate::text::thousands;

/// The result of comparing the courses of two recordings.
#[derive(Debug, Default)]
pub(super) struct Compared {
    /// The parts that one of them lacks.
    pub(super) missing: Vec<Missing>,
    /// The reason why one may lack a part that is not found.
    pub(super) parts_unclear: Option<Unclear>,
    /// The places of the peaks in the program, where they are known.
    pub(super) peaks: Sides<Option<PeakPlace>>,
    /// True if these are different places.
    pub(super) peak_moved: bool,
}

/// Compares the courses of a device, where both are known.
pub(super) fn compare(
    profiles: &Sides<Profile>,
    devices: Sides<Option<&DeviceProfile>>,
    groupers: Sides<&Grouper<'_>>,
    paired: &Paired,
    options: Options,
) -> Compared {
    let Some(devices) = devices.both() else { return Compared::default() };
    let Some(courses) = devices.map(|device| device.course.as_ref()).both() else { return Compared::default() };
    if groupers.before.by() == GroupBy::Stack && groupers.after.by() == GroupBy::Stack {
        let stacks = devices.map(|device| &*device.stacks);
        return compare_runs(courses, devices, stacks, groupers, paired);
    }
    // Courses go by stacks, however the comparison groups them.
    let by_stack = groupers_by_stack(profiles);
    let both = by_stack.map(|grouper| grouper);
    let totals = Sides { before: devices.before.grouped(both.before), after: devices.after.grouped(both.after) };
    let stacks = totals.map(|totals| &**totals);
    compare_runs(courses, devices, stacks, both, &self::paired(stacks, both, options))
}

fn groupers_by_stack(profiles: &Sides<Profile>) -> Sides<Grouper<'_>> {
    profiles.map(|profile| profile.grouper_by(GroupBy::Stack))
}

/// Looks at both sides where the program does the same: at the peak of the after, and at the place of the before that
/// corresponds to it. `match_ratio` is [`Options::match_ratio`].
pub fn align(profiles: &mut Sides<Profile>, match_ratio: f64) {
    super::level_names(profiles);
    let mut places = corresponding(profiles, match_ratio);
    let before = &mut profiles.before;
    places.retain(|device, place| before.knows_places(*device) || before.peak_allocation(*device) == *place);
    before.look_at(Moment::Aligned(Arc::new(places)));
    profiles.after.look_at(Moment::Aligned(Arc::default()));
}

/// The places of the before that correspond to the peaks of the after, by device of the before, as far as they are known.
fn corresponding(profiles: &Sides<Profile>, match_ratio: f64) -> Places {
    let options = Options { match_ratio, ..Options::default() };
    let by_stack = groupers_by_stack(profiles);
    let groupers = by_stack.map(|grouper| grouper);
    let mut places = Places::new();
    for index in super::pair_devices(&profiles.before, &profiles.after) {
        let Some(index) = index.both() else { continue };
        let devices =
            Sides { before: &profiles.before.devices[index.before], after: &profiles.after.devices[index.after] };
        let device = devices.before.device;
        if !devices.each().into_iter().all(|(_, device)| has_known_peak(device)) {
            continue;
        }
        if devices.after.figures.allocated.peak_at == Some(Position::START) {
            places.insert(device, None);
        } else if let Some(place) = place_of_peak(devices, groupers, options) {
            places.insert(device, Some(place));
        }
    }
    places
}

/// The allocation of the before at which it does what the after does at its peak.
fn place_of_peak(devices: Sides<&DeviceProfile>, groupers: Sides<&Grouper<'_>>, options: Options) -> Option<u64> {
    let courses = devices.map(|device| device.course.as_ref()).both()?;
    let totals =
        Sides { before: devices.before.grouped(groupers.before), after: devices.after.grouped(groupers.after) };
    let stacks = totals.map(|totals| &**totals);
    let runs = runs(courses, devices, stacks, groupers);
    corresponding_allocation(&runs, &paired(stacks, groupers, options), courses.after.peak?.place)
}

/// Both sides, ready to be aligned.
fn runs<'r>(
    courses: Sides<&'r Course>,
    devices: Sides<&DeviceProfile>,
    stacks: Sides<&'r [StackTotal]>,
    groupers: Sides<&Grouper<'_>>,
) -> Sides<Run<'r>> {
    Sides {
        before: Run::new(courses.before, devices.before, stacks.before, groupers.before),
        after: Run::new(courses.after, devices.after, stacks.after, groupers.after),
    }
}

fn compare_runs(
    courses: Sides<&Course>,
    devices: Sides<&DeviceProfile>,
    stacks: Sides<&[StackTotal]>,
    groupers: Sides<&Grouper<'_>>,
    paired: &Paired,
) -> Compared {
    let runs = runs(courses, devices, stacks, groupers);
    let peaks = Sides {
        before: place(&runs.before, devices.before, groupers.before),
        after: place(&runs.after, devices.after, groupers.after),
    };
    let peak_moved = match (&peaks.before, &peaks.after) {
        (Some(before), Some(after)) => !is_same_place(Sides { before, after }, paired),
        _ => false,
    };
    let Parts { missing, unclear } = missing_parts(&runs, paired);
    Compared { missing, parts_unclear: unclear, peaks, peak_moved }
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

fn place(run: &Run<'_>, device: &DeviceProfile, grouper: &Grouper<'_>) -> Option<PeakPlace> {
    let peak = run.course.peak?;
    let event = device.figures.allocated.peak_at?.event()?;
    let key = run.grouped.keys.get(run.grouped.peak? as usize)?.clone();
    let group = run.totals.iter().position(|total| total.key.0 == key);
    let code = grouper.code();
    let function = match run.course.symbols.get(peak.symbol as usize)? {
        Symbol::Stack(stack) => code.site(*stack).map(|site| code.text_at(site, None)),
        Symbol::Unlisted(_) => return None,
        Symbol::NoFrames => None,
    };
    // A saved profile knows the group alone.
    let label = group.map_or(Bucket::NoFrames.label(), |group| &run.totals[group].label);
    let phase = phase(device, Position::after(event as usize));
    let phase = phase.map(|phase| format!(" in {phase}")).unwrap_or_default();
    Some(PeakPlace { label: format!("{label}{phase}"), event, group, key, function })
}

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
        let of = if self.of_step { "of the allocations of a step" } else { "of the allocations" };
        format!("the {which} {}.{} % {of}", self.share / 10, self.share % 10)
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
    for (side, _) in devices.each().into_iter().filter(|(_, device)| device.course.is_none()) {
        let why = match profiles.of(side).source.kind {
            Kind::Profile => "was saved without the order in which stacks allocate; save it again with 'ptmem profile'",
            Kind::Snapshot | Kind::Segments => "repeats too little to keep the order in which stacks allocate",
        };
        let message = format!("whether one side lacks a part of the other was not checked: the {side} {why}");
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

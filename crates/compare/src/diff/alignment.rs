//! The correspondence of two recordings: where they are compared, the parts that one of them lacks, and peaks that moved.

use ptmem_base::diagnostic::{Code, Diagnostic};
use ptmem_base::text::{count, thousands};
use ptmem_trace::profile::{DeviceProfile, HistoryKind, Moment, Profile};
use ptmem_trace::replay::Position;
use ptmem_trace::stack::{ComparedFunctions, GroupBy, Grouper};

use super::differences::devices;
use super::places::{Apart, of_peak};
use super::stacks::paired;
use super::{DeviceDiff, DiffOptions};
use crate::align::{AlignedSide, Alignment, End, ExtraSteps, MissingPart};
use ptmem_base::sides::Sides;

/// How a device of both sides corresponds.
#[derive(Debug, Default)]
pub(super) struct Aligned {
    /// The alignment, if both sides have the order of their allocations.
    pub(super) alignment: Option<Alignment>,
    /// The places of the peaks in the program, where they are known.
    pub(super) peaks: Sides<Option<String>>,
}

/// Aligns every pair of devices. Stacks are grouped by the default grouping, however the comparison groups them.
pub(super) fn align(
    profiles: &Sides<Profile>,
    pairs: &[Sides<Option<usize>>],
    functions: &ComparedFunctions,
    options: DiffOptions,
) -> Vec<Aligned> {
    let groupers = profiles.map(|profile| profile.grouper_by(GroupBy::Stack));
    let mut aligned = Vec::with_capacity(pairs.len());
    for index in pairs {
        let devices = devices(profiles, *index).both();
        aligned.push(devices.map(|devices| Aligned::new(devices, &groupers, functions, options)).unwrap_or_default());
    }
    aligned
}

impl Aligned {
    fn new(
        devices: Sides<&DeviceProfile>,
        groupers: &Sides<Grouper<'_>>,
        functions: &ComparedFunctions,
        options: DiffOptions,
    ) -> Self {
        let groupers = groupers.map(|grouper| grouper);
        let totals = devices.zip(groupers).map(|(device, grouper)| device.grouped(grouper));
        let totals = totals.map(|totals| &**totals);
        let runs = devices.zip(totals).map(|&(device, totals)| AlignedSide { device, totals });
        let paired = paired(totals, groupers, functions, options);
        let peaks = devices.zip(groupers).map(|(device, grouper)| of_peak(device, grouper));
        Self { alignment: Alignment::new(&runs, &paired), peaks }
    }
}

/// Compares both sides at corresponding places: at the peak of the after, and at the place of the before that
/// corresponds to it.
pub(super) fn look_at_peaks(profiles: &mut Sides<Profile>, pairs: &[Sides<Option<usize>>], aligned: &[Aligned]) {
    for (index, aligned) in pairs.iter().zip(aligned) {
        let place = peak_of_after(devices(profiles, *index), aligned.alignment.as_ref());
        if let Some(before) = index.before {
            profiles.before.devices[before].peak_of_after = place;
        }
    }
    profiles.before.look_at(Moment::Aligned);
    profiles.after.look_at(Moment::Aligned);
}

/// The place of the before that corresponds to the peak of the after, where both know theirs.
fn peak_of_after(devices: Sides<Option<&DeviceProfile>>, alignment: Option<&Alignment>) -> Option<Position> {
    let Sides { before, after } = devices.both()?;
    let at = after.figures.allocated.peak_at.filter(|_| before.has_known_peak() && after.has_known_peak())?;
    alignment?.before_of(at)
}

impl MissingPart {
    /// The part in words: `the first 40.2 % of its allocations`, `14 of 20 equal steps`.
    pub fn part(&self) -> String {
        if let Some(ExtraSteps { extra, count }) = self.steps {
            return format!("{extra} of {count} equal steps");
        }
        let which = match self.end {
            End::Head => "first",
            End::Tail => "last",
        };
        format!("the {which} {}.{} % of the allocations", self.share / 10, self.share % 10)
    }

    /// Why it is missing, in words; `ran_out` where memory ran out on the side that lacks it.
    pub fn cause(&self, ran_out: bool) -> &'static str {
        match self.end {
            End::Head => "the ring buffer dropped it, or the recording began later",
            End::Tail if ran_out => "memory ran out there",
            End::Tail if self.steps.is_some() => "it makes fewer, and memory depends on their number",
            End::Tail => "the recording ended earlier, or its program does less",
        }
    }
}

/// Adds a diagnostic for every part that a side lacks, and where little corresponds.
pub(super) fn tell(profiles: &Sides<Profile>, device: &DeviceDiff, found: &mut Vec<Diagnostic>) {
    found.extend(device.little_overlap().map(|overlap| {
        let message = format!(
            "{overlap}: it may be another program, or run a small part of the same one. Record the same work on both sides"
        );
        Diagnostic::new(Code::LittleInCommon, device.id(), message)
    }));
    tell_unchecked(profiles, device, found);
    for missing in &device.missing {
        let other = missing.side.other();
        let ran_out = devices(profiles, device.index).of(missing.side).is_some_and(DeviceProfile::ran_out_of_memory);
        let advice = match missing.end {
            End::Tail if ran_out => "Record both sides where memory suffices",
            End::Tail if missing.steps.is_some() => "Record as many steps on both sides",
            End::Tail => "Dump both sides at the same place, after the last step",
            End::Head => "Record both sides from the same place, with a large enough max_entries=",
        };
        let message = format!(
            "the {} lacks {} that the {other} records: {}. {advice}",
            missing.side,
            missing.part(),
            missing.cause(ran_out),
        );
        found.push(Diagnostic::new(Code::PartMissing, device.id(), message));
    }
}

/// Adds why the peaks are compared, where the same place of the program was to be.
pub(super) fn tell_places(profiles: &Sides<Profile>, device: &DeviceDiff, found: &mut Vec<Diagnostic>) {
    let reason = device.places.as_ref().and_then(|places| places.reason);
    let reason = reason.filter(|_| recorded(profiles, device).is_some());
    if let Some(words) = reason.and_then(Apart::words) {
        let message = format!(
            "stacks are compared at the peak of each side, which may be different places of the program: {words}"
        );
        found.push(Diagnostic::new(Code::PlacesNotAligned, device.id(), message));
    }
}

/// Adds that missing parts were not checked, where the order of allocations of a side is not known.
fn tell_unchecked(profiles: &Sides<Profile>, device: &DeviceDiff, found: &mut Vec<Diagnostic>) {
    let Some(devices) = recorded(profiles, device) else { return };
    let counts = devices.map(|device| device.figures.allocation_count);
    if let Some(side) = device.parts_unclear.filter(|_| counts.before.min(counts.after) > 0) {
        let message = format!(
            "the before records {}, the after {}, and whether one side lacks a part of the other is not known: \
             those of the {side} are, one by one, a part of those of the {}, so that either its recording or its program \
             is shorter. Record both sides from the same place to the same place, with stacks",
            count(counts.before, "allocation", "allocations"),
            thousands(counts.after),
            side.other()
        );
        found.push(Diagnostic::new(Code::PartsNotChecked, device.id(), message));
    }
}

/// Both sides of a device, if both recorded their history.
fn recorded<'p>(profiles: &'p Sides<Profile>, device: &DeviceDiff) -> Option<Sides<&'p DeviceProfile>> {
    let sides = devices(profiles, device.index).both()?;
    sides.each().iter().all(|(_, side)| side.figures.history == HistoryKind::Recorded).then_some(sides)
}

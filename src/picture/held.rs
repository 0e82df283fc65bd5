//! Who holds the memory at the moments of a picture.

use super::Pictured;
use super::curve::highest_in_parts;
use super::flame::{Holdings, MomentKind};
use super::units::Units;
use crate::align::Correspondence;
use crate::diff::RowKind;
use crate::profile::{Attribution, DeviceProfile, Held, Lifetimes, Moment, Owned};
use crate::replay::Position;
use crate::sides::{Side, Sides};

/// Moments along the recording, so that a click on the curve finds one near.
const MOST_SAMPLES: usize = 40;

/// Entries of all moments along the recording together.
const MOST_ENTRIES: usize = 8_000;

/// One of the moments at which a profile keeps the memory of each stack.
type Kept = fn(&Owned) -> Held;

/// The memory of all units at all moments.
pub(super) fn holdings(
    pictured: &Pictured<'_>,
    units: &mut Units<'_>,
    correspondence: Option<&Correspondence>,
) -> Holdings {
    let kept = kept_moments(pictured);
    let mut moments: Vec<_> = kept.iter().map(|(kind, at, _)| (kind.clone(), *at)).collect();
    let has_aligned = kept.iter().any(|(kind, ..)| *kind == MomentKind::Aligned);
    let samples = samples(pictured, units, correspondence, has_aligned);
    let first_sample = moments.len();
    moments.extend(samples);
    let mut holdings = Holdings::new(moments);
    for side in Side::BOTH {
        let Some(device) = pictured.devices.of(side) else { continue };
        for owned in device.owned() {
            let unit = units.of(side, owned.owner);
            for (moment, (_, _, held)) in kept.iter().enumerate() {
                holdings.add(moment, unit, side, held(&owned));
            }
        }
        if let Some(lifetimes) = &device.lifetimes {
            add_samples(&mut holdings, first_sample, side, lifetimes, units);
        }
    }
    if pictured.devices.each().iter().all(|(_, device)| device.is_none_or(|device| device.owned().next().is_none())) {
        add_rows(&mut holdings, pictured, units);
    }
    holdings
}

/// The moments that every profile keeps, the one that the report is about first.
fn kept_moments(pictured: &Pictured<'_>) -> Vec<(MomentKind, Sides<Option<Position>>, Kept)> {
    let asked =
        pictured.profiles.after.or(pictured.profiles.before).map_or(Moment::Peak, |profile| profile.options.at.clone());
    let of_asked: (MomentKind, Kept) = match asked {
        Moment::Peak => (MomentKind::Peak, |owned| owned.at),
        Moment::Baseline => (MomentKind::Baseline, |owned| owned.at),
        Moment::End => (MomentKind::End, |owned| owned.at),
        Moment::Oom => (MomentKind::Oom, |owned| owned.at),
        Moment::Aligned(_) if !is_each_peak(pictured) => (MomentKind::Aligned, |owned| owned.at),
        Moment::Aligned(_) => (MomentKind::Peak, |owned| owned.at),
        Moment::Event(_) | Moment::Time(_) | Moment::Phase(_) | Moment::Between(_) => {
            (MomentKind::Asked(asked), |owned| owned.at)
        }
    };
    let others: [(MomentKind, Kept); 4] = [
        (MomentKind::Peak, |owned| owned.peak),
        (MomentKind::Baseline, |owned| owned.baseline),
        (MomentKind::End, |owned| owned.end),
        (MomentKind::Oom, |owned| owned.oom),
    ];
    // A profile that was cut down to its rows has only the moment of the report.
    let is_cut = pictured.devices.each().iter().all(|(_, of)| of.is_none_or(|device| device.owned().next().is_none()));
    let others = others.into_iter().filter(|(kind, _)| *kind != of_asked.0 && !is_cut).collect::<Vec<_>>();
    let mut moments = vec![of_asked];
    moments.extend(others);
    let placed = moments.into_iter().map(|(kind, held)| {
        let at = position(pictured, &kind);
        (kind, at, held)
    });
    placed.filter(|(kind, at, _)| *kind != MomentKind::Oom || at.before.or(at.after).is_some()).collect()
}

/// True if each side is looked at at its own peak.
fn is_each_peak(pictured: &Pictured<'_>) -> bool {
    let devices = [pictured.devices.before, pictured.devices.after];
    devices.into_iter().flatten().all(|device| device.at == device.figures.allocated.peak_at)
}

/// The position of a moment on each side.
fn position(pictured: &Pictured<'_>, kind: &MomentKind) -> Sides<Option<Position>> {
    pictured.devices.map(|device| device.and_then(|device| position_on(device, kind)))
}

fn position_on(device: &DeviceProfile, kind: &MomentKind) -> Option<Position> {
    match kind {
        MomentKind::Asked(_) | MomentKind::Aligned => device.at,
        MomentKind::Peak | MomentKind::Sample => device.figures.allocated.peak_at,
        MomentKind::Baseline => Some(Position::START),
        MomentKind::End => Some(Position::of_count(usize::try_from(device.events).unwrap_or(usize::MAX))),
        MomentKind::Oom => device.figures.first_oom(),
    }
}

/// The moments along the recording: the peak of the after with its place in the before, and the highest points of
/// equal parts.
fn samples(
    pictured: &Pictured<'_>,
    units: &Units<'_>,
    correspondence: Option<&Correspondence>,
    has_aligned: bool,
) -> Vec<(MomentKind, Sides<Option<Position>>)> {
    let Some(after) = pictured.devices.after.and_then(|device| device.lifetimes.as_ref()) else { return Vec::new() };
    let before = pictured.devices.before.and_then(|device| device.lifetimes.as_ref());
    let is_compared = pictured.rows.is_some();
    if is_compared && (correspondence.is_none() || before.is_none()) {
        return Vec::new();
    }
    let mut kinds = Vec::new();
    let peak = pictured.devices.after.and_then(|device| device.figures.allocated.peak_at);
    kinds.extend(peak.filter(|_| is_compared && !has_aligned).map(|at| (MomentKind::Aligned, at)));
    let count = (MOST_ENTRIES / units.paths.len().max(1)).min(MOST_SAMPLES);
    let allocated: Vec<u64> = after.points.iter().map(|point| point.allocated).collect();
    let places = if count == 0 { Vec::new() } else { highest_in_parts(&allocated, count) };
    kinds.extend(places.into_iter().map(|place| (MomentKind::Sample, after.points[place].at)));
    let mut samples = Vec::with_capacity(kinds.len());
    for (kind, at) in kinds {
        let in_before = correspondence.zip(before).and_then(|(all, before)| same_place(at, all, before, after));
        samples.push((kind, Sides { before: in_before, after: Some(at) }));
    }
    samples
}

/// The moment of the before at the same place of the program; `None` where the before lacks it.
fn same_place(
    at: Position,
    correspondence: &Correspondence,
    before: &Lifetimes,
    after: &Lifetimes,
) -> Option<Position> {
    match after.place(at).checked_sub(1) {
        None => Some(Position::START),
        Some(last) => before.recorded().get(correspondence.partner_of(last)?).map(|life| life.born),
    }
}

/// Adds what lives at the moments along the recording.
fn add_samples(holdings: &mut Holdings, first: usize, side: Side, lifetimes: &Lifetimes, units: &mut Units<'_>) {
    let moments = holdings.moments[first..].iter().enumerate();
    let mut moments: Vec<(Position, usize)> =
        moments.filter_map(|(at, (_, sides))| Some(((*sides.of(side))?, first + at))).collect();
    moments.sort_unstable();
    for life in &lifetimes.lives {
        let from = moments.partition_point(|(moment, _)| *moment < life.born);
        let alive = moments[from..].iter().take_while(|(moment, _)| *moment < life.freed);
        for &(_, moment) in alive {
            holdings.add(moment, units.of(side, life.owner), side, Held { bytes: life.bytes, blocks: 1 });
        }
    }
}

/// Adds the rows of the report where nothing else is left of the profiles, as of one rank among many.
fn add_rows(holdings: &mut Holdings, pictured: &Pictured<'_>, units: &mut Units<'_>) {
    let rows = pictured.rows.unwrap_or_default().iter();
    for row in rows.filter(|row| row.kind != RowKind::PeakElsewhere) {
        let unit = match (row.stack.after, row.stack.before) {
            (Some(stack), _) => units.of(Side::After, Attribution::Stack(stack)),
            (None, Some(stack)) => units.of(Side::Before, Attribution::Stack(stack)),
            (None, None) => units.of_label(&row.label),
        };
        holdings.add(0, unit, Side::Before, row.held.before);
        holdings.add(0, unit, Side::After, row.held.after);
    }
    let device = pictured.devices.after.filter(|_| pictured.rows.is_none());
    for total in device.map(|device| &*device.stacks).unwrap_or_default() {
        let mut rest = total.at;
        for member in &total.members {
            let unit = units.of(Side::After, Attribution::Stack(member.stack));
            holdings.add(0, unit, Side::After, member.at);
            rest.bytes = rest.bytes.saturating_sub(member.at.bytes);
            rest.blocks = rest.blocks.saturating_sub(member.at.blocks);
        }
        let unit = units.of_label(&total.label);
        holdings.add(0, unit, Side::After, rest);
    }
}

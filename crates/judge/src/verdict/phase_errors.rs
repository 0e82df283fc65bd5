//! How far the peaks inside phases may be from the truth.

use std::collections::{HashMap, HashSet};

use ptmem_compare::diff::{PhaseRow, Sides};
use ptmem_trace::phase::PhaseSource;
use ptmem_trace::profile::{DeviceProfile, ErrorBound, Metric, Profile};
use ptmem_trace::trace::Window;

use super::accepted::Budget;
use super::growth::Gated;
use super::{Check, LimitKind};

/// An occurrence of a phase, by its number.
type OccurrenceKey<'a> = (PhaseSource, &'a str, Option<u32>);

/// How far the figures of phases may be from the truth.
pub(super) struct PhaseErrors<'a> {
    /// Bytes that those of every phase may be off.
    of_all: Sides<Option<u64>>,
    /// True if these are the only ones.
    are_of_segments: bool,
    /// The phases, by their occurrence in the after, in which the same blocks make both sides inexact.
    shared: HashSet<OccurrenceKey<'a>>,
}

impl<'a> PhaseErrors<'a> {
    pub(super) fn of(gated: &Gated<'a>, budget: &Budget<'_>) -> Self {
        if gated.growth.target.kind == LimitKind::ReservedInPhases {
            let of_all = gated.errors(Metric::Reserved, |device| device.figures.reserved.max_error());
            return Self { of_all, are_of_segments: true, shared: HashSet::new() };
        }
        let profiles = &gated.diff.profiles;
        let unexplained = Sides::BOTH.map(|&side| unexplained_error(profiles.of(side), gated.sides.of(side)));
        let is_explained = unexplained.before == Some(0) && unexplained.after == Some(0);
        let are_alike = !is_explained && hold_the_same(gated);
        let of_all = if are_alike { Sides { before: Some(0), after: Some(0) } } else { unexplained };
        Self { of_all, are_of_segments: false, shared: shared(gated, budget) }
    }

    /// Those of a phase.
    pub(super) fn of_phase(&self, row: &PhaseRow) -> Sides<Option<u64>> {
        let is_certain = self.are_of_segments || self.shared.contains(&key(row, row.number.after));
        let own = if is_certain { Sides::default() } else { row.errors };
        self.of_all.zip(own).map(|(all, own)| all.map(|all| all.max(*own)))
    }

    /// The bytes by which a phase may be beyond its limit, and beyond what is accepted.
    pub(super) fn possible_excess(&self, check: &Check, row: &PhaseRow) -> Option<i128> {
        let errors = self.of_phase(row).both()?;
        check.distance()?.checked_add(i128::from(errors.before) + i128::from(errors.after))
    }
}

fn key(row: &PhaseRow, number: Option<u32>) -> OccurrenceKey<'_> {
    (row.source, &*row.name, number)
}

/// The bytes that a device may be off at any moment beside the sizes of blocks; `None` where that is not known.
fn unexplained_error(profile: &Profile, device: &DeviceProfile) -> Option<u64> {
    device.figures.allocated.max_error()?;
    Some(device.unexplained_error(&profile.code()).unwrap_or(0))
}

/// Whether both sides hold the same blocks at all moments.
fn hold_the_same(gated: &Gated<'_>) -> bool {
    let profiles = &gated.diff.profiles;
    let blocks = Sides::BOTH.map(|&side| gated.sides.of(side).all_blocks(&profiles.of(side).code()));
    blocks.before.is_some() && blocks.before == blocks.after
}

/// The phases whose equal errors could decide the limit, and that the same blocks make inexact on both sides.
fn shared<'a>(gated: &Gated<'a>, budget: &Budget<'_>) -> HashSet<OccurrenceKey<'a>> {
    let rows: Vec<&PhaseRow> = gated.phase_rows().filter(|row| could_decide(gated, row, budget)).collect();
    if rows.is_empty() {
        return HashSet::new();
    }
    let bounds = Sides::BOTH.map(|&side| {
        let device = *gated.sides.of(side);
        let all = device.phases.all.iter();
        let windows: HashMap<OccurrenceKey<'_>, Window> =
            all.map(|phase| ((phase.source, &*phase.name, Some(phase.number)), phase.window)).collect();
        let windows = rows.iter().map(|row| windows.get(&key(row, *row.number.of(side))).copied().unwrap_or_default());
        device.bounds_of_parts(&windows.collect::<Vec<_>>(), &gated.diff.profiles.of(side).code())
    });
    let bounds = bounds.before.into_iter().zip(bounds.after).map(|(before, after)| Sides { before, after });
    let shared = rows.into_iter().zip(bounds).filter(|(_, bounds)| ErrorBound::is_shared(*bounds));
    shared.map(|(row, _)| key(row, row.number.after)).collect()
}

/// Whether equal errors of a phase reach across its limit.
fn could_decide(gated: &Gated<'_>, row: &PhaseRow, budget: &Budget<'_>) -> bool {
    let Sides { before, after } = row.errors;
    let error = i128::from(before) + i128::from(after);
    before == after && error > 0 && gated.compare_phase(row, budget).crosses_within(error)
}

//! Who holds the memory at the moments of a picture.

use super::Pictured;
use super::flame::{Holdings, MomentKind};
use super::past::Past;
use super::units::Units;
use crate::align::Alignment;
use crate::diff::RowKind;
use crate::profile::{DeviceProfile, Held, Moment, Owned};
use crate::replay::Position;
use crate::sides::{Side, Sides};

/// One of the moments at which a profile keeps the memory of each stack.
type Kept = fn(&Owned) -> Held;

/// The memory of all units at all moments.
pub(super) fn holdings(pictured: &Pictured<'_>, pasts: &Sides<Option<Past<'_>>>, units: &mut Units<'_>) -> Holdings {
    let kept = kept_moments(pictured);
    let mut moments: Vec<_> = kept.iter().map(|(kind, at, _)| (kind.clone(), *at)).collect();
    let has_aligned = kept.iter().any(|(kind, ..)| *kind == MomentKind::Aligned);
    let aligned = pictured.alignment.filter(|_| !has_aligned).and_then(|alignment| aligned_peak(pictured, alignment));
    moments.extend(aligned.map(|at| (MomentKind::Aligned, at)));
    let mut holdings = Holdings::new(moments);
    for (side, past) in pasts.each() {
        let Some(past) = past else { continue };
        for (owned, &unit) in past.device.owned().zip(&past.units) {
            for (moment, (_, _, held)) in kept.iter().enumerate() {
                holdings.add(moment, unit, side, held(&owned));
            }
        }
        if let Some(at) = aligned.and_then(|at| *at.of(side)) {
            let blocks = past.device.trace.blocks_at(at).into_iter().zip(&past.device.trace.classes);
            for ((blocks, class), &unit) in blocks.zip(&past.units) {
                let held = Held { bytes: class.bytes.saturating_mul(blocks), blocks };
                holdings.add(kept.len(), unit, side, held);
            }
        }
    }
    if pictured.devices.each().iter().all(|(_, device)| device.is_none_or(|device| device.owned().next().is_none())) {
        add_rows(&mut holdings, pictured, units);
    }
    holdings
}

/// The peak of the after, and the same place of the program in the before.
fn aligned_peak(pictured: &Pictured<'_>, alignment: &Alignment) -> Option<Sides<Option<Position>>> {
    let at = pictured.devices.after?.figures.allocated.peak_at?;
    Some(Sides { before: alignment.before_of(at), after: Some(at) })
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
        MomentKind::Peak => device.figures.allocated.peak_at,
        MomentKind::Baseline => Some(Position::START),
        MomentKind::End if device.has_moves() => Some(device.trace.dump()),
        MomentKind::End => Some(Position::of_count(usize::try_from(device.events).unwrap_or(usize::MAX))),
        MomentKind::Oom => device.figures.first_oom(),
    }
}

/// Adds the rows of the report where nothing else is left of the profiles, as of one rank among many.
fn add_rows(holdings: &mut Holdings, pictured: &Pictured<'_>, units: &mut Units<'_>) {
    let rows = pictured.rows.unwrap_or_default().iter();
    for row in rows.filter(|row| row.kind != RowKind::PeakElsewhere) {
        let unit = match (row.stack.after, row.stack.before) {
            (Some(stack), _) => units.of_stack(Side::After, stack),
            (None, Some(stack)) => units.of_stack(Side::Before, stack),
            (None, None) => units.of_label(&row.label),
        };
        holdings.add(0, unit, Side::Before, row.held.before);
        holdings.add(0, unit, Side::After, row.held.after);
    }
    let device = pictured.devices.after.filter(|_| pictured.rows.is_none());
    for total in device.map(|device| &*device.stacks).unwrap_or_default() {
        let mut rest = total.at;
        for member in &total.members {
            let unit = units.of_stack(Side::After, member.stack);
            holdings.add(0, unit, Side::After, member.at);
            rest.bytes = rest.bytes.saturating_sub(member.at.bytes);
            rest.blocks = rest.blocks.saturating_sub(member.at.blocks);
        }
        let unit = units.of_label(&total.label);
        holdings.add(0, unit, Side::After, rest);
    }
}

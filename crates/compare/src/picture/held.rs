//! Who holds the memory at the moments of a picture.

use std::sync::Arc;

use super::Pictured;
use super::flame::Holdings;
use super::record::Past;
use super::units::Units;
use crate::diff::RowKind;
use crate::profile::{DeviceProfile, Held, Moment};
use crate::replay::Position;
use crate::sides::{Side, Sides};

/// The memory of all units at all moments.
pub(super) fn holdings(pictured: &Pictured<'_>, pasts: &Sides<Option<Past<'_>>>, units: &mut Units<'_>) -> Holdings {
    // A profile that was cut down to its rows has only the moment of the report.
    let mut devices = pictured.devices.each().into_iter();
    let is_cut = devices.all(|(_, device)| device.is_none_or(|device| device.trace.classes.is_empty()));
    let mut holdings = Holdings::new(moments(pictured, is_cut));
    if is_cut {
        add_rows(&mut holdings, pictured, units);
        return holdings;
    }
    for (side, past) in pasts.each() {
        let Some(past) = past else { continue };
        for moment in 0..holdings.moments.len() {
            let (kind, at) = &holdings.moments[moment];
            let Some(at) = place(past.device, kind, *at.of(side), moment == 0) else { continue };
            let blocks = past.device.trace.blocks_at(at).into_iter().zip(&past.device.trace.classes);
            for ((blocks, class), &unit) in blocks.zip(&past.units) {
                holdings.add(moment, unit, side, Held::of(class, blocks));
            }
        }
    }
    holdings
}

/// Where the memory of a moment is counted. Where the report is about a peak without a history, that is the dump.
fn place(device: &DeviceProfile, moment: &Moment, at: Option<Position>, is_asked: bool) -> Option<Position> {
    match moment {
        _ if is_asked => device.at,
        Moment::End => Some(device.trace.dump()),
        _ => at,
    }
}

/// The moments of a picture, the one that the report is about first.
fn moments(pictured: &Pictured<'_>, is_cut: bool) -> Vec<(Moment, Sides<Option<Position>>)> {
    let profile = pictured.profiles.after.or(pictured.profiles.before);
    let mut asked = profile.map(|profile| profile.options.at.clone()).unwrap_or_default();
    if matches!(asked, Moment::Aligned(_)) && is_each_peak(pictured) {
        asked = Moment::Peak;
    }
    let mut all = vec![asked];
    for moment in [Moment::Peak, Moment::Baseline, Moment::End, Moment::Oom] {
        if !is_cut && moment != all[0] {
            all.push(moment);
        }
    }
    let placed = all.into_iter().map(|moment| {
        let at = pictured.devices.map(|device| device.and_then(|device| position_on(device, &moment)));
        (moment, at)
    });
    let placed = placed.filter(|(moment, at)| *moment != Moment::Oom || at.before.or(at.after).is_some());
    let mut moments: Vec<_> = placed.collect();
    if moments.iter().all(|(moment, _)| !matches!(moment, Moment::Aligned(_))) {
        moments.extend(aligned_peak(pictured).map(|at| (Moment::Aligned(Arc::default()), at)));
    }
    moments
}

/// The peak of the after, and the same place of the program in the before.
fn aligned_peak(pictured: &Pictured<'_>) -> Option<Sides<Option<Position>>> {
    let at = pictured.devices.after?.figures.allocated.peak_at?;
    Some(Sides { before: pictured.alignment?.before_of(at), after: Some(at) })
}

/// True if each side is looked at at its own peak.
fn is_each_peak(pictured: &Pictured<'_>) -> bool {
    let devices = [pictured.devices.before, pictured.devices.after];
    devices.into_iter().flatten().all(|device| device.at == device.figures.allocated.peak_at)
}

fn position_on(device: &DeviceProfile, moment: &Moment) -> Option<Position> {
    match moment {
        Moment::Peak => device.figures.allocated.peak_at,
        Moment::Baseline => Some(Position::START),
        Moment::End if device.has_moves() => Some(device.trace.dump()),
        Moment::End => Some(Position::of_count(usize::try_from(device.events).unwrap_or(usize::MAX))),
        Moment::Oom => device.figures.first_oom(),
        Moment::Event(_) | Moment::Time(_) | Moment::Phase(_) | Moment::Between(_) | Moment::Aligned(_) => device.at,
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

//! Who holds the memory at the moments of a picture.

use ptmem_base::sides::{Side, Sides};
use ptmem_compare::diff::RowKind;
use ptmem_trace::profile::{Held, Moment as Which};
use ptmem_trace::replay::Position;

use super::flame::FlameMoment;
use super::pictured::Pictured;
use super::record::Past;
use super::units::Units;

/// The moments of a picture, the one that the report is about first, with the memory of all units.
pub(super) fn moments(pictured: &Pictured<'_>, pasts: &[Past<'_>], units: &mut Units<'_>) -> Vec<FlameMoment> {
    // A profile that was cut down to its rows has only the moment of the report.
    let is_cut = pasts.iter().all(|past| past.device.trace.classes.is_empty());
    let mut moments = placed(pictured, is_cut);
    if is_cut {
        add_rows(&mut moments[0], pictured, units);
    }
    for past in pasts {
        let trace = &past.device.trace;
        for moment in &mut moments {
            let Some(at) = *moment.at.of(past.side) else { continue };
            for ((class, blocks), &unit) in trace.classes.iter().zip(trace.blocks_at(at)).zip(&past.units) {
                moment.add(unit, past.side, Held::of(class, blocks));
            }
        }
    }
    moments
}

/// The moments, with their places on both sides.
fn placed(pictured: &Pictured<'_>, is_cut: bool) -> Vec<FlameMoment> {
    let devices = pictured.devices;
    let profile = pictured.profiles.after.or(pictured.profiles.before);
    let mut asked = profile.map(|profile| profile.options.at.clone()).unwrap_or_default();
    let mut known = [devices.before, devices.after].into_iter().flatten();
    if matches!(asked, Which::Aligned) && known.all(|device| device.at == device.figures.allocated.peak_at) {
        asked = Which::Peak;
    }
    let mut moments = vec![FlameMoment::new(asked, devices.map(|device| device.and_then(|device| device.at)))];
    for which in [Which::Peak, Which::Baseline, Which::End, Which::Oom] {
        let at = devices.map(|device| device.and_then(|device| device.place_of(&which, None)));
        let is_there = which != Which::Oom || at.before.or(at.after).is_some();
        if is_there && !is_cut && which != moments[0].which {
            moments.push(FlameMoment::new(which, at));
        }
    }
    if !matches!(moments[0].which, Which::Aligned) {
        let at = aligned_peak(pictured).into_iter();
        moments.extend(at.map(|at| FlameMoment::new(Which::Aligned, at)));
    }
    moments
}

/// The peak of the after, and the same place of the program in the before.
fn aligned_peak(pictured: &Pictured<'_>) -> Option<Sides<Option<Position>>> {
    let at = pictured.devices.after?.figures.allocated.peak_at?;
    Some(Sides { before: pictured.alignment?.before_of(at), after: Some(at) })
}

/// Adds the rows of the report where nothing else is left of the profiles, as of one rank among many.
fn add_rows(moment: &mut FlameMoment, pictured: &Pictured<'_>, units: &mut Units<'_>) {
    let rows = pictured.rows.unwrap_or_default().iter();
    for row in rows.filter(|row| row.kind != RowKind::PeakElsewhere) {
        let unit = units.of_row(row);
        moment.add(unit, Side::Before, row.held.before);
        moment.add(unit, Side::After, row.held.after);
    }
    let device = pictured.devices.after.filter(|_| pictured.rows.is_none());
    for total in device.map(|device| &*device.stacks).unwrap_or_default() {
        let mut rest = total.at;
        for member in &total.members {
            moment.add(units.of_stack(Side::After, member.stack), Side::After, member.at);
            rest = rest.less(member.at);
        }
        moment.add(units.of_label(&total.label), Side::After, rest);
    }
}

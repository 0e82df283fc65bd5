//! Moments of the program that occur in every run, at which the runs are compared: their peaks may be at different
//! places of the program.

use std::collections::BTreeSet;

use ptmem_base::sides::Sides;
use ptmem_base::units::approximate;
use ptmem_compare::align::Alignment;
use ptmem_compare::diff;
use ptmem_compare::tracks::DeviceTrack;
use ptmem_trace::profile::{DeviceProfile, Held, Position, Profile};
use ptmem_trace::trace::Measure;

use super::fit::Fit;

/// Places to look at, in multiples of the last run's.
const REACH: [f64; 5] = [1.0, 2.0, 4.0, 16.0, 64.0];

/// A moment that is the same in all runs: its place in each.
pub(super) type Moment = Vec<Position>;

/// The moments of a device that may be the peak of a run, or at one of the x-values. `None` if a run lacks the order of
/// its allocations, or is too different to map its moments to those of the last run.
pub(super) fn moments(profiles: &[Profile], device: &DeviceTrack, places: &[f64], at: &[f64]) -> Option<Vec<Moment>> {
    let indices: Vec<usize> = device.indices.iter().copied().collect::<Option<_>>()?;
    let runs: Vec<&DeviceProfile> = device.in_each(profiles).flatten().collect();
    let (last, earlier) = runs.split_last()?;
    if !runs.iter().all(|run| run.has_moves() && run.has_known_peak()) {
        return None;
    }
    let mut alignments: Vec<Alignment> = Vec::with_capacity(earlier.len());
    for (run, index) in indices[..earlier.len()].iter().enumerate() {
        let sides = Sides { before: &profiles[run], after: profiles.last()? };
        let alignment = diff::alignment(sides, Sides { before: *index, after: *indices.last()? })?;
        alignments.push(Some(alignment).filter(|alignment| alignment.map.is_alike())?);
    }
    let mut candidates: Vec<Moment> = Vec::new();
    for at in highs(last) {
        let partners: Option<Moment> = alignments.iter().map(|alignment| alignment.before_of(at)).collect();
        candidates.extend(partners.map(|mut moment| {
            moment.push(at);
            moment
        }));
    }
    let levels: Vec<Vec<u64>> = runs.iter().map(|run| levels(run)).collect();
    let reach = REACH.map(|reach| reach * places.last().copied().unwrap_or(1.0));
    let at: Vec<f64> = at.iter().copied().chain(reach).collect();
    let answers: Vec<_> = candidates.iter().map(|moment| answers(moment, &levels, places, &at)).collect();
    Some(highest(candidates, &answers))
}

/// Allocated bytes at every place.
fn levels(run: &DeviceProfile) -> Vec<u64> {
    run.trace.values(Measure::Allocated).map(|bytes| u64::try_from(bytes).unwrap_or(0)).collect()
}

/// The places after which memory falls: no other is a peak.
fn highs(run: &DeviceProfile) -> Vec<Position> {
    let changes = run.trace.changes(Measure::Allocated);
    let mut highs = Vec::new();
    let mut risen = Some(Position::START);
    for (event, &symbol) in run.trace.symbols.iter().enumerate() {
        match changes[symbol as usize] {
            0 => {}
            1.. => risen = Some(Position::after(event)),
            _ => highs.extend(risen.take()),
        }
    }
    highs.extend(risen);
    highs
}

/// The candidates that are the highest for one of the questions; the first of equal ones.
fn highest(candidates: Vec<Moment>, answers: &[Vec<f64>]) -> Vec<Moment> {
    let questions = answers.first().map_or(0, Vec::len);
    let best = (0..questions).filter_map(|question| {
        let all = (0..answers.len()).rev().filter(|&at| answers[at][question].is_finite());
        all.max_by(|&a, &b| answers[a][question].total_cmp(&answers[b][question]))
    });
    let chosen: BTreeSet<usize> = best.collect();
    let kept = candidates.into_iter().enumerate().filter(|(at, _)| chosen.contains(at));
    kept.map(|(_, moment)| moment).collect()
}

/// The bytes that are held at a moment: of each run, at each of the places as all runs predict it, and of the last run as
/// the others predict it.
fn answers(moment: &Moment, levels: &[Vec<u64>], places: &[f64], at: &[f64]) -> Vec<f64> {
    let levels = moment.iter().zip(levels).map(|(place, levels)| levels.get(place.count()).copied().unwrap_or(0));
    let held: Vec<Held> = levels.map(|bytes| Held { bytes, blocks: 1 }).collect();
    let mut answers: Vec<f64> = held.iter().map(|held| approximate(held.bytes)).collect();
    let (earlier, last) = places.split_at(places.len() - 1);
    for (places, at) in [(places, at), (earlier, last)] {
        let fit = Fit::of(places, &held);
        answers.extend(at.iter().map(|&x| fit.as_ref().map_or(f64::NAN, |fit| fit.best.at(x))));
    }
    answers
}

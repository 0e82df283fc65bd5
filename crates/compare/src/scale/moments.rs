//! Moments of the program that every run passes, at which the runs are compared: their peaks may lie at different
//! places of the program.

use std::collections::{BTreeMap, BTreeSet};

use super::fit::{Fit, Sample};
use crate::align::Alignment;
use crate::diff;
use crate::profile::{DeviceProfile, Position, Profile};
use crate::sides::Sides;
use crate::trace::Measure;
use crate::tracks::DeviceTrack;

/// Places to look at, in multiples of the last run's.
const REACH: [f64; 5] = [1.0, 2.0, 4.0, 16.0, 64.0];

/// A moment that is the same in all runs: its place in each.
pub(super) type Moment = Vec<Position>;

/// The moments of a device that may be the peak of a run, or at one of the places. `None` where a run tells nothing of
/// its course, or is too different to say which moment of it is one of the last run.
pub(super) fn moments(profiles: &[Profile], device: &DeviceTrack, places: &[f64], at: &[f64]) -> Option<Vec<Moment>> {
    let indices: Vec<usize> = device.indices.iter().copied().collect::<Option<_>>()?;
    let runs: Vec<&DeviceProfile> =
        profiles.iter().zip(&indices).map(|(profile, &index)| &profile.devices[index]).collect();
    let (last, earlier) = runs.split_last()?;
    if !runs.iter().all(|run| run.has_moves() && run.has_known_peak()) {
        return None;
    }
    let mut alignments: Vec<Alignment> = Vec::with_capacity(earlier.len());
    for (run, index) in indices[..earlier.len()].iter().enumerate() {
        let sides = Sides { before: &profiles[run], after: profiles.last()? };
        let alignment = diff::alignment(sides, Sides { before: *index, after: *indices.last()? })?;
        alignments.push(Some(alignment).filter(Alignment::is_alike)?);
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
    Some(Highest::of(&candidates, &levels, places, at).moments(&candidates))
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

/// The candidate that answers each question best.
struct Highest(BTreeMap<Question, (f64, usize)>);

/// Which moment is the peak.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Question {
    /// The peak of a run.
    Run(usize),
    /// The peak at one of the places, as all runs predict it.
    Place(usize),
    /// The peak of the last run, as the others predict it.
    Last,
}

impl Highest {
    fn of(candidates: &[Moment], levels: &[Vec<u64>], places: &[f64], at: &[f64]) -> Self {
        let last = places.last().copied().unwrap_or(1.0);
        let at: Vec<f64> = at.iter().copied().chain(REACH.map(|reach| reach * last)).collect();
        let mut highest = Self(BTreeMap::new());
        for (candidate, moment) in candidates.iter().enumerate() {
            let held = moment.iter().zip(levels).map(|(place, levels)| levels.get(place.count()).copied().unwrap_or(0));
            let samples: Vec<Sample> = places.iter().zip(held).map(|(&x, bytes)| Sample::new(x, bytes)).collect();
            for (run, sample) in samples.iter().enumerate() {
                highest.put(Question::Run(run), sample.bytes, candidate);
            }
            if let Some(fit) = Fit::of(&samples, 1) {
                for (place, &x) in at.iter().enumerate() {
                    highest.put(Question::Place(place), fit.best.at(x), candidate);
                }
            }
            if let Some(fit) = Fit::of(&samples[..samples.len() - 1], 1) {
                highest.put(Question::Last, fit.best.at(last), candidate);
            }
        }
        highest
    }

    /// Notes an answer. The first of equal ones counts.
    fn put(&mut self, question: Question, bytes: f64, candidate: usize) {
        let known = self.0.entry(question).or_insert((bytes, candidate));
        if bytes > known.0 {
            *known = (bytes, candidate);
        }
    }

    /// The candidates that answer a question, in their order.
    fn moments(self, candidates: &[Moment]) -> Vec<Moment> {
        let chosen: BTreeSet<usize> = self.0.into_values().map(|(_, candidate)| candidate).collect();
        chosen.into_iter().map(|candidate| candidates[candidate].clone()).collect()
    }
}

//! Moments of the program that every run passes, at which the runs are compared: their peaks may lie at different
//! places of the program.

use std::collections::{BTreeSet, HashMap};

use super::fit::{Fit, Sample};
use crate::profile;
use crate::replay::{self, Position};
use crate::snapshot::{Action, Snapshot};
use crate::stack::{GroupBy, Grouper, Rules};

/// How much a device holds after each allocation and free of a run.
#[derive(Debug)]
pub struct Levels {
    /// Device ordinal.
    pub device: u32,
    steps: Vec<Step>,
    /// Keys of the stacks that allocate.
    stacks: Vec<String>,
}

/// An allocation or a free.
#[derive(Debug, Clone, Copy)]
struct Step {
    /// Index of the event.
    event: u32,
    /// Allocated bytes after it.
    allocated: u64,
    deed: Deed,
}

/// The part of a step that is the same in all runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Deed {
    /// The stack that allocates or did, as its position in [`Levels::stacks`].
    stack: usize,
    frees: bool,
}

impl Levels {
    /// The levels of every device that has events.
    ///
    /// # Errors
    /// Where a history cannot be replayed.
    pub fn of(snapshot: &Snapshot, rules: &Rules) -> Result<Vec<Self>, replay::Error> {
        let grouper = Grouper::new(&snapshot.tables, GroupBy::Stack, rules);
        let mut all = Vec::new();
        for (&id, device) in &snapshot.devices {
            let events = snapshot.events_of(device);
            let replay = replay::run(snapshot, id, device)?;
            let mut changes = vec![0_i128; events.len() + 2];
            let mut deeds: HashMap<Position, Deed> = HashMap::new();
            let mut stacks: Vec<String> = Vec::new();
            let mut known = HashMap::new();
            for allocation in &replay.allocations {
                let origin = allocation.origin(snapshot);
                let stack = *known.entry(origin).or_insert_with(|| {
                    stacks.push(profile::identity(origin, None, &grouper).key.0);
                    stacks.len() - 1
                });
                for (at, frees) in [(allocation.born, false), (allocation.freed, true)] {
                    if let Some(change) = changes.get_mut(at.count()) {
                        let bytes = i128::from(allocation.bytes);
                        *change += if frees { -bytes } else { bytes };
                        deeds.insert(at, Deed { stack, frees });
                    }
                }
            }
            let mut steps = Vec::new();
            let mut now = changes[Position::START.count()];
            for (index, event) in (0_u32..).zip(events) {
                now += changes[index as usize + 1];
                let deed = deeds.get(&Position::after(index as usize));
                if let (Action::Alloc | Action::FreeRequested, Some(&deed)) = (event.action, deed) {
                    steps.push(Step { event: index, allocated: u64::try_from(now).unwrap_or(0), deed });
                }
            }
            if !steps.is_empty() {
                all.push(Self { device: id, steps, stacks });
            }
        }
        Ok(all)
    }

    /// The steps by what they do, in order. Those without a stack are left out.
    fn by_deed(&self) -> HashMap<(&str, bool), Vec<usize>> {
        let mut places: HashMap<(&str, bool), Vec<usize>> = HashMap::new();
        for (at, Step { deed, .. }) in self.steps.iter().enumerate() {
            places.entry((self.stacks[deed.stack].as_str(), deed.frees)).or_default().push(at);
        }
        places
    }
}

/// A moment that is the same in all runs: just after this event of each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Aligned {
    /// The event in each run.
    pub events: Vec<u32>,
}

/// Places to look at, in multiples of the last run's.
const REACH: [f64; 5] = [1.0, 2.0, 4.0, 16.0, 64.0];

/// The programs are too different where fewer than one in this many steps has a partner in all runs.
const LEAST_ALIGNED: usize = 2;

/// The moments that may be the peak of a run, or at one of the places. `None` where the runs are too different to say
/// which moments of one are those of another.
#[must_use]
pub fn moments(runs: &[&Levels], places: &[f64], at: &[f64]) -> Option<Vec<Aligned>> {
    let anchors = anchors(runs)?;
    let last = places.last().copied()?;
    let farther = REACH.iter().map(|reach| reach * last);
    let farther = at.iter().copied().chain(farther);
    let mut highest: BTreeSet<usize> = farther.filter_map(|x| peak_at(runs, &anchors, places, x)).collect();
    for (run, levels) in runs.iter().enumerate() {
        highest.extend((0..anchors.len()).rev().max_by_key(|&anchor| levels.steps[anchors[anchor][run]].allocated));
    }
    // The peak of the last run as the earlier ones predict it.
    let earlier = runs.len() - 1;
    highest.extend(peak_at(&runs[..earlier], &anchors, &places[..earlier], last));
    Some(highest.into_iter().map(|anchor| Aligned::at(&anchors[anchor], runs)).collect())
}

impl Aligned {
    /// The moment after these steps, one of each run.
    fn at(anchor: &[usize], runs: &[&Levels]) -> Self {
        Self { events: runs.iter().zip(anchor).map(|(levels, &at)| levels.steps[at].event).collect() }
    }
}

/// Steps that are the same in all runs, as their positions in each: those of a stack that allocates as often in each,
/// in the same order.
fn anchors(runs: &[&Levels]) -> Option<Vec<Vec<usize>>> {
    let by_deed: Vec<_> = runs.iter().map(|levels| levels.by_deed()).collect();
    let [others @ .., reference] = &by_deed[..] else { return None };
    let mut anchors: Vec<Vec<usize>> = Vec::new();
    for (deed, places) in reference {
        let partners: Option<Vec<_>> = others.iter().map(|other| other.get(deed)).collect();
        let Some(partners) = partners.filter(|all| all.iter().all(|other| other.len() == places.len())) else {
            continue;
        };
        for (occurrence, &place) in places.iter().enumerate() {
            anchors.push(partners.iter().map(|other| other[occurrence]).chain([place]).collect());
        }
    }
    anchors.sort_unstable_by_key(|anchor| anchor.last().copied());
    // Steps that another run has in another order are no moment of both.
    let mut ordered: Vec<Vec<usize>> = Vec::with_capacity(anchors.len());
    for anchor in anchors {
        if ordered.last().is_none_or(|latest| latest.iter().zip(&anchor).all(|(earlier, later)| earlier < later)) {
            ordered.push(anchor);
        }
    }
    let steps = runs.iter().map(|levels| levels.steps.len()).max()?;
    (ordered.len() * LEAST_ALIGNED >= steps).then_some(ordered)
}

/// The anchor at which the runs predict most for a place.
fn peak_at(runs: &[&Levels], anchors: &[Vec<usize>], places: &[f64], x: f64) -> Option<usize> {
    let predicted = anchors.iter().map(|anchor| predicted_at(anchor, runs, places, x)).enumerate();
    predicted.max_by(|(a, one), (b, other)| one.total_cmp(other).then(b.cmp(a))).map(|(anchor, _)| anchor)
}

/// Allocated bytes after these steps, one of each run, that the runs predict for a place.
fn predicted_at(anchor: &[usize], runs: &[&Levels], places: &[f64], x: f64) -> f64 {
    let levels = runs.iter().zip(anchor).map(|(levels, &at)| levels.steps[at].allocated);
    let samples: Vec<Sample> = places.iter().zip(levels).map(|(&x, bytes)| Sample::new(x, bytes)).collect();
    Fit::of(&samples, 1).map_or(0.0, |fit| fit.best.at(x))
}

//! A part of a sequence in pieces small enough to say where it was cut, each with the number of its allocations.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::profile::course::{Entry, Folded};

/// How often symbols occur.
pub(super) type Counts = BTreeMap<u32, u64>;

/// A part is divided into about this many pieces.
const PIECES: u64 = 400;

/// A loop of few symbols that runs so often is one over parameters, not a step or a layer.
pub(super) const SMALL_LOOP_ROUNDS: u64 = 50;

/// A loop with fewer symbols than these is no step.
const LEAST_SYMBOLS: usize = 4;

/// Steps that are looked at for one with a partner.
const MOST_STEPS: usize = 100;

/// A loop is the steps of a recording where it makes up this share of it, in percent.
const STEPS_SHARE: u64 = 80;

/// Consecutive allocations.
#[derive(Debug, Default)]
pub(super) struct Piece {
    pub(super) counts: Counts,
    pub(super) length: u64,
}

/// A sequence with what is known of its loops.
#[derive(Debug)]
pub(super) struct Sequence<'s> {
    pub(super) folded: &'s Folded,
    lengths: Vec<u64>,
    counts: Vec<Counts>,
}

/// The loop that makes up most of a sequence.
#[derive(Debug, Clone, Copy)]
pub(super) struct Steps {
    /// Which of the entries it is.
    entry: usize,
    body: u32,
    count: u64,
}

/// Where steps lie in a sequence.
#[derive(Debug, Clone, Copy)]
pub(super) struct StepPlaces {
    /// Which of the entries they are.
    pub(super) entry: usize,
    /// The place of the first.
    pub(super) start: u64,
    /// The length of each.
    pub(super) length: u64,
    pub(super) count: u64,
}

/// Some of the allocations, in order.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) pieces: Vec<Piece>,
    /// Its allocations, by their places in the whole sequence.
    pub(super) places: Range<u64>,
    pub(super) counts: Counts,
    /// Loops over parameters: their places in the part.
    small_loops: Vec<Range<u64>>,
}

impl Part {
    pub(super) fn length(&self) -> u64 {
        self.places.end - self.places.start
    }

    /// True if a place lies within a loop over parameters.
    pub(super) fn is_in_small_loop(&self, place: u64) -> bool {
        self.small_loops.iter().any(|range| range.start <= place && place <= range.end)
    }
}

impl<'s> Sequence<'s> {
    pub(super) fn new(folded: &'s Folded) -> Self {
        let mut sequence = Self { folded, lengths: folded.lengths(), counts: Vec::new() };
        for body in &folded.bodies {
            let counts = sequence.counts_of(body);
            sequence.counts.push(counts);
        }
        sequence
    }

    pub(super) fn length(&self) -> u64 {
        self.folded.entries.iter().map(|&entry| self.length_of(entry)).fold(0, u64::saturating_add)
    }

    /// How often each symbol occurs.
    pub(super) fn counts(&self) -> Counts {
        self.counts_of(&self.folded.entries)
    }

    fn length_of(&self, entry: Entry) -> u64 {
        match entry {
            Entry::One(_) => 1,
            Entry::Loop { body, count } => self.lengths[body as usize].saturating_mul(count),
        }
    }

    fn counts_of(&self, entries: &[Entry]) -> Counts {
        let mut counts = Counts::new();
        entries.iter().for_each(|&entry| self.add(entry, &mut counts));
        counts
    }

    fn add(&self, entry: Entry, counts: &mut Counts) {
        match entry {
            Entry::One(symbol) => add(counts, symbol, 1),
            Entry::Loop { body, count } => {
                let body = &self.counts[body as usize];
                body.iter().for_each(|(&symbol, &each)| add(counts, symbol, each.saturating_mul(count)));
            }
        }
    }

    /// The loop over steps, if nearly all of it is one.
    pub(super) fn steps(&self) -> Option<Steps> {
        let loops = self.folded.entries.iter().enumerate().filter_map(|(entry, &of)| match of {
            Entry::Loop { body, count } if count > 1 => Some(Steps { entry, body, count }),
            _ => None,
        });
        let longest = loops.max_by_key(|steps| self.length_of(self.folded.entries[steps.entry]))?;
        let length = u128::from(self.length_of(self.folded.entries[longest.entry]));
        let is_most = length * 100 >= u128::from(self.length()) * u128::from(STEPS_SHARE);
        (is_most && self.counts[longest.body as usize].len() >= LEAST_SYMBOLS).then_some(longest)
    }

    /// The places of steps; `None` where 64 bits do not hold them.
    pub(super) fn places(&self, steps: Steps) -> Option<StepPlaces> {
        let before = self.folded.entries[..steps.entry].iter().map(|&entry| self.length_of(entry));
        let start = before.fold(0, u64::saturating_add);
        let length = self.step_length(steps);
        start.checked_add(length.checked_mul(steps.count)?)?;
        Some(StepPlaces { entry: steps.entry, start, length, count: steps.count })
    }

    /// The places of the same allocation in other steps, the latest before it first; none where it lies in no step.
    pub(super) fn in_other_steps(&self, place: u64) -> Vec<u64> {
        let places = self.steps().and_then(|steps| self.places(steps));
        let Some(StepPlaces { start, length, count, .. }) = places else { return Vec::new() };
        let Some(at) = place.checked_sub(start).filter(|at| *at < length * count) else { return Vec::new() };
        let step = at / length;
        let others = (0..step).rev().chain(step + 1..count).take(MOST_STEPS);
        others.map(|other| start + other * length + at % length).collect()
    }

    /// How often each symbol occurs in one step.
    pub(super) fn step_counts(&self, steps: Steps) -> &Counts {
        &self.counts[steps.body as usize]
    }

    /// The number of allocations in one step.
    pub(super) fn step_length(&self, steps: Steps) -> u64 {
        self.lengths[steps.body as usize]
    }

    /// All of it.
    pub(super) fn whole(&self) -> Part {
        self.part(self.folded.entries.clone(), 0)
    }

    /// The part before the steps.
    pub(super) fn before_steps(&self, steps: Steps) -> Part {
        self.part(self.folded.entries[..steps.entry].to_vec(), 0)
    }

    /// The last step and what follows.
    pub(super) fn last_step_on(&self, steps: Steps) -> Part {
        let lead = self.folded.entries[..steps.entry].iter().map(|&entry| self.length_of(entry)).sum::<u64>();
        let from = lead.saturating_add(self.lengths[steps.body as usize].saturating_mul(steps.count - 1));
        let step = self.folded.bodies[steps.body as usize].iter();
        self.part(step.chain(&self.folded.entries[steps.entry + 1..]).copied().collect(), from)
    }

    /// All up to the end of the first step.
    pub(super) fn up_to_first_step(&self, steps: Steps) -> Part {
        let step = self.folded.bodies[steps.body as usize].iter();
        self.part(self.folded.entries[..steps.entry].iter().chain(step).copied().collect(), 0)
    }

    fn part(&self, entries: Vec<Entry>, from: u64) -> Part {
        let length = entries.iter().map(|&entry| self.length_of(entry)).fold(0, u64::saturating_add);
        let limit = (length / PIECES).max(1);
        let mut pieces = Vec::new();
        let mut small_loops = Vec::new();
        let mut at = 0_u64;
        for &entry in &entries {
            let end = at.saturating_add(self.length_of(entry));
            if let Entry::Loop { body, count } = entry {
                let is_small = count >= SMALL_LOOP_ROUNDS && self.counts[body as usize].len() < LEAST_SYMBOLS;
                small_loops.extend(is_small.then_some(at..end));
            }
            self.divide(entry, limit, &mut pieces);
            at = end;
        }
        let places = from..from.saturating_add(length);
        Part { counts: self.counts_of(&entries), pieces, places, small_loops }
    }

    /// Adds the pieces of an entry: of at most `limit` allocations, where it can be divided.
    fn divide(&self, entry: Entry, limit: u64, pieces: &mut Vec<Piece>) {
        let length = self.length_of(entry);
        match entry {
            Entry::Loop { body, count } if length > limit => {
                let round = self.lengths[body as usize].max(1);
                let rounds = limit / round;
                if rounds == 0 {
                    for _ in 0..count {
                        self.folded.bodies[body as usize].iter().for_each(|&entry| self.divide(entry, limit, pieces));
                    }
                    return;
                }
                let mut left = count;
                while left > 0 {
                    let taken = left.min(rounds);
                    self.append(Entry::Loop { body, count: taken }, limit, pieces);
                    left -= taken;
                }
            }
            _ => self.append(entry, limit, pieces),
        }
    }

    fn append(&self, entry: Entry, limit: u64, pieces: &mut Vec<Piece>) {
        let length = self.length_of(entry);
        if pieces.last().is_none_or(|last| last.length.saturating_add(length) > limit) {
            pieces.push(Piece::default());
        }
        if let Some(piece) = pieces.last_mut() {
            self.add(entry, &mut piece.counts);
            piece.length = piece.length.saturating_add(length);
        }
    }
}

fn add(counts: &mut Counts, symbol: u32, more: u64) {
    let count = counts.entry(symbol).or_default();
    *count = count.saturating_add(more);
}

//! Which place of one history corresponds to which of another, so that both can be drawn on one axis, or looked at in the
//! same moment of the program.
//!
//! Both sequences of allocations are divided into pieces of the same length. The pieces that are most alike, in order, give a
//! coarse map; a single place is then found exactly by the allocations around it.

use std::cmp::Reverse;

use super::parts::{Piece, Sequence};
use super::{Common, Run, in_common};
use crate::profile::course::{Entry, Folded};
use crate::sides::Sides;

/// Pieces of the longer sequence.
const PIECES: u64 = 256;

/// Pieces of which a smaller share is the same, in thousandths, are no partners.
const LEAST_ALIKE: u32 = 250;

/// Partners that follow two others count by so much more, in thousandths.
const FOLLOWS: u32 = 300;

/// Histories of whose pieces a smaller share has a partner, in thousandths of the shorter one, do not correspond.
const LEAST_COVERED: u64 = 200;

/// A stretch without partners of more pieces than these is missing on the other side; within shorter ones, places are
/// interpolated.
const WIDEST_GAP: u64 = 4;

/// Allocations around a place that are compared, in each direction.
const CONTEXT: usize = 64;

/// A place is recognised by this many allocations around it.
const LEAST_CONTEXT: usize = 4;

/// Sequences that are longer are not written out: then a place is as exact as a piece.
const LONGEST_WRITTEN_OUT: u64 = 1 << 22;

/// A place among the allocations of both sides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Knot {
    /// The place in the before: the number of allocations that lie before it.
    pub before: u64,
    /// The same in the after.
    pub after: u64,
}

/// How the places of two histories correspond. A place is the number of allocations before it; places of
/// [`Course::levels`](crate::profile::course::Course::levels) lie equally far apart on that axis.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Correspondence {
    /// Places that correspond, in order on both sides. Between two of them, places are interpolated.
    pub knots: Vec<Knot>,
    /// Allocations of both histories.
    pub lengths: Sides<u64>,
    /// Allocations that make up a piece.
    piece: u64,
}

impl Correspondence {
    /// Maps two histories on each other. `pairs` are the groups of both that are the same ones. `None` where the histories are
    /// not alike.
    #[must_use]
    pub fn new(runs: &Sides<Run<'_>>, pairs: &[(usize, usize)]) -> Option<Self> {
        Self::of(&in_common(runs, pairs))
    }

    fn of(common: &Sides<Common>) -> Option<Self> {
        let sequences = common.map(|side| Sequence::new(&side.sequence));
        let lengths = sequences.map(Sequence::length);
        let piece = lengths.before.max(lengths.after).div_ceil(PIECES).max(1);
        let pieces = sequences.map(|sequence| sequence.pieces(piece));
        let partners = partners(&pieces.before, &pieces.after);
        let covered: u64 = partners.iter().map(|partner| u64::from(partner.alike)).sum();
        let shorter = pieces.before.len().min(pieces.after.len()) as u64;
        if partners.is_empty() || covered < shorter.saturating_mul(LEAST_COVERED) {
            return None;
        }
        let starts = pieces.map(|pieces| starts(pieces));
        let mut knots = Vec::with_capacity(partners.len() * 2);
        for partner in partners {
            let (before, after) = (partner.before, partner.after);
            knots.push(Knot { before: starts.before[before], after: starts.after[after] });
            knots.push(Knot { before: starts.before[before + 1], after: starts.after[after + 1] });
        }
        knots.dedup();
        Some(Self { knots, lengths, piece })
    }

    /// The place of the before that corresponds to one of the after; `None` in a part that the before lacks.
    #[must_use]
    pub fn before_of(&self, after: u64) -> Option<u64> {
        self.interpolate(after, |knot| knot.after, |knot| knot.before)
    }

    /// The place of the after that corresponds to one of the before; `None` in a part that the after lacks.
    #[must_use]
    pub fn after_of(&self, before: u64) -> Option<u64> {
        self.interpolate(before, |knot| knot.before, |knot| knot.after)
    }

    fn interpolate(&self, place: u64, from: fn(&Knot) -> u64, to: fn(&Knot) -> u64) -> Option<u64> {
        let widest = self.piece.saturating_mul(WIDEST_GAP);
        let next = self.knots.partition_point(|knot| from(knot) <= place);
        let below = next.checked_sub(1).and_then(|index| self.knots.get(index));
        match (below, self.knots.get(next)) {
            (None, None) => None,
            (None, Some(first)) => (from(first) - place <= widest).then(|| to(first)),
            (Some(last), None) => (place - from(last) <= widest).then(|| to(last)),
            (Some(below), Some(above)) => {
                let span = from(above) - from(below);
                let other = to(above) - to(below);
                if span > widest && other < span / 4 {
                    return None;
                }
                let share = u128::from(place - from(below)) * u128::from(other) / u128::from(span.max(1));
                Some(to(below) + u64::try_from(share).unwrap_or(0))
            }
        }
    }
}

/// The place of the before at which it does what the after does at `after`: both have just made that allocation. `None` where the
/// histories are not alike, or the before has nothing like it.
#[must_use]
pub fn corresponding_allocation(runs: &Sides<Run<'_>>, pairs: &[(usize, usize)], after: u64) -> Option<u64> {
    let common = in_common(runs, pairs);
    let map = Correspondence::of(&common)?;
    let coarse = map.before_of(after);
    let is_short = map.lengths.before.max(map.lengths.after) <= LONGEST_WRITTEN_OUT;
    let exact = is_short.then(|| {
        let symbols = common.map(|side| written_out(&side.sequence));
        let share = u128::from(after) * u128::from(map.lengths.before) / u128::from(map.lengths.after.max(1));
        let guess = coarse.unwrap_or(u64::try_from(share).unwrap_or(0));
        find(&symbols, usize::try_from(after).ok()?, usize::try_from(guess).ok()?)
    });
    exact.flatten().or(coarse).map(|place| place.min(map.lengths.before.saturating_sub(1)))
}

/// The place of the before with the same allocations around it as `after` has: the nearest to `guess` of those that have most in
/// common. Where that very allocation has no partner, it is that of the nearest one before it that has.
fn find(symbols: &Sides<Vec<u32>>, after: usize, guess: usize) -> Option<u64> {
    let Sides { before: others, after: own } = symbols;
    for back in 0..=CONTEXT.min(after) {
        let place = after - back;
        let symbol = own.get(place)?;
        let near = guess.saturating_sub(back);
        let candidates = others.iter().enumerate().filter(|(_, other)| *other == symbol).map(|(index, _)| index);
        let best =
            candidates.max_by_key(|&index| (alike_around(own, place, others, index), Reverse(index.abs_diff(near))));
        let found = best.filter(|&index| alike_around(own, place, others, index) >= LEAST_CONTEXT.min(own.len()));
        if let Some(found) = found {
            return u64::try_from(found).ok();
        }
    }
    None
}

/// Allocations around two places that are the same on both sides, without a gap.
fn alike_around(own: &[u32], place: usize, others: &[u32], other: usize) -> usize {
    let forwards = own[place..].iter().zip(&others[other..]).take(CONTEXT).take_while(|(a, b)| a == b).count();
    let backwards = own[..place].iter().rev().zip(others[..other].iter().rev());
    forwards + backwards.take(CONTEXT).take_while(|(a, b)| a == b).count()
}

/// All symbols of a sequence, loop by loop.
fn written_out(folded: &Folded) -> Vec<u32> {
    let mut bodies: Vec<Vec<u32>> = Vec::with_capacity(folded.bodies.len());
    for body in &folded.bodies {
        let symbols = entries(body, &bodies);
        bodies.push(symbols);
    }
    entries(&folded.entries, &bodies)
}

fn entries(entries: &[Entry], bodies: &[Vec<u32>]) -> Vec<u32> {
    let mut symbols = Vec::new();
    for entry in entries {
        match *entry {
            Entry::One(symbol) => symbols.push(symbol),
            Entry::Loop { body, count } => (0..count).for_each(|_| symbols.extend_from_slice(&bodies[body as usize])),
        }
    }
    symbols
}

/// Where each piece begins, and the end of the last.
fn starts(pieces: &[Piece]) -> Vec<u64> {
    let mut at = 0;
    let mut starts = vec![0];
    for piece in pieces {
        at += piece.length;
        starts.push(at);
    }
    starts
}

/// Two pieces that are alike.
struct Partner {
    before: usize,
    after: usize,
    /// The share of the longer that both have, in thousandths.
    alike: u32,
}

/// The pieces of both sides that correspond, in order: those that together have most in common. Pieces that follow each other on
/// both sides count more, so that of many rounds of a loop neighbours stay neighbours.
fn partners(before: &[Piece], after: &[Piece]) -> Vec<Partner> {
    let table = Table::new(before, after);
    let mut i = before.len();
    let mut j = after.len();
    let mut found = Vec::new();
    let mut must_pair = false;
    while i > 0 && j > 0 {
        let here = table.at(i, j);
        if must_pair || (table.paired[here] > 0 && table.best[here] == table.paired[here]) {
            must_pair = table.continues(here);
            (i, j) = (i - 1, j - 1);
            found.push(Partner { before: i, after: j, alike: table.alike[here] });
        } else if table.best[here] == table.best[here - table.width] {
            i -= 1;
        } else {
            j -= 1;
        }
    }
    found.reverse();
    found
}

/// How well the first pieces of both sides go together, by the number of pieces of the before and of the after.
struct Table {
    width: usize,
    /// How much the last two pieces are alike.
    alike: Vec<u32>,
    /// The best where the last two are partners; 0 where they cannot be.
    paired: Vec<u32>,
    /// The best.
    best: Vec<u32>,
}

impl Table {
    fn new(before: &[Piece], after: &[Piece]) -> Self {
        let width = after.len() + 1;
        let cells = vec![0_u32; width * (before.len() + 1)];
        let mut table = Self { width, alike: cells.clone(), paired: cells.clone(), best: cells };
        let before: Vec<Sorted> = before.iter().map(Sorted::new).collect();
        let after: Vec<Sorted> = after.iter().map(Sorted::new).collect();
        for (i, one) in before.iter().enumerate() {
            for (j, other) in after.iter().enumerate() {
                let here = table.at(i + 1, j + 1);
                table.alike[here] = alike_in(one, other);
                if table.alike[here] >= LEAST_ALIKE {
                    let earlier = here - width - 1;
                    table.paired[here] = table.alike[here] + table.best[earlier].max(table.continued(earlier));
                }
                table.best[here] = table.paired[here].max(table.best[here - 1]).max(table.best[here - width]);
            }
        }
        table
    }

    fn at(&self, before: usize, after: usize) -> usize {
        before * self.width + after
    }

    /// The best where the last two pieces are partners, and the next two are as well.
    fn continued(&self, cell: usize) -> u32 {
        if self.paired[cell] > 0 { self.paired[cell] + FOLLOWS } else { 0 }
    }

    /// Whether the pieces before two partners are best partners as well.
    fn continues(&self, cell: usize) -> bool {
        let earlier = cell - self.width - 1;
        self.paired[earlier] > 0 && self.continued(earlier) >= self.best[earlier]
    }
}

/// A piece as it is compared with many others: its symbols with their counts, in order.
struct Sorted {
    counts: Vec<(u32, u64)>,
    length: u64,
}

impl Sorted {
    fn new(piece: &Piece) -> Self {
        Self { counts: piece.counts.iter().map(|(&symbol, &count)| (symbol, count)).collect(), length: piece.length }
    }

    /// Allocations that both have.
    fn shared(&self, other: &Self) -> u64 {
        let mut others = other.counts.iter().peekable();
        let mut shared = 0;
        for &(symbol, count) in &self.counts {
            while others.next_if(|&&(other, _)| other < symbol).is_some() {}
            shared += others.next_if(|&&(other, _)| other == symbol).map_or(0, |&(_, of_other)| count.min(of_other));
        }
        shared
    }
}

/// The share of the longer of two pieces that both have, in thousandths.
fn alike_in(one: &Sorted, other: &Sorted) -> u32 {
    let shared = one.shared(other);
    let share = shared.saturating_mul(1000) / one.length.max(other.length).max(1);
    u32::try_from(share).unwrap_or(1000)
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    fn common(before: &[u32], after: &[u32]) -> Sides<Common> {
        let side = |symbols: &[u32]| Common {
            sequence: Folded::new(symbols.iter().copied(), usize::MAX).unwrap(),
            sizes: HashMap::new(),
        };
        Sides { before: side(before), after: side(after) }
    }

    /// A head, steps of forward layers and backward layers, and a tail; each symbol is another stack.
    fn program(steps: u32, layers: u32, more: bool) -> Vec<u32> {
        let mut symbols: Vec<u32> = (1000..1040).collect();
        for _ in 0..steps {
            for _ in 0..layers {
                symbols.extend(0..10);
                symbols.extend(more.then_some(99));
            }
            symbols.extend(200..230);
            (0..layers).for_each(|_| symbols.extend(100..115));
            symbols.extend(300..340);
        }
        symbols.extend(2000..2020);
        symbols
    }

    fn place_of(before: &[u32], after: &[u32], place: usize) -> Option<u64> {
        let common = common(before, after);
        let map = Correspondence::of(&common)?;
        let guess = map.before_of(place as u64).unwrap_or(0);
        find(&common.map(|side| written_out(&side.sequence)), place, usize::try_from(guess).unwrap())
    }

    #[test]
    fn a_history_corresponds_to_itself_place_by_place() {
        let symbols = program(3, 6, false);
        let map = Correspondence::of(&common(&symbols, &symbols)).unwrap();
        for place in 0..symbols.len() {
            assert_eq!(map.before_of(place as u64), Some(place as u64));
            assert_eq!(map.after_of(place as u64), Some(place as u64));
        }
        for place in [0, 7, 55, 555, symbols.len() - 1] {
            assert_eq!(place_of(&symbols, &symbols, place), Some(place as u64));
        }
    }

    #[test]
    fn a_place_is_found_in_changed_code() {
        // One more allocation in each layer: the same place of the same step.
        let (before, after) = (program(3, 6, false), program(3, 6, true));
        let at = |symbols: &[u32], symbol: u32, occurrence: usize| {
            let mut places = symbols.iter().enumerate().filter(|(_, other)| **other == symbol).map(|(place, _)| place);
            places.nth(occurrence).unwrap()
        };
        for (symbol, occurrence) in [(205, 1), (310, 0), (1005, 0), (2010, 0), (339, 2)] {
            let found = place_of(&before, &after, at(&after, symbol, occurrence));
            assert_eq!(found, Some(at(&before, symbol, occurrence) as u64), "{symbol}");
        }
        // The new allocation itself goes by the one before it.
        let new = at(&after, 99, 7);
        let found = usize::try_from(place_of(&before, &after, new).unwrap()).unwrap();
        assert_eq!(before[found], 9);
    }

    #[test]
    fn a_part_that_is_missing_has_no_place() {
        let after = program(3, 6, false);
        let cut = after.len() / 2;
        let map = Correspondence::of(&common(&after[cut..], &after)).unwrap();
        assert_eq!(map.before_of(10), None);
        assert_eq!(map.before_of((cut + 50) as u64), Some(50));
        assert_eq!(map.after_of(50), Some((cut + 50) as u64));
    }

    #[test]
    fn other_programs_do_not_correspond() {
        let other: Vec<u32> = program(3, 6, false).into_iter().map(|symbol| symbol + 5000).collect();
        assert_eq!(Correspondence::of(&common(&program(3, 6, false), &other)), None);
    }
}

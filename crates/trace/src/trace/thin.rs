//! A history with few of its blocks, for one that repeats too little to be saved whole.

use super::{Life, Measure, Move, Position, Trace};
use crate::interner::Interner;

impl Trace {
    /// For each stretch between two places, which are in order, the place at which it holds the most allocated bytes; the
    /// first of equal ones. A stretch begins after its first place.
    #[must_use]
    pub fn peaks_between(&self, places: &[Position]) -> Vec<Position> {
        let values: Vec<i128> = self.values(Measure::Allocated).collect();
        let last = values.len() - 1;
        let ends = places.windows(2).map(|ends| (ends[0].count().min(last), ends[1].count().min(last)));
        let peaks = ends.filter_map(|(from, to)| (from + 1..=to).rev().max_by_key(|&place| values[place]));
        peaks.map(Position::of_count).collect()
    }

    /// The same history with those blocks alone that are there at the start or kept. Every event has its place; no place
    /// holds more than it did, and those at which all blocks are kept hold as much.
    #[must_use]
    pub fn thinned(&self, is_kept: impl Fn(&Life) -> bool) -> Self {
        let is_kept = |life: &Life| life.born == Position::START || is_kept(life);
        let kept: Vec<bool> = self.lives().iter().map(is_kept).collect();
        let mut numbers: Vec<u32> = Vec::with_capacity(kept.len());
        let mut next_number = 0;
        for &kept in &kept {
            numbers.push(next_number);
            next_number += u32::from(kept);
        }
        let mut thin = Self {
            classes: self.classes.clone(),
            start: self.start.clone(),
            reserved: self.reserved,
            ..Self::default()
        };
        let mut moves: Interner<Move> = Interner::default();
        let mut ended = self.ended.iter().map(|&block| block as usize);
        let mut begun = self.start.iter().map(|start| (start.allocated + start.pending) as usize).sum::<usize>()..;
        for (at, symbol) in self.placed() {
            let one = self.moves[symbol as usize];
            let gone = one.ends().and_then(|_| ended.next()).filter(|&block| kept[block]);
            let comes = one.begins().filter(|_| begun.next().is_some_and(|block| kept[block]));
            let changed = match (one, gone, comes) {
                (Move::Replace(block, _), Some(_), None) => Move::Free(block),
                (Move::Reserve(_) | Move::Release(_), ..) | (_, Some(_), _) => one,
                (_, None, Some(block)) => Move::Alloc(block.class),
                (_, None, None) => Move::Nothing,
            };
            thin.ended.extend(gone.map(|block| numbers[block]));
            let symbols = if at == self.dump() { &mut thin.implied } else { &mut thin.symbols };
            symbols.push(moves.number(&changed));
        }
        Self { moves: moves.into_items(), ..thin }
    }

    /// How many blocks of every class come within the history.
    #[must_use]
    pub fn allocations(&self) -> Vec<u64> {
        let times = self.times_before(self.end());
        let mut allocations = vec![0; self.classes.len()];
        for (block, times) in self.moves.iter().zip(times).filter_map(|(one, times)| Some((one.begins()?, times))) {
            allocations[block.class as usize] += times;
        }
        allocations
    }
}

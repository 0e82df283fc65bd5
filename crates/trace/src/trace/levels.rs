//! The counters at given borders, and the highest between any two of them.

use super::{Class, Measure, Move, Position, Trace, Window};

/// The counters at a place, in bytes. Where the history does not add up, no less than 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CounterLevels {
    /// Allocated bytes.
    pub allocated: u64,
    /// Active bytes.
    pub active: u64,
    /// Reserved bytes. Without meaning where the segments of the device cannot be known.
    pub reserved: u64,
}

impl CounterLevels {
    fn of(values: [i128; 3]) -> Self {
        let [allocated, active, reserved] = values.map(|value| u64::try_from(value.max(0)).unwrap_or(u64::MAX));
        Self { allocated, active, reserved }
    }

    /// Reserved, and not active.
    pub fn fragmentation(self) -> u64 {
        self.reserved.saturating_sub(self.active)
    }

    /// The higher value of each counter.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        Self {
            allocated: self.allocated.max(other.allocated),
            active: self.active.max(other.active),
            reserved: self.reserved.max(other.reserved),
        }
    }
}

/// The counters over a part of a history.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WindowCounters {
    /// At its beginning.
    pub start: CounterLevels,
    /// The highest, its ends included.
    pub peak: CounterLevels,
    /// At its end.
    pub end: CounterLevels,
}

impl Trace {
    /// The counters over parts of the history; parts beyond it have its final values.
    pub fn parts(&self, windows: &[Window]) -> Vec<WindowCounters> {
        self.parts_with(&self.classes, windows)
    }

    /// How far the highest allocated bytes of each part may be from the truth, because the sizes of blocks are not certain.
    #[must_use]
    pub fn errors_of_peaks(&self, windows: &[Window]) -> Vec<u64> {
        let mut errors = vec![0; windows.len()];
        if !self.is_uncertain() {
            return errors;
        }
        let found = self.parts(windows);
        for bound in [Class::smallest, Class::largest] {
            let classes: Vec<Class> = self.classes.iter().map(bound).collect();
            for ((error, found), bound) in errors.iter_mut().zip(&found).zip(self.parts_with(&classes, windows)) {
                *error = (*error).max(found.peak.allocated.abs_diff(bound.peak.allocated));
            }
        }
        errors
    }

    /// The counters over parts, with other sizes of blocks than its own.
    fn parts_with(&self, classes: &[Class], windows: &[Window]) -> Vec<WindowCounters> {
        if windows.is_empty() {
            return Vec::new();
        }
        let mut borders: Vec<Position> = windows.iter().flat_map(|window| [window.from, window.to]).collect();
        borders.sort_unstable();
        let levels = Levels::new(self, classes, borders);
        windows.iter().map(|window| levels.over(*window)).collect()
    }
}

/// The counters at borders, and the highest between any two of them.
#[derive(Debug)]
struct Levels {
    borders: Vec<Position>,
    /// At each border.
    at: Vec<CounterLevels>,
    /// A tree, so that many borders take little memory: an inner node at `i` is the highest of those at `2 * i` and
    /// `2 * i + 1`, its leaves are the highest from each border to the next.
    highest: Vec<CounterLevels>,
}

impl Levels {
    /// `borders` are in order; those that the history does not reach are at its end.
    fn new(trace: &Trace, classes: &[Class], mut borders: Vec<Position>) -> Self {
        const MEASURES: [Measure; 3] = [Measure::Allocated, Measure::Active, Measure::Reserved];
        borders.dedup();
        let change = |one: &Move| MEASURES.map(|measure| one.change(measure, classes));
        // Where moves do not recur, a table of what each changes takes longer to make than it saves.
        let recur = trace.symbols.len() / 4 > trace.moves.len();
        let changes: Vec<[i128; 3]> = if recur { trace.moves.iter().map(change).collect() } else { Vec::new() };
        let mut now = MEASURES.map(|measure| trace.start_with(classes, measure));
        let mut highest = now;
        let mut at = Vec::with_capacity(borders.len());
        let mut tree = vec![CounterLevels::default(); borders.len()];
        let mut next = 0;
        for &border in &borders {
            let to = border.count().clamp(next, trace.symbols.len());
            for &symbol in &trace.symbols[next..to] {
                let known = changes.get(symbol as usize).copied();
                let change = known.unwrap_or_else(|| change(&trace.moves[symbol as usize]));
                // By index: that takes half the time of three iterators.
                for (i, change) in change.into_iter().enumerate() {
                    now[i] += change;
                    highest[i] = highest[i].max(now[i]);
                }
            }
            next = to;
            if !at.is_empty() {
                tree.push(CounterLevels::of(highest));
            }
            highest = now;
            at.push(CounterLevels::of(now));
        }
        tree.extend(at.last());
        for i in (1..borders.len()).rev() {
            tree[i] = tree[2 * i].max(tree[2 * i + 1]);
        }
        Self { borders, at, highest: tree }
    }

    /// At the first border at or after it, or at the last one.
    fn at(&self, index: usize) -> CounterLevels {
        self.at.get(index).or(self.at.last()).copied().unwrap_or_default()
    }

    /// The counters from a border to a later one.
    fn over(&self, Window { from, to }: Window) -> WindowCounters {
        let [first, last] = [from, to].map(|at| self.borders.partition_point(|&border| border < at));
        let start = self.at(first);
        let end = self.at(last);
        let mut peak = start.max(end);
        let mut low = first + self.borders.len();
        let mut high = last + self.borders.len();
        while low < high {
            if low % 2 == 1 {
                peak = peak.max(self.highest[low]);
                low += 1;
            }
            if high % 2 == 1 {
                high -= 1;
                peak = peak.max(self.highest[high]);
            }
            low /= 2;
            high /= 2;
        }
        WindowCounters { start, peak, end }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The tree finds what looking at every place does.
    #[test]
    fn the_highest_of_any_run_is_found() {
        for length in 1..40_usize {
            let sizes = (0..length as u64).map(|i| 1 + (i * 7919) % 31);
            let moves: Vec<Move> = sizes
                .enumerate()
                .map(|(i, size)| if i % 3 == 1 { Move::Release(size) } else { Move::Reserve(size) })
                .collect();
            let symbols = (0..u32::try_from(length).unwrap()).collect();
            let trace = Trace { moves, symbols, reserved: 50, ..Trace::default() };
            let values: Vec<u64> = trace.values(Measure::Reserved).map(|value| u64::try_from(value).unwrap()).collect();
            let borders: Vec<Position> = (0..=length).step_by(2).map(Position::of_count).collect();
            let levels = Levels::new(&trace, &[], borders.clone());
            for (index, from) in borders.iter().enumerate() {
                for to in &borders[index..] {
                    let inside = &values[from.count()..=to.count()];
                    let found = levels.over(Window { from: *from, to: *to });
                    let found = [found.start, found.peak, found.end].map(|level| level.reserved);
                    let peak = inside.iter().copied().max().unwrap();
                    assert_eq!(found, [inside[0], peak, inside[inside.len() - 1]], "{from:?}..{to:?} of {length}");
                }
            }
        }
    }
}

//! Whether the peak may lie at another moment, where sizes are not certain.

use super::Position;
use crate::trace::{Class, Spread, Trace};

/// The moment other than the allocated peak at which as much may have been allocated, or more, if the sizes that are
/// not certain are as they can be. Blocks that are there at both moments make no difference.
pub(super) fn of_peak(trace: &Trace, peak_at: Position, peak: i128) -> Option<Position> {
    if trace.classes.iter().all(|class| class.spread == Spread::default()) {
        return None;
    }
    let blocks = Blocks { classes: &trace.classes, at_peak: trace.allocated_at(peak_at) };
    let held = trace.blocks_at(peak_at).into_iter().zip(&trace.classes);
    let mut highest: i128 = held.map(|(blocks, class)| i128::from(class.spread.times(blocks).below)).sum();
    let mut next = 0;
    for (class, start) in (0..).zip(&trace.start) {
        next += start.pending;
        highest += (next..next + start.allocated).map(|block| blocks.counted(class, block)).sum::<i128>();
        next += start.allocated;
    }
    // It has to be as high as the peak, and higher than at any rival before.
    let mut rival = (highest >= peak && peak_at != Position::START).then_some(Position::START);
    let mut least = rival.map_or(peak, |_| highest + 1);
    let mut ended = trace.ended.iter();
    for (i, &symbol) in trace.symbols.iter().enumerate() {
        let one = trace.moves[symbol as usize];
        let block = one.ends().and_then(|_| ended.next());
        if let Some((class, &block)) = one.frees().zip(block) {
            highest -= blocks.counted(class, block);
        }
        if let Some(begun) = one.begins() {
            highest += blocks.counted(begun.class, next);
            next += 1;
        }
        if highest >= least && Position::after(i) != peak_at {
            least = highest + 1;
            rival = Some(Position::after(i));
        }
    }
    rival
}

/// Blocks as they count against the peak.
struct Blocks<'t> {
    classes: &'t [Class],
    /// Whether each of those that had come by the peak is there at it, by number.
    at_peak: Vec<bool>,
}

impl Blocks<'_> {
    /// Bytes of a block: the least that it can have if it is there at the peak, and else the most.
    fn counted(&self, class: u32, block: u32) -> i128 {
        let Class { bytes, spread, .. } = self.classes[class as usize];
        let is_there = self.at_peak.get(block as usize).is_some_and(|&is_there| is_there);
        i128::from(bytes) + if is_there { -i128::from(spread.below) } else { i128::from(spread.above) }
    }
}

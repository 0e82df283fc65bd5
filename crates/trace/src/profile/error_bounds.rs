//! How far figures may be from the truth, and because of which blocks.

use rustc_hash::FxHashMap;

use super::exact::Exact;
use super::totals::{self, GroupedTotals};
use super::{DeviceProfile, Metric, Point};
use crate::replay::Position;
use crate::stack::{GroupBy, Grouper, SnapshotCode};
use crate::trace::{CountedBlock, CountedBlocks, ErrorBound, Measure, Move, Uncertainty, Window, digest};

/// The margin of figures that only blocks whose sizes are not certain make inexact. With another one, any block does.
const BY_SIZES: u64 = 0;

impl DeviceProfile {
    /// How allocated blocks count in groups of classes. `code` is of their stacks.
    fn counted_in(&self, groups: &[u32], count: usize, code: &SnapshotCode<'_>) -> CountedBlocks {
        let mut counted = self.counted_as(BY_SIZES, Measure::Allocated, code);
        counted.groups = count;
        counted.of_class.iter_mut().zip(groups).for_each(|(block, group)| block.group = *group);
        counted
    }

    /// How far the most bytes of groups of classes may be from the truth, because the sizes of blocks are not certain.
    pub fn bounds_of_groups(&self, groups: &[u32], count: usize, code: &SnapshotCode<'_>) -> Vec<ErrorBound> {
        if !self.trace.is_uncertain() {
            return vec![ErrorBound::default(); count];
        }
        self.trace.bounds_of_highest(&self.counted_in(groups, count, code))
    }

    /// How allocated blocks count in one sum, which may be off by a margin beside the sizes of blocks.
    fn counted_as(&self, margin: u64, measure: Measure, code: &SnapshotCode<'_>) -> CountedBlocks {
        let grouper = Grouper::of(code.clone(), GroupBy::Stack);
        let mut keys = FxHashMap::default();
        let of_class = self.trace.classes.iter().map(|class| {
            let spread = class.spread_in(measure);
            let mut block = CountedBlock { group: 0, bytes: class.size(measure), spread, kind: 0 };
            if spread != Uncertainty::default() || margin != BY_SIZES {
                let key = keys
                    .entry(class.origin)
                    .or_insert_with(|| digest(&totals::key(&Exact::of(class, GroupBy::Stack), &grouper).0));
                block.kind = digest(&(*key, class.bytes, spread));
            }
            block
        });
        CountedBlocks { measure, of_class: of_class.collect(), groups: 1, margin: margin.into() }
    }

    /// Adds how far what each group holds may be from the truth.
    pub(super) fn bound_totals(&self, GroupedTotals { totals, of_class }: &mut GroupedTotals, code: &SnapshotCode<'_>) {
        if !self.trace.is_uncertain() {
            return;
        }
        let counted = self.counted_in(of_class, totals.len(), code);
        for (total, bound) in totals.iter_mut().zip(self.trace.bounds_of_highest(&counted)) {
            total.highest_bound = bound;
            total.at_bound.blocks = Some(0);
        }
        for ((class, sums), block) in self.counts.sums(&self.trace.classes).zip(&counted.of_class) {
            let ErrorBound { bytes, blocks } = &mut totals[block.group as usize].at_bound;
            *bytes = bytes.saturating_add(class.error().saturating_mul(sums.at.blocks));
            *blocks = blocks.map(|blocks| blocks.wrapping_add(block.kind.wrapping_mul(sums.at.blocks)));
        }
    }

    /// How far the highest value of a counter within windows may be from the truth, because of blocks.
    fn bounds(&self, margin: u64, measure: Measure, windows: &[Window], code: &SnapshotCode<'_>) -> Vec<ErrorBound> {
        self.trace.bounds_within(&self.counted_as(margin, measure, code), windows)
    }

    /// How far the highest allocated bytes of parts of the history may be from the truth, because the sizes of blocks are not
    /// certain.
    pub fn bounds_of_parts(&self, windows: &[Window], code: &SnapshotCode<'_>) -> Vec<ErrorBound> {
        self.bounds(BY_SIZES, Measure::Allocated, windows, code)
    }

    /// The bytes by which allocated bytes may be off at any moment, where the sizes of blocks do not explain this.
    pub fn unexplained_error(&self, code: &SnapshotCode<'_>) -> Option<u64> {
        let error = self.figures.allocated.max_error().filter(|error| *error > 0)?;
        let windows = [self.whole(), AT_START];
        let explained = self.bounds(BY_SIZES, Measure::Allocated, &windows, code);
        (!self.is_explained(&explained, error)).then_some(error)
    }

    /// True if an error is because of the sizes of blocks. Where a self-check failed, any block may be wrong.
    fn is_explained(&self, by_sizes: &[ErrorBound], error: u64) -> bool {
        self.figures.checks.hold() && by_sizes.iter().any(|bound| bound.bytes >= error)
    }

    /// The blocks that are held at all moments.
    pub fn all_blocks(&self, code: &SnapshotCode<'_>) -> Option<u64> {
        let bounds = self.bounds(u64::MAX, Measure::Allocated, &[self.whole()], code);
        bounds.first()?.blocks.filter(|_| self.knows_stacks())
    }

    /// All of the history.
    fn whole(&self) -> Window {
        Window { from: Position::START, to: self.trace.end() }
    }

    /// The place at which [`Metric::Fragmentation`] is read: after the block for which the most memory was reserved.
    fn reserved_peak(&self) -> Window {
        let peak = self.figures.reserved.peak_at.unwrap_or_default();
        let mut next = self.trace.symbols.iter().enumerate().skip(peak.count()).filter(|_| peak > Position::START);
        let next = next.find(|(_, symbol)| self.trace.moves[**symbol as usize] != Move::Nothing);
        let begun = next.filter(|(_, symbol)| self.trace.moves[**symbol as usize].begins().is_some());
        let at = begun.map_or(peak, |(event, _)| Position::after(event));
        Window { from: at, to: at }
    }
}

/// The moment before the first event.
const AT_START: Window = Window { from: Position::START, to: Position::START };

impl Metric {
    /// How far its value may be from the truth, and because of which blocks.
    pub(super) fn bound(self, device: &DeviceProfile, code: &SnapshotCode<'_>) -> ErrorBound {
        let Some(bytes) = self.max_error(device).filter(|_| device.knows_stacks()) else {
            return ErrorBound::default();
        };
        let (measure, windows) = match self.point() {
            Point::Peak => (self.measure(), vec![device.whole()]),
            Point::Start => (self.measure(), vec![AT_START]),
            Point::End => return ErrorBound { bytes, blocks: None },
            // Read once, with the bound of all moments.
            Point::UnusedAtPeak => (Measure::Active, vec![device.reserved_peak(), device.whole(), AT_START]),
        };
        let by_sizes = device.bounds(BY_SIZES, measure, &windows, code);
        let found = if device.is_explained(&by_sizes, bytes) {
            by_sizes
        } else {
            device.bounds(bytes, measure, &windows[..1], code)
        };
        ErrorBound { bytes, blocks: found[0].blocks }
    }
}

//! The figures whose growth is divided among edits or explained by stacks, and what each row holds there.

use std::cmp::Reverse;

use ptmem_base::sides::{Side, Sides};
use ptmem_snapshot::snapshot::StackId;
use ptmem_trace::profile::{DeviceProfile, Held, Occurrence};
use ptmem_trace::replay::HistoryKind;
use ptmem_trace::trace::{Origin, Position, Window};
use rustc_hash::{FxHashMap, FxHashSet};

use super::share::Figure;
use crate::diff::differences::devices;
use crate::diff::{Change, DeviceDiff, Diff, PhaseRow, RowKind};

/// Maximum number of phases that are examined: those that grew most.
const MOST_PHASES: usize = 256;

/// What a row holds at the place of a figure.
pub(super) struct Holding {
    /// The row, as an index into [`DeviceDiff::rows`].
    pub(super) row: usize,
    pub(super) held: Sides<Held>,
    /// Whether each block is larger by one ratio.
    pub(super) is_resized: bool,
    /// The stacks of the after that grew, with the bytes.
    pub(super) members: Vec<(StackId, u64)>,
}

/// The growth of a row at the moment of a figure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grown {
    /// The label of its stack that grew most there.
    pub label: String,
    /// That stack, of the after; `None` where none grew.
    pub stack: Option<StackId>,
    /// Bytes gained.
    pub bytes: u64,
}

impl Diff {
    /// The rows that grew at a figure other than the peak, the largest growth first. Empty where a side has no history.
    pub fn grown_at(&self, device: &DeviceDiff, figure: Figure) -> Vec<Grown> {
        let places = devices(&self.profiles, device.index)
            .both()
            .and_then(|sides| figure.places(device, sides).map(|places| (sides, places)));
        let Some((sides, places)) = places else { return Vec::new() };
        let code = self.profiles.after.code();
        let mut grown = Vec::new();
        for holding in figure.holdings(device, sides, places) {
            let row = &device.rows[holding.row];
            let Some(bytes) = u64::try_from(holding.held.delta()).ok().filter(|bytes| *bytes > 0) else { continue };
            if row.kind.is_memory() {
                let stack = holding.members.iter().max_by_key(|(_, bytes)| *bytes).map(|(stack, _)| *stack);
                let label = stack.map_or_else(|| row.label.clone(), |stack| code.label(stack));
                grown.push(Grown { label, stack, bytes });
            }
        }
        grown.sort_by_key(|grown| Reverse(grown.bytes));
        grown
    }
}

impl Figure {
    /// It in words, to follow "the growth".
    pub(super) fn place(self, device: &DeviceDiff) -> String {
        match self {
            Self::Peak => "at the peak".to_owned(),
            Self::Baseline => "at the start".to_owned(),
            Self::End => "at the end".to_owned(),
            Self::Phase(at) => format!("at the peak inside {}", device.phases[at].title()),
        }
    }

    /// Those of a device that grew, with their places on both sides.
    pub(super) fn grown(device: &DeviceDiff, sides: Sides<&DeviceProfile>) -> Vec<(Self, Sides<Position>)> {
        let mut found: Vec<(Self, Sides<Position>)> =
            device.places.iter().map(|places| (Self::Peak, places.at.map(|place| place.at))).collect();
        let end = sides.map(|side| side.figures.allocated.end);
        let of_end = Self::End.places(device, sides).filter(|_| end.after > end.before);
        found.extend(of_end.map(|places| (Self::End, places)));
        let mut phases: Vec<(i128, usize)> =
            device.phases.iter().enumerate().filter_map(|(at, row)| Some((row.delta()?, at))).collect();
        phases.retain(|(delta, _)| *delta > 0);
        phases.sort_by_key(|&(delta, at)| (Reverse(delta), at));
        let figures: [fn(&PhaseRow) -> Change; 2] = [|row| row.peak, |row| row.reserved];
        let judged = figures.into_iter().flat_map(|figure| most_beyond(device, &phases, figure));
        let judged: FxHashSet<usize> = judged.collect();
        phases.retain(|(_, at)| judged.contains(at));
        phases.truncate(MOST_PHASES);
        let windows = Sides::BOTH.map(|&side| {
            let all = phases.iter().map(|&(_, at)| window(&device.phases[at], sides.of(side), side));
            all.collect::<Option<Vec<Window>>>().unwrap_or_default()
        });
        let peaks = sides.zip(windows).map(|(side, windows)| side.trace.peaks_within(windows));
        let places =
            peaks.before.iter().zip(&peaks.after).map(|(before, after)| Sides { before: before.at, after: after.at });
        found.extend(phases.iter().zip(places).map(|(&(_, at), places)| (Self::Phase(at), places)));
        found
    }

    /// Its places on both sides; `None` for the peak, whose rows are listed anyway, and where a side has no history.
    fn places(self, device: &DeviceDiff, sides: Sides<&DeviceProfile>) -> Option<Sides<Position>> {
        if sides.map(|side| side.figures.history) != both(HistoryKind::Recorded) {
            return None;
        }
        match self {
            Self::Peak => None,
            Self::Baseline => Some(both(Position::START)),
            Self::End => Some(sides.map(|side| side.trace.dump())),
            Self::Phase(at) => {
                let row = &device.phases[at];
                Sides::BOTH.map(|&side| peak_inside(row, sides.of(side), side)).both()
            }
        }
    }

    /// What the rows of a device hold there.
    pub(super) fn holdings(
        self,
        device: &DeviceDiff,
        sides: Sides<&DeviceProfile>,
        places: Sides<Position>,
    ) -> Vec<Holding> {
        if self == Self::Peak {
            return device
                .rows
                .iter()
                .enumerate()
                .map(|(row, of)| Holding {
                    row,
                    held: of.held,
                    is_resized: of.is_resized,
                    members: grown_members(
                        of.members.iter().map(|pair| pair.map(|member| member.map(|of| (of.stack, of.at)))),
                    ),
                })
                .collect();
        }
        let at = sides.zip(places).map(|(side, place)| held_at(side, *place));
        let held_by = |side: Side, stack: StackId| at.of(side).get(&Origin::Stack(stack)).copied().unwrap_or_default();
        let rows = device.rows.iter().enumerate().map(|(row, of)| {
            let mut held: Sides<Held> = Sides::default();
            if let RowKind::Bucket(bucket) = of.kind {
                held = at.map(|at| at.get(&Origin::Bucket(bucket)).copied().unwrap_or_default());
            }
            let mut members = Vec::with_capacity(of.members.len());
            for pair in &of.members {
                let both =
                    Sides::BOTH.map(|&side| pair.of(side).map(|member| (member.stack, held_by(side, member.stack))));
                held = held.plus(both.map(|member| member.map(|(_, held)| held).unwrap_or_default()));
                members.push(both);
            }
            Holding { row, held, is_resized: false, members: grown_members(members.into_iter()) }
        });
        rows.collect()
    }
}

/// The phases that a check may be about: of a name, it is the one that is most beyond a limit. Under no limit is that one from which
/// another grew by no less, from no more.
fn most_beyond(device: &DeviceDiff, phases: &[(i128, usize)], figure: fn(&PhaseRow) -> Change) -> Vec<usize> {
    let figures = phases.iter().map(|&(_, at)| (at, figure(&device.phases[at])));
    let mut grown: Vec<(i128, u64, usize)> =
        figures.filter_map(|(at, figure)| Some((figure.gained()?, figure.before?, at))).collect();
    grown.retain(|(gained, ..)| *gained > 0);
    grown.sort_by_key(|&(gained, _, at)| (Reverse(gained), at));
    let mut lowest: FxHashMap<_, u64> = FxHashMap::default();
    grown.retain(|&(_, before, at)| {
        // A limit on all phases is not about all of them.
        let row = &device.phases[at];
        let lowest = lowest.entry((row.source, &row.name, row.matters())).or_insert(u64::MAX);
        let is_lower = before < *lowest;
        *lowest = before.min(*lowest);
        is_lower
    });
    grown.into_iter().map(|(.., at)| at).collect()
}

/// The place of a phase in the history of a side.
fn window(row: &PhaseRow, of: &DeviceProfile, side: Side) -> Option<Window> {
    let mut all = of.phases.all.iter();
    let is_it =
        |of: &&Occurrence| of.source == row.source && of.name == row.name && Some(of.number) == *row.number.of(side);
    Some(all.find(is_it)?.window)
}

/// The place of the peak inside a phase.
fn peak_inside(row: &PhaseRow, of: &DeviceProfile, side: Side) -> Option<Position> {
    Some(of.trace.peaks_within(&[window(row, of, side)?]).first()?.at)
}

fn both<T: Copy>(value: T) -> Sides<T> {
    Sides { before: value, after: value }
}

/// The stacks of the after that hold more than their partners.
fn grown_members(pairs: impl Iterator<Item = Sides<Option<(StackId, Held)>>>) -> Vec<(StackId, u64)> {
    let grown = pairs.filter_map(|pair| {
        let (stack, after) = pair.after?;
        Some((stack, after.bytes.saturating_sub(pair.before.map_or(0, |(_, before)| before.bytes))))
    });
    grown.filter(|(_, grown)| *grown > 0).collect()
}

/// What every stack holds at a place.
fn held_at(side: &DeviceProfile, place: Position) -> FxHashMap<Origin, Held> {
    let mut held: FxHashMap<Origin, Held> = FxHashMap::default();
    for (class, blocks) in side.trace.classes.iter().zip(side.trace.blocks_at(place)) {
        *held.entry(class.origin).or_default() += Held::of(class, blocks);
    }
    held
}

//! Compares the phases of both sides.

use std::collections::{BTreeMap, HashMap};
use std::str::FromStr;
use std::sync::Arc;

use ptmem_base::device::DeviceId;
use ptmem_base::diagnostic::{Advice, Code, Diagnostic};
use ptmem_base::text::shorten;
use ptmem_trace::phase::PhaseSource;
use ptmem_trace::profile::{DeviceProfile, Metric, Occurrence};
use ptmem_trace::trace::CounterLevels;

use super::Change;
use ptmem_base::sides::Sides;

/// The occurrences of a phase that are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Occurrences {
    /// Each with the one of the same number, within a phase around it where one side has more of them.
    #[default]
    Each,
    /// The one with the highest peak on each side.
    Worst,
}

impl FromStr for Occurrences {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "each" => Ok(Self::Each),
            "max" => Ok(Self::Worst),
            _ => Err(format!("unknown value '{text}'; accepted are each, max")),
        }
    }
}

/// Options for comparing phases.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PhaseOptions {
    /// The occurrences that are compared.
    pub occurrences: Occurrences,
    /// Number of first occurrences of each name to leave out.
    pub skip_first: u32,
    /// True if phases are shown or limited: only then it is said where the numbers of occurrences differ.
    pub wanted: bool,
}

/// A phase on both sides.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PhaseRow {
    /// Its name.
    pub name: Arc<str>,
    /// The source of its name.
    pub source: PhaseSource,
    /// The occurrence that is compared on each side, from 0; `None` where the phase is missing.
    pub number: Sides<Option<u32>>,
    /// True if there is only this one of that name, the first.
    pub is_only: bool,
    /// True if the program names it, and no phase around it.
    pub is_outermost: bool,
    /// The most allocated bytes within it.
    pub peak: Change,
    /// How far that may be from the truth on both sides, because the sizes of blocks are not certain.
    pub errors: Sides<u64>,
    /// The most reserved bytes within it, where segments are known.
    pub reserved: Change,
    /// True if the side recorded it from its beginning to its end, or not at all.
    pub is_whole: Sides<bool>,
    /// Whether memory ran out within it; of the highest occurrences, within any.
    pub ran_out: Sides<bool>,
    /// False if the side allocates nothing beyond the bytes at its beginning: its peak shows only what other code holds. Of the
    /// highest occurrences, true if any allocates.
    pub allocates: Sides<bool>,
    /// The occurrences that reserved most, where the highest are compared and others allocated most.
    pub reserving_most: Option<Box<Self>>,
}

impl PhaseRow {
    /// Whether its peaks matter without a limit of its own: those of a call that PyTorch names only show what other code holds, unless
    /// a side allocates in it.
    pub fn matters(&self) -> bool {
        self.source.is_of_program(&self.name) || self.allocates.before || self.allocates.after
    }

    /// Bytes gained at its peak; `None` where a side is missing.
    pub fn delta(&self) -> Option<i128> {
        self.peak.gained()
    }

    /// The row of the occurrences whose reserved bytes are compared.
    pub fn of_reserved(&self) -> &Self {
        self.reserving_most.as_deref().unwrap_or(self)
    }

    /// Its name, and which occurrence it is where there are several.
    pub fn title(&self) -> String {
        match (self.number.before, self.number.after) {
            _ if self.is_only => self.name.to_string(),
            (Some(before), Some(after)) if before != after => format!("{} #{before} -> #{after}", self.name),
            (Some(number), _) | (None, Some(number)) => format!("{} #{number}", self.name),
            (None, None) => self.name.to_string(),
        }
    }

    /// The identity of the phase, the same in every run.
    pub fn key(&self) -> String {
        format!("phase:{}:{}", self.source.name(), self.name)
    }
}

/// The phases of one name on both sides, each with its place among all of its device.
type Named<'p> = Sides<Vec<(usize, &'p Occurrence)>>;

/// The phases of both sides, by source and name.
type AllNamed<'p> = BTreeMap<(PhaseSource, &'p str), Named<'p>>;

/// The place of an occurrence: the innermost phase around it whose name occurs equally often on both sides, and its number among
/// those of its name there.
type Place<'p> = (Option<(PhaseSource, &'p str, u32)>, u32);

/// The places of all phases of a side.
fn places<'p>(phases: &'p [Occurrence], names: &AllNamed<'p>) -> Vec<Place<'p>> {
    let is_equal = |outer: &Occurrence| {
        let Sides { before, after } = &names[&(outer.source, &*outer.name)];
        before.len() == after.len()
    };
    let mut met: HashMap<_, u32> = HashMap::new();
    let mut open: Vec<usize> = Vec::new();
    let mut places: Vec<Place<'_>> = Vec::with_capacity(phases.len());
    for (at, phase) in phases.iter().enumerate() {
        open.truncate(phase.depth as usize);
        let around = open.last().and_then(|&outer| {
            let Occurrence { source, ref name, number, .. } = phases[outer];
            if is_equal(&phases[outer]) { Some((source, &**name, number)) } else { places[outer].0 }
        });
        let number = met.entry((around, phase.source, &*phase.name)).or_default();
        places.push((around, *number));
        *number += 1;
        open.push(at);
    }
    places
}

/// Which occurrences of a name are compared: those at the same place where one side has more of them, and the others by number.
fn pairs<'p>(named: &Named<'p>, places: &Sides<Vec<Place<'p>>>) -> Vec<Sides<(usize, &'p Occurrence)>> {
    let Sides { mut before, mut after } = named.clone();
    let mut pairs = Vec::new();
    if before.len() != after.len() {
        let mut at_place: HashMap<_, _> = after.iter().map(|&new| (places.after[new.0], new)).collect();
        before.retain(|&old| match at_place.remove(&places.before[old.0]) {
            Some(new) => {
                pairs.push(Sides { before: old, after: new });
                false
            }
            None => true,
        });
        after.retain(|(at, _)| at_place.contains_key(&places.after[*at]));
    }
    pairs.extend(before.into_iter().zip(after).map(|(before, after)| Sides { before, after }));
    pairs
}

/// The phases of a device, those of the after in their order, then those that are missing there. Of a name that is
/// missing on one side, there is one row.
pub(super) fn rows(
    devices: Sides<Option<&DeviceProfile>>,
    options: PhaseOptions,
    found: &mut Vec<Diagnostic>,
) -> Vec<PhaseRow> {
    let all = devices.map(|device| device.map(|device| &*device.phases.all).unwrap_or_default());
    let mut names: AllNamed<'_> = BTreeMap::new();
    for (side, phases) in all.each() {
        for (at, phase) in phases.iter().enumerate() {
            names.entry((phase.source, &*phase.name)).or_default().of_mut(side).push((at, phase));
        }
    }
    let places = all.map(|phases| places(phases, &names));
    let of_sides = names.values_mut().flat_map(|Sides { before, after }| [before, after]);
    of_sides.for_each(|phases| phases.retain(|(_, phase)| phase.number >= options.skip_first));
    names.retain(|_, Sides { before, after }| !before.is_empty() || !after.is_empty());
    let mut rows = Vec::new();
    for named in names.values() {
        let Sides { before, after } = named;
        let is_single = before.len() <= 1 && after.len() <= 1;
        if options.occurrences == Occurrences::Each && !before.is_empty() && !after.is_empty() {
            for pair in pairs(named, &places) {
                let row = PhaseRow::new(devices, pair.map(|&(_, phase)| Some(phase)), is_single);
                rows.extend(row.map(|row| ((false, pair.after.0), row)));
            }
        } else {
            let first = after.first().or(before.first()).map(|(at, _)| (after.is_empty(), *at));
            rows.extend(first.zip(PhaseRow::of_highest(devices, named, is_single)));
        }
    }
    rows.sort_by_key(|(place, _)| *place);
    if options.wanted && options.occurrences == Occurrences::Each {
        found.extend(differing(names.values(), devices.after.or(devices.before).map(|device| device.device)));
    }
    rows.into_iter().map(|(_, row)| row).collect()
}

impl PhaseRow {
    /// `is_single` where each side has one phase of that name at most.
    fn new(
        devices: Sides<Option<&DeviceProfile>>,
        phases: Sides<Option<&Occurrence>>,
        is_single: bool,
    ) -> Option<Self> {
        let named = phases.after.or(phases.before)?;
        let has_segments = devices.map(|device| device.is_some_and(|of| Metric::Reserved.value(of).is_some()));
        Some(Self {
            name: Arc::clone(&named.name),
            source: named.source,
            number: phases.map(|phase| phase.map(|phase| phase.number)),
            is_only: is_single && named.number == 0,
            is_outermost: named.is_outermost,
            peak: phases.map(|phase| phase.map(|phase| phase.held.peak.allocated)),
            errors: phases.map(|phase| phase.map_or(0, |phase| phase.error)),
            reserved: Sides::BOTH.map(|&side| {
                let phase = phases.of(side).filter(|_| *has_segments.of(side));
                phase.map(|phase| phase.held.peak.reserved)
            }),
            is_whole: phases.map(|phase| phase.is_none_or(Occurrence::is_whole)),
            ran_out: devices.zip(phases).map(|(device, phase)| ran_out(*device, phase.iter().copied())),
            allocates: phases.map(|phase| phase.is_none_or(|phase| phase.allocates)),
            reserving_most: None,
        })
    }

    /// The row of the occurrences with the highest peaks.
    fn of_highest(devices: Sides<Option<&DeviceProfile>>, named: &Named<'_>, is_single: bool) -> Option<Self> {
        let allocating = Self::new(devices, named.map(|phases| highest(phases, |peak| peak.allocated)), is_single)?;
        let reserving = Self::new(devices, named.map(|phases| highest(phases, |peak| peak.reserved)), is_single)?;
        // An occurrence in which memory ran out may have needed more than the highest.
        let all = Sides::BOTH.map(|&side| named.of(side).iter().map(|(_, phase)| *phase));
        let ran_out = devices.zip(all).map(|(device, phases)| ran_out(*device, phases.clone()));
        let allocates = named.map(|phases| phases.is_empty() || phases.iter().any(|(_, phase)| phase.allocates));
        let is_other = reserving.reserved != allocating.reserved;
        let reserving_most = is_other.then(|| Box::new(Self { ran_out, ..reserving }));
        Some(Self { ran_out, allocates, reserving_most, ..allocating })
    }
}

/// Whether memory ran out within any of these phases of a device.
fn ran_out<'p>(device: Option<&DeviceProfile>, mut phases: impl Iterator<Item = &'p Occurrence>) -> bool {
    device.is_some_and(|device| phases.any(|phase| device.figures.ran_out_within(phase.window)))
}

/// The first of the phases with the highest peak of a counter.
fn highest<'p>(phases: &[(usize, &'p Occurrence)], counter: fn(&CounterLevels) -> u64) -> Option<&'p Occurrence> {
    phases.iter().rev().map(|(_, phase)| *phase).max_by_key(|phase| counter(&phase.held.peak))
}

/// Tells of phases that both sides have, one of them more often.
fn differing<'p>(names: impl Iterator<Item = &'p Named<'p>>, device: Option<DeviceId>) -> Option<Diagnostic> {
    const MOST: usize = 3;
    let mut said = Vec::new();
    for named in names {
        let Sides { before, after } = named.map(Vec::len);
        if let Some((_, phase)) = named.after.first().filter(|_| before > 0 && before != after) {
            said.push(format!("{} {before} before, {after} after", shorten(&phase.name, 60)));
        }
    }
    if said.is_empty() {
        return None;
    }
    let more = said.split_off(said.len().min(MOST)).len();
    said.extend((more > 0).then(|| format!("{more} more phases")));
    let message = format!(
        "phases do not occur equally often ({}): they are compared by number, as far as possible within a phase around them that does",
        said.join("; ")
    );
    Some(Diagnostic::new(Code::PhaseOccurrencesDiffer, device, message).with_advice(Advice::CompareHighestPhases))
}

/// The phases that a report lists.
#[derive(Debug)]
pub struct ListedPhases<'r> {
    /// The rows to show: first those that explain the verdict, then by size of the change.
    pub rows: Vec<&'r PhaseRow>,
    /// Number of those left out that changed.
    pub changed: usize,
    /// Number of those left out that did not change.
    pub same: usize,
}

/// The phases to list; `explains` is true for those that explain the verdict.
pub fn listed_phases(
    rows: &[PhaseRow],
    top: usize,
    unchanged: bool,
    explains: impl Fn(&PhaseRow) -> bool,
) -> ListedPhases<'_> {
    let limit = if top == 0 { usize::MAX } else { top };
    let mut shown: Vec<(bool, u128, &PhaseRow)> = Vec::new();
    let mut same = 0;
    for row in rows {
        // A phase that is missing on a side has changed by all of its bytes.
        let size =
            row.delta().map_or_else(|| u128::from(row.peak.before.or(row.peak.after).unwrap_or(0)), i128::unsigned_abs);
        if row.delta() == Some(0) && !unchanged {
            same += 1;
        } else {
            shown.push((!explains(row), u128::MAX - size, row));
        }
    }
    shown.sort_by_key(|&(explains, size, _)| (explains, size));
    let rest = shown.split_off(shown.len().min(limit));
    let rest_same = rest.iter().filter(|(.., row)| row.delta() == Some(0)).count();
    ListedPhases {
        rows: shown.into_iter().map(|(.., row)| row).collect(),
        changed: rest.len() - rest_same,
        same: same + rest_same,
    }
}

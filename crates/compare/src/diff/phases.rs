//! Compares the phases of both sides.

use std::collections::HashMap;
use std::sync::Arc;

use super::{Change, Sides};
use crate::diagnostic::{Advice, Code, Diagnostic};
use crate::phase::Source;
use crate::profile::{DeviceProfile, Occurrence};
use crate::text::shorten;

/// The occurrences of a phase that are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Occurrences {
    /// Each with the one of the same number.
    #[default]
    Each,
    /// The one with the highest peak on each side.
    Worst,
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
    pub source: Source,
    /// The occurrence that is compared on each side, from 0; `None` where the phase is missing.
    pub number: Sides<Option<u32>>,
    /// True if there is only this one of that name, the first.
    pub is_only: bool,
    /// True if the program names it, and no phase around it.
    pub is_outermost: bool,
    /// The most allocated bytes within it.
    pub peak: Change,
    /// True if it was recorded from its beginning to its end, on both sides.
    pub is_whole: bool,
}

impl PhaseRow {
    /// Bytes gained at its peak; `None` where a side is missing.
    #[must_use]
    pub fn delta(&self) -> Option<i128> {
        self.peak.delta()
    }

    /// Its name, and which occurrence it is where there are several.
    #[must_use]
    pub fn title(&self) -> String {
        match (self.number.before, self.number.after) {
            _ if self.is_only => self.name.to_string(),
            (Some(before), Some(after)) if before != after => format!("{} #{before} -> #{after}", self.name),
            (Some(number), _) | (None, Some(number)) => format!("{} #{number}", self.name),
            (None, None) => self.name.to_string(),
        }
    }

    /// The identity of the phase, the same in every run.
    #[must_use]
    pub fn key(&self) -> String {
        format!("phase:{}:{}", self.source.name(), self.name)
    }
}

/// The phases of one name on both sides.
#[derive(Default)]
struct Named<'p> {
    sides: Sides<Vec<&'p Occurrence>>,
}

/// The phases of a device, those of the after in their order, then those that are missing there. Of a name that is
/// missing on one side, there is one row.
pub(super) fn rows(
    devices: Sides<Option<&DeviceProfile>>,
    options: PhaseOptions,
    found: &mut Vec<Diagnostic>,
) -> Vec<PhaseRow> {
    let sides = devices.map(|device| device.map(|device| &*device.phases.all).unwrap_or_default());
    let mut places: HashMap<(Source, &str), usize> = HashMap::new();
    let mut names: Vec<Named<'_>> = Vec::new();
    let mut order = Vec::new();
    for (phases, is_after) in [(sides.after, true), (sides.before, false)] {
        for phase in phases.iter().filter(|phase| phase.number >= options.skip_first) {
            let place = *places.entry((phase.source, &*phase.name)).or_insert_with(|| {
                names.push(Named::default());
                names.len() - 1
            });
            let sides = &mut names[place].sides;
            let side = if is_after { &mut sides.after } else { &mut sides.before };
            order.push((place, side.len(), is_after));
            side.push(phase);
        }
    }
    let mut rows = Vec::new();
    for (place, index, is_after) in order {
        let Sides { before, after } = &names[place].sides;
        let first = index == 0 && (is_after || after.is_empty());
        let pair = match options.occurrences {
            Occurrences::Each if !before.is_empty() && !after.is_empty() => {
                (is_after && index < before.len()).then_some((Some(index), Some(index)))
            }
            _ => first.then(|| (highest(before), highest(after))),
        };
        let Some((old, new)) = pair else { continue };
        let old = old.map(|i| before[i]);
        let new = new.map(|i| after[i]);
        let Some(named) = new.or(old) else { continue };
        rows.push(PhaseRow {
            name: Arc::clone(&named.name),
            source: named.source,
            number: Sides { before: old.map(|phase| phase.number), after: new.map(|phase| phase.number) },
            is_only: before.len() <= 1 && after.len() <= 1 && named.number == 0,
            is_outermost: named.is_outermost,
            peak: Change { before: old.map(|phase| phase.peak), after: new.map(|phase| phase.peak) },
            is_whole: [old, new].into_iter().flatten().all(Occurrence::is_whole),
        });
    }
    if options.wanted && options.occurrences == Occurrences::Each {
        let device = devices.after.or(devices.before).map(|device| device.device);
        found.extend(differing(&names, device));
    }
    rows
}

/// The first of the phases with the highest peak.
fn highest(phases: &[&Occurrence]) -> Option<usize> {
    (0..phases.len()).max_by_key(|&i| (phases[i].peak, std::cmp::Reverse(i)))
}

impl Named<'_> {
    /// True if both sides have the phase, one of them more often.
    fn differs(&self) -> bool {
        let Sides { before, after } = self.sides.map(Vec::len);
        before != after && before.min(after) > 0
    }
}

/// Diagnostics about phases of which there are not equally many on both sides.
fn differing(names: &[Named<'_>], device: Option<u32>) -> Option<Diagnostic> {
    const MOST: usize = 3;
    let mut said = Vec::new();
    for named in names.iter().filter(|named| named.differs()).take(MOST) {
        let name = named.sides.after.first().map_or("", |phase| &*phase.name);
        let Sides { before, after } = named.sides.map(Vec::len);
        said.push(format!("{} {before} before, {after} after", shorten(name, 60)));
    }
    let more = names.iter().filter(|named| named.differs()).count() - said.len();
    if said.is_empty() {
        return None;
    }
    if more > 0 {
        said.push(format!("{more} more phases"));
    }
    let message =
        format!("phases do not occur equally often ({}): those with the same number are compared", said.join("; "));
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
#[must_use]
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

//! The stacks, phases or other parts of a device that one limit on growth is about: a check that passes for all of them has the
//! figures of none. Those whose growth was accepted have checks of their own.

use std::collections::{BTreeSet, HashSet};

use ptmem_compare::diff::{Diff, Row, Sides};
use ptmem_trace::profile::{SupposedSizes, Unknown};

use super::growth::{Gated, has_rows_at_peak};
use super::named::held;
use super::{Check, CheckedRow, GrowthLimit, LimitKind, Outcome, Thresholds};

/// The parts of a device that one check is about.
pub(super) struct LimitedParts<'a> {
    gated: Gated<'a>,
    parts: Vec<LimitedPart<'a>>,
}

/// A stack, phase or other part.
struct LimitedPart<'a> {
    /// The key or the name by which a check of its own is about it.
    key: String,
    /// The bytes that are limited.
    figures: Sides<u64>,
    /// Its row, where it is a stack.
    row: Option<&'a Row>,
    /// The least change that is checked.
    least: u64,
}

/// The parts that a check passes for, on each of its devices: those that none of all checks is about alone. `None` for other
/// checks.
pub(super) fn of_many<'a>(
    check: &Check,
    all: &[Check],
    diff: &'a Diff,
    thresholds: &'a Thresholds,
) -> Option<Vec<LimitedParts<'a>>> {
    let is_of_many = check.outcome == Outcome::Pass && check.figures.delta.is_none() && !check.limit.is_absolute;
    let growth = thresholds.growth.iter().filter(|_| is_of_many).find(|limit| limit.makes(check))?;
    let devices = diff.devices.iter().filter(|device| check.device.is_none() || device.id() == check.device);
    let parts = devices.filter_map(|device| {
        let gated = Gated { diff, device, sides: diff.sides_of(device).both()?, growth, thresholds };
        let others = all.iter().filter(|other| growth.makes(other) && other.device == device.id());
        let own: HashSet<&str> = others.filter_map(|other| other.row.as_ref()).map(CheckedRow::identity).collect();
        let parts = gated.parts().into_iter().filter(|part| !own.contains(&*part.key)).collect();
        Some(LimitedParts { gated, parts })
    });
    Some(parts.collect())
}

impl GrowthLimit {
    /// Whether a check is one of this limit. Several limits may be about the same.
    fn makes(&self, check: &Check) -> bool {
        self.target == check.of && self.level == check.limit.level && self.limit.to_string() == check.limit.text
    }
}

impl CheckedRow {
    fn identity(&self) -> &str {
        self.key.as_deref().unwrap_or(&self.label)
    }
}

impl<'a> Gated<'a> {
    /// The parts that the limit is about.
    fn parts(&self) -> Vec<LimitedPart<'a>> {
        match self.growth.target.kind {
            LimitKind::Stacks => self.stacks(|row| Some(row.held.map(|held| held.bytes))),
            LimitKind::StackHighest => self.stacks(|row| row.highest.both()),
            LimitKind::Phases | LimitKind::ReservedInPhases => {
                let known = self.phase_rows().filter_map(|row| Some((row.key(), self.figure(row).both()?)));
                known.map(|(key, figures)| LimitedPart { key, figures, row: None, least: 0 }).collect()
            }
            LimitKind::Modules | LimitKind::Pools => self.named_parts(),
            LimitKind::Metric(_)
            | LimitKind::Outside
            | LimitKind::Serving(_)
            | LimitKind::Imbalance
            | LimitKind::Ranks
            | LimitKind::Leaks
            | LimitKind::OutOfMemory
            | LimitKind::Headroom
            | LimitKind::Growth
            | LimitKind::Trust => Vec::new(),
        }
    }

    fn stacks(&self, figures: impl Fn(&Row) -> Option<Sides<u64>>) -> Vec<LimitedPart<'a>> {
        let scope = self.scope();
        let least = self.thresholds.min_delta;
        let rows = self.device.rows.iter().filter(|row| row.kind.is_memory() && scope(row));
        let known = rows.filter_map(|row| Some((row, figures(row)?)));
        known.map(|(row, figures)| LimitedPart { key: row.key.clone(), figures, row: Some(row), least }).collect()
    }

    fn named_parts(&self) -> Vec<LimitedPart<'a>> {
        let kind = self.growth.target.kind;
        let held = Sides::BOTH.map(|&side| held(kind, self.diff.profiles.of(side), self.sides.of(side)));
        let names: BTreeSet<&String> = held.before.keys().chain(held.after.keys()).collect();
        let names = names.into_iter().filter(|name| self.growth.target.selects(name));
        let figures = names.map(|name| (name, held.map(|held| held.get(name).copied().unwrap_or(0))));
        figures.map(|(name, figures)| LimitedPart { key: name.clone(), figures, row: None, least: 0 }).collect()
    }
}

impl LimitedParts<'_> {
    /// Memory of supposed sizes that could carry a part beyond the limit, although all parts stay within it.
    pub(super) fn could_exceed_by(&self, supposed: &SupposedSizes<'_>) -> Option<Unknown> {
        let of_device = supposed.unknown(self.gated.device.rows.iter().map(|row| &row.supposed))?;
        self.parts.iter().find_map(|part| {
            let unknown = match part.row {
                Some(row) => supposed.unknown(std::iter::once(&row.supposed))?,
                None => of_device.clone(),
            };
            let bytes = i128::from(unknown.bytes);
            let changes = [-bytes, bytes].map(|error| part.figures.delta().saturating_add(error));
            changes.into_iter().any(|change| part.exceeds(&self.gated, part.figures.before, change)).then_some(unknown)
        })
    }

    /// Whether a part changed by more than the limit allows, in either direction.
    pub(super) fn differ_by_more_than_allowed(&self) -> bool {
        self.parts.iter().any(|part| part.differs(&self.gated, part.figures) && !part.is_elsewhere(&self.gated))
    }
}

impl LimitedPart<'_> {
    /// Whether it is a stack that changed by slack, or at the peak and not as much, in this direction, in the most that it held.
    fn is_elsewhere(&self, gated: &Gated<'_>) -> bool {
        let highest = self.row.and_then(|row| row.highest.both()).filter(|_| has_rows_at_peak(gated.diff));
        let is_moved = highest.is_some_and(|highest| {
            highest.delta().signum() != self.figures.delta().signum() || !self.differs(gated, highest)
        });
        is_moved || self.row.is_some_and(Row::is_slack)
    }

    /// Whether figures of it differ by more than a limit allows, in either direction.
    fn differs(&self, gated: &Gated<'_>, figures: Sides<u64>) -> bool {
        let change = figures.delta();
        self.exceeds(gated, figures.before, change) || self.exceeds(gated, figures.before, -change)
    }

    /// Whether a change of it exceeds a limit, and is large enough to be checked.
    fn exceeds(&self, gated: &Gated<'_>, before: u64, change: i128) -> bool {
        !gated.growth.limit.holds(before, change) && change.unsigned_abs() >= u128::from(self.least)
    }
}

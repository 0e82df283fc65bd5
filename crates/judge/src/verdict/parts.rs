//! The stacks, phases or other parts of a device that one limit on growth is about: a check that passes for all of them has the
//! figures of none. Those whose growth was accepted have checks of their own.

use std::collections::HashSet;

use ptmem_compare::diff::{Diff, Row, Sides};
use ptmem_trace::profile::{SupposedSizes, Unknown};

use super::accepted::StackCover;
use super::growth::Gated;
use super::judged_figures::{FigureOf, JudgedFigures};
use super::{Check, CheckedRow, GrowthLimit, NamedThing, Outcome, Thresholds};

/// The parts of a device that one check is about.
pub(super) struct LimitedParts<'a> {
    gated: Gated<'a>,
    parts: Vec<LimitedPart<'a>>,
}

/// A stack, phase or other part.
pub(super) struct LimitedPart<'a> {
    /// Its own check, with the bytes that are accepted of it.
    pub(super) check: Check,
    pub(super) figures: JudgedFigures,
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
        let parts = gated.parts().into_iter().filter(|part| !own.contains(part.identity())).collect();
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
        match self.growth.target.kind.thing() {
            Some(NamedThing::Stack) => self.stacks(&self.cover(&self.budget())),
            Some(NamedThing::Phase) => {
                let budget = self.budget();
                let known = self.phase_rows().filter_map(|row| Some((row, self.figure(row).both()?)));
                known.map(|(row, figure)| self.part(self.compare_phase(row, &budget), figure)).collect()
            }
            Some(NamedThing::Module | NamedThing::Pool) => self.named_parts(&self.held()),
            None => Vec::new(),
        }
    }

    /// A part that is judged by one figure.
    pub(super) fn part(&self, check: Check, figure: Sides<u64>) -> LimitedPart<'a> {
        LimitedPart { check, figures: JudgedFigures::of_one(&self.growth.limit, figure), row: None, least: 0 }
    }

    /// The stacks that the limit is about, with what agreements cover of each.
    pub(super) fn stacks(&self, covered: &StackCover) -> Vec<LimitedPart<'a>> {
        let scope = self.scope();
        let mut parts = Vec::new();
        for row in self.device.rows.iter().filter(|row| row.kind.is_memory() && scope(row)) {
            let Some(figures) = self.figures_of(row) else { continue };
            let mut check = self.compare_row(row);
            check.limit.accepted = covered.available(&row.key);
            parts.push(LimitedPart { check, figures, row: Some(row), least: self.thresholds.min_delta });
        }
        parts
    }
}

impl LimitedPart<'_> {
    fn identity(&self) -> &str {
        self.check.row.as_ref().map_or("", CheckedRow::identity)
    }

    /// Its figures, with a limit that is higher by what is accepted.
    pub(super) fn figures_beyond_accepted(&self) -> JudgedFigures {
        self.figures.beyond(self.check.limit.accepted, self.least)
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
            // Memory of one code may be in several rows.
            let [of_code, own] = [of_device.bytes, unknown.bytes].map(i128::from);
            part.figures_beyond_accepted()
                .exceed_within(|of| if of.of == FigureOf::Code { of_code } else { own })
                .then_some(unknown)
        })
    }

    /// Whether a part changed by more than the limit allows, in either direction.
    pub(super) fn differ_by_more_than_allowed(&self) -> bool {
        self.parts.iter().any(|part| part.figures.beyond(0, part.least).differ_by_more_than_allowed())
    }
}

//! The figures of devices and of cases, and profiles of them.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use indexmap::IndexMap;
use ptmem_base::device::DeviceId;
use ptmem_base::diagnostic::{Code, Diagnostic};
use ptmem_base::text::{cut, printable};
use ptmem_snapshot::snapshot::RunFacts;

use super::bytes::Stated;
use super::error::NumbersError;
use super::key::{FigureKey, Stage};
use crate::profile::measure::remarks;
use crate::profile::{DeviceProfile, HistoryKind, Profile, ReadOptions, Serving, Source, StatedFigure};
use crate::replay::{Checks, Counter, Figures, Fragmentation};
use crate::trace::Measure;

/// Maximum number of cases of a file.
pub const MOST_CASES: usize = 16_384;

/// Maximum number of devices of a case: no host has more.
pub const MOST_DEVICES: usize = 1_024;

/// Maximum number of devices of all cases together. Each takes the memory of a device's profile in every report.
const MOST_DEVICES_IN_ALL: usize = MOST_CASES;

/// Names that an error lists.
const MOST_NAMES: usize = 8;

/// The figures of a device.
#[derive(Debug, Default)]
pub(super) struct DeviceNumbers {
    /// Those that are known.
    pub(super) figures: BTreeMap<FigureKey, StatedFigure>,
    /// The number of failed allocations.
    pub(super) failed_count: u64,
}

impl DeviceNumbers {
    /// Sets a figure, which may be known already.
    pub(super) fn set(
        &mut self,
        figure: FigureKey,
        stated: Stated,
        place: impl Fn() -> String,
    ) -> Result<(), NumbersError> {
        let found =
            stated.map_err(|found| NumbersError::NotBytes { place: place(), found: printable(cut(&found, 64)) })?;
        let Some(value) = found else { return Ok(()) };
        match self.figures.insert(figure, StatedFigure { value, line: None }) {
            Some(StatedFigure { value: other, .. }) if value != other => {
                Err(NumbersError::Differ { place: place(), found: value, other })
            }
            _ => Ok(()),
        }
    }

    fn value(&self, measure: Measure, stage: Stage) -> Option<u64> {
        self.figures.get(&FigureKey::Counter(measure, stage)).map(|stated| stated.value)
    }

    /// What a server stated.
    fn serving(&self) -> impl Iterator<Item = (Serving, StatedFigure)> {
        self.figures.iter().filter_map(|(key, stated)| match key {
            FigureKey::Serving(figure) => Some((*figure, *stated)),
            FigureKey::Counter(..) => None,
        })
    }

    /// Refuses a counter that ends above its peak.
    fn verify(&self, place: &str) -> Result<(), NumbersError> {
        for measure in Measure::ALL {
            if let (Some(peak), Some(end)) = (self.value(measure, Stage::Peak), self.value(measure, Stage::End))
                && end > peak
            {
                return Err(NumbersError::AbovePeak { place: place.to_owned(), measure: measure.into(), end, peak });
            }
        }
        Ok(())
    }

    fn counter(&self, measure: Measure) -> Counter {
        let [peak, end] = [Stage::Peak, Stage::End].map(|stage| self.value(measure, stage));
        // Known figures are exact.
        Counter { peak, end, baseline_error: Some(0), peak_error: Some(0), ..Counter::default() }
    }

    fn profile(&self, device: DeviceId) -> DeviceProfile {
        let [reserved, active] = [Measure::Reserved, Measure::Active].map(|measure| self.value(measure, Stage::End));
        let unused = reserved.zip(active).map(|(reserved, active)| reserved.saturating_sub(active));
        let figures = Figures {
            history: HistoryKind::NumbersOnly,
            allocated: self.counter(Measure::Allocated),
            active: self.counter(Measure::Active),
            requested: self.counter(Measure::Requested),
            reserved: self.counter(Measure::Reserved),
            fragmentation: Fragmentation { peak: None, peak_error: 0, end: unused },
            checks: Checks { end_matches: true, ..Checks::default() },
            failed_count: self.failed_count,
            ..Figures::default()
        };
        DeviceProfile { device, figures, ..DeviceProfile::default() }
    }
}

/// The figures of a case: those of devices, with the names that they have in the input, or those of its only one, which has no name.
pub(super) type Case = BTreeMap<Option<DeviceId>, (String, DeviceNumbers)>;

/// The cases of an input by their names. The only one has an empty name where it is the whole input.
#[derive(Debug, Default)]
pub struct Cases {
    pub(super) all: IndexMap<String, Case>,
    /// Number of devices of all cases.
    devices: usize,
    /// Facts that the recorder states about the run.
    pub(super) run: Option<RunFacts>,
}

/// Refuses figures of a case that contradict each other.
fn verify(name: &str, case: &Case) -> Result<(), NumbersError> {
    let place = if name.is_empty() { String::new() } else { printable(cut(name, 64)) + ": " };
    if case.len() > 1 && case.contains_key(&None) {
        return Err(NumbersError::Mixed(place, "figures", "devices"));
    }
    case.iter().try_for_each(|(device, (name, numbers))| {
        let device = device.map(|_| printable(cut(name, 64)) + ": ").unwrap_or_default();
        numbers.verify(&(place.clone() + &device))
    })
}

impl Cases {
    /// True if the input does not contain a figure.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// The names of several cases; none where the input is a single one without a name.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.all.keys().map(String::as_str).filter(|name| !name.is_empty())
    }

    /// The figures of a device that are known already.
    pub(super) fn known(&mut self, case: &str, device: Option<DeviceId>) -> Option<&mut DeviceNumbers> {
        self.all.get_mut(case)?.get_mut(&device).map(|(_, numbers)| numbers)
    }

    /// The figures of a device of a case, and its name.
    pub(super) fn device(
        &mut self,
        case: &str,
        device: Option<DeviceId>,
        name: &str,
    ) -> Result<&mut DeviceNumbers, NumbersError> {
        if self.all.len() == MOST_CASES && !self.all.contains_key(case) {
            return Err(NumbersError::TooMany { most: MOST_CASES, kind: "cases" });
        }
        let case = self.all.entry(case.to_owned()).or_default();
        let is_full = case.len() == MOST_DEVICES;
        match case.entry(device) {
            Entry::Occupied(known) if known.get().0 != name => Err(NumbersError::Twice(printable(cut(name, 64)))),
            Entry::Occupied(known) => Ok(&mut known.into_mut().1),
            Entry::Vacant(_) if is_full => Err(NumbersError::TooMany { most: MOST_DEVICES, kind: "devices" }),
            Entry::Vacant(_) if self.devices == MOST_DEVICES_IN_ALL => {
                Err(NumbersError::TooMany { most: MOST_DEVICES_IN_ALL, kind: "devices in all cases" })
            }
            Entry::Vacant(new) => {
                self.devices += 1;
                Ok(&mut new.insert((name.to_owned(), DeviceNumbers::default())).1)
            }
        }
    }

    /// Refuses figures that contradict each other.
    pub(super) fn verified(self) -> Result<Self, NumbersError> {
        if self.all.len() > 1 && self.all.contains_key("") {
            return Err(NumbersError::Mixed(String::new(), "cases", "figures without a name"));
        }
        self.all.iter().try_for_each(|(name, case)| verify(name, case))?;
        Ok(self)
    }

    /// The names of cases, of which an error lists some.
    fn listed(&self) -> String {
        if self.names().next().is_none() {
            return "none".to_owned();
        }
        let names: Vec<String> = self.all.keys().take(MOST_NAMES).map(|name| printable(cut(name, 64))).collect();
        names.join(", ") + if self.all.len() > MOST_NAMES { ", …" } else { "" }
    }

    /// The profile of the requested case, or of the only one.
    ///
    /// # Errors
    /// If there are several and none is requested, or not this one.
    pub(in crate::profile) fn profile(&self, source: Source, options: ReadOptions) -> Result<Profile, NumbersError> {
        let case = match (options.case.as_deref(), self.all.first()) {
            (None, Some((_, only))) if self.all.len() == 1 => only,
            (None, _) => return Err(NumbersError::Several(self.listed())),
            (Some(asked), _) => self.all.get(asked).ok_or_else(|| NumbersError::no_case(asked, self.listed()))?,
        };
        let mut diagnostics =
            self.run.as_ref().map(|run| remarks(run, &options.rules.known_guesses)).unwrap_or_default();
        let message =
            "it holds only figures: stacks, phases and a history need a recording, as ptmem_gate.record() makes";
        diagnostics.push(Diagnostic::new(Code::NumbersOnly, None, message));
        let devices = case.iter().map(|(device, (_, numbers))| numbers.profile(device.unwrap_or(DeviceId::FIRST)));
        let mut serving = BTreeMap::new();
        // The worst of all devices.
        let stated = case.values().flat_map(|(_, numbers)| numbers.serving());
        stated.for_each(|(figure, stated)| stated.add_to(&mut serving, figure));
        let mut profile = Profile {
            source,
            options,
            devices: devices.collect(),
            serving,
            run: self.run.clone(),
            diagnostics,
            ..Profile::default()
        };
        let impossible = profile.impossible_figures();
        profile.diagnostics.extend(impossible);
        Ok(profile)
    }
}

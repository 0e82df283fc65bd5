//! Inputs that hold only figures: `torch.cuda.memory_stats()`, golden values of Megatron-LM, and tables.

mod bytes;
mod json;
mod table;

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use indexmap::IndexMap;
use ptmem_base::device::DeviceId;
use ptmem_base::diagnostic::{Code, Diagnostic};
use ptmem_base::text::{cut, printable};
use ptmem_base::units::Size;
use ptmem_snapshot::snapshot::RunFacts;

use super::measure::remarks;
use super::{
    DeviceProfile, HistoryKind, Metric, Point, Profile, ReadOptions, Serving, Source, StatedFigure, serving_in,
};
use crate::replay::{Checks, Counter, Figures, Fragmentation};
use crate::trace::Measure;
use bytes::Stated;

/// Maximum number of cases of a file.
pub const MOST_CASES: usize = 16_384;

/// Maximum number of devices of a case: no host has more.
pub const MOST_DEVICES: usize = 1_024;

/// Maximum number of bytes of a table or a log.
pub const MOST_TABLE: usize = 64 << 20;

/// Why figures cannot be read.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum NumbersError {
    /// Something that is not a number of bytes.
    #[error("{place}: expected a number of bytes, found {found}")]
    NotBytes {
        /// The key, or the line and the column.
        place: String,
        /// The value.
        found: String,
    },
    /// Two entries of one name and device.
    #[error("'{0}' occurs twice")]
    Twice(String),
    /// Two entries of one figure.
    #[error("{place} is {found} B, but the same figure is stated as {other} B as well")]
    Differ {
        /// The later one.
        place: String,
        /// Its bytes.
        found: u64,
        /// Those of the earlier one.
        other: u64,
    },
    /// A counter that ends above its peak.
    #[error("{place}the {measure} bytes end at {end} B, above their peak of {peak} B")]
    AbovePeak {
        /// The case and the device, as the beginning of a sentence.
        place: String,
        /// The counter.
        measure: &'static str,
        /// Its last value.
        end: u64,
        /// Its highest.
        peak: u64,
    },
    /// Figures that are not those of a case or a device.
    #[error(
        "{0}: a figure that belongs neither to a case nor to a device; expected either figures, or devices, or cases of these"
    )]
    Misplaced(String),
    /// Figures at several levels.
    #[error("{0}it has {1} beside {2}; expected one kind")]
    Mixed(String, &'static str, &'static str),
    /// More cases or devices than a file can have.
    #[error("it has more than {most} {kind}")]
    TooMany {
        /// The bound.
        most: usize,
        /// What is counted.
        kind: &'static str,
    },
    /// Several entries, none of them requested.
    #[error("it holds several cases ({0}); name one, as in FILE#CASE")]
    Several(String),
    /// An entry that is not there.
    #[error("there is no case '{asked}' in it; it has {known}")]
    NoCase {
        /// The requested name.
        asked: String,
        /// Those that are there.
        known: String,
    },
    /// A table or a log of more than [`MOST_TABLE`] bytes, of which the rest could state other figures.
    #[error("a text that is not JSON is read as a table or log, of at most {}: give the part with the figures", Size(MOST_TABLE as u64))]
    TooLong,
    /// A table that is not one.
    #[error("the table cannot be read: {0}")]
    Table(String),
}

/// The figures of a case: its own, or those of devices.
#[derive(Debug, Default)]
struct Case {
    /// The only device, without a name.
    own: DeviceNumbers,
    /// Devices, with the names that they have in the input.
    devices: BTreeMap<DeviceId, (String, DeviceNumbers)>,
}

/// The cases of an input by their names. The only one has an empty name where it is the whole input.
#[derive(Debug, Default)]
pub struct Cases {
    all: IndexMap<String, Case>,
    /// Facts that the recorder states about the run.
    run: Option<RunFacts>,
}

/// A value of a counter that inputs state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Peak,
    End,
}

/// The keys that name a figure, beside `allocated_bytes.all.peak` and its like, and the metrics of this tool: functions of
/// `torch.cuda`, and values that Megatron-LM logs.
const KEYS: [(&str, Measure, Stage); 8] = [
    ("max_memory_allocated", Measure::Allocated, Stage::Peak),
    ("memory_allocated", Measure::Allocated, Stage::End),
    ("max_memory_reserved", Measure::Reserved, Stage::Peak),
    ("memory_reserved", Measure::Reserved, Stage::End),
    ("mem-max-allocated-bytes", Measure::Allocated, Stage::Peak),
    ("mem-allocated-bytes", Measure::Allocated, Stage::End),
    ("mem-max-reserved-bytes", Measure::Reserved, Stage::Peak),
    ("mem-reserved-bytes", Measure::Reserved, Stage::End),
];

const STAGES: [(&str, Stage); 2] = [("peak", Stage::Peak), ("current", Stage::End)];

/// The figure that a key names.
fn figure_of(key: &str) -> Option<(Measure, Stage)> {
    let named = KEYS.into_iter().find(|(name, ..)| *name == key).map(|(_, measure, stage)| (measure, stage));
    named.or_else(|| of_metric(key)).or_else(|| {
        let (counter, stage) = key.split_once(".all.")?;
        let (_, stage) = STAGES.into_iter().find(|(name, _)| *name == stage)?;
        Some((counter.strip_suffix("_bytes")?.parse().ok()?, stage))
    })
}

/// The figure that the name of a metric stands for.
fn of_metric(key: &str) -> Option<(Measure, Stage)> {
    let metric = Metric::ALL.into_iter().find(|metric| metric.name() == key)?;
    match metric.point() {
        Point::Peak => Some((metric.measure(), Stage::Peak)),
        Point::End => Some((metric.measure(), Stage::End)),
        Point::Start | Point::UnusedAtPeak => None,
    }
}

/// The figures of a device, by counter and point.
#[derive(Debug, Default)]
struct DeviceNumbers {
    figures: [[Option<u64>; 2]; 4],
    /// What a server stated.
    serving: BTreeMap<Serving, StatedFigure>,
    /// True if a figure is named, whether or not its value is known.
    is_stated: bool,
}

impl DeviceNumbers {
    fn set(
        &mut self,
        (measure, stage): (Measure, Stage),
        stated: Stated,
        place: impl Fn() -> String,
    ) -> Result<(), NumbersError> {
        self.is_stated = true;
        let figure = &mut self.figures[measure as usize][stage as usize];
        *figure = agreed(*figure, stated, place)?;
        Ok(())
    }

    /// Sets what a server stated.
    fn state(&mut self, figure: Serving, stated: Stated, place: impl Fn() -> String) -> Result<(), NumbersError> {
        self.is_stated = true;
        let known = self.serving.get(&figure).map(|stated| stated.value);
        let value = agreed(known, stated, place)?;
        self.serving.extend(value.map(|value| (figure, StatedFigure { value, line: None })));
        Ok(())
    }

    /// Refuses a counter that ends above its peak.
    fn verify(&self, place: &str) -> Result<(), NumbersError> {
        for measure in Measure::ALL {
            if let [Some(peak), Some(end)] = self.figures[measure as usize]
                && end > peak
            {
                return Err(NumbersError::AbovePeak { place: place.to_owned(), measure: measure.into(), end, peak });
            }
        }
        Ok(())
    }

    fn counter(&self, measure: Measure) -> Counter {
        let [peak, end] = self.figures[measure as usize];
        // Known figures are exact.
        Counter { peak, end, baseline_error: Some(0), peak_error: Some(0), ..Counter::default() }
    }

    fn profile(&self, device: DeviceId) -> DeviceProfile {
        let [_, end_of_active] = self.figures[Measure::Active as usize];
        let [_, end_of_reserved] = self.figures[Measure::Reserved as usize];
        let unused = end_of_reserved.zip(end_of_active).map(|(reserved, active)| reserved.saturating_sub(active));
        let figures = Figures {
            history: HistoryKind::NumbersOnly,
            allocated: self.counter(Measure::Allocated),
            active: self.counter(Measure::Active),
            requested: self.counter(Measure::Requested),
            reserved: self.counter(Measure::Reserved),
            fragmentation: Fragmentation { peak: None, end: unused },
            checks: Checks { end_matches: true, ..Checks::default() },
            ..Figures::default()
        };
        DeviceProfile { device, figures, ..DeviceProfile::default() }
    }
}

/// A figure that is known perhaps, and stated again.
fn agreed(known: Option<u64>, stated: Stated, place: impl Fn() -> String) -> Result<Option<u64>, NumbersError> {
    match (stated, known) {
        (Err(found), _) => Err(NumbersError::NotBytes { place: place(), found: printable(cut(&found, 64)) }),
        (Ok(Some(found)), Some(other)) if found != other => Err(NumbersError::Differ { place: place(), found, other }),
        (Ok(found), known) => Ok(found.or(known)),
    }
}

impl Case {
    /// Refuses figures that contradict each other.
    fn verify(&self, name: &str) -> Result<(), NumbersError> {
        let place = if name.is_empty() { String::new() } else { printable(cut(name, 64)) + ": " };
        if self.own.is_stated && !self.devices.is_empty() {
            return Err(NumbersError::Mixed(place, "figures", "devices"));
        }
        self.own.verify(&place)?;
        self.devices
            .values()
            .try_for_each(|(device, numbers)| numbers.verify(&format!("{place}{}: ", printable(cut(device, 64)))))
    }

    /// The figures of a device.
    fn device(&mut self, device: DeviceId, name: &str) -> Result<&mut DeviceNumbers, NumbersError> {
        let is_full = self.devices.len() == MOST_DEVICES;
        match self.devices.entry(device) {
            Entry::Occupied(known) if known.get().0 != name => Err(NumbersError::Twice(printable(cut(name, 64)))),
            Entry::Occupied(known) => Ok(&mut known.into_mut().1),
            Entry::Vacant(_) if is_full => Err(NumbersError::TooMany { most: MOST_DEVICES, kind: "devices" }),
            Entry::Vacant(new) => Ok(&mut new.insert((name.to_owned(), DeviceNumbers::default())).1),
        }
    }

    /// What a server stated, the worst of all devices.
    fn serving(&self) -> BTreeMap<Serving, StatedFigure> {
        let mut serving = self.own.serving.clone();
        let of_devices = self.devices.values().flat_map(|(_, numbers)| &numbers.serving);
        of_devices.for_each(|(&figure, stated)| stated.add_to(&mut serving, figure));
        serving
    }

    fn profiles(&self) -> Vec<DeviceProfile> {
        if self.devices.is_empty() {
            return vec![self.own.profile(DeviceId::FIRST)];
        }
        self.devices.iter().map(|(&device, (_, numbers))| numbers.profile(device)).collect()
    }
}

impl Cases {
    /// True if the input does not contain a figure.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// The names of several cases; none where the input is a single one without a name.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.all.keys().map(String::as_str).filter(|name| !name.is_empty())
    }

    /// The case of a name.
    fn case(&mut self, name: &str) -> Result<&mut Case, NumbersError> {
        if self.all.len() == MOST_CASES && !self.all.contains_key(name) {
            return Err(NumbersError::TooMany { most: MOST_CASES, kind: "cases" });
        }
        Ok(self.all.entry(name.to_owned()).or_default())
    }

    /// The names of cases, of which an error lists some.
    fn listed(&self) -> String {
        let names: Vec<String> = self.all.keys().take(MOST_NAMES).map(|name| printable(cut(name, 64))).collect();
        names.join(", ") + if self.all.len() > MOST_NAMES { ", …" } else { "" }
    }

    /// The profile of the requested case, or of the only one.
    ///
    /// # Errors
    /// If there are several and none is requested, or not this one.
    pub(super) fn profile(&self, source: Source, options: ReadOptions) -> Result<Profile, NumbersError> {
        let case = match (options.case.as_deref(), self.all.first()) {
            (None, Some((_, only))) if self.all.len() == 1 => only,
            (None, _) => return Err(NumbersError::Several(self.listed())),
            (Some(asked), _) => self
                .all
                .get(asked)
                .ok_or_else(|| NumbersError::NoCase { asked: printable(cut(asked, 64)), known: self.listed() })?,
        };
        let mut diagnostics =
            self.run.as_ref().map(|run| remarks(run, &options.rules.known_guesses)).unwrap_or_default();
        let message =
            "it holds only figures: stacks, phases and a history need a recording, as ptmem_gate.record() makes";
        diagnostics.push(Diagnostic::new(Code::NumbersOnly, None, message));
        let mut profile = Profile {
            source,
            options,
            devices: case.profiles(),
            serving: case.serving(),
            run: self.run.clone(),
            diagnostics,
            ..Profile::default()
        };
        let impossible = profile.impossible_figures();
        profile.diagnostics.extend(impossible);
        Ok(profile)
    }
}

/// The cases of an input: JSON, a table of comma-separated values, or the log of a server. Empty if it does not contain a figure.
///
/// # Errors
/// Where a figure is not a number of bytes, figures contradict each other, or a table cannot be read.
pub fn cases(text: &[u8]) -> Result<Cases, NumbersError> {
    if text.trim_ascii_start().starts_with(b"{") {
        return verified(json::cases(text)?);
    }
    if text.len() > MOST_TABLE {
        return Err(NumbersError::TooLong);
    }
    let log = serving_in(&String::from_utf8_lossy(text));
    if log.is_empty() {
        return verified(table::cases(text)?);
    }
    let mut cases = Cases::default();
    cases.case("")?.own = DeviceNumbers { serving: log, is_stated: true, ..DeviceNumbers::default() };
    Ok(cases)
}

/// Cases that do not contradict themselves.
fn verified(cases: Cases) -> Result<Cases, NumbersError> {
    if cases.all.len() > 1 && cases.all.contains_key("") {
        return Err(NumbersError::Mixed(String::new(), "cases", "figures without a name"));
    }
    cases.all.iter().try_for_each(|(name, case)| case.verify(name))?;
    Ok(cases)
}

/// The number of a device by its name in PyTorch: `cuda:1`, `xpu:0`.
fn device_of(key: &str) -> Option<DeviceId> {
    let (kind, number) = key.split_once(':')?;
    // `cuda:host` names neither a device nor pinned memory.
    let ordinal: u32 = number.parse().ok()?;
    kind.bytes().all(|letter| letter.is_ascii_lowercase()).then(|| ordinal.into())
}

/// Names that an error lists.
const MOST_NAMES: usize = 8;

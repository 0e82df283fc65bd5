//! The ranks of a job side by side: which fares worst, which is in the middle, and what all have in common.

mod diagnostics;
mod others;

pub(super) use diagnostics::{
    diagnostics_of_comparison, diagnostics_of_gate, diagnostics_of_profile, diagnostics_of_readings,
    diagnostics_of_search,
};
pub(super) use others::Others;

use std::cmp::Reverse;

use super::Options;
use super::known;
use super::view::Mark;
use crate::diff::{self, DeviceDiff, Metric, Row};
use crate::profile::DeviceProfile;
use crate::verdict::{Comparison, Gate, Judgement, Ranks, Reading, Readings, Standing};

/// One device of one rank.
#[derive(Debug)]
pub(super) struct Line<'a, T, D> {
    pub(super) of: &'a T,
    /// None where the rank holds nothing on any device.
    pub(super) device: Option<&'a D>,
    /// The worst finding of its checks.
    pub(super) standing: Standing,
    /// `rank 3`, and the device where a rank has several.
    pub(super) name: String,
}

/// One device of the comparison of one rank.
pub(super) type Compared<'a> = Line<'a, Comparison, DeviceDiff>;

/// One device of the snapshot of one rank.
pub(super) type Shown<'a> = Line<'a, Reading, DeviceProfile>;

impl<'a> Compared<'a> {
    fn new(of: &'a Comparison, device: Option<&'a DeviceDiff>, names_devices: bool) -> Self {
        let rank = of.member.as_ref().map_or("", |member| &member.label);
        let name = match device {
            Some(device) if names_devices => format!("{rank} {}", device.name()),
            _ => rank.to_owned(),
        };
        Self { of, device, standing: of.judgement.standing(device.and_then(DeviceDiff::ordinal)), name }
    }

    /// Every stack of it.
    pub(super) fn all_rows(&self) -> &'a [Row] {
        self.device.map(|device| &*device.rows).unwrap_or_default()
    }

    /// Bytes that the peak gained.
    pub(super) fn growth(&self) -> Option<i128> {
        known::change(Metric::Peak, self.device?, &self.of.diff.profiles).gained()
    }

    /// The finding of the checks; none where nothing was checked.
    pub(super) fn mark(&self) -> Option<Mark> {
        mark(self.standing, &self.of.judgement, self.device.and_then(DeviceDiff::ordinal))
    }

    /// The rows that are listed of it.
    pub(super) fn rows(&self, options: &Options) -> Vec<Row> {
        let Some(device) = self.device else { return Vec::new() };
        diff::listed(&device.rows, options.listing(self.of), self.of.judgement.explanation(device))
    }
}

impl<'a> Shown<'a> {
    fn new(of: &'a Reading, device: Option<&'a DeviceProfile>, names_devices: bool) -> Self {
        let number = device.map(|device| device.device);
        let rank = &of.member.label;
        let name = match number {
            Some(number) if names_devices => format!("{rank} device {number}"),
            _ => rank.clone(),
        };
        let standing = of.judgement.as_ref().map_or(Standing::Ok, |judgement| judgement.standing(number));
        Self { of, device, standing, name }
    }

    pub(super) fn peak(&self) -> Option<u64> {
        known::value(Metric::Peak, self.device?)
    }

    /// The finding of the checks; none where nothing was checked.
    pub(super) fn mark(&self) -> Option<Mark> {
        mark(self.standing, self.of.judgement.as_ref()?, self.device.map(|device| device.device))
    }
}

/// The mark of a device of that standing; none where nothing was checked.
pub(super) fn mark(standing: Standing, judgement: &Judgement, device: Option<u32>) -> Option<Mark> {
    if judgement.checks.is_empty() {
        return None;
    }
    let accepted = judgement.checks.iter().any(|check| check.device == device && check.accepted);
    Some(Mark { standing, accepted: accepted && standing == Standing::Ok })
}

/// The mark of all of them, where they have the same.
pub(super) fn common(mut marks: impl Iterator<Item = Option<Mark>>) -> Option<Mark> {
    let first = marks.next()?;
    if marks.all(|other| other == first) { first } else { None }
}

/// The devices of the ranks of a job, the worst first.
pub(super) fn compared<'a>(gate: &'a Gate, ranks: &Ranks) -> Vec<Compared<'a>> {
    let members = &gate.comparisons[ranks.members.clone()];
    let names_devices = members.iter().any(|comparison| comparison.diff.devices.len() > 1);
    let mut lines = Vec::new();
    for of in members {
        let devices = &of.diff.devices;
        lines.extend(devices.iter().map(|device| Compared::new(of, Some(device), names_devices)));
        lines.extend(devices.is_empty().then(|| Compared::new(of, None, names_devices)));
    }
    lines.sort_by_key(|line: &Compared<'_>| Reverse((line.standing, line.growth())));
    lines
}

/// The devices of the ranks of a job: those that fail first, then the highest peak.
pub(super) fn shown(readings: &Readings) -> Vec<Shown<'_>> {
    let names_devices = readings.readings.iter().any(|reading| active(reading).count() > 1);
    let mut lines = Vec::new();
    for of in &readings.readings {
        lines.extend(active(of).map(|device| Shown::new(of, Some(device), names_devices)));
        lines.extend(active(of).next().is_none().then(|| Shown::new(of, None, names_devices)));
    }
    lines.sort_by_key(|line: &Shown<'_>| Reverse((line.standing, line.peak())));
    lines
}

/// The devices of a rank that did something.
fn active(reading: &Reading) -> impl Iterator<Item = &DeviceProfile> {
    reading.profile.devices.iter().filter(|device| device.is_active())
}

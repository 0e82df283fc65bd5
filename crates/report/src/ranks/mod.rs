//! The ranks of a job side by side: which fares worst, which is in the middle, and what all have in common.

mod diagnostics;
mod others;

pub(super) use diagnostics::{diagnostics_of_job, diagnostics_of_suite};
pub(super) use others::Others;

use ptmem_base::device::DeviceId;
use std::cmp::Reverse;

use ptmem_compare::diff::{DeviceDiff, Metric, Row};
use ptmem_judge::verdict::{Check, Comparison, Job, Judged, Judgement, Mark, Reading, Standing};
use ptmem_trace::profile::DeviceProfile;

use super::RenderOptions;
use super::known;

/// One device of one rank.
#[derive(Debug)]
pub(super) struct RankLine<'a, T, D> {
    pub(super) of: &'a T,
    /// `None` if the rank holds nothing on any device.
    pub(super) device: Option<&'a D>,
    /// `rank 3`, and the device where a rank has several.
    pub(super) name: String,
    /// The worst finding of its checks.
    pub(super) standing: Standing,
    /// The result of its checks; `None` if nothing was checked.
    pub(super) mark: Option<Mark>,
    /// Bytes that its peak gained, or of a snapshot the peak.
    pub(super) figure: Option<i128>,
}

/// One device of the comparison of one rank.
pub(super) type Compared<'a> = RankLine<'a, Comparison, DeviceDiff>;

/// One device of the snapshot of one rank.
pub(super) type Shown<'a> = RankLine<'a, Reading, DeviceProfile>;

/// The facts about a device that make a line.
#[derive(Default)]
struct LineFacts {
    name: String,
    number: Option<DeviceId>,
    figure: Option<i128>,
}

impl Compared<'_> {
    /// Every stack of it.
    pub(super) fn all_rows(&self) -> &[Row] {
        self.device.map(|device| &*device.rows).unwrap_or_default()
    }

    /// The rows that are listed of it.
    pub(super) fn rows(&self, options: &RenderOptions) -> Vec<Row> {
        self.device.map(|device| options.listed(self.of, device)).unwrap_or_default()
    }
}

/// The mark of a device with that standing; `None` if nothing about it was checked.
pub(super) fn mark(standing: Standing, judgement: &Judgement, device: Option<DeviceId>) -> Option<Mark> {
    if standing == Standing::Ok && judgement.checks_on(device).next().is_none() {
        return None;
    }
    let accepted = judgement.checks_on(device).any(Check::is_accepted);
    Some(Mark { standing, accepted: accepted && standing == Standing::Ok })
}

/// The mark of all of them, where they have the same.
pub(super) fn common(mut marks: impl Iterator<Item = Option<Mark>>) -> Option<Mark> {
    let first = marks.next()?;
    if marks.all(|other| other == first) { first } else { None }
}

/// The devices of ranks: those that fail first, then the highest figure.
fn lines<'a, T: Judged, D>(
    all: &'a [T],
    devices: impl Fn(&'a T) -> Vec<&'a D>,
    facts: impl Fn(&'a T, &'a D) -> LineFacts,
) -> Vec<RankLine<'a, T, D>> {
    let names_devices = all.iter().any(|of| devices(of).len() > 1);
    let mut lines = Vec::new();
    for of in all {
        let rank = of.member().map_or("", |member| &*member.label);
        let devices = devices(of);
        let none = devices.is_empty().then_some(None);
        lines.extend(devices.into_iter().map(Some).chain(none).map(|device| {
            let LineFacts { name, number, figure } = device.map(|device| facts(of, device)).unwrap_or_default();
            let name = if names_devices && device.is_some() { format!("{rank} {name}") } else { rank.to_owned() };
            let standing = of.judgement().map_or(Standing::Ok, |judgement| judgement.standing(number));
            let mark = of.judgement().and_then(|judgement| mark(standing, judgement, number));
            RankLine { of, device, name, standing, mark, figure }
        }));
    }
    lines.sort_by_key(|line| Reverse((line.standing, line.figure)));
    lines
}

/// Whether a device of a rank is listed: pinned host memory only where a limit is about it.
fn is_listed(device: Option<DeviceId>, judgement: Option<&Judgement>) -> bool {
    let is_checked = judgement.is_some_and(|judgement| judgement.checks.iter().any(|check| check.device == device));
    device.is_none_or(DeviceId::is_device) || is_checked
}

/// The devices of the ranks of a job, compared.
pub(super) fn compared(job: &Job<Comparison>) -> Vec<Compared<'_>> {
    lines(
        &job.members,
        |of| of.diff.devices.iter().filter(|device| is_listed(device.id(), Some(&of.judgement))).collect(),
        |of, device| LineFacts {
            name: device.name(),
            number: device.id(),
            figure: known::peak(of, Some(device)).gained(),
        },
    )
}

/// The devices of the ranks of a job that did something.
pub(super) fn shown(job: &Job<Reading>) -> Vec<Shown<'_>> {
    lines(
        &job.members,
        |of| {
            let active = of.profile.devices.iter().filter(|device| device.is_active());
            active.filter(|device| is_listed(Some(device.device), of.judgement.as_ref())).collect()
        },
        |_, device| LineFacts {
            name: device.device.to_string(),
            number: Some(device.device),
            figure: known::value(Metric::Peak, device).map(i128::from),
        },
    )
}

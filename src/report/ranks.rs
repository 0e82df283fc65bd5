//! The ranks of a job side by side: which fares worst, which is in the middle, and what all have in common.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};

use super::Options;
use super::view::{Mark, Value};
use crate::diagnostic::{Code, Diagnostic};
use crate::diff::{self, DeviceDiff, Metric, Row, RowKind, Side};
use crate::profile::{DeviceProfile, StackTotal};
use crate::verdict::{Comparison, Gate, Judgement, Member, Ranks, Reading, Readings, Standing, numbers};

/// One device of one rank.
#[derive(Debug)]
pub(super) struct Line<'a, T, D> {
    pub(super) of: &'a T,
    /// None where the rank holds nothing on any device.
    pub(super) device: Option<&'a D>,
    /// How bad it stands.
    pub(super) standing: Standing,
    /// `rank 3`, and the device where a rank has several.
    pub(super) name: String,
}

/// One device of the comparison of one rank.
pub(super) type Compared<'a> = Line<'a, Comparison, DeviceDiff>;

/// One device of the snapshot of one rank.
pub(super) type Shown<'a> = Line<'a, Reading, DeviceProfile>;

impl Compared<'_> {
    /// Bytes that the peak gained.
    pub(super) fn growth(&self) -> Option<i128> {
        self.device?.metric(Metric::Peak).delta()
    }

    /// What the checks found about it; none where nothing was checked.
    pub(super) fn mark(&self) -> Option<Mark> {
        mark(self.standing, &self.of.judgement, self.device.and_then(DeviceDiff::ordinal))
    }

    /// The rows that are listed of it.
    pub(super) fn rows(&self, options: &Options) -> Vec<Row> {
        let Some(device) = self.device else { return Vec::new() };
        diff::listed(&device.rows, options.listing(self.of), self.of.judgement.explanation(device))
    }
}

impl Shown<'_> {
    pub(super) fn peak(&self) -> Option<u64> {
        Metric::Peak.value(self.device?)
    }

    /// What the checks found about it; none where nothing was checked.
    pub(super) fn mark(&self) -> Option<Mark> {
        mark(self.standing, self.of.judgement.as_ref()?, self.device.map(|device| device.device))
    }
}

/// What the checks found about a device of a standing; none where nothing was checked.
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
    let several = members.iter().any(|comparison| comparison.diff.devices.len() > 1);
    let mut lines = Vec::new();
    for of in members {
        let line = |device: Option<&'a DeviceDiff>| {
            let name = label(of.member.as_ref());
            let name = match device {
                Some(device) if several => format!("{name} {}", device.name()),
                _ => name.to_owned(),
            };
            Line { of, device, standing: of.judgement.standing(device.and_then(DeviceDiff::ordinal)), name }
        };
        lines.extend(of.diff.devices.iter().map(|device| line(Some(device))));
        lines.extend(of.diff.devices.is_empty().then(|| line(None)));
    }
    lines.sort_by_key(|line| Reverse((line.standing, line.growth())));
    lines
}

/// The devices of the ranks of a job: what fails first, then the highest peak.
pub(super) fn shown(readings: &Readings) -> Vec<Shown<'_>> {
    let active = |reading: &Reading| reading.profile.devices.iter().filter(|device| device.is_active()).count();
    let several = readings.readings.iter().any(|reading| active(reading) > 1);
    let mut lines = Vec::new();
    for of in &readings.readings {
        let number = |device: Option<&DeviceProfile>| device.map(|device| device.device);
        let line = |device| {
            let name = &of.member.label;
            let name = match number(device) {
                Some(device) if several => format!("{name} device {device}"),
                _ => name.clone(),
            };
            let standing = of.judgement.as_ref().map_or(Standing::Ok, |judgement| judgement.standing(number(device)));
            Line { of, device, standing, name }
        };
        let devices = of.profile.devices.iter().filter(|device| device.is_active());
        lines.extend(devices.map(|device| line(Some(device))));
        lines.extend((active(of) == 0).then(|| line(None)));
    }
    lines.sort_by_key(|line| Reverse((line.standing, line.peak())));
    lines
}

/// What a member is called.
pub(super) fn label(member: Option<&Member>) -> &str {
    member.map_or("", |member| &member.label)
}

/// The line in the middle by a figure; of two the lower. None where it is the only one.
pub(super) fn median<'a, T, D, K: Ord>(
    lines: &[Line<'a, T, D>],
    of: impl Fn(&Line<'a, T, D>) -> Option<K>,
) -> Option<usize> {
    let mut known: Vec<_> = lines.iter().enumerate().filter_map(|(at, line)| Some((of(line)?, at))).collect();
    known.sort();
    let middle = known.len().checked_sub(1).filter(|last| *last > 0)? / 2;
    Some(known[middle].1)
}

/// How the stacks of one rank stand to those of the others.
#[derive(Debug)]
pub(super) struct Others<'a> {
    /// What the rank in the middle is called.
    pub(super) median: Option<&'a str>,
    /// How many ranks there are.
    pub(super) ranks: usize,
    /// The figure of each stack there, by key.
    of_median: HashMap<&'a str, i128>,
    /// On how many ranks a stack has a figure.
    same: HashMap<(&'a str, i128), (usize, usize)>,
}

impl<'a> Others<'a> {
    fn new<T, D, K: Ord>(
        lines: &'a [Line<'a, T, D>],
        figure: impl Fn(&Line<'a, T, D>) -> Option<K>,
        stacks: impl Fn(&Line<'a, T, D>) -> Vec<(&'a str, i128)>,
    ) -> Self {
        let at = median(lines, figure);
        let of_median = at.map(|at| stacks(&lines[at]).into_iter().collect()).unwrap_or_default();
        let mut numbers: HashMap<*const T, usize> = HashMap::new();
        let mut same: HashMap<(&str, i128), (usize, usize)> = HashMap::new();
        for line in lines {
            let next = numbers.len() + 1;
            let rank = *numbers.entry(std::ptr::from_ref(line.of)).or_insert(next);
            for stack in stacks(line) {
                // Devices of one rank count once.
                let (last, count) = same.entry(stack).or_default();
                if *last != rank {
                    (*last, *count) = (rank, *count + 1);
                }
            }
        }
        Self { median: at.map(|at| &*lines[at].name), ranks: numbers.len(), of_median, same }
    }

    /// Of the changes of comparisons.
    pub(super) fn changes(lines: &'a [Compared<'a>]) -> Self {
        Self::new(lines, Compared::growth, |line| {
            let rows = line.device.map(|device| &*device.rows).unwrap_or_default();
            let rows = rows.iter().filter(|row| !matches!(row.kind, RowKind::Others(_)));
            rows.map(|row| (row.key.as_str(), row.delta())).collect()
        })
    }

    /// Of what snapshots hold.
    pub(super) fn held(lines: &'a [Shown<'a>]) -> Self {
        Self::new(lines, Shown::peak, |line| {
            let stacks = line.device.map(|device| &*device.stacks).unwrap_or_default();
            let stacks = stacks.iter().filter(|total| total.bucket != Some(crate::profile::Bucket::Others));
            stacks.map(|total| (total.key.0.as_str(), i128::from(total.at.bytes))).collect()
        })
    }

    /// The figure of a stack on the rank in the middle; 0 where it is not there.
    pub(super) fn of_median(&self, key: &str) -> Option<i128> {
        self.median?;
        Some(self.of_median.get(key).copied().unwrap_or(0))
    }

    /// The figure on the rank in the middle of all stacks but these.
    pub(super) fn rest_of_median<'k>(&self, listed: impl Iterator<Item = &'k str>) -> Option<i128> {
        self.median?;
        let all: i128 = self.of_median.values().sum();
        Some(all - listed.filter_map(|key| self.of_median.get(key)).sum::<i128>())
    }

    /// On how many ranks a stack has this figure.
    pub(super) fn same(&self, key: &str, figure: i128) -> usize {
        self.same.get(&(key, figure)).map_or(0, |(_, count)| *count)
    }

    /// The same as a value.
    pub(super) fn share(&self, key: &str, figure: i128) -> Value {
        Value::Ranks { same: self.same(key, figure), of: self.ranks }
    }
}

/// The figures of stacks that are listed, with what the rank in the middle has of each.
pub(super) fn medians_of_rows(others: &Others<'_>, rows: &[Row]) -> Vec<Option<i128>> {
    let listed = || rows.iter().filter(|row| !matches!(row.kind, RowKind::Others(_))).map(|row| row.key.as_str());
    let of = |row: &Row| match row.kind {
        RowKind::Others(_) => others.rest_of_median(listed()),
        _ => others.of_median(&row.key),
    };
    rows.iter().map(of).collect()
}

/// The same for what snapshots hold.
pub(super) fn medians_of_stacks(others: &Others<'_>, stacks: &[StackTotal]) -> Vec<Option<i128>> {
    let is_rest = |total: &StackTotal| total.bucket == Some(crate::profile::Bucket::Others);
    let listed = || stacks.iter().filter(|total| !is_rest(total)).map(|total| total.key.0.as_str());
    let of = |total: &StackTotal| {
        if is_rest(total) { others.rest_of_median(listed()) } else { others.of_median(&total.key.0) }
    };
    stacks.iter().map(of).collect()
}

/// What must be known of several ranks, each thing once, with the ranks that it holds for.
pub(super) fn merged<'a>(
    found: impl Iterator<Item = (Option<Side>, &'a Member, &'a Diagnostic)>,
    ranks: usize,
) -> Vec<(Option<Side>, Diagnostic)> {
    let mut merged: Vec<(Option<Side>, Diagnostic, bool, Vec<&Member>)> = Vec::new();
    let mut places: HashMap<(Option<Side>, Code), usize> = HashMap::new();
    for (side, member, diagnostic) in found {
        let at = *places.entry((side, diagnostic.code)).or_insert_with(|| {
            merged.push((side, diagnostic.clone(), true, Vec::new()));
            merged.len() - 1
        });
        let (_, first, alike, members) = &mut merged[at];
        *alike &= first.message == diagnostic.message;
        if members.last() != Some(&member) {
            members.push(member);
        }
    }
    let text = |(side, mut diagnostic, alike, members): (Option<Side>, Diagnostic, bool, Vec<&Member>)| {
        let (first, rest) = members.split_first().map_or(("", &members[..]), |(first, rest)| (&first.label, rest));
        let message = &diagnostic.message;
        diagnostic.message = match (alike, rest) {
            (true, _) if members.len() == ranks && ranks > 1 => format!("all ranks: {message}"),
            (true, _) => format!("{}: {message}", numbers(&members)),
            (false, []) => format!("{first}: {message}"),
            (false, rest) => format!("{first}: {message} (and the like on {})", numbers(rest)),
        };
        diagnostic.device = None;
        (side, diagnostic)
    };
    merged.into_iter().map(text).collect()
}

/// The diagnostics of the comparisons of a job.
pub(super) fn diagnostics_of_gate(gate: &Gate, ranks: &Ranks) -> Vec<(Option<Side>, Diagnostic)> {
    let members = &gate.comparisons[ranks.members.clone()];
    let of = |side: Option<Side>| {
        members.iter().flat_map(move |comparison| {
            let Comparison { diff, judgement, member, .. } = comparison;
            let found: Vec<&Diagnostic> = match side {
                Some(Side::Before) => diff.profiles.before.diagnostics.iter().collect(),
                Some(Side::After) => diff.profiles.after.diagnostics.iter().collect(),
                None => diff.diagnostics.iter().chain(&judgement.diagnostics).collect(),
            };
            found.into_iter().filter_map(move |diagnostic| Some((side, member.as_ref()?, diagnostic)))
        })
    };
    let found = of(Some(Side::Before)).chain(of(Some(Side::After))).chain(of(None));
    let mut merged = merged(found, members.len());
    merged.extend(ranks.judgement.diagnostics.iter().map(|diagnostic| (None, diagnostic.clone())));
    merged
}

/// The diagnostics of the snapshots of a job.
pub(super) fn diagnostics_of_readings(readings: &Readings) -> Vec<(Option<Side>, Diagnostic)> {
    let found = readings.readings.iter().flat_map(|reading| {
        let judged = reading.judgement.iter().flat_map(|judgement| &judgement.diagnostics);
        reading.profile.diagnostics.iter().chain(judged).map(|diagnostic| (None, &reading.member, diagnostic))
    });
    let mut merged = merged(found, readings.readings.len());
    merged.extend(readings.ranks.judgement.diagnostics.iter().map(|diagnostic| (None, diagnostic.clone())));
    merged
}

/// Stacks that grew on ranks that fail, but not on the worst: the most that they grew, where, and on how many ranks.
pub(super) fn elsewhere<'a>(lines: &'a [Compared<'_>], options: &Options) -> Vec<(&'a Row, &'a str, usize)> {
    let Some((worst, rest)) = lines.split_first() else { return Vec::new() };
    let rows = |line: &Compared<'a>| line.device.map(|device| &*device.rows).unwrap_or_default();
    let known: HashSet<&str> = rows(worst).iter().filter(|row| row.delta() > 0).map(|row| row.key.as_str()).collect();
    let mut grew: Vec<(&Row, &str, usize)> = Vec::new();
    let mut places: HashMap<&str, usize> = HashMap::new();
    for line in rest.iter().take_while(|line| line.standing == worst.standing && worst.standing > Standing::Ok) {
        let large = |row: &&Row| row.delta() > 0 && row.delta().unsigned_abs() >= u128::from(line.of.min_delta);
        let stacks = rows(line).iter().filter(large).filter(|row| !matches!(row.kind, RowKind::Others(_)));
        for row in stacks.filter(|row| !known.contains(row.key.as_str())) {
            let at = *places.entry(&row.key).or_insert_with(|| {
                grew.push((row, &line.name, 0));
                grew.len() - 1
            });
            let (most, name, count) = &mut grew[at];
            *count += 1;
            if row.delta() > most.delta() {
                (*most, *name) = (row, &line.name);
            }
        }
    }
    grew.sort_by_key(|(row, ..)| Reverse(row.delta()));
    grew.truncate(if options.top == 0 { usize::MAX } else { options.top });
    grew
}

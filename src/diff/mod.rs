//! Compares two profiles: devices, figures and stacks.

use std::collections::HashMap;

use crate::diagnostic::Diagnostic;
use crate::profile::{Bucket, DeviceProfile, Held, Profile, StackTotal};
use crate::replay::History;
use crate::snapshot::StackId;

/// Something that may exist before, after, or on both sides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sides<T> {
    /// In the before.
    pub before: T,
    /// In the after.
    pub after: T,
}

impl<T> Sides<T> {
    fn map<U>(&self, mut f: impl FnMut(&T) -> U) -> Sides<U> {
        Sides { before: f(&self.before), after: f(&self.after) }
    }
}

/// A figure of a device that can be gated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Metric {
    /// Peak of allocated bytes: `max_memory_allocated()`.
    Peak,
    /// Allocated bytes before the first event.
    Baseline,
    /// Allocated bytes at the dump.
    End,
    /// Peak of active bytes.
    Active,
    /// Peak of requested bytes.
    Requested,
    /// Peak of reserved bytes: `max_memory_reserved()`.
    Reserved,
}

impl Metric {
    /// All of them, in the order of reports.
    pub const ALL: [Self; 6] = [Self::Peak, Self::Baseline, Self::End, Self::Active, Self::Requested, Self::Reserved];

    /// Its name on the command line and in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Peak => "peak",
            Self::Baseline => "baseline",
            Self::End => "end",
            Self::Active => "active",
            Self::Requested => "requested",
            Self::Reserved => "reserved",
        }
    }

    /// The value on a device, in bytes; `None` where it cannot be known.
    #[must_use]
    pub fn value(self, device: &DeviceProfile) -> Option<u64> {
        match self {
            Self::Peak => device.figures.allocated.peak,
            Self::Baseline => device.figures.allocated.baseline,
            Self::End => Some(device.figures.allocated.end),
            Self::Active => device.figures.active.peak,
            Self::Requested => device.figures.requested.peak,
            Self::Reserved => device.figures.reserved.peak,
        }
    }

    /// How far the value may be from the truth; 0 where it is exact, `None` where that is unknown.
    #[must_use]
    pub fn max_error(self, device: &DeviceProfile) -> Option<u64> {
        match self {
            Self::Peak => device.figures.allocated.peak_error,
            Self::Baseline => device.figures.allocated.baseline_error,
            // Read from the final state.
            Self::End => Some(0),
            Self::Active => device.figures.active.peak_error,
            Self::Requested => device.figures.requested.peak_error,
            Self::Reserved => device.figures.reserved.peak_error,
        }
    }

    /// Whether the figure needs a recorded history, rather than the state at the dump alone.
    #[must_use]
    pub fn needs_history(self) -> bool {
        self != Self::End
    }
}

/// The change of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Change {
    /// Bytes before, where they are known.
    pub before: Option<u64>,
    /// Bytes after, where they are known.
    pub after: Option<u64>,
}

impl Change {
    /// Bytes gained; `None` where a side is not known.
    #[must_use]
    pub fn delta(self) -> Option<i128> {
        Some(i128::from(self.after?) - i128::from(self.before?))
    }
}

/// How the memory of a stack changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// More bytes.
    Grew,
    /// Fewer bytes.
    Shrank,
    /// Held nothing before.
    Added,
    /// Holds nothing after.
    Removed,
    /// The same bytes.
    Same,
}

impl Kind {
    /// Its name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Grew => "grew",
            Self::Shrank => "shrank",
            Self::Added => "added",
            Self::Removed => "removed",
            Self::Same => "same",
        }
    }
}

/// What a row is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowKind {
    /// One group of stacks.
    Stack,
    /// Memory whose stack is not known.
    Bucket(Bucket),
    /// The sum of so many rows that are not listed.
    Others(usize),
}

/// The change of one stack's total at the moment that is compared.
#[derive(Debug, Clone)]
pub struct Row {
    /// What it is about.
    pub kind: RowKind,
    /// How it changed.
    pub change: Kind,
    /// What it is called, as in the after where it exists there.
    pub label: String,
    /// What it was compared by.
    pub key: String,
    /// Bytes and blocks on both sides.
    pub held: Sides<Held>,
    /// A stack of the group on both sides.
    pub stack: Sides<Option<StackId>>,
}

impl Row {
    /// Bytes gained.
    #[must_use]
    pub fn delta(&self) -> i128 {
        i128::from(self.held.after.bytes) - i128::from(self.held.before.bytes)
    }
}

/// The comparison of one device.
#[derive(Debug)]
pub struct DeviceDiff {
    /// Index into the devices of each profile; `None` where the device is missing there.
    pub index: Sides<Option<usize>>,
    /// Device ordinals.
    pub device: Sides<Option<u32>>,
    /// The figures, in the order of [`Metric::ALL`].
    pub metrics: Vec<(Metric, Change)>,
    /// Every stack whose total changed, the largest change first. They add up to the change of the
    /// allocated bytes at the moment that is compared.
    pub rows: Vec<Row>,
}

impl DeviceDiff {
    /// The change of a figure.
    #[must_use]
    pub fn metric(&self, metric: Metric) -> Change {
        let found = self.metrics.iter().find(|(of, _)| *of == metric);
        found.map_or(Change { before: None, after: None }, |&(_, change)| change)
    }

    /// What the device is called in a report.
    #[must_use]
    pub fn name(&self) -> String {
        match (self.device.before, self.device.after) {
            (Some(before), Some(after)) if before != after => format!("device {before} -> {after}"),
            (Some(device), _) | (None, Some(device)) => format!("device {device}"),
            (None, None) => "no device".to_owned(),
        }
    }
}

/// The comparison of two profiles.
#[derive(Debug)]
pub struct Diff {
    /// What was compared.
    pub profiles: Sides<Profile>,
    /// Device by device.
    pub devices: Vec<DeviceDiff>,
    /// What concerns the comparison, not one side of it.
    pub diagnostics: Vec<Diagnostic>,
}

/// Compares a before with an after.
#[must_use]
pub fn diff(before: Profile, after: Profile) -> Diff {
    let pairs = pair_devices(&before, &after);
    let profiles = Sides { before, after };
    let devices = pairs.into_iter().map(|index| compare(&profiles, index)).collect::<Vec<_>>();
    let mut diagnostics = Vec::new();
    for device in &devices {
        compare_recordings(&profiles, device, &mut diagnostics);
    }
    compare_settings(&profiles, &mut diagnostics);
    Diff { profiles, devices, diagnostics }
}

/// Pairs devices by number, or the only active one of each side whatever its number:
/// `CUDA_VISIBLE_DEVICES` renumbers them. Devices that did nothing on either side are left out.
fn pair_devices(before: &Profile, after: &Profile) -> Vec<Sides<Option<usize>>> {
    let active = |profile: &Profile| -> Vec<usize> {
        (0..profile.devices.len()).filter(|&i| profile.devices[i].is_active()).collect()
    };
    if let ([only_before], [only_after]) = (&active(before)[..], &active(after)[..]) {
        return vec![Sides { before: Some(*only_before), after: Some(*only_after) }];
    }
    let find = |profile: &Profile, number: u32| profile.devices.iter().position(|device| device.device == number);
    let mut numbers: Vec<u32> =
        before.devices.iter().chain(&after.devices).filter(|d| d.is_active()).map(|d| d.device).collect();
    numbers.sort_unstable();
    numbers.dedup();
    numbers.into_iter().map(|n| Sides { before: find(before, n), after: find(after, n) }).collect()
}

fn compare(profiles: &Sides<Profile>, index: Sides<Option<usize>>) -> DeviceDiff {
    let devices = Sides {
        before: index.before.map(|i| &profiles.before.devices[i]),
        after: index.after.map(|i| &profiles.after.devices[i]),
    };
    let metrics = Metric::ALL.map(|metric| {
        let value = devices.map(|device| device.and_then(|device| metric.value(device)));
        (metric, Change { before: value.before, after: value.after })
    });
    let stacks = |device: Option<&DeviceProfile>| device.map(|device| device.stacks.clone()).unwrap_or_default();
    // Without the moment on both sides there is nothing to compare.
    let has_moment = |device: Option<&DeviceProfile>| device.is_none_or(|device| device.at.is_some());
    let comparable = has_moment(devices.before) && has_moment(devices.after);
    DeviceDiff {
        index,
        device: devices.map(|device| device.map(|device| device.device)),
        metrics: metrics.to_vec(),
        rows: if comparable { rows(&stacks(devices.before), &stacks(devices.after)) } else { Vec::new() },
    }
}

/// One row for every stack whose bytes differ, the largest change first.
fn rows(before: &[StackTotal], after: &[StackTotal]) -> Vec<Row> {
    let before_by_key: HashMap<_, _> = before.iter().map(|total| (&total.key, total)).collect();
    let after_keys: std::collections::HashSet<_> = after.iter().map(|total| &total.key).collect();
    let both = after.iter().map(|total| (before_by_key.get(&total.key).copied(), Some(total)));
    let gone = before.iter().filter(|total| !after_keys.contains(&total.key)).map(|total| (Some(total), None));
    let mut rows: Vec<_> = both.chain(gone).filter_map(|(before, after)| row(before, after)).collect();
    rows.retain(|row| row.change != Kind::Same);
    rows.sort_by(|a, b| {
        let size = b.delta().unsigned_abs().cmp(&a.delta().unsigned_abs());
        // Of equal size, what grew comes first; then an order that is always the same.
        size.then_with(|| b.delta().cmp(&a.delta())).then_with(|| a.label.cmp(&b.label)).then_with(|| a.key.cmp(&b.key))
    });
    rows
}

fn row(before: Option<&StackTotal>, after: Option<&StackTotal>) -> Option<Row> {
    let named = after.or(before)?;
    let held = |total: Option<&StackTotal>| total.map(|total| total.at).unwrap_or_default();
    let held = Sides { before: held(before), after: held(after) };
    let change = match (held.before.bytes, held.after.bytes) {
        (b, a) if b == a => Kind::Same,
        (0, _) => Kind::Added,
        (_, 0) => Kind::Removed,
        (b, a) if a > b => Kind::Grew,
        _ => Kind::Shrank,
    };
    Some(Row {
        kind: named.bucket.map_or(RowKind::Stack, RowKind::Bucket),
        change,
        label: named.label.clone(),
        key: named.key.0.clone(),
        held,
        stack: Sides { before: before.and_then(|total| total.stack), after: after.and_then(|total| total.stack) },
    })
}

/// The rows to show: at most `top` (0: all) of those that changed by at least `min_delta`, those that
/// `explain` the verdict first, and one that stands for the rest, so that they still add up.
#[must_use]
pub fn listed(rows: &[Row], top: usize, min_delta: u64, explains: impl Fn(&Row) -> bool) -> Vec<Row> {
    let limit = if top == 0 { usize::MAX } else { top };
    let (first, then): (Vec<_>, Vec<_>) = rows.iter().partition(|row| explains(row));
    let (mut shown, mut rest) = (Vec::new(), Vec::new());
    for row in first.into_iter().chain(then) {
        if shown.len() < limit && row.delta().unsigned_abs() >= u128::from(min_delta) {
            shown.push(row.clone());
        } else {
            rest.push(row);
        }
    }
    if rest.is_empty() {
        return shown;
    }
    let sum = |side: fn(&Sides<Held>) -> Held| {
        rest.iter().fold(Held::default(), |sum, row| {
            let held = side(&row.held);
            Held { bytes: sum.bytes.saturating_add(held.bytes), blocks: sum.blocks + held.blocks }
        })
    };
    let held = Sides { before: sum(|held| held.before), after: sum(|held| held.after) };
    shown.push(Row {
        kind: RowKind::Others(rest.len()),
        change: match held.before.bytes.cmp(&held.after.bytes) {
            std::cmp::Ordering::Less => Kind::Grew,
            std::cmp::Ordering::Equal => Kind::Same,
            std::cmp::Ordering::Greater => Kind::Shrank,
        },
        label: format!("[{} {}]", rest.len(), if rest.len() == 1 { "other" } else { "others" }),
        key: "<others>".to_owned(),
        held,
        stack: Sides { before: None, after: None },
    });
    shown
}

/// Says where two recordings were not made the same way.
fn compare_recordings(profiles: &Sides<Profile>, device: &DeviceDiff, found: &mut Vec<Diagnostic>) {
    let number = device.device.after.or(device.device.before);
    let (Some(before), Some(after)) = (device.index.before, device.index.after) else {
        let side = if device.index.before.is_none() { "before" } else { "after" };
        let message = format!("{} is in one snapshot only: the {side} lacks it", device.name());
        found.push(Diagnostic::warning("device-missing", number, message));
        return;
    };
    let (before, after) = (&profiles.before.devices[before], &profiles.after.devices[after]);
    for (side, device) in [("before", before), ("after", after)] {
        if device.at.is_none() {
            let moment = profiles.after.options.at;
            let message = format!("the {side} has no moment '{moment}': stacks are not compared");
            found.push(Diagnostic::warning("no-such-moment", number, message));
        }
    }
    if (before.figures.history == History::Recorded) != (after.figures.history == History::Recorded) {
        let side = if before.figures.history == History::Recorded { "before" } else { "after" };
        found.push(Diagnostic::warning(
            "recordings-differ",
            number,
            format!("only the {side} has a history of allocations; peaks cannot be compared"),
        ));
    } else if before.figures.history == History::Recorded && before.recorded_frames != after.recorded_frames {
        let describe = |device: &DeviceProfile| match (device.recorded_frames.python, device.recorded_frames.cpp) {
            (true, true) => "Python and C++ frames",
            (true, false) => "Python frames",
            (false, true) => "C++ frames",
            (false, false) => "no frames",
        };
        found.push(Diagnostic::warning(
            "recordings-differ",
            number,
            format!(
                "the before records {}, the after {}; stacks do not match. Record both with the same context= and \
                 stacks=",
                describe(before),
                describe(after)
            ),
        ));
    }
    if before.duration_us == Some(0) && after.duration_us == Some(0) && before.events == 0 {
        return;
    }
    let (fewer, more) = (
        before.figures.allocation_count.min(after.figures.allocation_count),
        before.figures.allocation_count.max(after.figures.allocation_count),
    );
    if fewer > 0 && more / fewer >= 2 {
        found.push(Diagnostic::note(
            "lengths-differ",
            number,
            format!(
                "the before records {} allocations, the after {}; do both cover the same steps?",
                before.figures.allocation_count, after.figures.allocation_count
            ),
        ));
    }
}

fn compare_settings(profiles: &Sides<Profile>, found: &mut Vec<Diagnostic>) {
    let (before, after) = (&profiles.before.settings, &profiles.after.settings);
    if !before.present || !after.present {
        return;
    }
    // A key that only one release writes is no difference in what was set.
    let differing: Vec<_> = before
        .all
        .iter()
        .filter_map(|(key, old)| {
            let new = after.all.get(key)?;
            (old != new).then(|| format!("{key}: '{old}' before, '{new}' after"))
        })
        .collect();
    if !differing.is_empty() {
        let message = format!("allocator settings differ ({})", differing.join("; "));
        found.push(Diagnostic::warning("settings-differ", None, message));
    }
}

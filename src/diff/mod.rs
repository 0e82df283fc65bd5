//! Compares two profiles: devices, figures and stacks.

mod categories;
mod course;
mod lines;
mod phases;
mod stacks;
mod touched;

use std::sync::Arc;

use crate::align::Missing;
use crate::diagnostic::{self, Diagnostic};
use crate::pattern::{Naming, Pattern, Selector};
pub use crate::profile::Metric;
use crate::profile::{Bucket, Held, Moment, Profile, others};
use crate::replay::History;
pub use crate::sides::{Side, Sides};
use crate::snapshot::{Copier, StackId, Tables};
use crate::stack::{Code, Grouper};
pub use categories::CategoryChange;
pub use course::{NotAligned, align};
pub use lines::{RowLine, RowLines};
pub use phases::{ListedPhases, Occurrences, PhaseOptions, PhaseRow, listed_phases};
pub use stacks::pairs;
use stacks::{Rows, rows};
pub use touched::{CodeLine, Touched};

/// The change of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
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

impl Sides<Held> {
    /// Bytes gained.
    #[must_use]
    pub fn delta(&self) -> i128 {
        i128::from(self.after.bytes) - i128::from(self.before.bytes)
    }

    /// Both together, side by side.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self { before: self.before.plus(other.before), after: self.after.plus(other.after) }
    }
}

/// How the memory of a stack changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
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
    /// Held by the other side as well, before its peak.
    HeldEarlier,
    /// Held by the other side as well, after its peak.
    HeldLater,
}

impl Kind {
    fn of(held: &Sides<Held>) -> Self {
        match (held.before.bytes, held.after.bytes) {
            (before, after) if before == after => Self::Same,
            (0, _) => Self::Added,
            (_, 0) => Self::Removed,
            (before, after) if after > before => Self::Grew,
            _ => Self::Shrank,
        }
    }

    /// Its name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Grew => "grew",
            Self::Shrank => "shrank",
            Self::Added => "added",
            Self::Removed => "removed",
            Self::Same => "same",
            Self::HeldEarlier => "held earlier",
            Self::HeldLater => "held later",
        }
    }

    /// Its name in machine-readable output, which goes by the bytes at the moment alone.
    #[must_use]
    pub fn code(self, delta: i128) -> &'static str {
        match self {
            Self::HeldEarlier | Self::HeldLater if delta > 0 => Self::Added.name(),
            Self::HeldEarlier | Self::HeldLater => Self::Removed.name(),
            kind => kind.name(),
        }
    }
}

/// The subject of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum RowKind {
    /// One group of stacks.
    Stack,
    /// Memory whose stack is not known.
    Bucket(Bucket),
    /// The sum of so many rows that are not listed.
    Others(usize),
}

impl RowKind {
    /// The bucket that it stands for; none for a group of stacks.
    #[must_use]
    pub fn bucket(self) -> Option<Bucket> {
        match self {
            Self::Stack => None,
            Self::Bucket(bucket) => Some(bucket),
            Self::Others(_) => Some(Bucket::Others),
        }
    }
}

/// The change of one stack's total at the moment that is compared.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Row {
    /// Its subject.
    pub kind: RowKind,
    /// How it changed.
    pub change: Kind,
    /// True if its sides were paired by similarity: the code between them has changed.
    pub moved: bool,
    /// Its name, as in the after where it exists there.
    pub label: String,
    /// Its other names: in the before, or after another line of it.
    pub aliases: Vec<String>,
    /// Its key, as in the after where it exists there.
    pub key: String,
    /// Bytes and blocks on both sides.
    pub held: Sides<Held>,
    /// The most bytes on both sides, at any moment; `None` where that is not known.
    pub highest: Sides<Option<u64>>,
    /// Where a saved profile does not list all stacks, so that this one may have another partner than the one it has,
    /// if any: the most bytes that it may have held before.
    pub before_within: Option<u64>,
    /// The stack of the group that changed most, on both sides.
    pub stack: Sides<Option<StackId>>,
    /// The lines that it sums; none where it is one line.
    pub lines: RowLines,
    /// The part that changes through lines which a change of the code touches; nothing before [`Diff::mark_touched`].
    pub touched: Touched,
}

impl Row {
    /// Bytes gained.
    #[must_use]
    pub fn delta(&self) -> i128 {
        self.held.delta()
    }

    /// The way in which a pattern names it, on either side.
    #[must_use]
    pub fn naming(&self, pattern: &Pattern) -> Option<Naming> {
        let is_one = !matches!(self.kind, RowKind::Others(_));
        pattern.naming(&self.label, self.aliases.iter().chain(self.lines.labels())).filter(|_| is_one)
    }

    /// True if a pattern selects it among the rows of its device, see [`DeviceDiff::selector`].
    #[must_use]
    pub fn is_selected(&self, selector: &Selector<'_>) -> bool {
        selector.selects(self.naming(selector.pattern))
    }

    /// The row that stands for so many others.
    fn others(count: usize, held: Sides<Held>) -> Self {
        Self {
            kind: RowKind::Others(count),
            change: Kind::of(&held),
            moved: false,
            label: others(count),
            aliases: Vec::new(),
            before_within: None,
            key: Bucket::Others.label().to_owned(),
            held,
            highest: Sides::default(),
            stack: Sides::default(),
            lines: RowLines::default(),
            touched: Touched::default(),
        }
    }

    /// In words whether there are more blocks or larger ones: `twice as many`, `1.5 times as large`.
    #[must_use]
    pub fn manner(&self) -> Option<String> {
        let Sides { before, after } = self.held;
        if !matches!(self.change, Kind::Grew | Kind::Shrank) || before.bytes == 0 || after.bytes == 0 {
            return None;
        }
        let many = times(u128::from(after.blocks), u128::from(before.blocks), Amount::Blocks);
        // The means as fractions: their quotient needs no division of its own.
        let large = times(
            u128::from(after.bytes) * u128::from(before.blocks),
            u128::from(before.bytes) * u128::from(after.blocks),
            Amount::Bytes,
        );
        Some(match (many, large) {
            (Some(many), Some(large)) => format!("{many}, {large}"),
            (Some(one), None) | (None, Some(one)) => one,
            (None, None) if self.delta() > 0 => "slightly more".to_owned(),
            (None, None) => "slightly less".to_owned(),
        })
    }
}

/// The part of a change that is put into words: how many blocks there are, or how large they are.
#[derive(Clone, Copy)]
enum Amount {
    Blocks,
    Bytes,
}

impl Amount {
    /// As in `twice as many`.
    fn more(self) -> &'static str {
        match self {
            Self::Blocks => "many",
            Self::Bytes => "large",
        }
    }

    /// As in `57 % fewer`.
    fn less(self) -> &'static str {
        match self {
            Self::Blocks => "fewer",
            Self::Bytes => "smaller",
        }
    }
}

/// `twice as many`, `57 % fewer` and the like; nothing where it is about as many.
fn times(after: u128, before: u128, amount: Amount) -> Option<String> {
    let hundredths = (after * 200 + before) / (before * 2).max(1);
    let what = amount.more();
    let less = amount.less();
    Some(match hundredths {
        96..105 => return None,
        50 => format!("half as {what}"),
        200 => format!("twice as {what}"),
        0 => format!("over 99 % {less}"),
        1..96 => format!("{} % {less}", 100 - hundredths),
        105..1000 => {
            let text = format!("{}.{:02}", hundredths / 100, hundredths % 100);
            format!("{} times as {what}", text.trim_end_matches('0').trim_end_matches('.'))
        }
        _ => format!("{} times as {what}", (hundredths + 50) / 100),
    })
}

/// The comparison of one device.
#[derive(Debug)]
#[non_exhaustive]
pub struct DeviceDiff {
    /// Index into the devices of each profile; `None` where the device is missing there.
    pub index: Sides<Option<usize>>,
    /// Device ordinals.
    pub device: Sides<Option<u32>>,
    /// The figures, in the order of [`Metric::ALL`].
    pub metrics: Vec<(Metric, Change)>,
    /// Every stack, the largest change first. They add up to the change of the allocated bytes at the moment that
    /// is compared.
    pub rows: Vec<Row>,
    /// Stacks of the after that are part of [`RowKind::Others`] in `rows`, since the before does not list all stacks.
    pub unlisted: Vec<Row>,
    /// Phases, in the order in which they begin.
    pub phases: Vec<PhaseRow>,
    /// Parts that one of the recordings lacks.
    pub missing: Vec<Missing>,
    /// Where the peaks lie, where these are different places of the program.
    pub peaks: Option<Sides<String>>,
    /// The change by what memory is for, at the moment that is compared.
    pub categories: Vec<CategoryChange>,
    /// Bytes that all rows gained through lines which a change of the code touches; `None` before
    /// [`Diff::mark_touched`].
    pub touched: Option<i128>,
}

impl DeviceDiff {
    /// The change of a figure.
    #[must_use]
    pub fn metric(&self, metric: Metric) -> Change {
        let found = self.metrics.iter().find(|(of, _)| *of == metric);
        found.map_or(Change { before: None, after: None }, |&(_, change)| change)
    }

    /// A pattern among the names of all stacks of the device.
    #[must_use]
    pub fn selector<'p>(&self, pattern: &'p Pattern) -> Selector<'p> {
        let rows = self.rows.iter().chain(&self.unlisted);
        Selector::new(pattern, rows.map(|row| row.naming(pattern)))
    }

    /// The device ordinal, that of the after where it exists there.
    #[must_use]
    pub fn ordinal(&self) -> Option<u32> {
        self.device.after.or(self.device.before)
    }

    /// The name of the device in a report.
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
#[non_exhaustive]
pub struct Diff {
    /// The profiles that were compared.
    pub profiles: Sides<Profile>,
    /// Device by device.
    pub devices: Vec<DeviceDiff>,
    /// Diagnostics that concern the comparison, not one side of it.
    pub diagnostics: Vec<Diagnostic>,
}

impl Diff {
    /// Leaves nothing but what a report shows of one comparison among many, and moves the stacks to tables that these
    /// share, which [`Diff::share`] has to be told in the end.
    pub fn pool(&mut self, shared: &mut Sides<Tables>) {
        let mut before = Copier::new(&self.profiles.before.tables, &mut shared.before);
        let mut after = Copier::new(&self.profiles.after.tables, &mut shared.after);
        for device in &mut self.devices {
            device.unlisted = Vec::new();
            device.rows.retain(|row| row.held.before.bytes > 0 || row.held.after.bytes > 0);
            device.rows.shrink_to_fit();
            for row in &mut device.rows {
                row.stack.before = row.stack.before.map(|stack| before.stack(stack));
                row.stack.after = row.stack.after.map(|stack| after.stack(stack));
            }
        }
        self.profiles.before.devices.iter_mut().for_each(|device| device.copy_failed_stacks(&mut before));
        self.profiles.after.devices.iter_mut().for_each(|device| device.copy_failed_stacks(&mut after));
        self.profiles.before.forget_stacks();
        self.profiles.after.forget_stacks();
    }

    /// Sets the tables that [`Diff::pool`] moved the stacks to.
    pub fn share(&mut self, shared: &Sides<Arc<Tables>>) {
        self.profiles.before.tables = Arc::clone(&shared.before);
        self.profiles.after.tables = Arc::clone(&shared.after);
    }

    /// True if both have the same frames, so that what is known of them is the same.
    #[must_use]
    pub fn shares_frames(&self, other: &Self) -> bool {
        self.profiles.before.shares_frames(&other.profiles.before)
            && self.profiles.after.shares_frames(&other.profiles.after)
    }

    /// The frames of both sides.
    #[must_use]
    pub fn codes(&self) -> Sides<Code<'_>> {
        Sides { before: self.profiles.before.code(), after: self.profiles.after.code() }
    }
}

/// How to compare.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Options {
    /// How similar, from 0 to 1, stacks must be to count as the same although the code has changed.
    pub match_ratio: f64,
    /// How phases are compared.
    pub phases: PhaseOptions,
}

impl Default for Options {
    fn default() -> Self {
        Self { match_ratio: 0.75, phases: PhaseOptions::default() }
    }
}

/// Compares a before with an after.
#[must_use]
pub fn compare(before: Profile, after: Profile, options: Options) -> Diff {
    let pairs = pair_devices(&before, &after);
    let profiles = Sides { before, after };
    let groupers = profiles.map_at_once(Profile::grouper);
    let mut of_phases = Vec::new();
    let of_categories = categories::groupers(&profiles);
    let mut devices = Vec::with_capacity(pairs.len());
    for index in pairs {
        devices.push(compare_devices(&profiles, &groupers, &of_categories, index, options, &mut of_phases));
    }
    let mut diagnostics = Vec::new();
    for device in &devices {
        compare_recordings(&profiles, device, &mut diagnostics);
        course::tell(&profiles, device, &mut diagnostics);
        course::tell_alignment(&profiles, device, &mut diagnostics);
    }
    compare_settings(&profiles, &mut diagnostics);
    diagnostics.extend(of_phases);
    Diff { profiles, devices, diagnostics }
}

/// Pairs devices by number, or the only active one of each side whatever its number:
/// `CUDA_VISIBLE_DEVICES` renumbers them. Devices that did nothing on either side are left out.
fn pair_devices(before: &Profile, after: &Profile) -> Vec<Sides<Option<usize>>> {
    if let (Some(only_before), Some(only_after)) = (before.only_active(), after.only_active()) {
        return vec![Sides { before: Some(only_before), after: Some(only_after) }];
    }
    let mut numbers: Vec<u32> =
        before.devices.iter().chain(&after.devices).filter(|d| d.is_active()).map(|d| d.device).collect();
    numbers.sort_unstable();
    numbers.dedup();
    numbers.into_iter().map(|n| Sides { before: before.position(n), after: after.position(n) }).collect()
}

fn compare_devices(
    profiles: &Sides<Profile>,
    groupers: &Sides<Grouper<'_>>,
    of_categories: &Sides<Grouper<'_>>,
    index: Sides<Option<usize>>,
    options: Options,
    found: &mut Vec<Diagnostic>,
) -> DeviceDiff {
    let devices = Sides {
        before: index.before.map(|i| &profiles.before.devices[i]),
        after: index.after.map(|i| &profiles.after.devices[i]),
    };
    let metrics = Metric::ALL.map(|metric| {
        let value = devices.map(|device| device.and_then(|device| metric.value(device)));
        (metric, Change { before: value.before, after: value.after })
    });
    let stacks = devices.map(|device| device.map(|device| &*device.stacks).unwrap_or_default());
    let cuts = devices.map(|device| device.and_then(|device| device.cut));
    // Without the moment on both sides there is nothing to compare.
    let has_moment = devices.map(|device| device.is_none_or(|device| device.at.is_some()));
    let comparable = has_moment.before && has_moment.after;
    let both = Sides { before: &groupers.before, after: &groupers.after };
    let pairs = pairs(stacks, both, options);
    let is_at_peak = profiles.after.options.at == Moment::Peak;
    let peaks = devices.map(|device| device.and_then(|device| device.figures.allocated.peak_at).filter(|_| is_at_peak));
    let course::Compared { missing, peaks: places } = course::compare(profiles, devices, both, &pairs, options);
    let rows = if comparable { rows(stacks, cuts, groupers, &pairs, peaks) } else { Rows::default() };
    let categories = if comparable { categories::changes(devices, of_categories) } else { Vec::new() };
    let device = devices.map(|device| device.map(|device| device.device));
    let phases = phases::rows(devices, options.phases, found);
    DeviceDiff {
        index,
        device,
        metrics: metrics.to_vec(),
        rows: rows.all,
        unlisted: rows.unlisted,
        phases,
        missing,
        peaks: places,
        categories,
        touched: None,
    }
}

/// Which rows to show.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Listing {
    /// At most so many; 0 is all.
    pub top: usize,
    /// Only what changed by at least so many bytes.
    pub min_delta: u64,
    /// Also what did not change.
    pub unchanged: bool,
}

/// The rows to show, those that `explain` the verdict first, and one that stands for the rest, so that they still
/// add up.
#[must_use]
pub fn listed(rows: &[Row], listing: Listing, explains: impl Fn(&Row) -> bool) -> Vec<Row> {
    let Listing { top, min_delta, unchanged } = listing;
    let limit = if top == 0 { usize::MAX } else { top };
    let rows = rows.iter().filter(|row| row.change != Kind::Same || unchanged);
    let rows = rows.filter(|row| row.held.before.bytes > 0 || row.held.after.bytes > 0);
    let mut ordered: Vec<&Row> = rows.collect();
    ordered.sort_by_cached_key(|row| !explains(row));
    let mut shown = Vec::new();
    let mut rest = Sides::default();
    let mut count = 0;
    for row in ordered {
        let large = row.delta().unsigned_abs() >= u128::from(min_delta) || row.change == Kind::Same;
        match row.kind {
            RowKind::Others(more) => (rest, count) = (rest.plus(row.held), count + more),
            _ if shown.len() < limit && large => shown.push(row.clone()),
            _ => (rest, count) = (rest.plus(row.held), count + 1),
        }
    }
    shown.extend((count > 0).then(|| Row::others(count, rest)));
    shown
}

/// Diagnostics about recordings that were not made the same way.
fn compare_recordings(profiles: &Sides<Profile>, device: &DeviceDiff, found: &mut Vec<Diagnostic>) {
    let number = device.ordinal();
    let (Some(before), Some(after)) = (device.index.before, device.index.after) else {
        let side = if device.index.before.is_none() { "before" } else { "after" };
        let message = format!("the {side} lacks this device");
        found.push(Diagnostic::new(diagnostic::Code::DeviceMissing, number, message));
        return;
    };
    let before = &profiles.before.devices[before];
    let after = &profiles.after.devices[after];
    for (side, device) in [("before", before), ("after", after)] {
        if device.at.is_none() {
            let moment = &profiles.after.options.at;
            let message = format!("the {side} has no moment '{moment}': stacks are not compared");
            found.push(Diagnostic::new(diagnostic::Code::NoSuchMoment, number, message));
        }
    }
    if (before.figures.history == History::Recorded) != (after.figures.history == History::Recorded) {
        let side = if before.figures.history == History::Recorded { "before" } else { "after" };
        found.push(Diagnostic::new(
            diagnostic::Code::RecordingsDiffer,
            number,
            format!("only the {side} has a history of allocations; peaks cannot be compared"),
        ));
    } else if before.figures.history == History::Recorded && before.recorded_frames != after.recorded_frames {
        found.push(Diagnostic::new(
            diagnostic::Code::RecordingsDiffer,
            number,
            format!(
                "the before records {}, the after {}; stacks do not match. Record both with the same context= and \
                 stacks=",
                before.recorded_frames.name(),
                after.recorded_frames.name()
            ),
        ));
    }
    if before.duration_us == Some(0) && after.duration_us == Some(0) && before.events == 0 {
        return;
    }
    let fewer = before.figures.allocation_count.min(after.figures.allocation_count);
    let more = before.figures.allocation_count.max(after.figures.allocation_count);
    if fewer > 0 && more / fewer >= 2 {
        found.push(Diagnostic::new(
            diagnostic::Code::LengthsDiffer,
            number,
            format!(
                "the before records {} allocations, the after {}; do both cover the same steps?",
                before.figures.allocation_count, after.figures.allocation_count
            ),
        ));
    }
}

fn compare_settings(profiles: &Sides<Profile>, found: &mut Vec<Diagnostic>) {
    let Sides { before, after } = profiles.map(|profile| &profile.settings);
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
        found.push(Diagnostic::new(diagnostic::Code::SettingsDiffer, None, message));
    }
}

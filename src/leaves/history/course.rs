//! The memory of a code base over time: of a folder of nightly profiles, or of the versions of a stored one.

use ptmem::budget::{DeviceBudget, DeviceMemory};
use ptmem::device::DeviceId;
use ptmem::diagnostic::{Code, Diagnostic, Severity};
use ptmem::leak::{self, Growing, Trend, course_changes};
use ptmem::profile::{self, DeviceProfile, EndingKind, Profile};
use ptmem::stack::{GroupBy, More};
use ptmem::tracks::{self, DeviceTrack, StackTrack};

/// Settings for a series of profiles.
#[derive(Debug, Clone, Default)]
pub(crate) struct HistoryOptions {
    /// The least change that counts as a step, in bytes. By default 1 MiB, and of a long series only what is unusual.
    pub(crate) min_step: Option<u64>,
    /// Memory of the device in bytes.
    pub(crate) device_memory: Option<DeviceMemory>,
    /// Whether runs may exhaust memory.
    pub(crate) allow_oom: bool,
}

/// The origin of a profile of the series.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CoursePoint {
    /// Its file, or the commit in short.
    pub(crate) name: String,
    /// The commit that stored it, where it comes from a repository.
    pub(crate) commit: Option<FileCommit>,
}

/// A version of a file in a repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FileCommit {
    /// Its hash.
    pub(crate) hash: String,
    /// When it was committed, in seconds since 1970.
    pub(crate) time: i64,
    /// The first line of its message.
    pub(crate) subject: String,
}

/// A series of profiles.
#[derive(Debug)]
pub(crate) struct History {
    /// The profiles, the oldest first.
    pub(crate) points: Vec<CoursePoint>,
    /// Each device.
    pub(crate) devices: Vec<DeviceHistory>,
    /// Files that could not be read, with the reason.
    pub(crate) skipped: Vec<(String, String)>,
    /// The grouping of stacks.
    pub(crate) group_by: GroupBy,
    /// The warnings of all profiles, and the notes of the latest.
    pub(crate) diagnostics: Vec<Diagnostic>,
}

/// A device over the series.
#[derive(Debug)]
pub(crate) struct DeviceHistory {
    /// Its ordinal in the latest profile that has it.
    pub(crate) device: DeviceId,
    /// Its figures in each profile; `None` where that lacks the device.
    pub(crate) figures: Vec<Option<PointFigures>>,
    /// The changes of the peak, the oldest first.
    pub(crate) steps: Vec<CoursePeak>,
    /// The stacks at the peaks, the largest of the latest profile first.
    pub(crate) stacks: Vec<StackTrack>,
    /// Whether each profile has stacks: files of figures have none, nor has a profile that lacks the device.
    pub(crate) has_stacks: Vec<bool>,
    /// The further course of the reserved peak, or of the allocated one where that is not known.
    pub(crate) outlook: Option<Outlook>,
    /// The memory of the device, where it is given.
    pub(crate) budget: Option<DeviceBudget>,
    /// Bytes that the latest reserved peak leaves of it; 0 where it is full.
    pub(crate) headroom: Option<u64>,
}

/// Figures of a device in one profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub(crate) struct PointFigures {
    /// Highest allocated bytes.
    pub(crate) peak: Option<u64>,
    /// Highest reserved bytes.
    pub(crate) reserved: Option<u64>,
    /// Allocated bytes at the end.
    pub(crate) end: Option<u64>,
}

/// A profile whose peak differs from that of the one before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CoursePeak {
    /// Index of the profile.
    pub(crate) at: usize,
    /// The peak of the one before.
    pub(crate) before: u64,
    /// Its own peak.
    pub(crate) after: u64,
    /// The stacks that changed most with it, the largest change first.
    pub(crate) stacks: Vec<StackStep>,
}

/// The change of a stack between two profiles.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StackStep {
    /// Its name in the latest profile that has it.
    pub(crate) label: String,
    /// Number of further lines that it sums there.
    pub(crate) more: More,
    /// Bytes gained.
    pub(crate) change: i128,
}

impl CoursePeak {
    /// The step from one known peak to the next, with the stacks where both profiles have them.
    fn between(earlier: KnownFigure, later: KnownFigure, stacks: &[StackTrack]) -> Self {
        let mut changed: Vec<StackStep> = stacks
            .iter()
            .map(|stack| {
                let change = i128::from(stack.bytes(later.at)) - i128::from(stack.bytes(earlier.at));
                StackStep { label: stack.label.clone(), more: stack.more, change }
            })
            .filter(|stack| stack.change != 0)
            .collect();
        changed.sort_by(|a, b| b.change.abs().cmp(&a.change.abs()).then_with(|| a.label.cmp(&b.label)));
        changed.truncate(STACKS_OF_STEP);
        Self { at: later.at, before: earlier.bytes, after: later.bytes, stacks: changed }
    }

    /// The change of the peak in bytes.
    pub(crate) fn change(&self) -> i128 {
        i128::from(self.after) - i128::from(self.before)
    }
}

/// The further course of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub(crate) struct Outlook {
    /// Change from one profile to the next, since the latest change of course.
    pub(crate) per_profile: i128,
    /// Whether that is steady growth.
    pub(crate) grows: bool,
    /// Bytes that are left of the device, where its memory is known; 0 where it is full.
    pub(crate) headroom: Option<u64>,
    /// The number of further profiles after which the device is full, where memory grows and the device is known.
    pub(crate) full_after: Option<u64>,
    /// Seconds until then at the pace of the commits.
    pub(crate) full_after_seconds: Option<u64>,
}

/// Stacks that are named for a step.
const STACKS_OF_STEP: usize = 3;

impl History {
    /// Looks at profiles, the oldest first. Their stacks must have been computed for [`profile::Moment::Peak`].
    pub(crate) fn new(
        points: Vec<CoursePoint>,
        profiles: &[Profile],
        skipped: Vec<(String, String)>,
        options: &HistoryOptions,
    ) -> Self {
        let tracks = tracks::devices(profiles);
        let devices = tracks.iter().map(|device| DeviceHistory::new(&points, profiles, device, options));
        let latest = profiles.last();
        Self {
            devices: devices.collect(),
            skipped,
            group_by: latest.map(|profile| profile.options.group_by).unwrap_or_default(),
            diagnostics: diagnostics(&points, profiles, options.allow_oom),
            points,
        }
    }
}

/// The warnings of all profiles, whose figures are part of the course, and the notes of the latest. A warning that several have in the
/// same words is given once.
fn diagnostics(points: &[CoursePoint], profiles: &[Profile], allow_oom: bool) -> Vec<Diagnostic> {
    let mut warnings: Vec<(Vec<&str>, Diagnostic)> = Vec::new();
    for (point, profile) in points.iter().zip(profiles) {
        for found in warnings_of(profile, allow_oom) {
            // A profile can have several with one code.
            let known =
                warnings.iter_mut().find(|(names, known)| *known == found && names.last() != Some(&&*point.name));
            match known {
                Some((names, _)) => names.push(&point.name),
                None => warnings.push((vec![&point.name], found)),
            }
        }
    }
    for (names, found) in warnings.iter_mut().filter(|(names, _)| names.len() < points.len()) {
        found.message = format!("{}: {}", listed(names), found.message);
    }
    let warnings = warnings.into_iter().map(|(_, found)| found);
    let latest = profiles.last().into_iter().flat_map(|profile| &profile.diagnostics);
    warnings.chain(latest.filter(|found| found.code.severity() == Severity::Note).cloned()).collect()
}

/// The warnings of a profile. A run for which memory did not suffice is not whole either.
fn warnings_of(profile: &Profile, allow_oom: bool) -> Vec<Diagnostic> {
    let own = profile.diagnostics.iter().filter(|found| found.code.severity() == Severity::Warning);
    let mut warnings: Vec<Diagnostic> = own.cloned().collect();
    let is_known = allow_oom || warnings.iter().any(|found| found.code == Code::RunIncomplete);
    // Programs can go on after a failed request; whether they did is not known without facts.
    let ending = profile.run.as_ref().and_then(|run| run.ending.as_ref());
    let is_ended = ending.is_none_or(|ending| ending.kind == EndingKind::Oom);
    if !is_known && is_ended && profile.devices.iter().any(DeviceProfile::ran_out_of_memory) {
        let message = "the program ran out of memory; the figures are not those of a whole run";
        warnings.push(Diagnostic::new(Code::RunIncomplete, None, message.to_owned()));
    }
    warnings
}

/// The first of some names, and the number of the others.
fn listed(names: &[&str]) -> String {
    match names {
        [first, second, third, rest @ ..] if !rest.is_empty() => {
            format!("{first}, {second}, {third} and {} more", rest.len())
        }
        _ => names.join(", "),
    }
}

impl DeviceHistory {
    fn new(points: &[CoursePoint], profiles: &[Profile], device: &DeviceTrack, options: &HistoryOptions) -> Self {
        let figures = device.in_each(profiles).map(|device| {
            let profile::Figures { allocated, reserved, history, .. } = &device?.figures;
            let has_peaks = history.has_peaks();
            Some(PointFigures {
                peak: allocated.peak.filter(|_| has_peaks),
                reserved: reserved.peak.filter(|_| has_peaks),
                end: allocated.end,
            })
        });
        let figures: Vec<Option<PointFigures>> = figures.collect();
        let stacks = tracks::stacks(profiles, device);
        let has_stacks = profiles.iter().zip(&device.indices).map(|(of, index)| index.is_some() && !of.is_numbers());
        let has_stacks: Vec<bool> = has_stacks.collect();
        let budget = options.device_memory.map(|memory| memory.budget_of_last(profiles, device.device));
        let usable = budget.map(DeviceBudget::usable);
        let reserved = known(&figures, reserved).last().map(|latest| latest.bytes);
        let headroom = usable.zip(reserved).map(|(usable, reserved)| usable.saturating_sub(reserved));
        let outlook = Outlook::new(points, &figures, options.min_step, usable);
        let outlook = outlook.map(|outlook| Outlook { headroom, ..outlook });
        let peaks = known(&figures, |figures| figures.peak);
        let changes = changes(&bytes(&peaks), options.min_step).into_iter();
        let steps = changes.map(|to| {
            let [earlier, later] = [peaks[to - 1], peaks[to]];
            let are_known = has_stacks[earlier.at] && has_stacks[later.at];
            CoursePeak::between(earlier, later, if are_known { &stacks } else { &[] })
        });
        let steps = steps.collect();
        Self { device: device.device, figures, steps, stacks, has_stacks, outlook, budget, headroom }
    }
}

/// A series as long as this shows by itself which changes are usual. Needed for dumps of `mid-forward.pkl`.
const LONG: usize = 8;

/// A change is unusual if it is this many times as large as the median of all. Needed for the same.
const UNUSUAL: u64 = 4;

/// The least change that counts as a step, and as growth of a series, unless the user gives a smaller one.
const LEAST_CHANGE: u64 = 1 << 20;

/// Indices of the values that differ by at least `min_step` from the one before; where that is not given, by an amount that is
/// unusual: steady growth is a trend, of which the beginning alone is a step.
fn changes(values: &[u64], min_step: Option<u64>) -> Vec<usize> {
    let least = min_step.unwrap_or(LEAST_CHANGE).max(1);
    let sizes: Vec<u64> = values.windows(2).map(|pair| pair[0].abs_diff(pair[1])).collect();
    let large = (1..values.len()).filter(|&to| sizes[to - 1] >= least);
    if min_step.is_some() || values.len() < LONG {
        return large.collect();
    }
    let mut sorted = sizes.clone();
    sorted.sort_unstable();
    let unusual = sorted[sorted.len() / 2].saturating_mul(UNUSUAL);
    let begins = course_changes(values, least);
    large.filter(|to| sizes[to - 1] >= unusual || begins.contains(to)).collect()
}

impl Outlook {
    fn new(
        points: &[CoursePoint],
        figures: &[Option<PointFigures>],
        min_step: Option<u64>,
        memory: Option<u64>,
    ) -> Option<Self> {
        // Growth is many small changes: a larger least change does not hide it.
        let least = min_step.unwrap_or(LEAST_CHANGE).min(LEAST_CHANGE);
        let peak = Pace::of(figures, |figures| figures.peak, least)?;
        let reserved = Pace::of(figures, reserved, least)?;
        let paces = [&peak, &reserved].into_iter();
        let full = paces.filter_map(|pace| Some((pace.full_after(memory?)?, pace))).min_by_key(|(more, _)| *more);
        let full_after = full.map(|(more, _)| more);
        let full_after_seconds = full.and_then(|(more, pace)| more.checked_mul(pace.seconds(points)?));
        let per_profile = peak.trend.slope?;
        Some(Self { per_profile, grows: peak.grows(), headroom: None, full_after, full_after_seconds })
    }
}

/// The further course of a figure.
struct Pace {
    trend: Trend,
    known: Vec<KnownFigure>,
}

impl Pace {
    fn of(figures: &[Option<PointFigures>], value: fn(&PointFigures) -> Option<u64>, least: u64) -> Option<Self> {
        let known = known(figures, value);
        let trend = Trend::of(&bytes(&known), least, leak::MIN_SHARE)?;
        trend.slope.is_some().then_some(Self { trend, known })
    }

    /// Whether memory grows steadily: one change is no pace.
    fn grows(&self) -> bool {
        self.trend.growth == Growing::Yes && self.trend.steps > 1
    }

    /// Bytes gained with each profile, where memory grows steadily.
    fn growth(&self) -> Option<u64> {
        u64::try_from(self.trend.slope?).ok().filter(|&bytes| bytes > 0 && self.grows())
    }

    fn last(&self) -> Option<u64> {
        Some(self.known.last()?.bytes)
    }

    /// The number of further profiles after which it fills the memory of the device.
    fn full_after(&self, memory: u64) -> Option<u64> {
        Some(memory.saturating_sub(self.last()?).div_ceil(self.growth()?))
    }

    /// Mean seconds from one commit to the next, since the latest change of course.
    fn seconds(&self, points: &[CoursePoint]) -> Option<u64> {
        let begun = points[self.known[self.trend.since].at].commit.as_ref()?.time;
        let passed = points[self.known.last()?.at].commit.as_ref()?.time.checked_sub(begun)?;
        u64::try_from(passed).ok()?.checked_div(self.trend.steps as u64)
    }
}

/// A figure that a profile has.
#[derive(Clone, Copy)]
struct KnownFigure {
    /// Index of the profile.
    at: usize,
    bytes: u64,
}

/// What fills the device: reserved memory, which has room for the peak and may grow by segments.
fn reserved(figures: &PointFigures) -> Option<u64> {
    figures.reserved.or(figures.peak)
}

/// A figure of every profile that has it.
fn known(figures: &[Option<PointFigures>], value: fn(&PointFigures) -> Option<u64>) -> Vec<KnownFigure> {
    let all = figures.iter().enumerate();
    all.filter_map(|(at, figures)| Some(KnownFigure { at, bytes: value(figures.as_ref()?)? })).collect()
}

fn bytes(known: &[KnownFigure]) -> Vec<u64> {
    known.iter().map(|known| known.bytes).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;
    const NONE: [usize; 0] = [];

    /// The steps of peaks in MiB.
    fn steps(peaks: impl IntoIterator<Item = u64>) -> Vec<usize> {
        changes(&peaks.into_iter().map(|peak| peak * MIB).collect::<Vec<_>>(), None)
    }

    #[test]
    fn every_change_of_a_short_series_is_a_step() {
        assert_eq!(steps([100, 200]), [1]);
        assert_eq!(steps([100, 200, 200]), [1]);
        assert_eq!(steps([100, 100, 200, 150]), [2, 3]);
        assert_eq!(changes(&[100 * MIB, 101 * MIB - 1, 102 * MIB - 1], None), [2]);
        assert_eq!(changes(&[5, 5, 6], Some(0)), [2]);
    }

    #[test]
    fn steps_and_single_nights_stand_out_in_a_long_series() {
        assert_eq!(steps((0..30).map(|night| 100 + night / 20 * 50)), [20]);
        assert_eq!(steps((0..30).map(|night| if night == 12 { 150 } else { 100 })), [12, 13]);
        assert_eq!(steps((0..9).map(|night| 100 + night / 8)), [8]);
    }

    /// A peak that differs every night.
    fn noisy(night: u64) -> u64 {
        100 + night * 7 % 5
    }

    #[test]
    fn what_every_night_brings_is_no_step() {
        assert_eq!(steps((0..30).map(noisy)), NONE);
        assert_eq!(steps((0..30).map(|night| noisy(night) + night / 20 * 50)), [20]);
        assert_eq!(steps((0..30).map(|night| noisy(night) + if night == 12 { 50 } else { 0 })), [12, 13]);
    }

    #[test]
    fn every_change_of_the_given_size_is_a_step() {
        let peaks: Vec<u64> = (0..10).map(|night| noisy(night) * MIB).collect();
        assert_eq!(changes(&peaks, Some(MIB)), (1..10).collect::<Vec<_>>());
        assert_eq!(changes(&peaks, Some(3 * MIB)), [3, 5, 8]);
    }

    #[test]
    fn of_steady_growth_the_beginning_is_a_step() {
        assert_eq!(steps((0..30).map(|night| 100 + night * 5)), NONE);
        assert_eq!(steps((0..30_u64).map(|night| 100 + night.saturating_sub(10) * 5)), [11]);
    }
}

//! Finds the stacks that grow over a series of snapshots, or over the steps of one.
//!
//! A leak is not a higher peak but memory that does not come back. In a series, a stack leaks that holds more at the
//! end of nearly every snapshot than at the end of the one before. Within one snapshot, a stack leaks that
//! leaves blocks behind in nearly every step, which are still held where the last step begins.

mod device;
mod series;
mod steps;
mod trend;

pub use device::{DeviceLeaks, FailedRequests, TotalsGrowth, UnclearLeaks};
pub use series::over;
pub use steps::search;
pub use trend::{Growing, Trend, course_changes};

use std::cmp::Reverse;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use crate::budget::DeviceMemory;
use ptmem_base::device::DeviceId;
use ptmem_base::diagnostic::{Code, Diagnostic};
use ptmem_base::units::{Delta, approximate};
use ptmem_snapshot::snapshot::{RunFacts, StackId, Tables};
pub use ptmem_trace::phase::steps::{StepName, WantedSteps};
use ptmem_trace::profile::{Bucket, Held, Moment, Profile, ReadOptions, Source};
use ptmem_trace::stack::{self, GroupBy, Grouper, Label, More, Rules};

/// The subject of a search.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// Snapshots, one after the other.
    #[default]
    Series,
    /// The steps of one snapshot.
    Steps,
}

impl Mode {
    /// The unit of the search: a `snapshot` or a `step`.
    #[must_use]
    pub fn noun(self) -> &'static str {
        match self {
            Self::Series => "snapshot",
            Self::Steps => "step",
        }
    }
}

/// When something is a leak.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct LeakOptions {
    /// How to read the snapshots; their stacks are those at the end of each, whatever moment this names.
    pub reading: ReadOptions,
    /// Number of snapshots or steps that are warm-up. By default none of a series, and the first of the steps.
    pub skip: Option<usize>,
    /// Bytes that a stack must have gained in total. By default 1 MiB over a series; steps show a leak of any size.
    pub min_growth: Option<u64>,
    /// The share of the steps, from 0 to 1, in which it must have grown. By default 80 %.
    pub min_share: Option<f64>,
    /// The steps to look for in a single snapshot.
    pub steps: WantedSteps,
    /// Memory of the device in bytes, to compute when it runs out.
    pub device_memory: Option<DeviceMemory>,
    /// Memory may run out: the program probes for the most that fits.
    pub allow_oom: bool,
}

/// Default of `LeakOptions::min_share`. Needed for dumps of `corners/streams`.
pub const MIN_SHARE: f64 = 0.8;

impl LeakOptions {
    /// How to read the snapshots: only the end of each matters for a series.
    #[must_use]
    pub fn reading(&self) -> ReadOptions {
        ReadOptions { at: Moment::End, ..self.reading.clone() }
    }

    fn min_share(&self) -> f64 {
        self.min_share.unwrap_or(MIN_SHARE)
    }

    /// The least growth of a stack over a series, and of totals.
    fn least_growth(&self) -> u64 {
        self.min_growth.unwrap_or(WORTH_TELLING)
    }

    /// True if it grew in enough of the steps that count.
    fn is_steady(&self, grew: usize, judged: usize) -> bool {
        grew > 0 && share(grew, judged) >= self.min_share()
    }
}

/// The share of the steps that count in which something grew.
fn share(grew: usize, judged: usize) -> f64 {
    approximate(grew as u64) / approximate(judged.max(1) as u64)
}

/// The memory that a leak holds; each has a limit of its own.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Default,
    serde::Serialize,
    strum::EnumIter,
    strum::EnumString,
    strum::IntoStaticStr,
)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum LeakMetric {
    /// Allocated bytes.
    #[default]
    Allocated,
    /// Reserved bytes that are not active.
    Fragmentation,
    /// Allocated bytes that only reference cycles hold.
    Cycles,
}

impl LeakMetric {
    /// The heading of the table of those that grow.
    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            Self::Allocated => "what leaks",
            Self::Fragmentation => "reserved memory that nothing uses",
            Self::Cycles => "held by reference cycles until Python's garbage collector runs",
        }
    }
}

/// A stack that leaks.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Leak {
    /// The memory that it holds.
    pub metric: LeakMetric,
    /// Its name.
    pub label: String,
    /// Its key in comparisons.
    pub key: String,
    /// Set where the stack is not known.
    pub bucket: Option<Bucket>,
    /// The stack that leaks most of those that are compared as one.
    pub stack: Option<StackId>,
    /// The names of the others of those, without those of the same name, as many as people read. Of stacks that grow only
    /// together: those that grew most.
    pub also: Vec<String>,
    /// How many lines or operators it sums beside the one that it is named after.
    pub more: More,
    /// Bytes that it gained in the steps that count.
    pub bytes: i128,
    /// Blocks that it gained in the steps that count.
    pub blocks: i128,
    /// Bytes that it gains per snapshot or step.
    pub bytes_per_step: i128,
    /// The snapshot after which it began to grow; `None` where it grew from the beginning.
    pub since: Option<String>,
    /// The number of steps that count in which it grew.
    pub grew: usize,
    /// Number of steps that count.
    pub judged: usize,
    /// Bytes and blocks that it holds at the end.
    pub end: Held,
    /// A digest of the proportion in which it gained blocks in the steps that count; `None` if it gained none.
    pub rounds: Option<u64>,
    /// Bytes at the end of each snapshot that counts; of steps, those that they and the ones before left behind.
    pub course: Vec<u64>,
}

impl Leak {
    /// The share of the steps that count in which it grew, from 0 to 1.
    #[must_use]
    pub fn share(&self) -> f64 {
        share(self.grew, self.judged)
    }

    /// Blocks that it gains per snapshot or step, with one decimal where they are not whole.
    #[must_use]
    pub fn blocks_per_step(&self) -> String {
        let blocks = approximate(self.blocks) / approximate(self.judged.max(1) as u64);
        if blocks.fract() == 0.0 { format!("{blocks}") } else { format!("{blocks:.1}") }
    }
}

/// A digest of numbers, divided by their greatest common divisor; `None` if all are 0.
fn proportion(numbers: &[i128]) -> Option<u64> {
    let divisor = numbers.iter().fold(0, |divisor, number| greatest_common_divisor(divisor, number.abs()));
    let mut digest = DefaultHasher::new();
    numbers.iter().for_each(|number| number.checked_div(divisor).hash(&mut digest));
    (divisor > 0).then(|| digest.finish())
}

fn greatest_common_divisor(a: i128, b: i128) -> i128 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

/// Puts the fastest first, and equal ones in an order that is always the same.
fn sort(leaks: &mut [Leak]) {
    leaks.sort_by_cached_key(|leak| (Reverse(leak.bytes_per_step), leak.label.clone(), leak.key.clone()));
}

/// Names of one leak that are listed beside the first.
const MOST_NAMES: usize = 4;

/// The label of reserved memory that nothing uses.
const FRAGMENTATION: &str = "<fragmentation>";

impl Leak {
    /// The same leak with the stacks that leak as one, the largest first. Those of a tag go by its name.
    fn of_stacks(self, grouper: &Grouper<'_>, stacks: &[StackId]) -> Self {
        let named = if grouper.by().is_tag() { &[] } else { stacks };
        let mut labels: Vec<String> = Vec::new();
        for label in named.iter().map(|&stack| grouper.label(stack)) {
            if labels.len() <= MOST_NAMES && !labels.contains(&label) {
                labels.push(label);
            }
        }
        let by_stack = named.iter().filter(|_| grouper.by() == GroupBy::Stack);
        let parts: Vec<Label> = by_stack.map(|&stack| grouper.code().label_parts(stack)).collect();
        let also = labels.split_off(labels.len().min(1));
        Self { stack: stacks.first().copied(), also, more: More::of(parts.iter()), ..self }
    }
}

/// The remark on reserved memory that nothing uses and that grows with each of what a noun names.
fn fragmentation_grows(device: DeviceId, noun: &str, leak: &Leak) -> Diagnostic {
    let message = format!(
        "unused reserved bytes grow by {} per {noun}, {} in all; look for sizes that vary, or set expandable_segments",
        Delta(leak.bytes_per_step).to_string().trim_start_matches('+'),
        Delta(leak.bytes).to_string().trim_start_matches('+'),
    );
    Diagnostic::new(Code::FragmentationGrows, device, message)
}

/// The remark on leaks of which the recordings do not say whether only reference cycles hold them.
fn cycles_unknown(device: DeviceId, mode: Mode) -> Diagnostic {
    let how = match mode {
        Mode::Steps => "record with ptmem_gate.record(), which notes that, or call gc.collect() before the dump",
        Mode::Series => "call gc.collect() before each dump",
    };
    let message = format!("it is not known whether Python's garbage collector would free what leaks: {how}");
    Diagnostic::new(Code::CyclesUnknown, device, message)
}

/// The bytes that a device holds at the end of a snapshot or step. `None` is "cannot be known".
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeriesPoint {
    /// The name of the snapshot or step.
    pub name: StepName,
    /// Allocated bytes.
    pub allocated: Option<u64>,
    /// Reserved bytes.
    pub reserved: Option<u64>,
    /// Reserved bytes that are not active.
    pub fragmentation: Option<u64>,
    /// The most active bytes within a step.
    pub active_peak: Option<u64>,
}

impl SeriesPoint {
    /// Active bytes at its end.
    fn active(&self) -> Option<u64> {
        Some(self.reserved?.saturating_sub(self.fragmentation?))
    }
}

/// The findings in a series of snapshots, or in one.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Search {
    /// Its name, where there are several.
    pub name: Option<String>,
    /// The rank that the snapshots are of, where there are several.
    pub rank: Option<u64>,
    /// The files of the snapshots.
    pub sources: Vec<Source>,
    /// The subject of a search.
    pub mode: Mode,
    /// Per device that did anything.
    pub devices: Vec<DeviceLeaks>,
    /// Notes and warnings about it.
    pub diagnostics: Vec<Diagnostic>,
    /// The reason why the only snapshot, or the latest of a series, is not of a whole run.
    pub failure: Option<String>,
    /// The grouping of stacks.
    pub group_by: GroupBy,
    /// The frames that [`Leak::stack`] refers to.
    tables: Arc<Tables>,
    rules: Rules,
}

impl Search {
    /// The findings on the devices. `latest` is the only snapshot, or the latest of a series. Leaks refer to its
    /// stacks.
    fn new(mode: Mode, latest: &Profile, devices: Vec<DeviceLeaks>, diagnostics: Vec<Diagnostic>) -> Self {
        // Without a leak the report shows no stack.
        let has_leaks = devices.iter().any(|device| !device.leaks.is_empty());
        Self {
            sources: vec![latest.source.clone()],
            mode,
            devices,
            diagnostics,
            failure: latest.run.as_ref().and_then(RunFacts::failure),
            group_by: latest.options.group_by,
            tables: if has_leaks { Arc::clone(&latest.tables) } else { Arc::default() },
            rules: latest.options.rules.clone(),
            ..Self::default()
        }
    }

    /// The frames of its stacks.
    #[must_use]
    pub fn code(&self) -> stack::SnapshotCode<'_> {
        stack::SnapshotCode::new(&self.tables, &self.rules, &[])
    }

    /// The frames that [`Leak::stack`] refers to.
    #[must_use]
    pub fn tables(&self) -> &Tables {
        &self.tables
    }

    /// True if a remark of this code was made on a device.
    #[must_use]
    pub fn says(&self, device: &DeviceLeaks, code: Code) -> bool {
        self.diagnostics.iter().any(|found| found.device == Some(device.device) && found.code == code)
    }

    /// All leaks with their devices, the fastest of each device first.
    pub fn leaks(&self) -> impl Iterator<Item = (&DeviceLeaks, &Leak)> + Clone {
        self.devices.iter().flat_map(|device| device.leaks.iter().map(move |leak| (device, leak)))
    }
}

/// The least growth of totals that is reported, in bytes. Needed for dumps of `corners/streams`.
const WORTH_TELLING: u64 = 1 << 20;

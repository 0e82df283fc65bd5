//! The keys that name figures and devices.

use ptmem_base::device::DeviceId;

use super::super::metric::{Metric, Point};
use crate::profile::Serving;
use crate::trace::Measure;

/// A figure that inputs state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum FigureKey {
    Counter(Measure, Stage),
    Serving(Serving),
}

/// A value of a counter that inputs state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Stage {
    Peak,
    End,
}

/// The keys that name a counter, beside `allocated_bytes.all.peak` and its like, and the metrics of this tool: functions of
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

/// The key of the number of failed allocations.
pub(super) const FAILED_COUNT: &str = "num_ooms";

const STAGES: [(&str, Stage); 2] = [("peak", Stage::Peak), ("current", Stage::End)];

/// The figure that a key names.
pub(super) fn figure_of(key: &str) -> Option<FigureKey> {
    counter_of(key).or_else(|| Serving::named(key).map(FigureKey::Serving))
}

/// The value of a counter that a key names.
pub(super) fn counter_of(key: &str) -> Option<FigureKey> {
    let named = KEYS.into_iter().find(|(name, ..)| *name == key).map(|(_, measure, stage)| (measure, stage));
    let found = named.or_else(|| of_metric(key)).or_else(|| {
        let (counter, stage) = key.split_once(".all.")?;
        let (_, stage) = STAGES.into_iter().find(|(name, _)| *name == stage)?;
        Some((counter.strip_suffix("_bytes")?.parse().ok()?, stage))
    });
    found.map(|(measure, stage)| FigureKey::Counter(measure, stage))
}

/// The value that the name of a metric stands for.
fn of_metric(key: &str) -> Option<(Measure, Stage)> {
    let metric = Metric::ALL.into_iter().find(|metric| metric.name() == key)?;
    match metric.point() {
        Point::Peak => Some((metric.measure(), Stage::Peak)),
        Point::End => Some((metric.measure(), Stage::End)),
        Point::Start | Point::UnusedAtPeak => None,
    }
}

/// The number of a device by its name in PyTorch: `cuda:1`, `xpu:0`.
pub(super) fn device_of(key: &str) -> Option<DeviceId> {
    let (kind, number) = key.split_once(':')?;
    // `cuda:host` names neither a device nor pinned memory.
    let ordinal: u32 = number.parse().ok()?;
    kind.bytes().all(|letter| letter.is_ascii_lowercase()).then(|| ordinal.into())
}

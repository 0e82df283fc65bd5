//! `ptmem.scale/1`: how memory scales with what was varied.

use serde::Serialize;

use super::shared::{BudgetReport, DiagnosticReport, TOOL, Tool};
use crate::profile::Bucket;
use crate::scale::{Check, DeviceScale, Fit, Forecast, Full, MomentScale, Range, Run, Scale, StackScale};
use crate::text::printable;

/// The report of several runs.
#[derive(Debug, Serialize)]
pub(super) struct ScaleReport<'a> {
    schema: &'static str,
    tool: Tool,
    group_by: String,
    aligned: bool,
    /// By what was varied.
    runs: Vec<RunReport<'a>>,
    devices: Vec<DeviceReport>,
    diagnostics: Vec<DiagnosticReport<'a>>,
}

#[derive(Debug, Serialize)]
struct RunReport<'a> {
    path: &'a str,
    x: f64,
}

#[derive(Debug, Serialize)]
struct DeviceReport {
    device: u32,
    /// One for each run.
    peaks: Vec<Option<u64>>,
    reserved: Vec<Option<u64>>,
    forecasts: Vec<ForecastReport>,
    check: Option<CheckReport>,
    #[serde(skip_serializing_if = "Option::is_none")]
    device_memory: Option<BudgetReport>,
    full: Option<FullReport>,
    /// Moments that may be the peak.
    moments: Vec<MomentReport>,
}

#[derive(Debug, Serialize)]
struct MomentReport {
    stacks: Vec<StackReport>,
}

#[derive(Debug, Serialize)]
struct ForecastReport {
    x: f64,
    moment: usize,
    peak: RangeReport,
    reserved: Option<RangeReport>,
}

#[derive(Debug, Serialize)]
struct RangeReport {
    low: u64,
    best: u64,
    high: u64,
}

#[derive(Debug, Serialize)]
struct CheckReport {
    x: f64,
    predicted: u64,
    peak: u64,
}

#[derive(Debug, Serialize)]
struct FullReport {
    earliest: Option<f64>,
    best: Option<f64>,
    latest: Option<f64>,
}

#[derive(Debug, Serialize)]
struct StackReport {
    label: String,
    bucket: Option<&'static str>,
    shape: &'static str,
    constant: f64,
    linear: f64,
    quadratic: f64,
    misses: u64,
    /// One for each run.
    bytes: Vec<u64>,
}

impl<'a> ScaleReport<'a> {
    pub(super) fn new(scale: &'a Scale) -> Self {
        Self {
            schema: "ptmem.scale/1",
            tool: TOOL,
            group_by: scale.group_by.to_string(),
            aligned: scale.is_aligned(),
            runs: scale.runs.iter().map(|Run { path, x }| RunReport { path, x: *x }).collect(),
            devices: scale.devices.iter().map(DeviceReport::new).collect(),
            diagnostics: scale.diagnostics.iter().map(DiagnosticReport::new).collect(),
        }
    }
}

impl DeviceReport {
    fn new(device: &DeviceScale) -> Self {
        Self {
            device: device.device,
            peaks: device.peaks.clone(),
            reserved: device.reserved.clone(),
            forecasts: device.forecasts.iter().map(ForecastReport::new).collect(),
            check: device.check.map(CheckReport::new),
            device_memory: device.budget.map(BudgetReport::from),
            full: device.full.map(FullReport::new),
            moments: device.moments.iter().map(MomentReport::new).collect(),
        }
    }
}

impl MomentReport {
    fn new(moment: &MomentScale) -> Self {
        Self { stacks: moment.stacks.iter().map(StackReport::new).collect() }
    }
}

impl ForecastReport {
    fn new(forecast: &Forecast) -> Self {
        Self {
            x: forecast.x,
            moment: forecast.moment,
            peak: RangeReport::new(forecast.peak),
            reserved: forecast.reserved.map(RangeReport::new),
        }
    }
}

/// Bytes of an estimate, which is never below 0.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the cast saturates")]
fn bytes(estimate: f64) -> u64 {
    estimate.round() as u64
}

impl RangeReport {
    fn new(range: Range) -> Self {
        Self { low: bytes(range.low), best: bytes(range.best), high: bytes(range.high) }
    }
}

impl CheckReport {
    fn new(check: Check) -> Self {
        Self { x: check.x, predicted: bytes(check.predicted), peak: check.peak }
    }
}

impl FullReport {
    fn new(full: Full) -> Self {
        Self { earliest: full.earliest, best: full.best, latest: full.latest }
    }
}

impl StackReport {
    fn new(stack: &StackScale) -> Self {
        let Fit { shape, best, misses, .. } = &stack.fit;
        Self {
            label: printable(&stack.track.label),
            bucket: stack.track.bucket.map(Bucket::code),
            shape: shape.name(),
            constant: best.constant,
            linear: best.linear,
            quadratic: best.quadratic,
            misses: bytes(*misses),
            bytes: stack.track.held.iter().map(|held| held.bytes).collect(),
        }
    }
}

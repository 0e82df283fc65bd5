//! `ptmem.history/1`: the memory of a code base over time.

use serde::Serialize;

use super::shared::{BudgetReport, DiagnosticReport, TOOL, Tool};
use crate::history::{DeviceHistory, Figures, History, Outlook, Point, Step};
use crate::profile::Bucket;
use crate::text::printable;
use crate::tracks::StackTrack;

/// The report of a series of profiles.
#[derive(Debug, Serialize)]
pub(super) struct HistoryReport<'a> {
    schema: &'static str,
    tool: Tool,
    group_by: String,
    /// The oldest first.
    profiles: Vec<PointReport<'a>>,
    devices: Vec<DeviceReport>,
    skipped: Vec<SkippedReport<'a>>,
    diagnostics: Vec<DiagnosticReport<'a>>,
}

#[derive(Debug, Serialize)]
struct PointReport<'a> {
    name: &'a str,
    commit: Option<&'a str>,
    time: Option<i64>,
    subject: Option<String>,
}

#[derive(Debug, Serialize)]
struct SkippedReport<'a> {
    path: &'a str,
    reason: &'a str,
}

#[derive(Debug, Serialize)]
struct DeviceReport {
    device: u32,
    /// One for each profile; null where that lacks the device.
    figures: Vec<Option<FiguresReport>>,
    steps: Vec<StepReport>,
    #[serde(skip_serializing_if = "Option::is_none")]
    device_memory: Option<BudgetReport>,
    outlook: Option<OutlookReport>,
    stacks: Vec<StackReport>,
}

#[derive(Debug, Serialize)]
struct FiguresReport {
    peak: Option<u64>,
    reserved: Option<u64>,
    end: u64,
}

#[derive(Debug, Serialize)]
struct StepReport {
    profile: usize,
    before: u64,
    after: u64,
    delta: i128,
    stacks: Vec<ChangeReport>,
}

#[derive(Debug, Serialize)]
struct ChangeReport {
    label: String,
    delta: i128,
}

#[derive(Debug, Serialize)]
struct OutlookReport {
    per_profile: i128,
    grows: bool,
    headroom: Option<u64>,
    full_after: Option<u64>,
    full_after_seconds: Option<u64>,
}

#[derive(Debug, Serialize)]
struct StackReport {
    label: String,
    bucket: Option<&'static str>,
    /// One for each profile.
    bytes: Vec<u64>,
    blocks: Vec<u64>,
}

impl<'a> HistoryReport<'a> {
    pub(super) fn new(history: &'a History) -> Self {
        Self {
            schema: "ptmem.history/1",
            tool: TOOL,
            group_by: history.group_by.to_string(),
            profiles: history.points.iter().map(PointReport::new).collect(),
            devices: history.devices.iter().map(DeviceReport::new).collect(),
            skipped: history.skipped.iter().map(|(path, reason)| SkippedReport { path, reason }).collect(),
            diagnostics: history.diagnostics.iter().map(DiagnosticReport::new).collect(),
        }
    }
}

impl<'a> PointReport<'a> {
    fn new(point: &'a Point) -> Self {
        let commit = point.commit.as_ref();
        Self {
            name: &point.name,
            commit: commit.map(|commit| commit.hash.as_str()),
            time: commit.map(|commit| commit.time),
            subject: commit.map(|commit| printable(&commit.subject)),
        }
    }
}

impl DeviceReport {
    fn new(device: &DeviceHistory) -> Self {
        Self {
            device: device.device,
            figures: device.figures.iter().map(|figures| figures.map(FiguresReport::new)).collect(),
            steps: device.steps.iter().map(StepReport::new).collect(),
            device_memory: device.budget.map(BudgetReport::from),
            outlook: device.outlook.map(OutlookReport::new),
            stacks: device.stacks.iter().map(StackReport::new).collect(),
        }
    }
}

impl FiguresReport {
    fn new(figures: Figures) -> Self {
        Self { peak: figures.peak, reserved: figures.reserved, end: figures.end }
    }
}

impl StepReport {
    fn new(step: &Step) -> Self {
        Self {
            profile: step.at,
            before: step.before,
            after: step.after,
            delta: step.change(),
            stacks: step.stacks.iter().map(ChangeReport::new).collect(),
        }
    }
}

impl ChangeReport {
    fn new((label, delta): &(String, i128)) -> Self {
        Self { label: printable(label), delta: *delta }
    }
}

impl OutlookReport {
    fn new(outlook: Outlook) -> Self {
        Self {
            per_profile: outlook.per_point,
            grows: outlook.grows,
            headroom: outlook.headroom,
            full_after: outlook.full_after,
            full_after_seconds: outlook.full_after_seconds,
        }
    }
}

impl StackReport {
    fn new(stack: &StackTrack) -> Self {
        Self {
            label: printable(&stack.label),
            bucket: stack.bucket.map(Bucket::code),
            bytes: stack.held.iter().map(|held| held.bytes).collect(),
            blocks: stack.held.iter().map(|held| held.blocks).collect(),
        }
    }
}

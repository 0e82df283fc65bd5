//! Objects that several contracts have in common.

use std::borrow::Cow;

use serde::ser::{Serialize, Serializer};

use crate::budget::DeviceBudget;
use crate::diagnostic::{Code, Diagnostic, Severity};
use crate::diff::{Change, DeviceDiff, Metric, Side, Sides};
use crate::profile::{DeviceProfile, Profile, RunFacts};
use crate::report::known;
use crate::snapshot::{FrameId, Tables};
use crate::units::percent;
use crate::verdict::{Check, Member};

/// The tool that wrote a report.
#[derive(Debug, serde::Serialize)]
pub(super) struct Tool {
    name: &'static str,
    version: &'static str,
}

/// This build.
pub(super) const TOOL: Tool = Tool { name: "ptmem", version: env!("CARGO_PKG_VERSION") };

/// An input.
#[derive(Debug, serde::Serialize)]
pub(super) struct SourceReport<'a> {
    path: &'a str,
    bytes: u64,
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    run: Option<RunReport<'a>>,
}

impl<'a> SourceReport<'a> {
    pub(super) fn new(profile: &'a Profile) -> Self {
        let source = &profile.source;
        let run = profile.run.as_ref().map(RunReport::new);
        Self { path: &source.path, bytes: source.bytes, kind: source.kind.name(), run }
    }
}

/// The run that an input was recorded from.
#[derive(Debug, serde::Serialize)]
struct RunReport<'a> {
    recorder: &'a str,
    first_step: Option<u64>,
    last_step: Option<u64>,
    /// The reason why it is not a whole run.
    failure: Option<String>,
    versions: Vec<VersionReport<'a>>,
    commit: Option<&'a str>,
    followed: Vec<FollowedReport<'a>>,
}

/// The version of a package.
#[derive(Debug, serde::Serialize)]
struct VersionReport<'a> {
    name: &'a str,
    version: &'a str,
}

/// What followed from values that are not known.
#[derive(Debug, serde::Serialize)]
struct FollowedReport<'a> {
    what: &'a str,
    count: u64,
    first: Option<&'a str>,
}

impl<'a> RunReport<'a> {
    fn new(run: &'a RunFacts) -> Self {
        let versions = run.versions.iter().map(|(name, version)| VersionReport { name, version });
        let followed = run.followed.iter();
        let followed =
            followed.map(|(what, count, first)| FollowedReport { what, count: *count, first: first.as_deref() });
        Self {
            recorder: &run.recorder,
            first_step: run.steps.map(|steps| steps.first),
            last_step: run.steps.map(|steps| steps.last),
            failure: run.failure(),
            versions: versions.collect(),
            commit: run.commit.as_deref(),
            followed: followed.collect(),
        }
    }
}

/// The memory of a device, and the part of it that PyTorch's allocator cannot have.
#[derive(Debug, serde::Serialize)]
pub(super) struct BudgetReport {
    memory: u64,
    overhead: u64,
    overhead_is: &'static str,
    context: Option<u64>,
    nccl: Option<u64>,
}

impl From<DeviceBudget> for BudgetReport {
    fn from(budget: DeviceBudget) -> Self {
        let DeviceBudget { memory, overhead } = budget;
        let estimate = overhead.estimate();
        Self {
            memory,
            overhead: overhead.bytes(),
            overhead_is: overhead.name(),
            context: estimate.map(|estimate| estimate.context),
            nccl: estimate.map(|estimate| estimate.nccl),
        }
    }
}

/// The place of a file in a job.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct RankNumbers {
    pub(super) rank: Option<u64>,
    pub(super) node: Option<u64>,
}

impl RankNumbers {
    pub(super) fn of(member: &Member) -> Self {
        Self { rank: member.rank.map(|rank| rank.number), node: member.rank.and_then(|rank| rank.node) }
    }
}

/// A frame of a stack.
#[derive(Debug, serde::Serialize)]
struct FrameReport<'a> {
    name: &'a str,
    filename: &'a str,
    line: i128,
}

/// The most text that the frames of one stack may take. Far beyond any real stack: a small file can refer to
/// one long name millions of times.
const MOST_FRAME_TEXT: usize = 1 << 20;

/// The frames of a stack, innermost first, which are looked up as they are written: a report may have millions.
#[derive(Debug)]
pub(super) struct Frames<'a> {
    tables: &'a Tables,
    ids: &'a [FrameId],
}

/// The frames of a stack; none where there is no stack.
pub(super) fn frames<'a>(tables: &'a Tables, ids: Option<&'a [FrameId]>) -> Frames<'a> {
    Frames { tables, ids: ids.unwrap_or_default() }
}

impl<'a> Frames<'a> {
    fn report(&self, id: FrameId) -> FrameReport<'a> {
        let frame = self.tables.frame(id);
        let name = self.tables.string(frame.name);
        FrameReport { name, filename: self.tables.string(frame.filename), line: frame.line }
    }
}

impl Serialize for Frames<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut text = 0;
        let fit = self.ids.iter().take_while(|id| {
            let FrameReport { name, filename, .. } = self.report(**id);
            text += name.len() + filename.len() + 64;
            text <= MOST_FRAME_TEXT
        });
        let fit = fit.count();
        let more = (fit < self.ids.len()).then_some(FrameReport { name: "<more frames>", filename: "", line: 0 });
        serializer.collect_seq(self.ids[..fit].iter().map(|id| self.report(*id)).chain(more))
    }
}

/// A diagnostic of one input.
#[derive(Debug, serde::Serialize)]
pub(super) struct DiagnosticReport<'a> {
    code: Code,
    severity: Severity,
    device: Option<u32>,
    message: &'a str,
}

impl<'a> DiagnosticReport<'a> {
    pub(super) fn new(found: &'a Diagnostic) -> Self {
        Self { code: found.code, severity: found.severity(), device: found.device, message: &found.message }
    }
}

/// A diagnostic of a comparison: it may concern one side.
#[derive(Debug, serde::Serialize)]
pub(super) struct SidedDiagnostic<'a> {
    code: Code,
    severity: Severity,
    side: Option<&'static str>,
    device: Option<u32>,
    message: Cow<'a, str>,
}

impl<'a> SidedDiagnostic<'a> {
    pub(super) fn new(side: Option<Side>, found: &'a Diagnostic) -> Self {
        Self::with_message(side, found, Cow::Borrowed(&found.message))
    }

    /// From a diagnostic that was combined from several ranks.
    pub(super) fn owned(side: Option<Side>, found: &Diagnostic) -> Self {
        Self::with_message(side, found, Cow::Owned(found.message.clone()))
    }

    fn with_message(side: Option<Side>, found: &Diagnostic, message: Cow<'a, str>) -> Self {
        Self { code: found.code, severity: found.severity(), side: side.map(Side::name), device: found.device, message }
    }
}

/// A limit and what came of it.
#[derive(Debug, serde::Serialize)]
pub(super) struct CheckReport<'a> {
    metric: String,
    scope: Option<&'a str>,
    device: Option<u32>,
    limit: &'a str,
    before: Option<u64>,
    after: Option<u64>,
    delta: Option<i128>,
    allowed: Option<u128>,
    level: &'static str,
    result: &'static str,
    accepted: bool,
    reason: Option<&'a str>,
}

impl<'a> CheckReport<'a> {
    pub(super) fn new(check: &'a Check) -> Self {
        Self {
            metric: check.of.name(),
            scope: check.scope.as_deref(),
            device: check.device,
            limit: &check.limit,
            before: check.before,
            after: check.after,
            delta: check.delta,
            allowed: check.allowed,
            level: check.level.name(),
            result: check.outcome.name(),
            accepted: check.accepted,
            reason: check.reason.as_deref(),
        }
    }
}

/// A figure on both sides.
#[derive(Debug, serde::Serialize)]
pub(super) struct ChangeReport {
    before: Option<u64>,
    after: Option<u64>,
    delta: Option<i128>,
    percent: Option<f64>,
}

impl ChangeReport {
    pub(super) fn new(change: Change) -> Self {
        let Change { before, after } = change;
        let percent = before.zip(change.delta()).and_then(|(before, delta)| percent(delta, before));
        Self { before, after, delta: change.delta(), percent }
    }
}

/// Every metric of a pair of devices, by name, in the order of [`Metric::ALL`]; null where it is not known.
#[derive(Debug)]
pub(super) struct Metrics<'a> {
    pub(super) device: &'a DeviceDiff,
    pub(super) profiles: &'a Sides<Profile>,
}

impl Serialize for Metrics<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let changes = Metric::ALL.map(|metric| (metric.name(), known::change(metric, self.device, self.profiles)));
        serializer.collect_map(changes.map(|(name, change)| (name, ChangeReport::new(change))))
    }
}

/// Every metric of one device, by name, in the order of [`Metric::ALL`]; null where it is not known.
#[derive(Debug)]
pub(super) struct Values<'a>(pub(super) Option<&'a DeviceProfile>);

impl Values<'_> {
    fn of(&self, metric: Metric) -> Option<u64> {
        self.0.and_then(|device| known::value(metric, device))
    }
}

impl Serialize for Values<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(Metric::ALL.map(|metric| (metric.name(), self.of(metric))))
    }
}

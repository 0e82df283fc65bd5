//! Objects that several contracts have in common.

use std::collections::BTreeMap;

use ptmem_base::diagnostic::Diagnostic;
use ptmem_base::units::percent;
use ptmem_compare::budget::DeviceBudget;
use ptmem_compare::diff::{Change, DeviceDiff, Metric, Side, Sides};
use ptmem_compare::tree::{Tree, TreeLayout, TreeLine};
use ptmem_judge::verdict::{Check, Member};
use ptmem_snapshot::snapshot::{FrameId, StackId, Tables};
use ptmem_trace::profile::{DeviceProfile, PrivatePool, Profile, RunFacts, others};
use serde::ser::{Serialize, SerializeMap, Serializer};

use crate::known;
use ptmem_base::json_writer::{Object, list, object};

object! {
    /// The tool that wrote a report: this build.
    pub Tool() {
        name: "ptmem",
        version: env!("CARGO_PKG_VERSION"),
    }
}

object! {
    /// An input.
    pub(super) SourceReport<'a>(profile: &'a Profile) {
        path: profile.source.path,
        bytes: profile.source.bytes,
        kind: profile.source.kind.name(),
        run?: profile.run.as_ref().map(RunReport),
    }
}

object! {
    /// The run that an input was recorded from.
    RunReport<'a>(run: &'a RunFacts) {
        recorder: run.recorder,
        first_step: run.steps.map(|steps| steps.first),
        last_step: run.steps.map(|steps| steps.last),
        // The reason why it is not a whole run.
        failure: run.failure(),
        versions: list(run.versions.iter().map(|(name, version)| BTreeMap::from([("name", name), ("version", version)]))),
        commit: run.commit,
        followed: list(run.followed.iter().map(|(what, count, first)| FollowedReport(what, *count, first.as_deref()))),
    }
}

object! {
    /// What followed from values that are not known.
    FollowedReport<'a>(what: &'a str, count: u64, first: Option<&'a str>) {
        what,
        count,
        first,
    }
}

object! {
    /// The memory of a device, and the part of it that PyTorch's allocator cannot have.
    pub BudgetReport(budget: DeviceBudget) {
        memory: budget.memory,
        overhead: budget.overhead.bytes(),
        overhead_is: budget.overhead.name(),
        context: budget.overhead.estimate().map(|estimate| estimate.context),
        nccl: budget.overhead.estimate().map(|estimate| estimate.nccl),
    }
}

object! {
    /// Private pools at the end of the recording.
    pub(super) PoolReport<'a>(pool: &'a PrivatePool) {
        pools: pool.pools,
        segments: pool.segments,
        reserved: pool.reserved,
        allocated: pool.allocated,
        active: pool.active,
        // Bytes that only further allocations in these pools can use.
        free: pool.free(),
    }
}

object! {
    /// The place of a file in a job, which may be a job of one process.
    pub(super) PlaceInJob<'a>(member: Option<&'a Member>) {
        rank: member.and_then(|member| member.rank).map(|rank| rank.number),
        node: member.and_then(|member| member.rank?.node),
    }
}

object! {
    /// A frame of a stack.
    FrameReport<'a>(name: &'a str, filename: &'a str, line: i128) {
        name,
        filename,
        line,
    }
}

/// The most text that the frames of one stack may take. Far beyond any real stack: a small file can refer to
/// one long name millions of times.
const MOST_FRAME_TEXT: usize = 1 << 20;

/// The frames of a stack, innermost first.
pub(super) struct JsonFrames<'a> {
    tables: &'a Tables,
    ids: &'a [FrameId],
}

impl<'a> JsonFrames<'a> {
    /// Its own frames; empty without a stack.
    pub(super) fn of(tables: &'a Tables, stack: Option<StackId>) -> Self {
        Self { tables, ids: stack.map(|stack| tables.stack(stack)).unwrap_or_default() }
    }

    /// Those of the forward pass that it belongs to.
    pub(super) fn forward(tables: &'a Tables, stack: Option<StackId>) -> Self {
        Self { tables, ids: stack.map(|stack| tables.forward(stack)).unwrap_or_default() }
    }

    fn report(&self, id: FrameId) -> FrameReport<'a> {
        let frame = self.tables.frame(id);
        FrameReport(self.tables.string(frame.name), self.tables.string(frame.filename), frame.line)
    }
}

impl Serialize for JsonFrames<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut text = 0;
        let fit = self.ids.iter().take_while(|id| {
            let FrameReport(name, filename, _) = self.report(**id);
            text += name.len() + filename.len() + 64;
            text <= MOST_FRAME_TEXT
        });
        let fit = fit.count();
        let more = (fit < self.ids.len()).then_some(FrameReport("<more frames>", "", 0));
        serializer.collect_seq(self.ids[..fit].iter().map(|id| self.report(*id)).chain(more))
    }
}

object! {
    /// A diagnostic of one input.
    pub DiagnosticReport<'a>(found: &'a Diagnostic) {
        code: found.code,
        severity: found.severity(),
        device: found.device,
        message: found.message,
    }
}

object! {
    /// A diagnostic of a comparison: it may concern one side.
    pub(super) SidedDiagnostic<'a>(side: Option<Side>, found: &'a Diagnostic) {
        side: side.map(Side::name),
        ..DiagnosticReport(found),
    }
}

object! {
    /// A limit and what came of it.
    pub(super) CheckReport<'a>(check: &'a Check) {
        metric: check.of.name(),
        scope: check.label(),
        device: check.device,
        limit: check.limit.text,
        before: check.figures.before,
        after: check.figures.after,
        delta: check.figures.delta,
        allowed: check.limit.allowed,
        level: check.limit.level.name(),
        result: check.outcome.name(),
        accepted: check.is_accepted(),
        reason: check.reason,
    }
}

object! {
    /// A figure on both sides.
    pub(super) ChangeReport(change: Change) {
        before: change.before,
        after: change.after,
        delta: change.gained(),
        percent: change.before.zip(change.gained()).and_then(|(before, delta)| percent(delta, before)),
    }
}

/// Every metric of a pair of devices, by name, in the order of [`Metric::ALL`]; null where it is not known.
pub(super) struct Metrics<'a>(pub(super) &'a DeviceDiff, pub(super) &'a Sides<Profile>);

impl Serialize for Metrics<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let changes = Metric::ALL.map(|metric| (metric.key(), known::change(metric, self.0, self.1)));
        serializer.collect_map(changes.map(|(name, change)| (name, ChangeReport(change))))
    }
}

/// Every metric of one device, by name, in the order of [`Metric::ALL`]; null where it is not known.
pub(super) struct MetricValues<'a>(pub(super) Option<&'a DeviceProfile>);

impl Object for MetricValues<'_> {
    fn fields<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        let value = |metric| self.0.and_then(|device| known::value(metric, device));
        Metric::ALL.into_iter().try_for_each(|metric| map.serialize_entry(&metric.key(), &value(metric)))
    }
}

/// The lines of a call tree as a flat list, of which each frame has at most `top` callees: nesting would be as deep as the stacks of
/// the input.
pub(super) struct TreeLines {
    pub(super) tree: Tree,
    pub(super) layout: TreeLayout,
}

impl Serialize for TreeLines {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let lines = self.tree.lines(self.layout);
        serializer.collect_seq(lines.iter().map(|line| LineReport(line, self.layout.changes)))
    }
}

object! {
    LineReport<'t>(of: &'t TreeLine<'t>, changes: bool) {
        depth: of.depth,
        name: name(of),
        path: of.chain.last().and_then(|node| node.frame.path.as_deref()),
        line: of.chain.last().and_then(|node| node.frame.line),
        bytes?: (!changes).then_some(of.held.after.bytes),
        blocks?: (!changes).then_some(of.held.after.blocks),
        before?: changes.then_some(of.held.before.bytes),
        after?: changes.then_some(of.held.after.bytes),
        delta?: changes.then(|| of.held.delta()),
        before_blocks?: changes.then_some(of.held.before.blocks),
        after_blocks?: changes.then_some(of.held.after.blocks),
    }
}

fn name(line: &TreeLine<'_>) -> String {
    match (line.chain.last(), line.others) {
        (Some(node), _) => node.frame.name.clone(),
        (None, 0) => "[itself]".to_owned(),
        (None, count) => others(count),
    }
}

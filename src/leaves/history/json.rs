//! `ptmem.history/1`: the memory of a code base over time.

use std::collections::BTreeMap;

use ptmem::profile::Bucket;
use ptmem::report::json::{BudgetReport, DiagnosticReport, Tool};
use ptmem::report::printable;
use ptmem::tracks::StackTrack;
use ptmem_base::json_writer::{list, object};

use super::course::{CoursePeak, CoursePoint, DeviceHistory, History};

object! {
    /// The report of a series of profiles, the oldest first.
    pub(super) HistoryReport<'a>(history: &'a History) {
        schema: "ptmem.history/1",
        tool: Tool(),
        group_by: history.group_by.to_string(),
        profiles: list(history.points.iter().map(PointReport)),
        devices: list(history.devices.iter().map(DeviceReport)),
        skipped: list(history.skipped.iter().map(|(path, reason)| BTreeMap::from([("path", path), ("reason", reason)]))),
        diagnostics: list(history.diagnostics.iter().map(DiagnosticReport)),
    }
}

object! {
    PointReport<'a>(point: &'a CoursePoint) {
        name: point.name,
        commit: point.commit.as_ref().map(|commit| &commit.hash),
        time: point.commit.as_ref().map(|commit| commit.time),
        subject: point.commit.as_ref().map(|commit| printable(&commit.subject)),
    }
}

object! {
    DeviceReport<'a>(device: &'a DeviceHistory) {
        device: device.device,
        // One for each profile; null where that lacks the device.
        figures: device.figures,
        steps: list(device.steps.iter().map(StepReport)),
        device_memory?: device.budget.map(BudgetReport),
        headroom?: device.headroom,
        outlook: device.outlook,
        stacks: list(device.stacks.iter().map(|stack| StackReport(stack, &device.has_stacks))),
    }
}

object! {
    StepReport<'a>(step: &'a CoursePeak) {
        profile: step.at,
        before: step.before,
        after: step.after,
        delta: step.change(),
        stacks: list(step.stacks.iter().map(|stack| ChangeReport(&stack.label, stack.change))),
    }
}

object! {
    ChangeReport<'a>(label: &'a str, delta: i128) {
        label: printable(label),
        delta,
    }
}

object! {
    /// A stack, with a figure for each profile; null where that has no stacks.
    StackReport<'a>(stack: &'a StackTrack, has_stacks: &'a [bool]) {
        label: printable(&stack.label),
        bucket: stack.bucket.map(Bucket::code),
        bytes: list(stack.in_each().zip(has_stacks).map(|(held, known)| known.then_some(held.bytes))),
        blocks: list(stack.in_each().zip(has_stacks).map(|(held, known)| known.then_some(held.blocks))),
    }
}

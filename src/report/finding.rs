//! Every check with what explains it: the line of the user, and the stack. What annotations and test reports are
//! made of.

use std::collections::HashMap;

use super::{Options, Subject};
use crate::diff::{DeviceDiff, Diff, Row, RowKind};
use crate::leak::Leak;
use crate::profile::{Profile, StackTotal};
use crate::stack::Code;
use crate::text::printable;
use crate::tree::{self, Frame};
use crate::units::{Delta, Size};
use crate::verdict::{self, Check, Judgement, Level, Outcome};

/// A line of the user's code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    /// From the root of the checkout where it is known there, else as people see it.
    pub(super) path: String,
    pub(super) line: u32,
}

/// A check with what explains it.
#[derive(Debug)]
pub(super) struct Finding<'a> {
    /// The name of the comparison, where there are several.
    pub(super) comparison: Option<&'a str>,
    /// What the device is called.
    pub(super) device: String,
    pub(super) check: &'a Check,
    /// The check in words.
    pub(super) sentence: String,
    /// The line that explains it.
    pub(super) place: Option<Place>,
    /// The call stack there, outermost frame first.
    pub(super) stack: Vec<(Frame, Option<Place>)>,
    /// The stacks that changed most, or hold most, one per line.
    pub(super) rows: Vec<String>,
}

impl Finding<'_> {
    /// Whether the gate fails by it, or cannot tell.
    pub(super) fn is_bad(&self) -> bool {
        self.check.outcome != Outcome::Pass
    }

    /// Whether it is an error rather than a warning.
    pub(super) fn is_error(&self) -> bool {
        self.is_bad() && self.check.level == Level::Fail
    }

    /// Identifier of the rule: the metric without its pattern.
    pub(super) fn rule(&self) -> &str {
        self.check.metric.split(':').next().unwrap_or_default()
    }
}

/// More rows than these explain nothing.
const MOST_ROWS: usize = 10;

/// All checks, in the order of the judgements.
pub(super) fn findings<'a>(subject: Subject<'a>, options: &Options) -> Vec<Finding<'a>> {
    match subject {
        Subject::Gate(gate) => gate
            .comparisons
            .iter()
            .flat_map(|comparison| {
                let name = comparison.name.as_deref();
                of_diff(name, &comparison.diff, &comparison.judgement, options)
            })
            .collect(),
        Subject::Profile(profile, Some(judgement)) => of_profile(profile, judgement, options),
        Subject::Profile(_, None) => Vec::new(),
        Subject::Leaks(gate) => gate.findings.iter().flat_map(|finding| of_leaks(finding, options)).collect(),
    }
}

fn of_diff<'a>(
    comparison: Option<&'a str>,
    diff: &Diff,
    judgement: &'a Judgement,
    options: &Options,
) -> Vec<Finding<'a>> {
    let codes = diff.codes();
    let by_key: HashMap<(Option<u32>, &str), &Row> = diff
        .devices
        .iter()
        .flat_map(|device| device.rows.iter().map(|row| ((device.ordinal(), row.key.as_str()), row)))
        .collect();
    let finding = |check: &'a Check| {
        let device = diff.devices.iter().find(|device| device.ordinal() == check.device);
        // What passes, or cannot be told, has nobody to blame.
        let exceeded = device.filter(|_| check.outcome == Outcome::Exceeded);
        let culprit = exceeded.and_then(|device| match &check.key {
            Some(key) => by_key.get(&(check.device, key.as_str())).copied(),
            None => grew_most(device, &codes.after),
        });
        let stack = culprit.and_then(|row| row.stack.after);
        // A check of one stack says it all itself.
        let rows = exceeded.filter(|_| check.key.is_none()).map(|device| {
            let grew = device.rows.iter().filter(|row| row.delta() > 0).take(MOST_ROWS);
            grew.map(|row| {
                let (before, after) = (Size(row.held.before.bytes), Size(row.held.after.bytes));
                format!(
                    "{:>12}  {before:>11} -> {after:>11}  {}",
                    Delta(row.delta()).to_string(),
                    printable(&row.label)
                )
            })
        });
        Finding {
            comparison,
            device: device.map_or_else(|| "all devices".to_owned(), DeviceDiff::name),
            check,
            sentence: printable(&judgement.sentence(check)),
            place: stack.and_then(|stack| place(&codes.after, codes.after.user_site(stack)?, options)),
            stack: stack.map(|stack| frames(&codes.after, stack, options)).unwrap_or_default(),
            rows: rows.into_iter().flatten().collect(),
        }
    };
    judgement.checks.iter().map(finding).collect()
}

/// The stack that explains the growth of a figure: that which grew most, before all one with a line of the user.
pub(super) fn grew_most<'d>(device: &'d DeviceDiff, after: &Code<'_>) -> Option<&'d Row> {
    let mut grew = device.rows.iter().filter(|row| row.kind == RowKind::Stack && row.delta() > 0);
    let first = grew.clone().next();
    grew.find(|row| row.stack.after.is_some_and(|stack| after.user_site(stack).is_some())).or(first)
}

fn of_profile<'a>(profile: &Profile, judgement: &'a Judgement, options: &Options) -> Vec<Finding<'a>> {
    let code = profile.code();
    let finding = |check: &'a Check| {
        let device = profile.devices.iter().find(|device| Some(device.device) == check.device);
        let exceeded = device.filter(|_| check.outcome == Outcome::Exceeded);
        let stacks = exceeded.map(|device| device.listed(MOST_ROWS, 1)).unwrap_or_default();
        let with_user = stacks.iter().filter_map(StackTotal::stack).find(|&stack| code.user_site(stack).is_some());
        let stack = with_user.or_else(|| stacks.first().and_then(StackTotal::stack));
        Finding {
            comparison: None,
            device: device.map_or_else(|| "all devices".to_owned(), |device| format!("device {}", device.device)),
            check,
            sentence: printable(&judgement.sentence(check)),
            place: stack.and_then(|stack| place(&code, code.user_site(stack)?, options)),
            stack: stack.map(|stack| frames(&code, stack, options)).unwrap_or_default(),
            rows: stacks
                .iter()
                .map(|total| format!("{:>11}  {}", Size(total.at.bytes), printable(&total.label)))
                .collect(),
        }
    };
    judgement.checks.iter().map(finding).collect()
}

/// A leak is a line of its own.
fn of_leaks<'a>(found: &'a verdict::Finding, options: &Options) -> Vec<Finding<'a>> {
    let verdict::Finding { search, judgement } = found;
    let code = search.code();
    let by_key: HashMap<(u32, &str), &Leak> =
        search.leaks().map(|(device, leak)| ((device.device, leak.key.as_str()), leak)).collect();
    let finding = |check: &'a Check| {
        let device = search.devices.iter().find(|device| Some(device.device) == check.device);
        let leak = check.device.zip(check.key.as_deref()).and_then(|key| by_key.get(&key));
        let stack = leak.and_then(|leak| leak.stack);
        Finding {
            comparison: search.name.as_deref(),
            device: device.map_or_else(|| "all devices".to_owned(), |device| format!("device {}", device.device)),
            check,
            sentence: printable(&judgement.sentence(check)),
            place: stack.and_then(|stack| place(&code, code.user_site(stack)?, options)),
            stack: stack.map(|stack| frames(&code, stack, options)).unwrap_or_default(),
            rows: Vec::new(),
        }
    };
    judgement.checks.iter().map(finding).collect()
}

fn frames(code: &Code<'_>, stack: crate::snapshot::StackId, options: &Options) -> Vec<(Frame, Option<Place>)> {
    let mut ids = code.telling(stack);
    ids.reverse();
    let mut ids = ids.into_iter();
    let place = |frame: &Frame, ids: &mut dyn Iterator<Item = crate::snapshot::FrameId>| {
        frame.path.as_ref()?;
        place(code, ids.next()?, options)
    };
    tree::frames(code, stack).into_iter().map(|frame| (frame.clone(), place(&frame, &mut ids))).collect()
}

/// Where a frame is in the checkout.
pub(super) fn place(code: &Code<'_>, frame: crate::snapshot::FrameId, options: &Options) -> Option<Place> {
    let path = options.checkout.get(code.file(frame)).map_or_else(|| code.path(frame), String::as_str);
    Some(Place { path: path.to_owned(), line: code.line(frame)? })
}

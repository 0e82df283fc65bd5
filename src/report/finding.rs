//! Every check with what explains it: the line of the user, and the stack. What annotations and test reports are
//! made of.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::rc::Rc;

use super::{Options, Part, Subject};
use crate::diff::{DeviceDiff, Diff, Row, RowKind, Sides};
use crate::leak::Leak;
use crate::profile::{Profile, StackTotal};
use crate::stack::Code;
use crate::text::printable;
use crate::tree::{self, Frame};
use crate::units::{Delta, Size};
use crate::verdict::{self, Check, Judgement, Level, Member, Outcome, Ranks, numbers};

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
    /// Which rank of a job it is of, and what the comparison of that job is called.
    pub(super) member: Option<(&'a Member, Option<&'a str>)>,
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

/// What is known of frames, kept for comparisons that share them.
#[derive(Default)]
pub(super) struct Codes<'a> {
    last: Option<(&'a Diff, Rc<Sides<Code<'a>>>)>,
}

impl<'a> Codes<'a> {
    pub(super) fn of(&mut self, diff: &'a Diff) -> Rc<Sides<Code<'a>>> {
        match &self.last {
            Some((last, codes)) if last.shares_frames(diff) => Rc::clone(codes),
            _ => {
                let codes = Rc::new(diff.codes());
                self.last = Some((diff, Rc::clone(&codes)));
                codes
            }
        }
    }
}

/// All checks, in the order of the judgements.
pub(super) fn findings<'a>(subject: Subject<'a>, options: &Options) -> Vec<Finding<'a>> {
    match subject {
        Subject::Gate(gate) => {
            let mut known = Codes::default();
            let mut found = Vec::new();
            for (at, comparison) in gate.comparisons.iter().enumerate() {
                let job = gate.ranks.iter().find(|ranks| ranks.members.contains(&at));
                let member = comparison.member.as_ref().zip(job.map(|job| job.name.as_deref()));
                let (name, diff) = (comparison.name.as_deref(), &comparison.diff);
                let of_diff = of_diff(name, diff, &known.of(diff), &comparison.judgement, options);
                found.extend(of_diff.into_iter().map(|finding| Finding { member, ..finding }));
            }
            found.extend(gate.ranks.iter().flat_map(of_ranks));
            found
        }
        Subject::Profile(..) => {
            let judged = |(_, profile, judgement): Part<'a>| Some(of_profile(profile, judgement?, options));
            subject.profiles().into_iter().filter_map(judged).flatten().collect()
        }
        Subject::Ranks(readings) => {
            let mut found = Vec::new();
            for reading in &readings.readings {
                let Some(judgement) = &reading.judgement else { continue };
                let (comparison, member) = (Some(&*reading.member.label), Some((&reading.member, None)));
                let of_profile = of_profile(&reading.profile, judgement, options);
                found.extend(of_profile.into_iter().map(|finding| Finding { comparison, member, ..finding }));
            }
            found.extend(of_ranks(&readings.ranks));
            found
        }
        Subject::Leaks(gate) => gate.findings.iter().flat_map(|finding| of_leaks(finding, options)).collect(),
    }
}

/// The checks of all ranks together.
fn of_ranks(ranks: &Ranks) -> impl Iterator<Item = Finding<'_>> {
    let judgement = &ranks.judgement;
    judgement.checks.iter().map(move |check| Finding {
        comparison: ranks.name.as_deref(),
        member: None,
        device: "all ranks".to_owned(),
        check,
        sentence: printable(&judgement.sentence(check)),
        place: None,
        stack: Vec::new(),
        rows: Vec::new(),
    })
}

/// The findings with those that ranks of a job have in common told once, by the worst of them: that hundreds of ranks
/// grew on the same line is one thing to look at.
pub(super) fn across_ranks<'a>(findings: Vec<Finding<'a>>) -> Vec<Finding<'a>> {
    let mut merged: Vec<(Finding<'a>, Vec<&Member>)> = Vec::new();
    let mut places = HashMap::new();
    for finding in findings {
        let Some((member, job)) = finding.member else {
            merged.push((finding, Vec::new()));
            continue;
        };
        let check = finding.check;
        let place = finding.place.as_ref().map(|place| (place.path.clone(), place.line));
        let kind = (check.outcome, check.level == Level::Fail, check.absolute);
        match places.entry((job, check.metric.as_str(), check.scope.as_deref(), check.limit.as_str(), kind, place)) {
            Entry::Vacant(entry) => {
                entry.insert(merged.len());
                merged.push((finding, vec![member]));
            }
            Entry::Occupied(entry) => {
                let (first, members) = &mut merged[*entry.get()];
                if members.last() != Some(&member) {
                    members.push(member);
                }
                let size = |check: &Check| (check.delta, check.after);
                if size(check) > size(first.check) {
                    *first = finding;
                }
            }
        }
    }
    let told = |(finding, members): (Finding<'a>, Vec<&Member>)| {
        let mut finding = finding;
        if let Some((member, job)) = finding.member {
            let rest: Vec<&Member> = members.into_iter().filter(|other| *other != member).collect();
            let rest = if rest.is_empty() { String::new() } else { format!("; the like on {}", numbers(&rest)) };
            finding.sentence = format!("{}: {}{}", printable(&member.label), finding.sentence, printable(&rest));
            finding.comparison = job;
        }
        finding
    };
    merged.into_iter().map(told).collect()
}

fn of_diff<'a>(
    comparison: Option<&'a str>,
    diff: &Diff,
    codes: &Sides<Code<'_>>,
    judgement: &'a Judgement,
    options: &Options,
) -> Vec<Finding<'a>> {
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
            member: None,
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
            member: None,
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
            member: None,
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

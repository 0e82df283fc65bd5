//! Every check with what explains it: the line of the user, and the stack. Annotations and test reports are made of
//! these.

mod comparison;
mod leak;
mod ranks;
mod snapshot;

use std::fmt;

use super::place::{Codes, Place, PlacedFrame, placed_frames, user_place};
use super::{Options, Subject};
use crate::snapshot::StackId;
use crate::stack::Code;
use crate::text::printable;
use crate::units::{Delta, Size};
use crate::verdict::{Check, Gate, Judgement, Level, Member, Outcome, Readings};
pub(super) use comparison::grew_most;
pub(super) use ranks::across_ranks;

/// A check with what explains it.
pub(super) struct Finding<'a> {
    /// The name of the comparison, where there are several.
    pub(super) comparison: Option<&'a str>,
    /// The rank of a job that it concerns, and the name of the comparison of that job.
    pub(super) member: Option<(&'a Member, Option<&'a str>)>,
    /// The devices that it concerns, as reports call them.
    pub(super) device: String,
    pub(super) check: &'a Check,
    /// The check in words.
    pub(super) sentence: String,
    pub(super) explanation: Explanation<'a>,
}

/// The code that explains a check; none where the check passes or is inconclusive.
#[derive(Default)]
pub(super) struct Explanation<'a> {
    /// The line of the user.
    pub(super) place: Option<Place>,
    /// The call stack there.
    pub(super) stack: Option<(Code<'a>, StackId)>,
    /// The stacks that changed most, or hold most.
    pub(super) rows: Vec<Row>,
}

/// A stack that explains a check, with the bytes that make it do so.
#[derive(Debug)]
pub(super) enum Row {
    /// It grew.
    Change { label: String, before: u64, after: u64, is_touched: bool },
    /// It holds bytes.
    Held { label: String, bytes: u64 },
}

/// More rows than these explain nothing.
const MOST_ROWS: usize = 10;

impl<'a> Finding<'a> {
    /// A check of a judgement about devices that reports call `device`; all of them without one.
    fn new(check: &'a Check, judgement: &Judgement, device: Option<String>, explanation: Explanation<'a>) -> Self {
        let sentence = printable(&judgement.sentence(check));
        let device = device.unwrap_or_else(|| "all devices".to_owned());
        Self { comparison: None, member: None, device, check, sentence, explanation }
    }

    /// Whether the gate fails by it, or is inconclusive.
    pub(super) fn is_bad(&self) -> bool {
        self.check.outcome != Outcome::Pass
    }

    /// Whether it is an error rather than a warning.
    pub(super) fn is_error(&self) -> bool {
        self.is_bad() && self.check.level == Level::Fail
    }

    /// The check apart from its figures and lines, so that it is the same in every run.
    pub(super) fn identity(&self) -> String {
        let check = self.check;
        let device = check.device.map(|device| device.to_string()).unwrap_or_default();
        let key = check.key.as_deref().unwrap_or_default();
        [self.comparison.unwrap_or_default(), &device, &check.of.name(), key].join("\0")
    }
}

impl<'a> Explanation<'a> {
    /// A stack and its line.
    fn of_stack(code: &Code<'a>, stack: Option<StackId>, options: &Options) -> Self {
        let Some(stack) = stack else { return Self::default() };
        Self { place: user_place(code, stack, options), stack: Some((code.clone(), stack)), rows: Vec::new() }
    }

    /// The frames of the stack, the outermost first. There may be thousands of stacks: they are made when they are written.
    pub(super) fn frames(&self, options: &Options) -> Vec<PlacedFrame> {
        self.stack.as_ref().map(|(code, stack)| placed_frames(code, *stack, options)).unwrap_or_default()
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Change { label, before, after, is_touched } => {
                let delta = Delta(i128::from(*after) - i128::from(*before)).to_string();
                let touched = if *is_touched { ", changed here" } else { "" };
                write!(f, "{delta:>12}  {:>11} -> {:>11}  {}{touched}", Size(*before), Size(*after), printable(label))
            }
            Self::Held { label, bytes } => write!(f, "{:>11}  {}", Size(*bytes), printable(label)),
        }
    }
}

/// The file that was looked at: that of the after, or the last one of a series.
pub(super) fn source_path(subject: Subject<'_>) -> Option<&str> {
    match subject {
        Subject::Gate(gate) => Some(&gate.comparisons.first()?.diff.profiles.after.source.path),
        Subject::Leaks(gate) => Some(&gate.findings.first()?.search.sources.last()?.path),
        Subject::Profile(profile, _) => Some(&profile.source.path),
        Subject::Ranks(readings) => Some(&readings.readings.first()?.profile.source.path),
        Subject::History(_) | Subject::Scale(_) => None,
    }
}

/// All checks, in the order of the judgements.
pub(super) fn findings<'a>(subject: Subject<'a>, options: &Options) -> Vec<Finding<'a>> {
    match subject {
        Subject::Gate(gate) => of_gate(gate, options),
        Subject::Profile(_, None) | Subject::History(_) | Subject::Scale(_) => Vec::new(),
        Subject::Profile(profile, Some(judgement)) => snapshot::findings(profile, judgement, options),
        Subject::Ranks(readings) => of_readings(readings, options),
        Subject::Leaks(gate) => gate.findings.iter().flat_map(|finding| leak::findings(finding, options)).collect(),
    }
}

fn of_gate<'a>(gate: &'a Gate, options: &Options) -> Vec<Finding<'a>> {
    let mut known = Codes::default();
    let mut found = Vec::new();
    for (index, comparison) in gate.comparisons.iter().enumerate() {
        let job = gate.ranks.iter().find(|ranks| ranks.members.contains(&index));
        let member = comparison.member.as_ref().zip(job.map(|job| job.name.as_deref()));
        let codes = known.of(&comparison.diff);
        let of_comparison = comparison::findings(comparison, &codes, options);
        let name = comparison.name.as_deref();
        found.extend(of_comparison.into_iter().map(|finding| Finding { comparison: name, member, ..finding }));
    }
    found.extend(gate.ranks.iter().flat_map(ranks::findings));
    found
}

fn of_readings<'a>(readings: &'a Readings, options: &Options) -> Vec<Finding<'a>> {
    let mut found = Vec::new();
    for reading in &readings.readings {
        let Some(judgement) = &reading.judgement else { continue };
        let comparison = Some(reading.member.label.as_str());
        let member = Some((&reading.member, None));
        let of_reading = snapshot::findings(&reading.profile, judgement, options);
        found.extend(of_reading.into_iter().map(|finding| Finding { comparison, member, ..finding }));
    }
    found.extend(ranks::findings(&readings.ranks));
    found
}

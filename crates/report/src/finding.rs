//! Every check with what explains it: the line of the user, and the stack. Annotations and test reports are made of
//! these.

use std::collections::HashMap;

use data_encoding::HEXLOWER;
use ptmem_base::device::DeviceId;
use ptmem_base::text::printable;
use ptmem_base::units::{Delta, Size};
use ptmem_compare::diff::cause::{Figure, Grown};
use ptmem_compare::diff::{Destination, DeviceDiff, Diff, Row, RowKind, Sides};
use ptmem_compare::leak::{DeviceLeaks, LeakMetric};
use ptmem_compare::patch::Edit;
use ptmem_compare::tree::CallFrame;
use ptmem_judge::verdict::{self, Check, Comparison, Job, Judged, Judgement, LimitKind, Member, Outcome, Suite};
use ptmem_snapshot::snapshot::StackId;
use ptmem_trace::profile::{DeviceProfile, Held, Metric, Point, Profile, StackTotal};
use ptmem_trace::stack::SnapshotCode;
use sha1::{Digest, Sha1};
use strum::IntoEnumIterator;

use super::place::{Place, placed_frames, user_place};
use super::{RenderOptions, Report};

/// A check with what explains it.
#[derive(Debug)]
pub struct ExplainedCheck<'a> {
    /// The name of the comparison, where there are several.
    pub(super) comparison: Option<&'a str>,
    /// The rank of a job that it concerns, and the name of the comparison of that job.
    pub(super) member: Option<(&'a Member, Option<&'a str>)>,
    /// The file that it examines; of all ranks of a job, that of the first.
    pub(super) source: &'a str,
    /// The devices that it concerns, as reports call them.
    pub(super) device: String,
    pub(super) check: &'a Check,
    /// Whether it is an error rather than a warning, or nothing.
    pub(super) is_error: bool,
    /// The check in words.
    pub(super) sentence: String,
    pub(super) explanation: CheckExplanation<'a>,
}

/// The code that explains a check; `None` if the check passes or is inconclusive.
#[derive(Debug, Default)]
pub(super) struct CheckExplanation<'a> {
    /// The line of the user.
    pub(super) place: Option<Place>,
    /// The call stack there.
    pub(super) stack: Option<(SnapshotCode<'a>, StackId)>,
    /// The stacks that changed most, or hold most, each in a line.
    pub(super) rows: Vec<String>,
}

/// More rows than these explain nothing.
pub(super) const MOST_ROWS: usize = 10;

impl<'a> ExplainedCheck<'a> {
    /// A check of a judgement about devices that reports call `device`; all of them without one.
    fn new(check: &'a Check, judgement: &Judgement, device: Option<String>, explanation: CheckExplanation<'a>) -> Self {
        let sentence = printable(&judgement.sentence(check));
        let device = device.unwrap_or_else(|| "all devices".to_owned());
        let is_error = judgement.is_bad(check);
        Self { comparison: None, member: None, source: "", device, check, is_error, sentence, explanation }
    }

    /// Whether it does not hold, or may not.
    pub(super) fn is_bad(&self) -> bool {
        self.check.outcome != Outcome::Pass
    }

    /// The sentence behind the name of the comparison.
    pub(super) fn named_sentence(&self) -> String {
        let name = self.comparison.map(|name| format!("{}: ", printable(name))).unwrap_or_default();
        format!("{name}{}", self.sentence)
    }

    /// The check apart from its figures and lines, so that it is the same in every run.
    fn identity(&self) -> String {
        let check = self.check;
        let device = check.device.map(|device| device.to_string()).unwrap_or_default();
        let key = check.key().unwrap_or_default();
        [self.comparison.unwrap_or_default(), &device, &check.of.name(), key, check.limit.level.name()].join("\0")
    }
}

/// The digests by which machines know findings again, in their order. Those of one identity, such as of several ranks, are numbered:
/// readers show only one of those that share a digest.
pub(super) fn fingerprints<'f>(findings: impl Iterator<Item = &'f ExplainedCheck<'f>>) -> Vec<String> {
    let mut seen: HashMap<String, u32> = HashMap::new();
    let digests = findings.map(|finding| {
        let identity = finding.identity();
        let number = seen.entry(identity.clone()).and_modify(|number| *number += 1).or_default();
        HEXLOWER.encode(&Sha1::digest(format!("{identity}\0{number}")))
    });
    digests.collect()
}

impl<'a> CheckExplanation<'a> {
    /// A stack and its line.
    fn of_stack(code: &SnapshotCode<'a>, stack: Option<StackId>, options: &RenderOptions) -> Self {
        let Some(stack) = stack else { return Self::default() };
        Self { place: user_place(code, stack, options), stack: Some((code.clone(), stack)), rows: Vec::new() }
    }

    /// The frames of the stack, the outermost first. There may be thousands of stacks: they are made when they are written.
    pub(super) fn frames(&self, options: &RenderOptions) -> Vec<(CallFrame, Option<Place>)> {
        self.stack.as_ref().map(|(code, stack)| placed_frames(code, *stack, options)).unwrap_or_default()
    }
}

/// The checks of all leaves with their names and ranks, then those of the ranks of jobs together.
pub(super) fn of_suite<'a, T: Judged>(
    suite: &'a Suite<T>,
    mut explained: impl FnMut(&'a T) -> Vec<ExplainedCheck<'a>>,
) -> Vec<ExplainedCheck<'a>> {
    let mut found = Vec::new();
    for node in &suite.nodes {
        let job = node.job().map(|job| job.ranks.name.as_deref());
        for leaf in node.leaves() {
            let member = leaf.member().zip(job);
            let source = leaf.source();
            let all = explained(leaf).into_iter();
            found.extend(all.map(|finding| ExplainedCheck { comparison: leaf.name(), member, source, ..finding }));
        }
    }
    found.extend(suite.jobs().flat_map(of_ranks));
    found
}

/// The checks of a report. Those of a gate with a report of its own have its name.
pub(super) fn of_report<'a>(report: &'a dyn Report, options: &'a RenderOptions) -> Vec<ExplainedCheck<'a>> {
    let gate = options.gate.as_deref();
    let named = report.findings(options).into_iter().map(|mut finding| {
        match &mut finding.member {
            Some((_, job)) => *job = job.or(gate),
            None => finding.comparison = finding.comparison.or(gate),
        }
        finding
    });
    named.collect()
}

/// The checks of one snapshot.
pub(super) fn of_profile<'a>(
    profile: &'a Profile,
    judgement: &'a Judgement,
    options: &RenderOptions,
) -> Vec<ExplainedCheck<'a>> {
    let code = profile.code();
    let findings = judgement.all_checks().map(|check| {
        let device = profile.devices.iter().find(|device| Some(device.device) == check.device);
        let name = device.map(|device| device.device.to_string());
        let exceeded = device.filter(|_| check.outcome == Outcome::Exceeded);
        let explanation = exceeded.map(|device| of_held(check, device, &code, options)).unwrap_or_default();
        let finding = ExplainedCheck::new(check, judgement, name, explanation);
        ExplainedCheck { source: &profile.source.path, ..finding }
    });
    findings.collect()
}

/// What stacks hold at a moment.
type HeldAt = fn(&StackTotal) -> Held;

/// The moment of a device whose stacks explain what a check is about; `None` where those of no moment do.
fn moment(check: &Check, device: &DeviceProfile) -> Option<HeldAt> {
    let kind = check.kind();
    let reserved = Some(Metric::Reserved).filter(|_| kind == LimitKind::Headroom);
    let metric = if let LimitKind::Metric(metric) = kind { metric } else { reserved? };
    match metric.point() {
        // Without a history, the state at the dump is what exceeds the limit.
        Point::Peak if Metric::Peak.value(device).is_none() => Some(|total| total.end),
        Point::Peak => {
            // Other counters follow what is allocated, if that is most of them.
            let allocated = Metric::Peak.value(device).map_or(0, u128::from);
            (allocated * 2 >= check.figures.after.map_or(0, u128::from)).then_some(|total| total.peak)
        }
        Point::Start => Some(|total| total.baseline),
        Point::End => Some(|total| total.end),
        Point::UnusedAtPeak => None,
    }
}

/// The stack that a check is about, or the stacks that hold most at the moment that it is about.
fn of_held<'a>(
    check: &Check,
    device: &DeviceProfile,
    code: &SnapshotCode<'a>,
    options: &RenderOptions,
) -> CheckExplanation<'a> {
    if check.kind() == LimitKind::OutOfMemory {
        return CheckExplanation::of_stack(code, device.failed_stack(), options);
    }
    if let Some(key) = check.key() {
        let total = device.stacks.iter().find(|total| total.key.0 == key);
        return CheckExplanation::of_stack(code, total.and_then(StackTotal::stack), options);
    }
    let Some(held) = moment(check, device) else { return CheckExplanation::default() };
    let totals = device.listed_by(held, MOST_ROWS, 1);
    let mut stacks = totals.iter().filter_map(StackTotal::stack);
    let of_user = stacks.find(|&stack| code.user_site(stack).is_some());
    let stack = of_user.or_else(|| totals.first().and_then(StackTotal::stack));
    let rows = totals.iter().map(|total| format!("{:>11}  {}", Size(held(total).bytes), printable(&total.label)));
    CheckExplanation { rows: rows.collect(), ..CheckExplanation::of_stack(code, stack, options) }
}

/// The checks of leaks: each leak is a line of its own.
pub(super) fn of_search<'a>(found: &'a verdict::JudgedSearch, options: &RenderOptions) -> Vec<ExplainedCheck<'a>> {
    let verdict::JudgedSearch { search, judgement } = found;
    let code = search.code();
    let stacks: HashMap<(DeviceId, &str), Option<StackId>> =
        search.leaks().map(|(device, leak)| ((device.device, leak.key.as_str()), leak.stack)).collect();
    let findings = judgement.all_checks().map(|check| {
        let device = search.devices.iter().find(|device| Some(device.device) == check.device);
        let leak = check.device.zip(check.key());
        let stack = leak.and_then(|leak| stacks.get(&leak).copied().flatten());
        let name = device.map(|device| device.device.to_string());
        let rows = device.map(|device| leaking_together(check, device)).unwrap_or_default();
        let explanation = CheckExplanation { rows, ..CheckExplanation::of_stack(&code, stack, options) };
        ExplainedCheck::new(check, judgement, name, explanation)
    });
    findings.collect()
}

/// The list of what leaks together, for the check that is named after the fastest of them.
fn leaking_together(check: &Check, device: &DeviceLeaks) -> Vec<String> {
    let findings = LeakMetric::iter().flat_map(|metric| device.findings(metric));
    let mut several = findings.filter(|leaks| leaks.len() > 1);
    let leaks = several.find(|leaks| check.key() == Some(&*leaks[0].key)).unwrap_or_default();
    let listed = leaks.iter().take(MOST_ROWS);
    listed.map(|leak| format!("{:>11}  {}", Delta(leak.bytes_per_step).to_string(), printable(&leak.label))).collect()
}

/// The rows of a comparison by device and key.
type RowsByKey<'d> = HashMap<(Option<DeviceId>, &'d str), &'d Row>;

/// The checks of a comparison.
pub(super) fn of_comparison<'a>(
    of: &'a Comparison,
    codes: &Sides<SnapshotCode<'a>>,
    options: &RenderOptions,
) -> Vec<ExplainedCheck<'a>> {
    let Comparison { diff, judgement, .. } = of;
    let mut rows = RowsByKey::new();
    for device in &diff.devices {
        rows.extend(device.rows.iter().map(|row| ((device.id(), row.key.as_str()), row)));
    }
    let findings = judgement.all_checks().map(|check| {
        let device = diff.devices.iter().find(|device| device.id() == check.device);
        let exceeded = device.filter(|_| check.outcome == Outcome::Exceeded);
        let explanation = exceeded.map(|device| {
            let after = device.index.after.map(|index| &diff.profiles.after.devices[index]);
            let is_of_growth = check.key().is_some() || check.explained_by(diff, device).is_some();
            let is_of_size = check.limit.is_absolute && !is_of_growth || check.kind() == LimitKind::OutOfMemory;
            match after.filter(|_| is_of_size) {
                Some(after) => of_held(check, after, &codes.after, options),
                None => of_growth(check, (diff, device), &rows, &codes.after, options),
            }
        });
        let mut finding =
            ExplainedCheck::new(check, judgement, device.map(DeviceDiff::name), explanation.unwrap_or_default());
        let cause = judgement.cause.as_ref().filter(|_| judgement.decisive() == Some(check));
        finding.sentence += &cause.map(|cause| format!(". {}", printable(cause))).unwrap_or_default();
        finding
    });
    findings.collect()
}

/// The stack that a check is about, or the stacks that grew most at the moment that it is about.
fn of_growth<'a>(
    check: &Check,
    (diff, device): (&Diff, &DeviceDiff),
    rows: &RowsByKey<'_>,
    after: &SnapshotCode<'a>,
    options: &RenderOptions,
) -> CheckExplanation<'a> {
    let mut edit = check.edit.as_ref().map(|edit| edit.index);
    let mut explanation = match (check.key(), check.explained_by(diff, device)) {
        (Some(key), _) => {
            let row = rows.get(&(check.device, key)).copied();
            edit = edit.or(row.and_then(|row| row.edit));
            // The sentence has its figures.
            CheckExplanation::of_stack(after, row.and_then(Row::stack_now), options)
        }
        (None, Some(Figure::Peak)) => {
            let row = grew_most(device, after).filter(|_| !check.is_improvement());
            edit = edit.or(row.and_then(|row| row.edit));
            let stack = row.and_then(Row::stack_now);
            CheckExplanation { rows: changed_rows(check, device), ..CheckExplanation::of_stack(after, stack, options) }
        }
        (None, Some(_)) if check.is_improvement() => CheckExplanation::default(),
        (None, Some(figure)) => of_grown(&diff.grown_at(device, figure), after, options),
        (None, None) => CheckExplanation::default(),
    };
    // GitHub shows an annotation among the lines of the change where it has one of them.
    if let Some(line) = edit.and_then(|edit| device.edit(edit)).and_then(Edit::code_line) {
        explanation.place = Some(line);
    }
    explanation
}

/// What grew at a moment other than the peak, and the stack that grew most: before all one with a line of the user.
fn of_grown<'a>(grown: &[Grown], after: &SnapshotCode<'a>, options: &RenderOptions) -> CheckExplanation<'a> {
    let mut stacks = grown.iter().filter_map(|row| row.stack);
    let first = stacks.clone().next();
    let stack = stacks.find(|&stack| after.user_site(stack).is_some()).or(first);
    let listed = grown.iter().take(MOST_ROWS);
    let rows = listed.map(|row| format!("{:>12}  {}", Delta(row.bytes.into()).to_string(), printable(&row.label)));
    CheckExplanation { rows: rows.collect(), ..CheckExplanation::of_stack(after, stack, options) }
}

/// The rows at the peak that changed in the direction of a check.
fn changed_rows(check: &Check, device: &DeviceDiff) -> Vec<String> {
    let direction = if check.is_improvement() { -1 } else { 1 };
    let changed = device.rows.iter().filter(|row| row.delta().signum() == direction);
    changed.take(MOST_ROWS).map(changed_row).collect()
}

fn changed_row(row: &Row) -> String {
    let Sides { before, after } = row.held.map(|held| Size(held.bytes));
    let delta = Delta(row.delta()).to_string();
    let edit = row.leads.map(Destination::words).unwrap_or_default();
    format!("{delta:>12}  {before:>11} -> {after:>11}  {}{edit}", printable(&row.label))
}

/// The stack that explains the growth of a figure: that which grew most, before all one with a line of the user.
pub(super) fn grew_most<'d>(device: &'d DeviceDiff, after: &SnapshotCode<'_>) -> Option<&'d Row> {
    let mut grew = device.rows.iter().filter(|row| row.kind == RowKind::Stack && row.delta() > 0);
    let first = grew.clone().next();
    grew.find(|row| row.stack_now().is_some_and(|stack| after.user_site(stack).is_some())).or(first)
}

/// The checks of all ranks together.
fn of_ranks<T: Judged>(Job { members, ranks }: &Job<T>) -> impl Iterator<Item = ExplainedCheck<'_>> {
    let judgement = &ranks.judgement;
    let source = members.first().map_or("", T::source);
    judgement.all_checks().map(move |check| {
        let finding = ExplainedCheck::new(check, judgement, Some("all ranks".to_owned()), CheckExplanation::default());
        ExplainedCheck { comparison: ranks.name.as_deref(), source, ..finding }
    })
}

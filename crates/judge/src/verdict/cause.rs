//! The edit of the change that a regression leads to.

use ptmem_base::device::DeviceId;
use ptmem_base::text::count;
use ptmem_base::units::Delta;
use ptmem_compare::diff::cause::{Cause, Figure, Grown};
use ptmem_compare::diff::{Change, DeviceDiff, Diff};
use ptmem_compare::patch::Edit;
use ptmem_trace::profile::{Metric, Point};
use ptmem_trace::trace::Measure;

use super::growth::has_rows_at_peak;
use super::peak::others_shrank;
use super::{Check, CheckedEdit, Comparison, Judgement, LimitKind, Outcome, Verdict};

/// Checks that are named behind another one.
const MOST_NAMED: usize = 10;

/// Stacks that are named behind a check.
const MOST_STACKS: usize = 3;

/// Adds the edits that checks lead to, and the sentence about the one that explains the verdict.
pub(super) fn complete(mut judgement: Judgement, diff: &Diff) -> Judgement {
    let lead = judgement.lead(diff);
    for check in
        judgement.checks.iter_mut().filter(|check| check.outcome == Outcome::Exceeded && check.figures.delta > Some(0))
    {
        let Some(device) = diff.devices.iter().find(|device| device.id() == check.device) else { continue };
        check.edit = edit(check, device).map(|(index, edit)| CheckedEdit {
            index,
            place: if edit.package().is_some() { edit.words() } else { edit.place() },
            is_lead: lead == Some((device.id(), index)),
        });
        if check.edit.is_none() && (check.reason.is_none() || check.is_of_phases()) {
            let grown = figure(check, device).map(|figure| diff.grown_at(device, figure)).unwrap_or_default();
            let most = most(&grown, check.figures.delta.unwrap_or_default());
            let reasons: Vec<String> = check.reason.take().into_iter().chain(most).collect();
            check.reason = Some(reasons.join("; ")).filter(|reason| !reason.is_empty());
        }
    }
    if judgement.verdict == Verdict::Regression {
        judgement.cause = judgement.cause_in(diff).and_then(Cause::lead);
    }
    judgement
}

impl Comparison {
    /// The edit that most of the growth leads to which makes this a regression.
    pub fn leading_edit(&self) -> Option<&Edit> {
        self.judgement.cause_in(&self.diff)?.leading_edit()
    }
}

impl Judgement {
    /// The cause of the growth that decides the verdict.
    fn cause_in<'d>(&self, diff: &'d Diff) -> Option<&'d Cause> {
        let decisive =
            self.decisive().filter(|check| self.verdict == Verdict::Regression && check.figures.delta > Some(0))?;
        let device = diff.devices.iter().find(|device| device.id() == decisive.device)?;
        cause(decisive, device).or_else(|| device.cause(Figure::Peak).filter(|_| decisive.is_of_stacks()))
    }

    /// The device and the edit that most of the growth leads to which decides the verdict.
    fn lead(&self, diff: &Diff) -> Option<(Option<DeviceId>, usize)> {
        let lead = self.cause_in(diff)?.leading()?;
        Some((self.decisive()?.device, lead.edit))
    }

    /// The cause of the growth that decides about a device, otherwise of its peak.
    pub fn cause_of<'d>(&self, device: &'d DeviceDiff) -> Option<&'d Cause> {
        let mut exceeded = self.exceeded_on(device).filter(|check| check.figures.delta > Some(0));
        let figure = exceeded.next().and_then(|check| figure(check, device)).unwrap_or(Figure::Peak);
        device.cause(figure).or_else(|| device.cause(Figure::Peak))
    }

    /// The checks, with those that exceed their limits by growth that leads to one edit put behind the worst of them.
    pub fn by_cause(&self) -> Vec<(&Check, Vec<&Check>)> {
        let mut groups: Vec<(&Check, Vec<&Check>)> = Vec::new();
        for check in &self.checks {
            let is_same = |(first, _): &&mut (&Check, Vec<&Check>)| {
                check.edit.is_some()
                    && (&first.edit, first.device, first.limit.level) == (&check.edit, check.device, check.limit.level)
            };
            match groups.iter_mut().find(is_same) {
                Some((_, others)) => others.push(check),
                None => groups.push((check, Vec::new())),
            }
        }
        groups
    }

    /// The sentence of a check, and the edit that its growth leads to, where neither its stack nor the verdict names that, or with
    /// the number of others whose growth leads to it.
    pub fn sentence_of_cause(&self, check: &Check, others: &[&Check]) -> String {
        let sentence = self.sentence(check);
        let Some(CheckedEdit { place, is_lead, .. }) = &check.edit else { return sentence };
        match others.len() as u64 {
            0 if *is_lead || check.is_of_stacks() => sentence,
            0 => format!("{sentence}; put down to {place}"),
            number => {
                let more = count(number, "more check is put", "more checks are put");
                format!("{sentence}; {more} down to the same edit ({place}):")
            }
        }
    }

    /// The names of these others.
    pub fn named(others: &[&Check]) -> Vec<String> {
        let more = others.len().saturating_sub(MOST_NAMED) as u64;
        let names = others.iter().take(MOST_NAMED).map(|check| check.subject());
        names.chain((more > 0).then(|| format!("and {more} more"))).collect()
    }
}

/// The rows that make up half of a growth, in words: a report lists only the rows at the peak. All rows gained `delta`.
fn most(grown: &[Grown], delta: i128) -> Option<String> {
    let whole: u64 = grown.iter().fold(0, |sum, row| sum.saturating_add(row.bytes));
    let mut named = 0_u64;
    let mut parts = Vec::new();
    for Grown { label, bytes, .. } in grown.iter().take(MOST_STACKS) {
        parts.push(format!("{label} {}", Delta((*bytes).into())));
        named = named.saturating_add(*bytes);
        if named >= whole.div_ceil(2) {
            break;
        }
    }
    let others = others_shrank(named.into(), delta - i128::from(named));
    (!parts.is_empty()).then(|| format!("largest growth there: {}{others}", parts.join(", ")))
}

/// The figure of a device that a check is about, where the rows of its moment explain its growth.
fn figure(check: &Check, device: &DeviceDiff) -> Option<Figure> {
    match check.kind() {
        _ if check.figures.is_elsewhere => None,
        LimitKind::Metric(metric) => match (metric.measure(), metric.point()) {
            (Measure::Allocated, Point::Peak) => Some(Figure::Peak),
            (_, Point::Start) => Some(Figure::Baseline),
            (Measure::Allocated, Point::End) => Some(Figure::End),
            // Other counters follow what is allocated, as far as that grew as much.
            (_, Point::Peak | Point::End) => {
                let explains = device.metric(Metric::Peak).gained() >= gained(check, device);
                explains.then_some(Figure::Peak)
            }
            (_, Point::UnusedAtPeak) => None,
        },
        // Reserved bytes likewise follow what is allocated inside of the phase.
        kind if kind.is_of_phases() => {
            let at = phase(check, device)?;
            (device.phases[at].delta() >= gained(check, device)).then_some(Figure::Phase(at))
        }
        _ => None,
    }
}

/// The phase that a check is about, as an index into [`DeviceDiff::phases`].
fn phase(check: &Check, device: &DeviceDiff) -> Option<usize> {
    let mut rows = device.phases.iter();
    rows.position(|row| check.key() == Some(&*row.key()) && check.label() == Some(&*row.title()))
}

/// The figure of allocated bytes whose growth explains most of that of a check: the peak, or the peak inside a phase, which another
/// edit can raise.
fn followed(check: &Check, device: &DeviceDiff) -> Option<Figure> {
    let is_unused = matches!(check.kind(), LimitKind::Metric(metric) if metric.point() == Point::UnusedAtPeak);
    let (figure, of_figure) = match check.kind() {
        kind if kind.is_of_phases() => {
            let at = phase(check, device)?;
            (Figure::Phase(at), device.phases[at].delta())
        }
        _ => (Figure::Peak, device.metric(Metric::Peak).gained()),
    };
    let follows =
        check.kind().counter().is_some() && !is_unused && !check.is_of_stacks() && !check.figures.is_elsewhere;
    (follows && 2 * of_figure? >= gained(check, device).unwrap_or_default()).then_some(figure)
}

/// The change of the figure that an absolute limit is about.
fn change(check: &Check, device: &DeviceDiff) -> Option<Change> {
    match check.kind() {
        LimitKind::Metric(metric) => Some(device.metric(metric)),
        LimitKind::Headroom => Some(device.metric(Metric::Reserved)),
        _ => None,
    }
}

/// Bytes that the figure of a check gained, also where its limit is absolute.
fn gained(check: &Check, device: &DeviceDiff) -> Option<i128> {
    if check.limit.is_absolute { change(check, device)?.gained() } else { check.figures.delta }
}

/// Whether growth can explain a check: at least half of what is beyond an absolute limit, which the before may exceed as well.
fn is_of_growth(check: &Check, device: &DeviceDiff) -> bool {
    let gained = gained(check, device).and_then(|gained| u128::try_from(gained).ok()).unwrap_or(0);
    let measured = check.measured().map_or(0, i128::unsigned_abs);
    let beyond = measured.saturating_sub(check.limit.allowed.unwrap_or(0));
    !check.limit.is_absolute || 2 * gained >= beyond
}

/// The cause of the growth that a check is about.
fn cause<'d>(check: &Check, device: &'d DeviceDiff) -> Option<&'d Cause> {
    let own = figure(check, device).and_then(|figure| device.cause(figure));
    own.or_else(|| device.cause(followed(check, device)?))
}

/// The edit that the growth of a check leads to, with its index. Its statement is the one that most of this growth passes through.
fn edit<'d>(check: &Check, device: &'d DeviceDiff) -> Option<(usize, &'d Edit)> {
    if check.is_of_stacks() {
        let index = device.rows.iter().find(|row| Some(&*row.key) == check.key())?.edit?;
        return Some((index, device.edit(index)?));
    }
    let cause = device.cause(figure(check, device)?)?;
    Some((cause.leading()?.edit, cause.leading_edit()?))
}

impl Check {
    /// The figure at whose moment the rows of a device explain what it is about; `None` where the rows of no moment do.
    pub fn explained_by(&self, diff: &Diff, device: &DeviceDiff) -> Option<Figure> {
        let figure = figure(self, device).or_else(|| followed(self, device));
        let figure = figure.filter(|_| is_of_growth(self, device))?;
        (figure != Figure::Peak || has_rows_at_peak(diff)).then_some(figure)
    }

    /// The edit that an agreement to its growth names.
    pub fn accepted_edit<'d>(&self, device: &'d DeviceDiff) -> Option<&'d Edit> {
        if self.limits_improvement() {
            return None;
        }
        let own = edit(self, device).map(|(_, edit)| edit);
        own.or_else(|| cause(self, device)?.leading_edit())
    }
}

//! Recordings that lack a part, and what the rest of them decides. The rest gives a lower bound of the peak:
//! enough for a regression where the after lacks the part, and enough to pass where the before does.

use ptmem_base::diagnostic::Advice;
use ptmem_compare::align::{End, MissingPart};
use ptmem_compare::diff::{DeviceDiff, PhaseRow, Side, Sides};
use ptmem_trace::profile::DeviceProfile;

use super::growth::Gated;
use super::judge::Judge;
use super::kind::NeededPart;
use super::{Bound, Check, CheckedFigures, LimitKind, NamedThing, Outcome};

/// The sides that lack a part which a limit is about.
pub(super) struct Partial {
    pub(super) lacks: Sides<bool>,
    /// True if a side lacks the beginning: occurrences of phases are then numbered from another start.
    lacks_head: bool,
    /// The first of these parts in words.
    pub(super) reason: String,
}

/// A part that a side lacks, in words. A warning says why it can be missing.
pub(super) fn in_words(missing: MissingPart, device: &DeviceProfile) -> String {
    let ran_out = if device.ran_out_of_memory() && missing.end == End::Tail { ": memory ran out there" } else { "" };
    format!("the {} lacks {} that the other side records{ran_out}", missing.side, missing.part())
}

/// The parts of one side of a device that a limit is about.
pub(super) fn missing_of(device: &DeviceDiff, kind: LimitKind) -> impl Iterator<Item = &MissingPart> {
    device.missing.iter().filter(move |missing| is_about(kind, missing.end))
}

/// Whether a limit is about memory that an end of the recording may change.
fn is_about(kind: LimitKind, end: End) -> bool {
    match kind.needs() {
        NeededPart::Start => end == End::Head,
        NeededPart::Dump => end == End::Tail,
        NeededPart::History => true,
        NeededPart::Nothing => false,
    }
}

impl Gated<'_> {
    /// The parts that the limit is about and that a side lacks, unless that is allowed.
    pub(super) fn partial(&self) -> Option<Partial> {
        let is_allowed = self.thresholds.allow_partial;
        (!is_allowed).then(|| Partial::new(self.device, self.sides, self.growth.target.kind)).flatten()
    }

    /// Whether what is recorded decides a check, whatever the missing part holds.
    fn is_certain(&self, partial: &Partial, check: &Check) -> bool {
        let Sides { before, after } = partial.lacks;
        let corresponds = self.device.places.as_ref().is_some_and(|places| places.reason.is_none());
        let is_pass = check.outcome == Outcome::Pass;
        let is_two_sided = check.limit.is_two_sided;
        match (check.kind(), check.kind().thing()) {
            _ if check.outcome == Outcome::Inconclusive => true,
            (LimitKind::Metric(metric), _) => metric.is_least_where_cut() && partial.bound(check).is_some(),
            // Without the head, memory of one side has a stack and that of the other has none.
            (LimitKind::StackHighest, _) => {
                partial.bound(check).is_some() && !(partial.lacks_head && self.is_unnamed(check))
            }
            // What the before held at most may be more, so that a stack only was held elsewhere.
            (_, Some(NamedThing::Stack)) => !after && corresponds && is_pass && !is_two_sided,
            // The peak of the after is known, and so is what the before holds where it does the same: of what is older than its
            // recording, the module may not be.
            (_, Some(NamedThing::Module)) => !after && corresponds && (is_pass && !is_two_sided || !partial.lacks_head),
            (_, Some(NamedThing::Phase)) => !partial.lacks_head && self.are_phases_known(partial.lacks, check),
            (_, Some(NamedThing::Pool) | None) => !before && !after,
        }
    }

    /// Whether a check is about memory without a stack, because that is older than the recording.
    fn is_unnamed(&self, check: &Check) -> bool {
        let mut rows = self.device.rows.iter().filter(|row| row.is_older_than_recording());
        check.key().is_some_and(|key| rows.any(|row| row.key == key))
    }

    /// Whether the phases that a check is about are recorded well enough for its outcome.
    fn are_phases_known(&self, lacks: Sides<bool>, check: &Check) -> bool {
        let mut rows = self.phase_rows();
        match check.outcome {
            Outcome::Exceeded => {
                let mut rows = rows.filter(|row| check.key().is_none_or(|key| key == row.key()));
                // The other side may hold more than is recorded: that does not make up for the change.
                let decisive = if check.is_improvement() { Side::After } else { Side::Before };
                !lacks.of(decisive) || rows.all(|row| is_known(row, decisive))
            }
            Outcome::Pass => rows.all(|row| {
                let is_before_known =
                    if check.limit.is_two_sided { is_known(row, Side::Before) } else { row.peak.before.is_some() };
                (!lacks.before || is_before_known) && (!lacks.after || is_known(row, Side::After))
            }),
            Outcome::Inconclusive => true,
        }
    }
}

/// Whether a side recorded a phase from its beginning to its end.
fn is_known(row: &PhaseRow, side: Side) -> bool {
    row.peak.of(side).is_some() && *row.is_whole.of(side)
}

/// The side whose ring buffer overflowed, according to PyTorch. If both did, the remaining parts are compared.
fn ran_over(sides: Sides<&DeviceProfile>) -> Option<Side> {
    match (sides.before.ran_over, sides.after.ran_over) {
        (true, false) => Some(Side::Before),
        (false, true) => Some(Side::After),
        (true, true) | (false, false) => None,
    }
}

impl Partial {
    /// The parts that a limit is about and that a side of a device lacks.
    pub(super) fn new(device: &DeviceDiff, sides: Sides<&DeviceProfile>, kind: LimitKind) -> Option<Self> {
        let mut lacks = Sides::default();
        let mut lacks_head = false;
        let mut reasons = Vec::new();
        for missing in missing_of(device, kind) {
            *lacks.of_mut(missing.side) = true;
            lacks_head |= missing.end == End::Head;
            reasons.push(in_words(*missing, sides.of(missing.side)));
        }
        if let Some(side) = ran_over(sides).filter(|_| is_about(kind, End::Head)) {
            *lacks.of_mut(side) = true;
            lacks_head = true;
            reasons.push(format!(
                "the ring buffer of the {side} ran over, so that the beginning of its history is missing; record with a \
                 larger max_entries"
            ));
        }
        Some(Self { lacks, lacks_head, reason: reasons.into_iter().next()? })
    }

    /// The same with the sides that hold only a part of what a run needs, for these reasons.
    pub(super) fn or_short(partial: Option<Self>, reasons: Sides<Option<String>>) -> Option<Self> {
        let mut all = partial;
        for (side, reason) in reasons.each() {
            let Some(reason) = reason.clone() else { continue };
            let all = all.get_or_insert(Self { lacks: Sides::default(), lacks_head: false, reason });
            *all.lacks.of_mut(side) = true;
        }
        all
    }

    /// How far a change of the peak is known; the error is the reason why its direction is not.
    pub(super) fn bound_of_peak(self, delta: i128) -> Result<Bound, String> {
        match (self.lacks.before, self.lacks.after) {
            (false, true) if delta > 0 => Ok(Bound::AtLeast),
            (true, false) if delta <= 0 => Ok(Bound::AtMost),
            _ => Err(self.reason),
        }
    }

    /// How far the change of a peak is known, where that decides the check.
    fn bound(&self, check: &Check) -> Option<Bound> {
        let is_improvement = check.is_improvement();
        match (self.lacks.before, self.lacks.after, check.outcome) {
            (false, true, Outcome::Exceeded) if !is_improvement => Some(Bound::AtLeast),
            (true, false, Outcome::Exceeded) if is_improvement => Some(Bound::AtMost),
            (true, false, Outcome::Pass) if !check.limit.is_two_sided => Some(Bound::AtMost),
            _ => None,
        }
    }

    /// The reason why what is recorded does not decide a check.
    fn why_open(&self, check: &Check) -> String {
        let Self { lacks, reason, .. } = self;
        let is_bound = matches!(check.kind(), LimitKind::Metric(metric) if metric.is_least_where_cut());
        let recorded = match check.outcome {
            Outcome::Exceeded if check.is_improvement() => "needs less than the limit allows",
            Outcome::Exceeded => "exceeds the limit",
            Outcome::Pass | Outcome::Inconclusive => "stays within the limit",
        };
        match (is_bound, lacks.before, lacks.after) {
            (true, false, true) => format!("{reason}; the recorded part {recorded}, and the rest may not"),
            (true, true, false) => {
                format!("{reason}; the recorded part {recorded}, but the before may have held more in the missing part")
            }
            _ => format!("{reason}; {} cannot be compared", check.of.name()),
        }
    }
}

impl Judge {
    /// Adds the checks of a limit that what is recorded decides, and one for those that it does not.
    pub(super) fn growth_of_rest(&mut self, gated: &Gated<'_>, partial: &Partial) {
        let mut rest = Self { covers: std::mem::take(&mut self.covers), ..Self::default() };
        rest.growth_of(gated);
        self.covers = rest.covers;
        let (certain, open): (Vec<_>, Vec<_>) =
            rest.checks.into_iter().partition(|check| gated.is_certain(partial, check));
        let open = open
            .first()
            .map(|check| Check { advice: Some(Advice::AllowPartial), ..gated.inconclusive(partial.why_open(check)) });
        if open.is_none() {
            self.diagnostics.append(&mut rest.diagnostics);
        }
        for check in certain {
            let bound = partial.bound(&check).filter(|_| !check.is_of_phases());
            let own = check.reason.clone().filter(|_| check.is_accepted() || check.outcome == Outcome::Inconclusive);
            let reason = own.or_else(|| Some(partial.reason.clone()));
            let figures = CheckedFigures { bound, ..check.figures };
            self.checks.push(Check { reason, figures, ..check });
        }
        self.checks.extend(open);
    }
}

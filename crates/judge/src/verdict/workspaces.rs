//! Growth beside the workspaces of cuBLAS: in a small program they are most of the memory, and a percentage of them would hide
//! its growth.

use ptmem_base::diagnostic::{Code, Diagnostic};
use ptmem_base::units::{Size, format_percent};
use ptmem_compare::diff::Sides;
use ptmem_trace::profile::{ErrorBound, Metric, OwnFigures, WithoutWorkspaces};

use super::growth::Gated;
use super::judge::Judge;
use super::{Check, Outcome};

/// What follows the name of a figure without workspaces.
pub const BESIDE_WORKSPACES: &str = "beside cuBLAS workspaces";

impl Gated<'_> {
    /// Whether a figure must also hold its limit without workspaces. Pinned host memory has none.
    pub(super) fn counts_beside_workspaces(&self, metric: Metric) -> bool {
        let may_have_some = self.thresholds.beside_workspaces && !self.growth.target.of_host;
        may_have_some && matches!(metric, Metric::Peak | Metric::End)
    }

    /// The figures of both sides without workspaces; the error is the reason why they are not known.
    fn without_workspaces(&self) -> Result<Sides<WithoutWorkspaces>, String> {
        for (side, device) in self.sides.each() {
            let lack = if device.is_numbers() {
                "holds only figures"
            } else if device.figures.allocation_count > 0 && !device.recorded_frames.cpp {
                "has no C++ frames, which name workspaces"
            } else {
                continue;
            };
            return Err(format!("{BESIDE_WORKSPACES} it is not known: the {side} {lack}"));
        }
        let profiles = &self.diff.profiles;
        Ok(Sides::BOTH.map(|&side| self.sides.of(side).without_workspaces(&profiles.of(side).grouper())))
    }

    /// Whether figures grew by more than the limit allows.
    fn grew_too_much(&self, figures: Sides<u64>) -> bool {
        figures.delta() > 0 && !self.growth.limit.holds(figures.before, figures.delta())
    }

    /// The check of a figure without workspaces.
    fn check_beside_workspaces(&self, metric: Metric, beside: Sides<WithoutWorkspaces>) -> Check {
        let figures = beside.map(|beside| figure(beside.own, metric));
        // An agreement covers what these figures gained, not the whole.
        let mut check = self.check();
        check.compare(figures.map(|bytes| Some(*bytes)), &self.growth.limit);
        let delta = figures.delta();
        let percent = format_percent(delta, figures.before).map(|percent| format!(" ({percent})")).unwrap_or_default();
        let grown = Size(u64::try_from(delta).unwrap_or(u64::MAX));
        let workspaces = Size(beside.before.workspaces);
        check.figures.is_beside_workspaces = true;
        // Where the before has its own elsewhere, stacks explain more than this growth, as they do for the whole peak.
        check.figures.is_elsewhere = metric == Metric::Peak && beside.after.own.at != beside.after.own.peak;
        check.figures.words = Some(format!("{} ({workspaces}) grew {grown}{percent}", name(metric)));
        self.accept(&mut check, metric);
        check
    }
}

/// The name of a figure without workspaces.
fn name(metric: Metric) -> String {
    format!("{} {BESIDE_WORKSPACES}", metric.name())
}

/// How far a figure without workspaces may be from the truth on each side. Bounds that the same blocks make cancel.
fn errors(metric: Metric, beside: Sides<WithoutWorkspaces>) -> Sides<u64> {
    let bounds = beside.map(|beside| beside.peak_bound);
    if metric == Metric::End || ErrorBound::is_shared(bounds) {
        return Sides::default();
    }
    bounds.map(|bound| bound.bytes)
}

/// A figure of a part of the stacks.
fn figure(of: OwnFigures, metric: Metric) -> u64 {
    if metric == Metric::End { of.end } else { of.peak }
}

impl Judge {
    /// The check of a figure that holds its limit, or of the same without workspaces if that exceeds it or is not known.
    pub(super) fn beside_workspaces(&mut self, gated: &Gated<'_>, metric: Metric, mut check: Check) -> Check {
        let beside = match gated.without_workspaces() {
            Ok(beside) => beside,
            Err(reason) => {
                return Check { outcome: Outcome::Inconclusive, excuse: None, reason: Some(reason), ..check };
            }
        };
        if let Some(exceeded) = self.grown_beside_workspaces(gated, metric, beside) {
            return exceeded;
        }
        if gated.grew_too_much(beside.map(|beside| figure(beside.named, metric))) {
            let unnamed = beside.map(|beside| figure(beside.own, metric) - figure(beside.named, metric));
            let message = format!(
                "{} without a stack may be cuBLAS workspaces: {} beside them reaches across the limit",
                Size(unnamed.before.max(unnamed.after)),
                metric.name()
            );
            check.reason.get_or_insert_with(|| message.clone());
            self.diagnostics.push(Diagnostic::new(Code::WithinError, check.device, message));
        }
        let own = gated.check_beside_workspaces(metric, beside);
        let Sides { before, after } = errors(metric, beside);
        let error = i128::from(before) + i128::from(after);
        if own.outcome == Outcome::Pass && own.crosses_within(error) {
            let doubt = self.tell_within_error(&own, &name(metric), error);
            check.reason.get_or_insert(doubt);
        }
        check
    }

    /// The check of a figure without workspaces, if that exceeds the limit as the whole does.
    pub(super) fn also_beside_workspaces(&mut self, gated: &Gated<'_>, metric: Metric) -> Option<Check> {
        self.grown_beside_workspaces(gated, metric, gated.without_workspaces().ok()?)
    }

    fn grown_beside_workspaces(
        &mut self,
        gated: &Gated<'_>,
        metric: Metric,
        beside: Sides<WithoutWorkspaces>,
    ) -> Option<Check> {
        let grew = gated.grew_too_much(beside.map(|beside| figure(beside.own, metric)));
        let mut check = grew.then(|| gated.check_beside_workspaces(metric, beside))?;
        let errors = errors(metric, beside).map(|error| Some(*error));
        self.doubt_by_name(&mut check, &name(metric), errors);
        Some(check)
    }
}

//! Limits on what a server states of its memory: capacity may not shrink, and what is beside it may not grow.

use ptmem_base::sides::{Side, Sides};
use ptmem_base::units::format_percent;
use ptmem_compare::diff::Diff;
use ptmem_trace::profile::{Serving, StatedFigure};

use super::judge::Judge;
use super::{GrowthLimit, LimitKind, Outcome, Thresholds};

impl Judge {
    /// A check for each limit on a figure of a server.
    pub(super) fn growth_of_serving(&mut self, diff: &Diff, thresholds: &Thresholds) {
        for growth in &thresholds.growth {
            if let LimitKind::Serving(figure) = growth.target.kind {
                self.growth_of_stated(diff, growth, figure);
            }
        }
    }

    fn growth_of_stated(&mut self, diff: &Diff, growth: &GrowthLimit, figure: Serving) {
        let mut check = growth.check();
        let stated = diff.profiles.map(|profile| profile.serving.get(&figure).copied());
        let Some(both) = stated.both() else {
            let side = if stated.before.is_none() { Side::Before } else { Side::After };
            let reason = format!("the {} does not state it, in words of vLLM or SGLang", side.name());
            return self.cannot_tell(check, reason);
        };
        let values = both.map(|stated| stated.value);
        check.compare(values.map(|value| Some(*value)), &growth.limit);
        // A capacity becomes worse by shrinking.
        let holds = check.worsened().is_none_or(|loss| growth.limit.holds(values.before, loss));
        check.outcome = if holds { Outcome::Pass } else { Outcome::Exceeded };
        check.figures.words = Some(in_words(figure, both, values.delta()));
        self.checks.push(check);
    }
}

/// A change of a figure, with the line of the output that states it.
fn in_words(figure: Serving, stated: Sides<StatedFigure>, delta: i128) -> String {
    let [before, after] = [stated.before, stated.after].map(|stated| figure.shown(stated.value));
    let line = stated.after.line.map(|line| format!("line {line} of the output"));
    let percent = format_percent(delta, stated.before.value).filter(|_| delta != 0);
    let remarks: Vec<String> = percent.into_iter().chain(line).collect();
    let remarks = if remarks.is_empty() { String::new() } else { format!(" ({})", remarks.join(", ")) };
    let name = figure.name();
    match delta {
        0 => format!("{name} did not change: {after}{remarks}"),
        1.. => format!("{name} grew from {before} to {after}{remarks}"),
        _ => format!("{name} shrank from {before} to {after}{remarks}"),
    }
}

//! Limits on the peaks inside phases.

use std::collections::HashMap;

use super::accepted::Budget;
use super::judge::NO_ERROR;
use super::{Check, Growth, Judge, Outcome, Target};
use crate::diff::{Diff, PhaseRow, Sides};
use crate::pattern::Pattern;
use crate::phase::Source;
use crate::profile::{DeviceProfile, MOST_PHASES, Metric};
use crate::text::{nearest, thousands};

/// By how many bytes a phase grew beyond its limit, negative where it did not.
fn excess(growth: &Growth, row: &PhaseRow) -> Option<i128> {
    let allowed = i128::try_from(growth.limit.allowed(row.peak.before?)).unwrap_or(i128::MAX);
    Some(row.delta()?.saturating_sub(allowed))
}

impl Judge {
    /// A check per name that exceeds the limit, about the occurrence that does so by most; one that passes where none
    /// does.
    pub(super) fn phases(
        &mut self,
        check: &Check,
        growth: &Growth,
        pattern: &Pattern,
        rows: &[PhaseRow],
        devices: Sides<&DeviceProfile>,
        budget: &Budget<'_>,
    ) {
        for (side, device) in [("before", devices.before), ("after", devices.after)] {
            if device.phases.cut > 0 {
                let reason = format!(
                    "only the first {} phases of the {side} are looked at, {} more are not",
                    thousands(MOST_PHASES as u64),
                    thousands(device.phases.cut)
                );
                self.checks.push(Check { reason: Some(reason), ..check.clone() });
                return;
            }
        }
        let mut places: HashMap<(Source, &str), usize> = HashMap::new();
        let mut names: Vec<Vec<&PhaseRow>> = Vec::new();
        for row in rows.iter().filter(|row| pattern.matches(&row.name)) {
            let place = *places.entry((row.source, &*row.name)).or_insert_with(|| {
                names.push(Vec::new());
                names.len() - 1
            });
            names[place].push(row);
        }
        let errors = devices.map(|device| device.figures.allocated.max_error());
        let errors = if Metric::Peak.has_same_bound(devices) { NO_ERROR } else { errors };
        let (mut any, mut nearest) = (false, None);
        for rows in &names {
            // Take the first of equal ones.
            let worst = rows.iter().rev().max_by_key(|row| excess(growth, row));
            let Some(&row) = worst else { continue };
            let mut of_phase = Check {
                scope: Some(row.title()),
                key: Some(row.key()),
                before: row.peak.before,
                after: row.peak.after,
                delta: row.delta(),
                allowed: row.peak.before.map(|before| growth.limit.allowed(before)),
                outcome: Outcome::Exceeded,
                ..check.clone()
            };
            let Some(beyond) = excess(growth, row) else {
                let side = if row.peak.before.is_none() { "before" } else { "after" };
                of_phase.outcome = Outcome::Inconclusive;
                of_phase.scope = Some(row.name.to_string());
                of_phase.reason = Some(format!("the phase is missing in the {side}"));
                any = true;
                self.checks.push(of_phase);
                continue;
            };
            if beyond <= 0 {
                of_phase.outcome = Outcome::Pass;
                if nearest.as_ref().is_none_or(|(most, _)| beyond > *most) {
                    nearest = Some((beyond, of_phase));
                }
                continue;
            }
            any = true;
            self.doubt(&mut of_phase, errors);
            let mut remarks: Vec<String> = of_phase.reason.take().into_iter().collect();
            let exceeding = rows.iter().filter(|row| excess(growth, row).is_some_and(|beyond| beyond > 0)).count();
            if exceeding > 1 {
                let of = thousands(rows.len() as u64);
                remarks.push(format!("{} of {of} occurrences exceed it", thousands(exceeding as u64)));
            }
            if !row.is_whole {
                remarks.push("not recorded from its beginning to its end".to_owned());
            }
            of_phase.reason = Some(remarks.join("; ")).filter(|reason| !reason.is_empty());
            budget.accept_phase(&mut of_phase, &row.name);
            self.tell_accepted(&of_phase);
            self.checks.push(of_phase);
        }
        // Where nothing exceeds the limit, the phase that comes nearest to it may be too near.
        if let (false, Some((_, mut nearest))) = (any, nearest) {
            self.doubt(&mut nearest, errors);
            let reason = nearest.reason.map(|reason| format!("{}: {reason}", nearest.scope.unwrap_or_default()));
            self.checks.push(Check { outcome: nearest.outcome, reason, ..check.clone() });
        }
    }

    /// A pattern that matches no phase on any device checks nothing.
    pub(super) fn unmatched_phase(&mut self, diff: &Diff, growth: &Growth) {
        let Target::Phase(pattern) = &growth.target else { return };
        let mut rows = diff.devices.iter().flat_map(|device| &device.phases);
        // An inconclusive check was added already.
        let said = self.checks.iter().any(|check| check.metric == growth.target.name() && check.level == growth.level);
        if said || rows.clone().any(|row| pattern.matches(&row.name)) {
            return;
        }
        let near = nearest(pattern.as_str(), "phase", rows.by_ref().map(|row| &*row.name));
        let reason = if near.is_empty() {
            "neither side has any phases: no annotations (record_function), no metadata, no compile contexts".to_owned()
        } else {
            format!("the pattern matches no phase on either side{near}")
        };
        self.cannot_tell(growth, &reason);
    }
}

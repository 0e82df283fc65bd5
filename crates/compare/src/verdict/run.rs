//! Recordings that are not of a whole run, or not of the code that they are said to be of.

use super::{About, Check, Judge, Outcome};
use crate::diff::{Diff, Sides};
use crate::profile::Profile;

impl Judge {
    /// Takes back what a comparison cannot tell, because a side is not a whole run or both ran the same code.
    pub(super) fn doubt_runs_of_diff(&mut self, diff: &Diff) {
        if let Some(reason) = diff.same_code() {
            self.take_back(&reason, |check| !check.absolute);
        }
        let failures = Sides { before: failure(&diff.profiles.before), after: failure(&diff.profiles.after) };
        // A part of a run needs as much as it shows, and perhaps more.
        if let Some(failure) = failures.after {
            let reason = format!("the after is not a whole run: {failure}");
            self.take_back(&reason, |check| check.outcome != Outcome::Exceeded);
        }
        if let Some(failure) = failures.before {
            self.take_back(&format!("the before is not a whole run: {failure}"), |check| !check.absolute);
        }
    }

    /// The same for one snapshot under absolute limits, or in a search for leaks.
    pub(super) fn doubt_run(&mut self, failure: Option<String>) {
        if let Some(failure) = failure {
            let reason = format!("the snapshot is not of a whole run: {failure}");
            self.take_back(&reason, |check| check.outcome != Outcome::Exceeded);
        }
    }

    /// Makes the checks of a kind inconclusive. Memory that ran out did so.
    fn take_back(&mut self, reason: &str, concerns: fn(&Check) -> bool) {
        for check in &mut self.checks {
            if check.about() != About::OutOfMemory && concerns(check) {
                check.outcome = Outcome::Inconclusive;
                check.reason = Some(reason.to_owned());
                check.advice = None;
                check.accepted = false;
            }
        }
    }
}

/// The reason why a profile is not that of a whole run.
pub(super) fn failure(profile: &Profile) -> Option<String> {
    profile.run.as_ref()?.failure()
}

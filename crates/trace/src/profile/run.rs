//! Remarks on the run that a snapshot was recorded from, by the facts that its recorder added.

use crate::diagnostic::{Code, Diagnostic};
use crate::snapshot::RunFacts;

/// The remarks that concern no single device.
pub(super) fn diagnostics(run: &RunFacts) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    if let Some(failure) = run.failure() {
        let message = format!("{failure}; the figures are not those of a whole run");
        found.push(Diagnostic::new(Code::RunIncomplete, None, message));
    }
    for package in run.packages.iter().filter(|package| !package.same) {
        let message = format!(
            "{} was imported from {}, and its files are not those of the checkout that the program ran in",
            package.name, package.path
        );
        found.push(Diagnostic::new(Code::ImportedElsewhere, None, message));
    }
    for (what, count, line) in &run.followed {
        if what == "conditions" {
            let first = line.as_deref().unwrap_or("an unknown line");
            let message = format!(
                "{count} conditions of the program were guessed on simulated GPUs, first at {first}; what depends on them was not measured"
            );
            found.push(Diagnostic::new(Code::CourseGuessed, None, message));
        }
    }
    let told = run.to_string();
    if !told.is_empty() {
        found.push(Diagnostic::new(Code::RunFacts, None, told));
    }
    found
}

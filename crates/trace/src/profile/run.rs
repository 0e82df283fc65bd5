//! Remarks on the run that a snapshot was recorded from, by the facts that its recorder added.

use crate::diagnostic::{Code, Diagnostic};
use crate::snapshot::RunFacts;
use crate::text::count;

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
    if let Some((_, number, line)) = run.followed.iter().find(|(what, ..)| what == "conditions") {
        let guessed = count(*number, "condition of the program was", "conditions of the program were");
        let first = line.as_ref().map(|line| format!(", first at {line}")).unwrap_or_default();
        let message = format!("{guessed} guessed on simulated GPUs{first}: what depends on that was not measured");
        found.push(Diagnostic::new(Code::CourseGuessed, None, message));
    }
    let told = run.to_string();
    if !told.is_empty() {
        found.push(Diagnostic::new(Code::RunFacts, None, told));
    }
    found
}

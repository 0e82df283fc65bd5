//! Workflow commands of GitHub Actions: they annotate the line of the user's code, as it is in the after.

use std::collections::HashSet;

use ptmem_base::diagnostic::{Diagnostic, Severity};
use ptmem_base::text::printable;

use super::finding::ExplainedCheck;
use super::merged::across_ranks;
use super::place::Place;
use super::{RenderOptions, Report};

/// GitHub shows no more of a level per step.
const MOST_PER_LEVEL: usize = 10;

/// A command: an annotation of a line, or of the run.
#[derive(Debug)]
struct WorkflowCommand {
    place: Option<Place>,
    title: String,
    message: String,
}

/// One command per line: failed checks as errors, warning checks as warnings, and then the remarks that a reader must
/// see.
pub(super) fn render(report: &dyn Report, options: &RenderOptions) -> String {
    let findings = across_ranks(report, options);
    let (errors, warnings): (Vec<_>, Vec<_>) =
        findings.iter().filter(|finding| finding.is_bad()).partition(|finding| finding.is_error);
    let mut errors: Vec<WorkflowCommand> = errors.into_iter().map(WorkflowCommand::of_finding).collect();
    // Lines that another one has come last: several figures of one line say less than several lines.
    let mut seen = HashSet::new();
    errors.sort_by_cached_key(|command| !seen.insert(command.place.clone()));
    let mut warnings: Vec<WorkflowCommand> = warnings.into_iter().map(WorkflowCommand::of_finding).collect();
    let summary = report.summary();
    let announcements = summary.announcements().into_iter();
    let (told, notices): (Vec<_>, Vec<_>) = announcements.partition(|of| of.severity() == Severity::Warning);
    warnings.extend(told.into_iter().map(WorkflowCommand::of_diagnostic));
    warnings.extend(summary.lacks_limits.then(WorkflowCommand::ungated));
    let notices = notices.into_iter().map(WorkflowCommand::of_diagnostic).collect();
    level("error", errors) + &level("warning", warnings) + &level("notice", notices)
}

impl WorkflowCommand {
    fn of_finding(finding: &ExplainedCheck<'_>) -> Self {
        let scope = finding.comparison.map(|name| format!(" ({name})")).unwrap_or_default();
        let rows = finding.explanation.rows.iter().map(|row| format!("\n{row}"));
        Self {
            place: finding.explanation.place.clone(),
            title: format!("GPU memory: {}{scope}", finding.check.of.name()),
            message: finding.sentence.clone() + &rows.collect::<String>(),
        }
    }

    /// A gate without limits is a mistake that looks like a pass.
    fn ungated() -> Self {
        Self {
            place: None,
            title: "ptmem: nothing was gated".to_owned(),
            message: "no limit was given, on the command line or in ptmem.toml: whatever changes, this passes"
                .to_owned(),
        }
    }

    fn of_diagnostic(diagnostic: &Diagnostic) -> Self {
        let device = diagnostic.device.map(|device| format!("{device}: ")).unwrap_or_default();
        let message = format!("{device}{}", diagnostic.message);
        Self { place: None, title: format!("ptmem: {}", diagnostic.code), message }
    }

    fn text(&self, level: &str) -> String {
        let place = self.place.as_ref();
        let place = place.map(|of| format!("file={},line={},", escape_property(&printable(&of.path)), of.line));
        // A message may have several lines, each of which may hold anything.
        let message: Vec<_> = self.message.split('\n').map(printable).collect();
        let title = escape_property(&printable(&self.title));
        format!("::{level} {}title={title}::{}\n", place.unwrap_or_default(), escape_data(&message.join("\n")))
    }
}

/// The commands of a level. The last one that GitHub would show says how many it does not.
fn level(level: &str, mut commands: Vec<WorkflowCommand>) -> String {
    if commands.len() > MOST_PER_LEVEL {
        let rest = commands.split_off(MOST_PER_LEVEL - 1).len();
        commands.push(WorkflowCommand {
            place: None,
            title: "ptmem: more".to_owned(),
            message: format!("and {rest} more"),
        });
    }
    commands.iter().map(|command| command.text(level)).collect()
}

/// The text of a command: a line break would end it.
fn escape_data(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

/// The value of a property, which also a comma or a colon would end.
fn escape_property(text: &str) -> String {
    escape_data(text).replace(':', "%3A").replace(',', "%2C")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_ends_a_command_early() {
        assert_eq!(escape_data("100%\r\n::error::x"), "100%25%0D%0A::error::x");
        assert_eq!(escape_property("a:b,c%\n"), "a%3Ab%2Cc%25%0A");
    }
}

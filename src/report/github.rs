//! Workflow commands of GitHub Actions: they annotate the line of the user's code, as it is in the after.

use std::fmt::Write;

use super::finding::findings;
use super::{Options, Subject};
use crate::diagnostic::Severity;

/// GitHub shows no more of a level per step.
const MOST_PER_LEVEL: usize = 10;

/// One command per line: what failed as errors, what warns as warnings, and then what a reader must know.
pub(super) fn render(subject: Subject<'_>, options: &Options) -> String {
    let (mut errors, mut warnings) = (Vec::new(), Vec::new());
    for finding in findings(subject, options).iter().filter(|finding| finding.is_bad()) {
        let mut properties = Vec::new();
        if let Some(place) = &finding.place {
            properties.push(("file", place.path.clone()));
            properties.push(("line", place.line.to_string()));
        }
        let scope = finding.comparison.map(|name| format!(" ({name})")).unwrap_or_default();
        properties.push(("title", format!("GPU memory: {}{scope}", finding.check.metric)));
        let mut message = finding.sentence.clone();
        for row in &finding.rows {
            let _ = write!(message, "\n{row}");
        }
        if finding.is_error() { &mut errors } else { &mut warnings }.push((properties, message));
    }
    for diagnostic in diagnostics(subject) {
        warnings.push((vec![("title", format!("ptmem: {}", diagnostic.code))], diagnostic.message.clone()));
    }
    let mut out = String::new();
    for (level, commands) in [("error", errors), ("warning", warnings)] {
        for (properties, message) in commands.iter().take(MOST_PER_LEVEL) {
            let properties: Vec<_> =
                properties.iter().map(|(name, value)| format!("{name}={}", escape_property(value))).collect();
            let _ = writeln!(out, "::{level} {}::{}", properties.join(","), escape_data(message));
        }
    }
    out
}

fn diagnostics(subject: Subject<'_>) -> Vec<&crate::diagnostic::Diagnostic> {
    let mut found: Vec<_> = match subject {
        Subject::Gate(gate) => {
            let comparisons = gate.comparisons.iter();
            let all = comparisons.flat_map(|c| {
                let sides = [&c.diff.profiles.before.diagnostics, &c.diff.profiles.after.diagnostics];
                sides.into_iter().flatten().chain(&c.diff.diagnostics).chain(&c.judgement.diagnostics)
            });
            all.filter(|diagnostic| diagnostic.severity == Severity::Warning).collect()
        }
        Subject::Profile(profile, judgement) => {
            let all = profile.diagnostics.iter().chain(judgement.into_iter().flat_map(|j| &j.diagnostics));
            all.filter(|diagnostic| diagnostic.severity == Severity::Warning).collect()
        }
    };
    // What holds for both sides is said once.
    let mut seen = std::collections::HashSet::new();
    found.retain(|diagnostic| seen.insert((&diagnostic.code, &diagnostic.message)));
    found
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

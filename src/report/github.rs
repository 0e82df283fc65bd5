//! Workflow commands of GitHub Actions: they annotate the line of the user's code, as it is in the after.

use std::collections::HashSet;
use std::fmt::Write;

use super::finding::{across_ranks, findings};
use super::{Options, Subject, ranks};
use crate::diagnostic::{Code, Diagnostic, Severity};
use crate::text::printable;

/// GitHub shows no more of a level per step.
const MOST_PER_LEVEL: usize = 10;

/// One command per line: what failed as errors, what warns as warnings, and then what a reader must know.
pub(super) fn render(subject: Subject<'_>, options: &Options) -> String {
    let (mut errors, mut warnings, mut notices) = (Vec::new(), Vec::new(), Vec::new());
    for finding in across_ranks(findings(subject, options)).iter().filter(|finding| finding.is_bad()) {
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
    // Several figures of one line say less than several lines.
    let mut seen = HashSet::new();
    errors.sort_by_cached_key(|(properties, _): &(Vec<(&str, String)>, String)| {
        let place: Vec<_> = properties.iter().filter(|(name, _)| *name != "title").cloned().collect();
        !seen.insert(place)
    });
    for diagnostic in &diagnostics(subject) {
        let level = if diagnostic.severity() == Severity::Warning { &mut warnings } else { &mut notices };
        let device = diagnostic.device.filter(|_| !diagnostic.message.starts_with("device "));
        let device = device.map(|device| format!("device {device}: ")).unwrap_or_default();
        let message = format!("{device}{}", diagnostic.message);
        level.push((vec![("title", format!("ptmem: {}", diagnostic.code))], message));
    }
    if let Some(ungated) = ungated(subject) {
        warnings.push((vec![("title", "ptmem: nothing was gated".to_owned())], ungated.to_owned()));
    }
    let mut out = String::new();
    for (level, commands) in [("error", errors), ("warning", warnings), ("notice", notices)] {
        // The last one that is shown says how many are not.
        let (total, shown) = (commands.len(), commands.len().min(MOST_PER_LEVEL));
        let rest = (total > shown)
            .then(|| (vec![("title", "ptmem: more".to_owned())], format!("and {} more", total - shown + 1)));
        let commands = commands.iter().take(if rest.is_some() { shown - 1 } else { shown });
        for (properties, message) in commands.chain(&rest) {
            let properties: Vec<_> = properties
                .iter()
                .map(|(name, value)| format!("{name}={}", escape_property(&printable(value))))
                .collect();
            let message: Vec<_> = message.split('\n').map(printable).collect();
            let _ = writeln!(out, "::{level} {}::{}", properties.join(","), escape_data(&message.join("\n")));
        }
    }
    out
}

/// A gate without limits is a mistake that looks like a pass.
fn ungated(subject: Subject<'_>) -> Option<&'static str> {
    match subject {
        Subject::Gate(gate) if !gate.is_gated() => {
            Some("no limit was given, on the command line or in ptmem.toml: whatever changes, this passes")
        }
        _ => None,
    }
}

/// Warnings, and what passes only because growth was agreed to.
fn diagnostics(subject: Subject<'_>) -> Vec<Diagnostic> {
    let told =
        |diagnostic: &Diagnostic| diagnostic.severity() == Severity::Warning || diagnostic.code == Code::AcceptedGrowth;
    let mut found: Vec<_> = match subject {
        Subject::Gate(gate) => {
            let comparisons = gate.comparisons.iter().filter(|comparison| comparison.member.is_none());
            let all = comparisons.flat_map(|c| {
                let sides = [&c.diff.profiles.before.diagnostics, &c.diff.profiles.after.diagnostics];
                sides.into_iter().flatten().chain(&c.diff.diagnostics).chain(&c.judgement.diagnostics).cloned()
            });
            let of_ranks = gate.ranks.iter().flat_map(|ranks| ranks::diagnostics_of_gate(gate, ranks));
            all.chain(of_ranks.map(|(_, diagnostic)| diagnostic)).filter(told).collect()
        }
        Subject::Profile(profile, judgement) => {
            let all = profile.diagnostics.iter().chain(judgement.into_iter().flat_map(|j| &j.diagnostics));
            all.filter(|diagnostic| told(diagnostic)).cloned().collect()
        }
        Subject::Ranks(readings) => {
            let all = ranks::diagnostics_of_readings(readings).into_iter();
            all.map(|(_, diagnostic)| diagnostic).filter(told).collect()
        }
        Subject::Leaks(gate) => {
            let all = gate.findings.iter().flat_map(|f| f.search.diagnostics.iter().chain(&f.judgement.diagnostics));
            all.filter(|diagnostic| told(diagnostic)).cloned().collect()
        }
    };
    // What holds for both sides is said once.
    let mut seen = HashSet::new();
    found.retain(|diagnostic| seen.insert((diagnostic.code, diagnostic.device, diagnostic.message.clone())));
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

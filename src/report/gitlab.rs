//! Code Quality report of GitLab: an issue per check that does not hold, at the line of the user's code.

use std::collections::HashMap;

use serde::Serialize;
use sha1::{Digest, Sha1};

use super::finding::{Finding, across_ranks, findings, rule_id, source_path};
use super::{Options, Subject};
use crate::text::printable;

/// Issues that are listed.
const MOST_ISSUES: usize = 5_000;

#[derive(Debug, Serialize)]
struct Issue {
    description: String,
    check_name: String,
    fingerprint: String,
    severity: Severity,
    location: Location,
}

/// Severities of GitLab, as far as they are used.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "lowercase")]
enum Severity {
    /// A warning.
    Minor,
    /// A reason for the gate to fail.
    Major,
}

#[derive(Debug, Serialize)]
struct Location {
    path: String,
    lines: Lines,
}

#[derive(Debug, Serialize)]
struct Lines {
    begin: u32,
}

pub(super) fn render(subject: Subject<'_>, options: &Options) -> Result<String, serde_json::Error> {
    let source = source_path(subject).unwrap_or_default();
    let findings = across_ranks(findings(subject, options));
    let bad = findings.iter().filter(|finding| finding.is_bad()).take(MOST_ISSUES);
    let mut seen = HashMap::new();
    let mut issues = Vec::new();
    for finding in bad {
        let repeats: &mut u32 = seen.entry(finding.identity()).or_default();
        issues.push(Issue::new(finding, source, *repeats));
        *repeats += 1;
    }
    let mut text = crate::text::printable_json(serde_json::to_string_pretty(&issues)?);
    text.push('\n');
    Ok(text)
}

impl Issue {
    fn new(finding: &Finding<'_>, source: &str, repeats: u32) -> Self {
        let place = finding.explanation.place.as_ref();
        let name = finding.comparison.map(|name| format!("{name}: ")).unwrap_or_default();
        Self {
            description: printable(&format!("GPU memory: {name}{}", finding.sentence)),
            check_name: format!("ptmem/{}", rule_id(finding.check.about())),
            fingerprint: fingerprint(&finding.identity(), repeats),
            severity: if finding.is_error() { Severity::Major } else { Severity::Minor },
            location: Location {
                // Every issue needs a place: without one, the file that was looked at.
                path: printable(place.map_or(source, |place| &place.path)),
                lines: Lines { begin: place.map_or(1, |place| place.line) },
            },
        }
    }
}

/// The same for the same check in every run; GitLab shows one issue alone of those that share it.
fn fingerprint(identity: &str, repeats: u32) -> String {
    let digest = Sha1::digest(format!("{identity}\0{repeats}"));
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fingerprints_tell_repeated_checks_apart() {
        assert_eq!(fingerprint("a", 0), fingerprint("a", 0));
        assert_ne!(fingerprint("a", 0), fingerprint("a", 1));
        assert_eq!(fingerprint("a", 0).len(), 40);
    }
}

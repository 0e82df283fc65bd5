//! Code Quality report of GitLab: an issue per check that does not hold, at the line of the user's code.

use std::io::{self, Write};

use ptmem_base::text::printable;

use super::finding::{ExplainedCheck, fingerprints};
use super::merged::across_ranks;
use super::{RenderOptions, Report};
use ptmem_base::json_writer::{self as json, list, object, one};

/// Issues that are listed.
const MOST_ISSUES: usize = 5_000;

pub(super) fn write(report: &dyn Report, options: &RenderOptions, out: &mut dyn Write) -> io::Result<()> {
    let findings = across_ranks(report, options);
    let bad: Vec<_> = findings.iter().filter(|finding| finding.is_bad()).take(MOST_ISSUES).collect();
    let digests = fingerprints(bad.iter().copied());
    json::write(&list(bad.iter().zip(&digests).map(|(finding, digest)| Issue(finding, digest))), out)
}

object! {
    Issue<'a>(finding: &'a ExplainedCheck<'a>, digest: &'a str) {
        description: printable(&format!("GPU memory: {}", finding.named_sentence())),
        check_name: format!("ptmem/{}", finding.check.kind().name()),
        fingerprint: digest,
        severity: if finding.is_error { "major" } else { "minor" },
        location: Location(finding),
    }
}

object! {
    /// Every issue needs a location: without one, the examined file.
    Location<'a>(finding: &'a ExplainedCheck<'a>) {
        path: printable(finding.explanation.place.as_ref().map_or(finding.source, |place| &place.path)),
        lines: one("begin", finding.explanation.place.as_ref().map_or(1, |place| place.line)),
    }
}

//! Code Quality report of GitLab: an issue per check that does not hold, at the line of the user's code.

use std::collections::HashMap;
use std::io::{self, Write};

use ptmem_base::text::printable;

use super::finding::{ExplainedCheck, fingerprint};
use super::merged::across_ranks;
use super::{RenderOptions, Report};
use ptmem_base::json_writer::{self as json, list, object, one};

/// Issues that are listed.
const MOST_ISSUES: usize = 5_000;

pub(super) fn write(report: &dyn Report, options: &RenderOptions, out: &mut dyn Write) -> io::Result<()> {
    let findings = across_ranks(report, options);
    let bad: Vec<_> = findings.iter().filter(|finding| finding.is_bad()).take(MOST_ISSUES).collect();
    let mut seen: HashMap<String, u32> = HashMap::new();
    let mut repeats = Vec::with_capacity(bad.len());
    for finding in &bad {
        let earlier = seen.entry(finding.identity()).or_default();
        repeats.push(*earlier);
        *earlier += 1;
    }
    json::write(&list(bad.iter().zip(repeats).map(|(finding, repeats)| Issue(finding, repeats))), out)
}

object! {
    Issue<'a>(finding: &'a ExplainedCheck<'a>, repeats: u32) {
        description: printable(&format!("GPU memory: {}", finding.named_sentence())),
        check_name: format!("ptmem/{}", finding.check.kind().name()),
        // GitLab shows only one of the issues that share it.
        fingerprint: fingerprint(&format!("{}\0{repeats}", finding.identity())),
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

//! SARIF 2.1.0: one result per check that does not hold, at the line of the user's code.
//!
//! Fields are in the order of their names.

use std::collections::HashSet;
use std::io::{self, Write};

use ptmem_compare::tree::CallFrame;
use ptmem_judge::verdict::LimitKind;

use super::finding::{CheckExplanation, ExplainedCheck, fingerprints};
use super::merged::across_ranks;
use super::place::Place;
use super::run::escaped_path;
use super::{RenderOptions, Report};
use ptmem_base::json_writer::{self as json, list, object, one};

/// Frames of one stack that are listed.
const MOST_FRAMES: usize = 256;

/// Code scanning takes no more results of one run.
const MOST_RESULTS: usize = 5_000;

/// The base of relative paths.
const ROOT: &str = "SRCROOT";

pub(super) fn write(report: &dyn Report, options: &RenderOptions, out: &mut dyn Write) -> io::Result<()> {
    let mut findings = across_ranks(report, options);
    findings.retain(ExplainedCheck::is_bad);
    findings.truncate(MOST_RESULTS);
    json::write(&Log(&findings, &fingerprints(findings.iter()), options), out)
}

object! {
    Log<'a>(findings: &'a [ExplainedCheck<'a>], digests: &'a [String], options: &'a RenderOptions) {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        runs: [Run(findings, digests, options)],
        version: "2.1.0",
    }
}

object! {
    Run<'a>(findings: &'a [ExplainedCheck<'a>], digests: &'a [String], options: &'a RenderOptions) {
        columnKind: "unicodeCodePoints",
        originalUriBaseIds: one(ROOT, one("description", one("text", "The root of the checkout."))),
        results: list(findings.iter().zip(digests.iter()).map(|(finding, digest)| RunResult(finding, digest, options))),
        tool: one("driver", Driver(findings)),
    }
}

object! {
    Driver<'a>(findings: &'a [ExplainedCheck<'a>]) {
        informationUri: "https://pytorch.org/docs/stable/torch_cuda_memory.html",
        name: "ptmem",
        rules: list(rules(findings).into_iter().map(Rule)),
        semanticVersion: env!("CARGO_PKG_VERSION"),
    }
}

/// The kinds of checks that results are about.
fn rules(findings: &[ExplainedCheck<'_>]) -> Vec<LimitKind> {
    let mut seen = HashSet::new();
    findings.iter().map(|finding| finding.check.kind()).filter(|kind| seen.insert(*kind)).collect()
}

object! {
    Rule(kind: LimitKind) {
        defaultConfiguration: one("level", "error"),
        fullDescription: one("text", format!(
            "GPU memory: {}. The limit that was set for it is exceeded, or cannot be checked.", kind.description()
        )),
        id: kind.name(),
        shortDescription: one("text", format!("GPU memory: {}", kind.description())),
    }
}

object! {
    RunResult<'a>(finding: &'a ExplainedCheck<'a>, digest: &'a str, options: &'a RenderOptions) {
        level: if finding.is_error { "error" } else { "warning" },
        locations: [one("physicalLocation", location(finding))],
        message: one("text", finding.named_sentence()),
        partialFingerprints: one("ptmem/v1", digest),
        properties: Properties(finding),
        ruleId: finding.check.kind().name(),
        stacks?: finding.explanation.stack.is_some().then_some([Stack(&finding.explanation, options)]),
    }
}

/// The place of a result. Viewers need one for each: without a line of user code it is the examined file.
fn location<'a>(finding: &'a ExplainedCheck<'a>) -> Location<'a> {
    let place = finding.explanation.place.as_ref();
    place.map_or(Location(finding.source, None), |place| Location(&place.path, Some(place.line)))
}

object! {
    /// The check in figures.
    Properties<'a>(finding: &'a ExplainedCheck<'a>) {
        after: finding.check.figures.after,
        before: finding.check.figures.before,
        comparison: finding.comparison,
        device: finding.check.device,
        limit: finding.check.limit.text,
        metric: finding.check.of.name(),
        result: finding.check.outcome.name(),
    }
}

object! {
    /// The frames in the order of the standard, innermost first.
    Stack<'a>(explanation: &'a CheckExplanation<'a>, options: &'a RenderOptions) {
        frames: list(explanation.frames(options).iter().rev().take(MOST_FRAMES).map(|(frame, place)| {
            one("location", LocationOfFrame(frame, place.as_ref()))
        })),
        message: one("text", "the stack that explains it"),
    }
}

object! {
    LocationOfFrame<'a>(frame: &'a CallFrame, place: Option<&'a Place>) {
        message: one("text", frame.text()),
        // The checkout does not have the files of libraries.
        physicalLocation?: place.filter(|_| frame.is_user).map(|place| Location(&place.path, Some(place.line))),
    }
}

object! {
    /// A file, or a line of one that may be in the checkout.
    Location<'a>(path: &'a str, line: Option<u32>) {
        artifactLocation: Artifact(path, line.is_some() && !path.starts_with('/')),
        region?: line.map(|line| one("startLine", line)),
    }
}

object! {
    Artifact<'a>(path: &'a str, is_relative: bool) {
        uri: escaped_path(path),
        uriBaseId?: is_relative.then_some(ROOT),
    }
}

//! SARIF 2.1.0: one result per check that does not hold, at the line of the user's code.
//!
//! Fields stand in the order of their names: that is the order in which keys are written.

use serde::Serialize;
use sha1::{Digest, Sha1};

use super::finding::{Finding, across_ranks, findings, rule_id, source_path};
use super::place::{Place, PlacedFrame};
use super::{Options, Subject};
use crate::diff::Metric;
use crate::verdict::About;

/// Frames of one stack that are listed.
const MOST_FRAMES: usize = 256;

/// Code scanning takes no more results of one run.
const MOST_RESULTS: usize = 5_000;

/// The base of relative paths.
const ROOT: &str = "SRCROOT";

#[derive(Debug, Serialize)]
struct Log<'a> {
    #[serde(rename = "$schema")]
    schema: &'static str,
    runs: [Run<'a>; 1],
    version: &'static str,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Run<'a> {
    column_kind: &'static str,
    original_uri_base_ids: UriBases,
    results: Vec<RunResult<'a>>,
    tool: Tool,
}

#[derive(Debug, Serialize)]
struct UriBases {
    #[serde(rename = "SRCROOT")]
    root: UriBase,
}

#[derive(Debug, Serialize)]
struct UriBase {
    description: Message,
}

#[derive(Debug, Serialize)]
struct Message {
    text: String,
}

#[derive(Debug, Serialize)]
struct Tool {
    driver: Driver,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Driver {
    information_uri: &'static str,
    name: &'static str,
    rules: Vec<Rule>,
    semantic_version: &'static str,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Rule {
    default_configuration: RuleConfiguration,
    full_description: Message,
    id: &'static str,
    short_description: Message,
}

#[derive(Debug, Serialize)]
struct RuleConfiguration {
    level: Level,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "lowercase")]
enum Level {
    Error,
    Warning,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct RunResult<'a> {
    level: Level,
    locations: [Location; 1],
    message: Message,
    partial_fingerprints: Fingerprints,
    properties: Properties<'a>,
    rule_id: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    stacks: Option<[Stack; 1]>,
}

#[derive(Debug, Serialize)]
struct Fingerprints {
    #[serde(rename = "ptmem/v1")]
    of_check: String,
}

/// The check in figures.
#[derive(Debug, Serialize)]
struct Properties<'a> {
    after: Option<u64>,
    before: Option<u64>,
    comparison: Option<&'a str>,
    device: Option<u32>,
    limit: &'a str,
    metric: String,
    result: &'static str,
}

#[derive(Debug, Serialize)]
struct Stack {
    frames: Vec<Frame>,
    message: Message,
}

#[derive(Debug, Serialize)]
struct Frame {
    location: Location,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Location {
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<Message>,
    #[serde(skip_serializing_if = "Option::is_none")]
    physical_location: Option<PhysicalLocation>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct PhysicalLocation {
    artifact_location: ArtifactLocation,
    #[serde(skip_serializing_if = "Option::is_none")]
    region: Option<Region>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ArtifactLocation {
    uri: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    uri_base_id: Option<&'static str>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Region {
    start_line: u32,
}

pub(super) fn render(subject: Subject<'_>, options: &Options) -> Result<String, serde_json::Error> {
    let source = source_path(subject).unwrap_or_default();
    let findings = across_ranks(findings(subject, options));
    let bad = findings.iter().filter(|finding| finding.is_bad()).take(MOST_RESULTS);
    let log = Log {
        schema: "https://json.schemastore.org/sarif-2.1.0.json",
        runs: [Run {
            column_kind: "unicodeCodePoints",
            original_uri_base_ids: UriBases {
                root: UriBase { description: Message::new("The root of the checkout.") },
            },
            results: bad.map(|finding| RunResult::new(finding, source)).collect(),
            tool: Tool {
                driver: Driver {
                    information_uri: "https://pytorch.org/docs/stable/torch_cuda_memory.html",
                    name: "ptmem",
                    rules: rules(),
                    semantic_version: env!("CARGO_PKG_VERSION"),
                },
            },
        }],
        version: "2.1.0",
    };
    let mut text = crate::text::printable_json(serde_json::to_string_pretty(&log)?);
    text.push('\n');
    Ok(text)
}

/// Every rule that a result may name.
fn rules() -> Vec<Rule> {
    let others = [
        About::Stacks,
        About::StackHighest,
        About::Imbalance,
        About::Ranks,
        About::Phases,
        About::Modules,
        About::Leaks,
        About::OutOfMemory,
        About::Headroom,
        About::Growth,
    ];
    Metric::ALL.into_iter().map(About::Metric).chain(others).map(Rule::new).collect()
}

fn rule_description(about: About) -> &'static str {
    match about {
        About::Metric(metric) => metric.description(),
        About::Stacks => "bytes that one call stack holds",
        About::StackHighest => "the most bytes that one call stack held at any moment",
        About::Phases => "highest allocated bytes within a phase",
        About::Modules => "bytes that one module holds with all its parts",
        About::Imbalance => "how far the highest peak of all ranks lies above their median",
        About::Ranks => "ranks that only one side has",
        About::Leaks => "bytes that do not come back",
        About::OutOfMemory => "memory that ran out",
        About::Headroom => "bytes of the device that the reserved peak leaves free",
        About::Growth => "growth that has no before to be compared with",
    }
}

impl Rule {
    fn new(about: About) -> Self {
        let description = rule_description(about);
        let full =
            format!("GPU memory: {description}. The limit that was set for it is exceeded, or cannot be checked.");
        Self {
            default_configuration: RuleConfiguration { level: Level::Error },
            full_description: Message { text: full },
            id: rule_id(about),
            short_description: Message { text: format!("GPU memory: {description}") },
        }
    }
}

impl Message {
    fn new(text: &str) -> Self {
        Self { text: text.to_owned() }
    }
}

impl<'a> RunResult<'a> {
    fn new(finding: &'a Finding<'a>, source: &str) -> Self {
        let check = finding.check;
        let explanation = &finding.explanation;
        // Viewers need a place for every result: without one, the file that was looked at.
        let location = explanation.place.as_ref().map_or_else(|| Location::of_file(source), Location::of_place);
        Self {
            level: if finding.is_error() { Level::Error } else { Level::Warning },
            locations: [location],
            message: Message::new(&finding.sentence),
            partial_fingerprints: Fingerprints { of_check: fingerprint(finding) },
            properties: Properties {
                after: check.after,
                before: check.before,
                comparison: finding.comparison,
                device: check.device,
                limit: &check.limit,
                metric: check.of.name(),
                result: check.outcome.name(),
            },
            rule_id: rule_id(check.about()),
            stacks: Stack::new(&explanation.stack).map(|stack| [stack]),
        }
    }
}

impl Stack {
    /// The frames in the order of the standard, innermost first; nothing where there are none.
    fn new(frames: &[PlacedFrame]) -> Option<Self> {
        if frames.is_empty() {
            return None;
        }
        let frames = frames.iter().rev().take(MOST_FRAMES);
        let frames = frames.map(|frame| Frame { location: Location::of_frame(frame) }).collect();
        Some(Self { frames, message: Message::new("the stack that explains it") })
    }
}

impl Location {
    fn of_place(place: &Place) -> Self {
        Self { message: None, physical_location: Some(PhysicalLocation::new(place)) }
    }

    fn of_frame(frame: &PlacedFrame) -> Self {
        Self {
            message: Some(Message { text: frame.frame.text() }),
            physical_location: frame.place.as_ref().map(PhysicalLocation::new),
        }
    }

    fn of_file(path: &str) -> Self {
        let artifact_location = ArtifactLocation { uri: uri(path), uri_base_id: None };
        Self { message: None, physical_location: Some(PhysicalLocation { artifact_location, region: None }) }
    }
}

impl PhysicalLocation {
    fn new(place: &Place) -> Self {
        let is_relative = !place.path.starts_with('/');
        Self {
            artifact_location: ArtifactLocation { uri: uri(&place.path), uri_base_id: is_relative.then_some(ROOT) },
            region: Some(Region { start_line: place.line }),
        }
    }
}

/// The same for the same check in every run, whatever the figures and lines.
fn fingerprint(finding: &Finding<'_>) -> String {
    let digest = Sha1::digest(finding.identity());
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A path as a reference: characters that have a meaning in URIs are written in percent.
fn uri(path: &str) -> String {
    let mut uri = String::with_capacity(path.len());
    for byte in path.bytes() {
        match byte {
            b'/' | b'-' | b'.' | b'_' | b'~' => uri.push(char::from(byte)),
            byte if byte.is_ascii_alphanumeric() => uri.push(char::from(byte)),
            byte => uri.push_str(&format!("%{byte:02X}")),
        }
    }
    uri
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_references() {
        assert_eq!(uri("a b/c%d|é.py"), "a%20b/c%25d%7C%C3%A9.py");
        assert_eq!(uri("C:/x.py"), "C%3A/x.py");
    }
}

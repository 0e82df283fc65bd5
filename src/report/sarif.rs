//! SARIF 2.1.0: one result per check that does not hold, at the line of the user's code.

use serde_json::{Value, json};
use sha1::{Digest, Sha1};

use super::finding::{Finding, Place, across_ranks, findings};
use super::{Options, Subject};
use crate::diff::Metric;
use crate::verdict::IMBALANCE;

/// More frames of one stack nobody reads.
const MOST_FRAMES: usize = 256;

/// So many results code scanning takes of one run.
const MOST_RESULTS: usize = 5_000;

pub(super) fn render(subject: Subject<'_>, options: &Options) -> Result<String, serde_json::Error> {
    let source = match subject {
        Subject::Gate(gate) => gate.comparisons.first().map(|c| c.diff.profiles.after.source.path.as_str()),
        Subject::Leaks(gate) => {
            gate.findings.first().and_then(|f| f.search.sources.last()).map(|source| source.path.as_str())
        }
        Subject::Profile(..) | Subject::Ranks(_) => {
            subject.profiles().first().map(|(_, profile, _)| profile.source.path.as_str())
        }
    };
    let findings = across_ranks(findings(subject, options));
    let bad = findings.iter().filter(|finding| finding.is_bad()).take(MOST_RESULTS);
    let results: Vec<Value> = bad.map(|finding| result(finding, source.unwrap_or_default())).collect();
    let log = json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": { "driver": {
                "name": "ptmem",
                "semanticVersion": env!("CARGO_PKG_VERSION"),
                "informationUri": "https://pytorch.org/docs/stable/torch_cuda_memory.html",
                "rules": rules(),
            }},
            "columnKind": "unicodeCodePoints",
            "originalUriBaseIds": { "SRCROOT": { "description": { "text": "The root of the checkout." } } },
            "results": results,
        }],
    });
    let mut text = serde_json::to_string_pretty(&log)?;
    text.push('\n');
    Ok(text)
}

fn rules() -> Vec<Value> {
    let metrics = Metric::ALL.map(|metric| (metric.name(), format!("GPU memory: {}", metric.description())));
    let others = [
        ("stack", "GPU memory: bytes that one call stack holds"),
        (IMBALANCE, "GPU memory: how far the highest peak of all ranks lies above their median"),
        ("ranks", "GPU memory: ranks that only one side has"),
        ("phase", "GPU memory: highest allocated bytes within a phase"),
        ("leak", "GPU memory: bytes that do not come back"),
    ];
    let rule = |(id, text): (&str, String)| {
        json!({
            "id": id,
            "shortDescription": { "text": text },
            "fullDescription": { "text": format!("{text}. The limit that was set for it is exceeded, or cannot be checked.") },
            "defaultConfiguration": { "level": "error" },
        })
    };
    metrics.into_iter().chain(others.map(|(id, text)| (id, text.to_owned()))).map(rule).collect()
}

fn result(finding: &Finding<'_>, source: &str) -> Value {
    let check = finding.check;
    let at = match &finding.place {
        Some(place) => location(place, None),
        // Whoever shows results wants a place for each: the file that was looked at.
        None => json!({ "physicalLocation": { "artifactLocation": { "uri": uri(source) } } }),
    };
    let frames: Vec<Value> = finding
        .stack
        .iter()
        // Innermost first, as the standard has it.
        .rev()
        .take(MOST_FRAMES)
        .map(|(frame, place)| match place {
            Some(place) => json!({ "location": location(place, Some(&frame.text())) }),
            None => json!({ "location": { "message": { "text": frame.text() } } }),
        })
        .collect();
    let mut result = json!({
        "ruleId": finding.rule(),
        "level": if finding.is_error() { "error" } else { "warning" },
        "message": { "text": finding.sentence },
        "locations": [at],
        "partialFingerprints": { "ptmem/v1": fingerprint(finding) },
        "properties": {
            "comparison": finding.comparison,
            "device": check.device,
            "metric": check.metric,
            "limit": check.limit,
            "result": check.outcome.name(),
            "before": check.before,
            "after": check.after,
        },
    });
    if !frames.is_empty() {
        result["stacks"] = json!([{ "message": { "text": "the stack that explains it" }, "frames": frames }]);
    }
    result
}

/// The same for the same check in every run, whatever the figures and lines.
fn fingerprint(finding: &Finding<'_>) -> String {
    let check = finding.check;
    let device = check.device.map(|device| device.to_string()).unwrap_or_default();
    let parts =
        [finding.comparison.unwrap_or_default(), &device, &check.metric, check.key.as_deref().unwrap_or_default()];
    let digest = Sha1::digest(parts.join("\0"));
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn location(place: &Place, text: Option<&str>) -> Value {
    let mut location = json!({ "physicalLocation": {
        "artifactLocation": { "uri": uri(&place.path) },
        "region": { "startLine": place.line },
    }});
    if !place.path.starts_with('/') {
        location["physicalLocation"]["artifactLocation"]["uriBaseId"] = json!("SRCROOT");
    }
    if let Some(text) = text {
        location["message"] = json!({ "text": text });
    }
    location
}

/// A path as a reference: what has a meaning in URIs is written in percent.
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

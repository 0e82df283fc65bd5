//! JUnit XML: a suite per device, a case per check, and in what failed the stacks that explain it.

use std::collections::BTreeMap;

use maud::{Markup, PreEscaped, html};
use ptmem_base::text::printable;
use ptmem_judge::verdict::{Level, Outcome};

use super::finding::{ExplainedCheck, of_report};
use super::{RenderOptions, Report};

pub(super) fn render(report: &dyn Report, options: &RenderOptions) -> String {
    let findings = of_report(report, options);
    // By name: checks come with the worst first, and reports of two runs are compared.
    let mut suites: BTreeMap<String, Vec<&ExplainedCheck<'_>>> = BTreeMap::new();
    for finding in &findings {
        let scope = finding.comparison.map(|comparison| format!("{}: ", printable(comparison)));
        suites.entry(scope.unwrap_or_default() + &finding.device).or_default().push(finding);
    }
    let all: Vec<&ExplainedCheck<'_>> = findings.iter().collect();
    let page = html! {
        (PreEscaped("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"))
        testsuites name="ptmem" tests=(all.len()) failures=(count(&all, Outcome::Exceeded)) errors=(count(&all, Outcome::Inconclusive)) {
            @for (name, cases) in &suites {
                "\n  " testsuite name=(name) tests=(cases.len()) failures=(count(cases, Outcome::Exceeded))
                    errors=(count(cases, Outcome::Inconclusive)) skipped="0" {
                    @for finding in cases { "\n    " (case(finding, name)) }
                    "\n  "
                }
            }
            "\n"
        }
        "\n"
    };
    page.into_string()
}

/// The number of checks that fail, or that are inconclusive. A warning does not fail the test.
fn count(cases: &[&ExplainedCheck<'_>], outcome: Outcome) -> usize {
    cases.iter().filter(|finding| finding.is_error && finding.check.outcome == outcome).count()
}

fn case(finding: &ExplainedCheck<'_>, suite: &str) -> Markup {
    let message = &finding.sentence;
    let text = case_text(finding);
    html! {
        testcase name=(case_name(finding)) classname=(format!("ptmem.{suite}")) {
            @match finding.check.outcome {
                Outcome::Pass => { system-out { (message) } }
                _ if !finding.is_error => { system-err { (text) } }
                Outcome::Exceeded if finding.check.is_improvement() => {
                    failure type="improvement" message=(message) { (text) }
                }
                Outcome::Exceeded => { failure type="regression" message=(message) { (text) } }
                Outcome::Inconclusive => { error type="inconclusive" message=(message) { (text) } }
            }
        }
    }
}

fn case_name(finding: &ExplainedCheck<'_>) -> String {
    let check = finding.check;
    let scope = check.label().map(|label| format!(" {label}")).unwrap_or_default();
    let level = match check.limit.level {
        Level::Fail => "",
        Level::Warn => " (warning)",
    };
    printable(&format!("{}{scope} within {}{level}", check.of.name(), check.limit.text))
}

/// The check in words, then the code that explains it.
fn case_text(finding: &ExplainedCheck<'_>) -> String {
    let place = finding.explanation.place.as_ref();
    let place = place.map(|place| format!("\nat {}:{}", printable(&place.path), place.line)).unwrap_or_default();
    let rows = finding.explanation.rows.join("\n");
    let gap = if rows.is_empty() { "" } else { "\n\n" };
    format!("{}{place}{gap}{rows}", finding.sentence)
}

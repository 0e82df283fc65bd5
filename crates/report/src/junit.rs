//! JUnit XML: a suite per device, a case per check, and in what failed the stacks that explain it.

use std::collections::BTreeMap;
use std::fmt::{self, Write};

use super::finding::{Finding, findings};
use super::{Options, Subject};
use crate::text::{is_printable, printable};
use crate::verdict::{Level, Outcome};

pub(super) fn render(subject: Subject<'_>, options: &Options) -> String {
    let findings = findings(subject, options);
    // By name: checks come with the worst first, and reports of two runs are compared.
    let mut suites: BTreeMap<String, Vec<&Finding<'_>>> = BTreeMap::new();
    for finding in &findings {
        suites.entry(suite_name(finding)).or_default().push(finding);
    }
    let mut out = String::new();
    // Writing to a String cannot fail.
    let _ = write_suites(&mut out, &suites);
    out
}

fn suite_name(finding: &Finding<'_>) -> String {
    match finding.comparison {
        Some(comparison) => format!("{}: {}", printable(comparison), finding.device),
        None => finding.device.clone(),
    }
}

/// Result of a check in the terms of test reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CaseResult {
    Passed,
    /// A warning does not fail the test.
    Warned,
    Failed,
    /// It is inconclusive.
    Error,
}

impl CaseResult {
    fn of(finding: &Finding<'_>) -> Self {
        match (finding.check.outcome, finding.check.level) {
            (Outcome::Pass, _) => Self::Passed,
            (Outcome::Exceeded | Outcome::Inconclusive, Level::Warn) => Self::Warned,
            (Outcome::Exceeded, Level::Fail) => Self::Failed,
            (Outcome::Inconclusive, Level::Fail) => Self::Error,
        }
    }
}

/// Numbers of test cases.
#[derive(Debug, Clone, Copy, Default)]
struct Counts {
    tests: usize,
    failures: usize,
    errors: usize,
}

impl Counts {
    fn of(cases: &[&Finding<'_>]) -> Self {
        let mut counts = Self::default();
        for finding in cases {
            let result = CaseResult::of(finding);
            counts.tests += 1;
            counts.failures += usize::from(result == CaseResult::Failed);
            counts.errors += usize::from(result == CaseResult::Error);
        }
        counts
    }

    fn add(&mut self, other: Self) {
        self.tests += other.tests;
        self.failures += other.failures;
        self.errors += other.errors;
    }
}

/// Printed as attributes of an element.
impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { tests, failures, errors } = self;
        write!(f, "tests=\"{tests}\" failures=\"{failures}\" errors=\"{errors}\"")
    }
}

fn write_suites(out: &mut String, suites: &BTreeMap<String, Vec<&Finding<'_>>>) -> fmt::Result {
    let mut total = Counts::default();
    suites.values().for_each(|cases| total.add(Counts::of(cases)));
    writeln!(out, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>")?;
    writeln!(out, "<testsuites name=\"ptmem\" {total}>")?;
    for (name, cases) in suites {
        let name = escape(name);
        writeln!(out, "  <testsuite name=\"{name}\" {} skipped=\"0\">", Counts::of(cases))?;
        for finding in cases {
            write_case(out, finding, &name)?;
        }
        writeln!(out, "  </testsuite>")?;
    }
    writeln!(out, "</testsuites>")
}

fn write_case(out: &mut String, finding: &Finding<'_>, suite: &str) -> fmt::Result {
    let name = escape(&case_name(finding));
    let message = escape(&finding.sentence);
    let text = escape(&case_text(finding));
    write!(out, "    <testcase name=\"{name}\" classname=\"ptmem.{suite}\">")?;
    match CaseResult::of(finding) {
        CaseResult::Passed => write!(out, "<system-out>{message}</system-out>")?,
        CaseResult::Warned => write!(out, "<system-err>{text}</system-err>")?,
        CaseResult::Failed => write!(out, "<failure type=\"regression\" message=\"{message}\">{text}</failure>")?,
        CaseResult::Error => write!(out, "<error type=\"inconclusive\" message=\"{message}\">{text}</error>")?,
    }
    writeln!(out, "</testcase>")
}

fn case_name(finding: &Finding<'_>) -> String {
    let check = finding.check;
    let scope = check.scope.as_ref().map(|label| format!(" {}", printable(label))).unwrap_or_default();
    let level = match check.level {
        Level::Fail => "",
        Level::Warn => " (warning)",
    };
    format!("{}{scope} within {}{level}", printable(&check.of.name()), check.limit)
}

/// The check in words, then the code that explains it.
fn case_text(finding: &Finding<'_>) -> String {
    let mut text = finding.sentence.clone();
    if let Some(place) = &finding.explanation.place {
        text += &format!("\nat {}:{}", printable(&place.path), place.line);
    }
    for (index, row) in finding.explanation.rows.iter().enumerate() {
        text += if index == 0 { "\n\n" } else { "\n" };
        text += &row.to_string();
    }
    text
}

/// Text for XML 1.0.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\n' | '\t' => out.push(c),
            c if !is_printable(c) => out.extend(c.escape_default()),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_and_controls_are_escaped() {
        assert_eq!(escape("a<b>&\"c\"\u{1}\u{ffff}\u{1f600}"), "a&lt;b&gt;&amp;&quot;c&quot;\\u{1}\\u{ffff}\u{1f600}");
    }
}

//! JUnit XML: a suite per device, a case per check, and in what failed the stacks that explain it.

use std::fmt::Write;

use super::finding::{Finding, findings};
use super::{Options, Subject};
use crate::text::printable;
use crate::verdict::{Level, Outcome};

pub(super) fn render(subject: Subject<'_>, options: &Options) -> String {
    let findings = findings(subject, options);
    let mut suites: Vec<(String, Vec<&Finding<'_>>)> = Vec::new();
    for finding in &findings {
        let name = match finding.comparison {
            Some(comparison) => format!("{}: {}", printable(comparison), finding.device),
            None => finding.device.clone(),
        };
        match suites.iter_mut().find(|(other, _)| *other == name) {
            Some((_, cases)) => cases.push(finding),
            None => suites.push((name, vec![finding])),
        }
    }
    // By name: checks come with the worst first, and reports of two runs are compared.
    suites.sort_by(|(a, _), (b, _)| a.cmp(b));
    let mut out = String::new();
    // Writing to a String cannot fail.
    let _ = write_suites(&mut out, &suites);
    out
}

fn write_suites(out: &mut String, suites: &[(String, Vec<&Finding<'_>>)]) -> std::fmt::Result {
    let failed =
        |finding: &&&Finding<'_>| finding.check.outcome == Outcome::Exceeded && finding.check.level == Level::Fail;
    let unclear =
        |finding: &&&Finding<'_>| finding.check.outcome == Outcome::Inconclusive && finding.check.level == Level::Fail;
    let all = || suites.iter().flat_map(|(_, cases)| cases);
    writeln!(out, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>")?;
    let (tests, failures, errors) = (all().count(), all().filter(failed).count(), all().filter(unclear).count());
    writeln!(out, "<testsuites name=\"ptmem\" tests=\"{tests}\" failures=\"{failures}\" errors=\"{errors}\">")?;
    for (name, cases) in suites {
        let (failures, errors) = (cases.iter().filter(failed).count(), cases.iter().filter(unclear).count());
        let (name, tests) = (escape(name), cases.len());
        writeln!(
            out,
            "  <testsuite name=\"{name}\" tests=\"{tests}\" failures=\"{failures}\" errors=\"{errors}\" skipped=\"0\">"
        )?;
        for finding in cases {
            write_case(out, finding, &name)?;
        }
        writeln!(out, "  </testsuite>")?;
    }
    writeln!(out, "</testsuites>")
}

fn write_case(out: &mut String, finding: &Finding<'_>, suite: &str) -> std::fmt::Result {
    let check = finding.check;
    let scope = check.scope.as_ref().map(|label| format!(" {}", printable(label))).unwrap_or_default();
    let level = if check.level == Level::Warn { " (warning)" } else { "" };
    let name = escape(&format!("{}{scope} within {}{level}", printable(&check.metric), check.limit));
    write!(out, "    <testcase name=\"{name}\" classname=\"ptmem.{suite}\">")?;
    let mut text = finding.sentence.clone();
    if let Some(place) = &finding.place {
        let _ = write!(text, "\nat {}:{}", printable(&place.path), place.line);
    }
    if !finding.rows.is_empty() {
        let _ = write!(text, "\n\n{}", finding.rows.join("\n"));
    }
    let (text, message) = (escape(&text), escape(&finding.sentence));
    match (check.outcome, check.level) {
        (Outcome::Pass, _) => write!(out, "<system-out>{message}</system-out>")?,
        (Outcome::Exceeded, Level::Fail) => {
            write!(out, "<failure type=\"regression\" message=\"{message}\">{text}</failure>")?;
        }
        (Outcome::Inconclusive, Level::Fail) => {
            write!(out, "<error type=\"inconclusive\" message=\"{message}\">{text}</error>")?;
        }
        (_, Level::Warn) => write!(out, "<system-err>{text}</system-err>")?,
    }
    writeln!(out, "</testcase>")
}

/// Text for XML 1.0, which knows no control characters at all and not these two code points.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\n' | '\t' => out.push(c),
            '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
            c if c.is_control() => out.extend(c.escape_default()),
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
        assert_eq!(escape("a<b>&\"c\"\u{1}\u{ffff}\u{1f600}"), "a&lt;b&gt;&amp;&quot;c&quot;\\u{1}\u{fffd}\u{1f600}");
    }
}

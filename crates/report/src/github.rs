//! Workflow commands of GitHub Actions: they annotate the line of the user's code, as it is in the after.

use std::collections::HashSet;
use std::fmt::Write;

use super::finding::{Finding, across_ranks, findings};
use super::place::Place;
use super::{Options, Subject, ranks};
use crate::diagnostic::{Code, Diagnostic, Severity};
use crate::diff::Diff;
use crate::text::printable;
use crate::verdict::Gate;

/// GitHub shows no more of a level per step.
const MOST_PER_LEVEL: usize = 10;

/// A command: an annotation of a line, or of the run.
#[derive(Debug)]
struct Command {
    place: Option<Place>,
    title: String,
    message: String,
}

/// The commands, by how much they weigh.
#[derive(Debug, Default)]
struct Commands {
    errors: Vec<Command>,
    warnings: Vec<Command>,
    notices: Vec<Command>,
}

/// One command per line: what failed as errors, what warns as warnings, and then what a reader must know.
pub(super) fn render(subject: Subject<'_>, options: &Options) -> String {
    let mut commands = Commands::default();
    for finding in across_ranks(findings(subject, options)).iter().filter(|finding| finding.is_bad()) {
        let level = if finding.is_error() { &mut commands.errors } else { &mut commands.warnings };
        level.push(Command::of_finding(finding));
    }
    put_each_line_first(&mut commands.errors);
    for diagnostic in &diagnostics(subject) {
        let level = match diagnostic.severity() {
            Severity::Warning => &mut commands.warnings,
            Severity::Note => &mut commands.notices,
        };
        level.push(Command::of_diagnostic(diagnostic));
    }
    commands.warnings.extend(ungated(subject));
    let mut out = String::new();
    write_level(&mut out, "error", &commands.errors);
    write_level(&mut out, "warning", &commands.warnings);
    write_level(&mut out, "notice", &commands.notices);
    out
}

impl Command {
    fn of_finding(finding: &Finding<'_>) -> Self {
        let scope = finding.comparison.map(|name| format!(" ({name})")).unwrap_or_default();
        let mut message = finding.sentence.clone();
        for row in &finding.explanation.rows {
            message += &format!("\n{row}");
        }
        Self {
            place: finding.explanation.place.clone(),
            title: format!("GPU memory: {}{scope}", finding.check.of.name()),
            message,
        }
    }

    fn of_diagnostic(diagnostic: &Diagnostic) -> Self {
        let device = diagnostic.device.map(|device| format!("device {device}: ")).unwrap_or_default();
        Self {
            place: None,
            title: format!("ptmem: {}", diagnostic.code),
            message: format!("{device}{}", diagnostic.message),
        }
    }

    fn write(&self, out: &mut String, level: &str) {
        let _ = write!(out, "::{level} ");
        if let Some(place) = &self.place {
            let _ = write!(out, "file={},line={},", escape_property(&printable(&place.path)), place.line);
        }
        // A message may have several lines, each of which may hold anything.
        let message: Vec<_> = self.message.split('\n').map(printable).collect();
        let title = escape_property(&printable(&self.title));
        let _ = writeln!(out, "title={title}::{}", escape_data(&message.join("\n")));
    }
}

/// Moves commands to the end whose line another one has: several figures of one line say less than several lines.
fn put_each_line_first(commands: &mut [Command]) {
    let mut seen = HashSet::new();
    commands.sort_by_cached_key(|command| !seen.insert(command.place.clone()));
}

/// The commands of a level. The last one that GitHub would show says how many it does not.
fn write_level(out: &mut String, level: &str, commands: &[Command]) {
    if commands.len() <= MOST_PER_LEVEL {
        commands.iter().for_each(|command| command.write(out, level));
        return;
    }
    let shown = MOST_PER_LEVEL - 1;
    commands[..shown].iter().for_each(|command| command.write(out, level));
    let message = format!("and {} more", commands.len() - shown);
    Command { place: None, title: "ptmem: more".to_owned(), message }.write(out, level);
}

/// A gate without limits is a mistake that looks like a pass.
fn ungated(subject: Subject<'_>) -> Option<Command> {
    let Subject::Gate(gate) = subject else { return None };
    (!gate.is_gated()).then(|| Command {
        place: None,
        title: "ptmem: nothing was gated".to_owned(),
        message: "no limit was given, on the command line or in ptmem.toml: whatever changes, this passes".to_owned(),
    })
}

/// Warnings, and growth that passes only because it was agreed to; each once, although it may hold for both sides.
fn diagnostics(subject: Subject<'_>) -> Vec<Diagnostic> {
    let mut found = match subject {
        Subject::Gate(gate) => of_gate(gate),
        Subject::Profile(profile, judgement) => {
            let judged = judgement.into_iter().flat_map(|judgement| &judgement.diagnostics);
            profile.diagnostics.iter().chain(judged).cloned().collect()
        }
        Subject::History(_) | Subject::Scale(_) => Vec::new(),
        Subject::Ranks(readings) => {
            ranks::diagnostics_of_readings(readings).into_iter().map(|(_, diagnostic)| diagnostic).collect()
        }
        Subject::Leaks(gate) => {
            let found = gate
                .findings
                .iter()
                .flat_map(|finding| finding.search.diagnostics.iter().chain(&finding.judgement.diagnostics));
            found.cloned().collect()
        }
    };
    let mut seen = HashSet::new();
    found.retain(|diagnostic: &Diagnostic| {
        is_told(diagnostic) && seen.insert((diagnostic.code, diagnostic.device, diagnostic.message.clone()))
    });
    found
}

fn is_told(diagnostic: &Diagnostic) -> bool {
    diagnostic.severity() == Severity::Warning || diagnostic.code == Code::AcceptedGrowth
}

/// The diagnostics of the ranks of a job are written once for all.
fn of_gate(gate: &Gate) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    for comparison in gate.comparisons.iter().filter(|comparison| comparison.member.is_none()) {
        let Diff { profiles, diagnostics, .. } = &comparison.diff;
        found.extend(profiles.before.diagnostics.iter().cloned());
        found.extend(profiles.after.diagnostics.iter().cloned());
        found.extend(diagnostics.iter().cloned());
        found.extend(comparison.judgement.diagnostics.iter().cloned());
    }
    for job in &gate.ranks {
        found.extend(ranks::diagnostics_of_gate(gate, job).into_iter().map(|(_, diagnostic)| diagnostic));
    }
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

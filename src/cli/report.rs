//! Writes reports: to standard output and to files.

use std::collections::BTreeMap;

use anyhow::Result;
use ptmem::report::{self, Format, Subject};

use super::args::View;
use super::{checkout, output, sources, surroundings};

/// The options of reports that all commands have in common.
pub(super) fn report_options(view: &View, output: &output::Output) -> report::Options {
    report::Options {
        top: view.top,
        width: output.width(),
        more: output::more(view.verbose),
        max_bytes: view.max_bytes,
        comment_key: view.comment_key.clone(),
        picture: view.picture.clone(),
        source: view.source,
        run: surroundings::run(),
        ..report::Options::default()
    }
}

/// Writes the files that were asked for, and prints the report.
pub(super) fn write_reports(
    subject: Subject<'_>,
    view: &View,
    options: &mut report::Options,
    output: &output::Output,
) -> Result<()> {
    let mut formats: Vec<Format> = view.export.iter().map(|export| export.format).collect();
    formats.push(view.format);
    if view.source || formats.iter().any(|format| format.points_at_lines()) {
        options.checkout = match subject {
            Subject::Gate(gate) => checkout::files(gate.comparisons.iter().map(|c| c.diff.profiles.after.code())),
            Subject::Profile(profile, _) => checkout::files([profile.code()].into_iter()),
            Subject::Leaks(gate) => checkout::files(gate.findings.iter().map(|f| f.search.code())),
            Subject::Ranks(ranks) => checkout::files(ranks.readings.iter().map(|r| r.profile.code())),
            Subject::History(_) | Subject::Scale(_) => BTreeMap::new(),
        };
    }
    if view.source || formats.iter().any(|format| matches!(format, Format::Markdown | Format::Html)) {
        options.sources = sources::read(options.checkout.values().map(String::as_str), view.source);
    }
    output.report(&view.export, view.format, Format::Table, options, |format, options, out| {
        format.write(subject, options, out)
    })
}

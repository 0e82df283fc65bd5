//! Writes reports: to standard output and to files.

use std::collections::BTreeMap;

use anyhow::Result;
use ptmem::report::{self, Format, MarkdownOptions, Subject, TableOptions};

use super::args::{StudyView, View};
use super::output::Output;
use super::place::Place;
use super::{checkout, sources, surroundings};

/// How readers see what a table leaves out.
const MORE: &str = "-v";

/// The options of the reports of all commands.
fn basic_options(top: usize, is_verbose: bool, max_bytes: usize, output: &Output) -> report::RenderOptions {
    report::RenderOptions {
        top: Some(top),
        table: TableOptions { width: output.width(), more: (!is_verbose).then_some(MORE) },
        markdown: MarkdownOptions { max_bytes: Some(max_bytes), ..MarkdownOptions::default() },
        run: surroundings::run(),
        ..report::RenderOptions::default()
    }
}

/// The options of reports on one profile, or on a before and an after.
pub(crate) fn report_options(view: &View, output: &Output) -> report::RenderOptions {
    let basic = basic_options(view.top, view.verbose, report::MOST_COMMENT_BYTES, output);
    report::RenderOptions { source: view.source, ..basic }
}

impl View {
    /// Reads the sources that the requested formats show.
    pub(crate) fn prepare(&self, place: &Place, subject: Subject<'_>, options: &mut report::RenderOptions) {
        let formats: Vec<Format> = self.formats().collect();
        self.prepare_for(&formats, place, subject, options);
    }

    /// The same for other formats.
    pub(crate) fn prepare_for(
        &self,
        formats: &[Format],
        place: &Place,
        subject: Subject<'_>,
        options: &mut report::RenderOptions,
    ) {
        if self.source || formats.iter().any(|format| format.points_at_lines()) {
            options.checkout = match subject {
                Subject::Gate(gate) => checkout::files(place, gate.leaves().map(|c| c.diff.profiles.after.code())),
                Subject::Profile(profile, _) => checkout::files(place, [profile.code()].into_iter()),
                Subject::Leaks(gate) => checkout::files(place, gate.leaves().map(|f| f.search.code())),
                Subject::Ranks(ranks) => checkout::files(place, ranks.leaves().map(|r| r.profile.code())),
                Subject::Study(_) => BTreeMap::new(),
            };
        }
        if self.source || formats.iter().any(|format| matches!(format, Format::Markdown | Format::Html)) {
            options.sources = sources::read(place, options.checkout.values().map(String::as_str), self.source);
        }
    }

    /// Writes the requested files, and prints the report.
    pub(crate) fn write(
        &self,
        place: &Place,
        subject: Subject<'_>,
        options: &mut report::RenderOptions,
        output: &Output,
    ) -> Result<()> {
        self.prepare(place, subject, options);
        output.report(subject, self.format, &self.export, options)
    }
}

impl StudyView {
    /// Writes the requested files, and prints the report.
    pub(crate) fn write(&self, subject: Subject<'_>, output: &Output) -> Result<()> {
        let options = basic_options(self.top, self.verbose, report::MOST_SUMMARY_BYTES, output);
        output.report(subject, self.format, &self.export, &options)
    }
}

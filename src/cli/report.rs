//! Writes reports: to standard output and to files.

use std::path::Path;

use anyhow::Result;
use ptmem::config::Config;
use ptmem::profile::ReadOptions;
use ptmem::report::{self, Format, MarkdownOptions, Report, TableOptions};

use super::args::{StudyArguments, StudyView, ViewArguments};
use super::output::{Output, check_exports};
use super::place::StartFolder;
use super::{checkout, config, sources, surroundings};

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
pub(crate) fn report_options(view: &ViewArguments, output: &Output) -> report::RenderOptions {
    let basic = basic_options(view.top, view.verbose, report::MOST_COMMENT_BYTES, output);
    report::RenderOptions { source: view.source, ..basic }
}

impl ViewArguments {
    /// Reads the sources that the requested formats show.
    pub(crate) fn prepare(&self, place: &StartFolder, report: &dyn Report, options: &mut report::RenderOptions) {
        let formats: Vec<Format> = self.formats().collect();
        self.prepare_for(&formats, place, report, options);
    }

    /// The same for other formats.
    pub(crate) fn prepare_for(
        &self,
        formats: &[Format],
        place: &StartFolder,
        report: &dyn Report,
        options: &mut report::RenderOptions,
    ) {
        if self.source || formats.iter().any(|format| format.points_at_lines()) {
            options.checkout = checkout::files(place, report.code());
        }
        if self.source || formats.iter().any(|format| matches!(format, Format::Markdown | Format::Html)) {
            options.sources = {
                let paths = options.checkout.values().map(String::as_str);
                sources::read(place, paths, &report.commits(), self.source)
            };
        }
    }

    /// Whether a requested format has stacks where others have the call tree in their place.
    pub(crate) fn lists_stacks_beside_tree(&self) -> bool {
        self.formats().any(|format| !matches!(format, Format::Table | Format::Markdown))
    }

    /// Writes the requested files, and prints the report.
    pub(crate) fn write(
        &self,
        place: &StartFolder,
        report: &dyn Report,
        options: &mut report::RenderOptions,
        output: &Output,
    ) -> Result<()> {
        self.prepare(place, report, options);
        output.report(report, self.format, &self.export, options)
    }
}

impl StudyView {
    /// Writes the requested files, and prints the report.
    pub(crate) fn write(&self, report: &dyn Report, output: &Output) -> Result<()> {
        let options = basic_options(self.top, self.verbose, report::MOST_SUMMARY_BYTES, output);
        output.report(report, self.format, &self.export, &options)
    }
}

impl StudyArguments {
    /// The options by which the profiles are read, and the configuration, once the files of the reports are possible.
    pub(crate) fn reading<'p>(&self, inputs: impl Iterator<Item = &'p Path>) -> Result<(ReadOptions, Config)> {
        let config = config::load(&self.config)?;
        check_exports(&self.view.export, inputs)?;
        Ok((self.grouping.reading(&config), config))
    }
}

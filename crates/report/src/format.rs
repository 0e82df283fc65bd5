//! The formats of reports.

use std::io::{self, Write};

use strum::{Display, IntoStaticStr, VariantArray};

use crate::view::View;
use crate::{RenderOptions, Report, csv, github, github_output, gitlab, html, junit, markdown, sarif, table};

/// The formats of reports.
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Display, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
#[non_exhaustive]
pub enum Format {
    /// For people.
    #[default]
    Table,
    /// For machines; see docs/json.md.
    Json,
    /// A comment on a pull request, or the summary of a job.
    // The ending of its files.
    #[cfg_attr(feature = "cli", value(alias = "md"))]
    Markdown,
    /// One page for a browser: timelines, flame graph, rows; see docs/html.md.
    Html,
    /// Workflow commands that annotate the lines of a pull request.
    Github,
    /// Code Quality report of GitLab.
    Gitlab,
    /// JUnit XML: a suite per device, a case per check.
    Junit,
    /// SARIF 2.1.0: a result per failed check.
    Sarif,
    /// The rows of all tables.
    Csv,
    /// name=value lines for the file that GITHUB_OUTPUT names.
    GithubOutput,
    /// The verdict in one line of Markdown, with warnings: a comment if all is well.
    Brief,
}

ptmem_base::named!(Format);

impl Format {
    /// All of them.
    pub const ALL: &'static [Self] = Self::VARIANTS;

    /// Whether it shows pictures, which need the addresses of blocks ([`ptmem_trace::profile::ReadOptions::layout`]).
    pub fn has_pictures(self) -> bool {
        self == Self::Html
    }

    /// True if it names lines of the checkout.
    pub fn points_at_lines(self) -> bool {
        matches!(
            self,
            Self::Markdown | Self::Html | Self::Github | Self::Gitlab | Self::Junit | Self::Sarif | Self::Csv
        )
    }

    /// Writes a result, as it is worked out: JSON may be many times as large as the input.
    ///
    /// # Errors
    /// If it cannot be written to `out`.
    pub fn write(self, report: &dyn Report, options: &RenderOptions, out: &mut dyn Write) -> io::Result<()> {
        let text = match self {
            Self::Table => table::render(&View::of(report, options), options),
            Self::Json => return report.json(options, out),
            Self::Markdown => markdown::render(&View::of(report, options), options),
            Self::Html => html::render(report, options)?,
            Self::Github => github::render(report, options),
            Self::Gitlab => return gitlab::write(report, options, out),
            Self::Junit => junit::render(report, options),
            Self::Sarif => return sarif::write(report, options, out),
            Self::Csv => return csv::write(report, options, out),
            Self::GithubOutput => github_output::render(report, options),
            Self::Brief => markdown::brief(&View::of(report, options), options),
        };
        out.write_all(text.as_bytes())
    }

    /// A result as a text, all at once.
    ///
    /// # Errors
    /// If the data of a page cannot be compressed.
    pub fn render(self, report: &dyn Report, options: &RenderOptions) -> io::Result<String> {
        let mut text = Vec::new();
        self.write(report, options, &mut text)?;
        String::from_utf8(text).map_err(io::Error::other)
    }
}

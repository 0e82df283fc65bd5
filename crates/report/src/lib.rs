//! Reports: one file per output format, each a function of only the result.
//!
//! A part of `ptmem` that promises nothing by itself: the crate `ptmem` is for others.

#![warn(clippy::disallowed_methods)]

mod csv;
mod finding;
mod github;
mod github_output;
mod gitlab;
mod html;
pub mod json;
mod junit;
mod known;
mod markdown;
mod name;
mod picture;
mod place;
mod ranks;
mod results;
mod run;
mod sarif;
mod source;
mod sparkline;
mod summary;
mod table;
pub mod view;

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::hash::Hash;
use std::io::{self, Write};

pub use ptmem_base::lines::wrap;
pub use ptmem_base::text::printable;
use ptmem_compare::budget::DeviceMemory;
use ptmem_compare::diff::{self, DeviceDiff, Row, RowChoice};
use ptmem_compare::tree as call_tree;
use ptmem_judge::verdict::{Check, Comparison};
use ptmem_trace::profile::{DeviceProfile, Occurrence};
use ptmem_trace::stack::SnapshotCode;
use strum::{Display, IntoStaticStr, VariantArray};

pub use finding::ExplainedCheck;
pub use picture::Amounts;
use place::Place;
pub use run::{Acceptance, Approval, CiRun};
pub use summary::Summary;
use view::View;

/// A result that can be reported. One that judges nothing has a model and JSON alone.
pub trait Report: fmt::Debug {
    /// Its content, for the formats that people read.
    fn model(&self, options: &RenderOptions) -> View;

    /// Writes it as a JSON object.
    ///
    /// # Errors
    /// If it cannot be written to `out`.
    fn json(&self, options: &RenderOptions, out: &mut dyn Write) -> io::Result<()>;

    /// All checks with what explains them, in the order of the judgements.
    fn findings(&self, _: &RenderOptions) -> Vec<ExplainedCheck<'_>> {
        Vec::new()
    }

    /// The verdict, the figure that explains it, and the remarks.
    fn summary(&self) -> Summary<'_> {
        Summary::default()
    }

    /// The code that it names lines of.
    fn code(&self) -> Box<dyn Iterator<Item = SnapshotCode<'_>> + '_> {
        Box::new(std::iter::empty())
    }
}

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

impl Format {
    /// All of them.
    pub const ALL: &'static [Self] = Self::VARIANTS;

    /// Its name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// Whether it shows pictures, which need the addresses of blocks ([`ptmem_trace::profile::ReadOptions::layout`]).
    #[must_use]
    pub fn has_pictures(self) -> bool {
        self == Self::Html
    }

    /// True if it names lines of the checkout.
    #[must_use]
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

/// Options of tables.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TableOptions {
    /// Columns of the terminal, in which it fits its lines; without it sentences and labels stay on one line.
    pub width: Option<usize>,
    /// How readers see minor metrics, notes and the rest of warnings, such as `-v`; without it a table has them all.
    pub more: Option<&'static str>,
}

/// Options of Markdown.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MarkdownOptions {
    /// The most bytes, without it [`MOST_COMMENT_BYTES`].
    pub max_bytes: Option<usize>,
    /// The key by which a comment on a pull request is found again, without it [`DEFAULT_KEY`].
    pub comment_key: Option<String>,
}

/// Options of reports.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RenderOptions {
    /// The most stacks per device; 0 is all, without it [`LISTED_STACKS`].
    pub top: Option<usize>,
    /// List unchanged stacks too.
    pub unchanged: bool,
    /// Show how the two stacks of a row differ.
    pub explain: bool,
    /// Show the call tree in place of the list of stacks.
    pub tree: Option<call_tree::TreeOptions>,
    /// Show phases.
    pub phases: bool,
    /// Number of first occurrences of each phase name to leave out.
    pub skip_first: u32,
    /// Of tables.
    pub table: TableOptions,
    /// Memory of the device, for shares of it.
    pub device_memory: Option<DeviceMemory>,
    /// Of Markdown.
    pub markdown: MarkdownOptions,
    /// The run of continuous integration that makes the report.
    pub run: Option<CiRun>,
    /// The approval of the growth, where it was approved.
    pub approval: Option<Approval>,
    /// The ways to accept growth, for a gate that fails by it.
    pub acceptance: Option<Acceptance>,
    /// The lines of files of the checkout, by their paths from its root, for formats that show them.
    pub sources: BTreeMap<String, Vec<String>>,
    /// Show the source of each row below it.
    pub source: bool,
    /// Compute pictures: curves in many points, and who holds the memory at chosen moments.
    pub pictures: bool,
    /// Files of the checkout, relative to its root, by their recorded paths.
    pub checkout: BTreeMap<String, String>,
}

/// Stacks that a report lists where no number is given.
pub const LISTED_STACKS: usize = 10;

/// The default key of a comment.
pub const DEFAULT_KEY: &str = "default";

/// Ranks of one job that a page shows with all of their figures.
const MOST_RANKS_IN_FULL: usize = 8;

/// GitHub takes no longer comments.
pub const MOST_COMMENT_BYTES: usize = 65_536;

/// GitHub takes no longer summaries of a step.
pub const MOST_SUMMARY_BYTES: usize = 1 << 20;

impl RenderOptions {
    /// The address of a line of code in the repository; `None` where its file is none of the checkout.
    fn address_of(&self, place: &Place) -> Option<String> {
        let run = self.run.as_ref()?;
        let is_in_checkout = self.checkout.values().any(|path| *path == place.path);
        is_in_checkout.then(|| run.line_address(&place.path, place.line))
    }

    /// The most stacks per device; 0 is all.
    fn top(&self) -> usize {
        self.top.unwrap_or(LISTED_STACKS)
    }

    /// The number of things to list of as many as there are.
    fn limit(&self, all: usize) -> usize {
        if self.top() == 0 { all } else { self.top().min(all) }
    }

    /// Ranks of a job that are shown with all of their figures: the worst ones.
    fn ranks_in_full(&self) -> usize {
        if self.pictures { MOST_RANKS_IN_FULL } else { 1 }
    }

    /// Whether pictures show frames that only pass calls on.
    fn internals(&self) -> bool {
        self.tree.as_ref().is_some_and(|tree| tree.internals)
    }

    /// The rows of a device of a comparison to show.
    fn listed(&self, comparison: &Comparison, device: &DeviceDiff) -> Vec<Row> {
        // A page has room for figures without a limit.
        let min_delta = if self.pictures { 0 } else { comparison.min_delta };
        let listing = RowChoice { top: self.top(), min_delta, unchanged: self.unchanged };
        diff::listed(&device.rows, listing, comparison.judgement.explanation(device))
    }

    /// Whether a comparison shows its phases: they were requested, or there is a limit on them.
    fn shows_phases(&self, comparison: &Comparison) -> bool {
        self.phases || comparison.judgement.checks.iter().any(Check::is_of_phases)
    }

    /// The occurrences of phases to show of one snapshot.
    fn phases_of<'d>(&self, device: &'d DeviceProfile) -> impl Iterator<Item = &'d Occurrence> + Clone + use<'d> {
        let skip = self.skip_first;
        device.phases.all.iter().filter(move |phase| phase.number >= skip)
    }
}

/// Groups things by a key, in the order in which the keys first occur.
fn grouped<T, K: Eq + Hash>(all: impl IntoIterator<Item = T>, key: impl Fn(&T) -> K) -> Vec<Vec<T>> {
    let mut groups: Vec<Vec<T>> = Vec::new();
    let mut places = HashMap::new();
    for one in all {
        let place = *places.entry(key(&one)).or_insert(groups.len());
        match groups.get_mut(place) {
            Some(group) => group.push(one),
            None => groups.push(vec![one]),
        }
    }
    groups
}

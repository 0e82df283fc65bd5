//! Reports: one file per output format, each a function of only the result.
//!
//! A part of `ptmem` that promises nothing by itself: the crate `ptmem` is for others.

#![warn(clippy::disallowed_methods)]

mod csv;
mod finding;
mod format;
mod github;
mod github_output;
mod gitlab;
mod html;
pub mod json;
mod junit;
mod known;
mod markdown;
mod merged;
mod name;
mod options;
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

use std::collections::BTreeSet;
use std::fmt;
use std::io::{self, Write};

pub use ptmem_base::lines::{without_commands, wrap};
pub use ptmem_base::text::printable;
use ptmem_judge::verdict::Verdict;
use ptmem_trace::stack::SnapshotCode;

pub use finding::ExplainedCheck;
pub use format::Format;
pub(crate) use options::grouped;
pub use options::{
    DEFAULT_KEY, LISTED_STACKS, MOST_COMMENT_BYTES, MOST_SUMMARY_BYTES, MarkdownOptions, RenderOptions, TableOptions,
};
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
    fn summary(&self) -> Summary {
        Summary::default()
    }

    /// The code that it names lines of.
    fn code(&self) -> Box<dyn Iterator<Item = SnapshotCode<'_>> + '_> {
        Box::new(std::iter::empty())
    }

    /// The commits at which that code was recorded, where they are known.
    fn commits(&self) -> BTreeSet<&str> {
        BTreeSet::new()
    }
}

impl View {
    /// The model of a result, with its approval.
    pub(crate) fn of(report: &dyn Report, options: &RenderOptions) -> Self {
        let view = report.model(options);
        let fails = view.headline.as_ref().is_some_and(|headline| headline.verdict != Verdict::Pass);
        Self { approval: options.approval.clone().filter(|_| fails), ..view }
    }
}

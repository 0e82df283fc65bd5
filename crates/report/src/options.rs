//! Options of reports.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;

use ptmem_compare::budget::DeviceMemory;
use ptmem_compare::diff::{self, DeviceDiff, Row, RowChoice};
use ptmem_compare::tree as call_tree;
use ptmem_judge::verdict::{Check, Comparison};
use ptmem_trace::profile::{DeviceProfile, Occurrence};

use super::place::Place;
use super::run::{Acceptance, Approval, CiRun};

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
    /// The gate whose report it is, in formats whose titles stand alone.
    pub gate: Option<String>,
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
    pub(crate) fn address_of(&self, place: &Place) -> Option<String> {
        let run = self.run.as_ref()?;
        let is_in_checkout = self.checkout.values().any(|path| *path == place.path);
        is_in_checkout.then(|| run.line_address(&place.path, place.line))
    }

    /// The name of the gate, to precede a title.
    pub(crate) fn scope(&self) -> String {
        self.gate.as_ref().map(|gate| format!("{gate}: ")).unwrap_or_default()
    }

    /// The most stacks per device; 0 is all.
    pub(crate) fn top(&self) -> usize {
        self.top.unwrap_or(LISTED_STACKS)
    }

    /// The number of things to list of as many as there are.
    pub(crate) fn limit(&self, all: usize) -> usize {
        if self.top() == 0 { all } else { self.top().min(all) }
    }

    /// Ranks of a job that are shown with all of their figures: the worst ones.
    pub(crate) fn ranks_in_full(&self) -> usize {
        if self.pictures { MOST_RANKS_IN_FULL } else { 1 }
    }

    /// Whether pictures show frames that only pass calls on.
    pub(crate) fn internals(&self) -> bool {
        self.tree.as_ref().is_some_and(|tree| tree.internals)
    }

    /// The rows of a device of a comparison to show.
    pub(crate) fn listed(&self, comparison: &Comparison, device: &DeviceDiff) -> Vec<Row> {
        // A page has room for figures without a limit.
        let min_delta = if self.pictures { 0 } else { comparison.min_delta };
        let listing = RowChoice { top: self.top(), min_delta, unchanged: self.unchanged };
        diff::listed(&device.rows, listing, comparison.judgement.explanation(device))
    }

    /// Whether a comparison shows its phases: they were requested, or there is a limit on them.
    pub(crate) fn shows_phases(&self, comparison: &Comparison) -> bool {
        self.phases || comparison.judgement.checks.iter().any(Check::is_of_phases)
    }

    /// The occurrences of phases to show of one snapshot.
    pub(crate) fn phases_of<'d>(
        &self,
        device: &'d DeviceProfile,
    ) -> impl Iterator<Item = &'d Occurrence> + Clone + use<'d> {
        let skip = self.skip_first;
        device.phases.all.iter().filter(move |phase| phase.number >= skip)
    }
}

/// Groups things by a key, in the order in which the keys first occur.
pub(crate) fn grouped<T, K: Eq + Hash>(all: impl IntoIterator<Item = T>, key: impl Fn(&T) -> K) -> Vec<Vec<T>> {
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

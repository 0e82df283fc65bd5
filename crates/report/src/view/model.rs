//! The parts of the model: groups, sections, contents and facts.

use std::cmp::Reverse;
use std::sync::Arc;

use ptmem_base::sides::Side;
use ptmem_base::units::Size;
use ptmem_compare::budget::DeviceBudget;
use ptmem_compare::diff::ChangeKind;
use ptmem_compare::leak::SeriesPoint;
use ptmem_judge::verdict::{Headline, Standing};
use ptmem_trace::profile::Profile;

use super::acceptance::WayToAccept;
use super::curve::Curve;
use super::remarks::{CheckLine, Remark};
use super::table::{Table, Tone};
use crate::Approval;
use crate::picture::Picture;
use crate::place::Place;

/// The content of a report.
#[derive(Debug, Default)]
pub struct View {
    /// The overall verdict; `None` if nothing was judged.
    pub(crate) headline: Option<Headline>,
    /// The first failed allocation in words, unless a check already reports it.
    pub(crate) failure: Option<String>,
    /// Whether anything was gated.
    pub(crate) is_gated: bool,
    /// The stack that explains the verdict.
    pub(crate) explanation: Option<Explanation>,
    /// The ways to accept the growth that fails it.
    pub(crate) acceptance: Vec<WayToAccept>,
    /// The approval of a regression.
    pub(crate) approval: Option<Approval>,
    /// A row for every device, comparison or rank, the worst first; empty if there is only one. A terminal shows it
    /// when groups are folded.
    pub(crate) overview: Option<Table>,
    /// Each comparison, snapshot or job, in the order in which they were given.
    pub groups: Vec<Group>,
}

/// One comparison, snapshot, series of snapshots, or job of several ranks.
#[derive(Debug, Default)]
pub struct Group {
    /// Its name, where there are several.
    pub name: Option<String>,
    /// The files that it is about.
    pub sources: Vec<SourceFile>,
    /// A row for every rank of a job, the worst first. [`View::overview`] has these rows as well.
    pub(crate) ranks: Option<Table>,
    /// Facts about all ranks of a job together.
    pub facts: Vec<Fact>,
    /// Each device, the worst first; of a job the rank that explains its verdict.
    pub sections: Vec<Section>,
    /// A sentence about devices without a section.
    pub(crate) idle: Option<String>,
    /// Facts about the input that a reader must know.
    pub remarks: Vec<Remark>,
    /// The checks of all ranks of a job together.
    pub(crate) checks_of_job: Vec<CheckLine>,
    /// The checks, the worst first; of a job those of its worst rank.
    pub(crate) checks: Vec<CheckLine>,
    /// Its own verdict; `None` if nothing was judged, or if it equals that of the whole view.
    pub(crate) headline: Option<Headline>,
    /// Whether a page folds it away and a terminal leaves it out.
    pub(crate) is_folded: bool,
    /// The recording of the snapshots, where a format has room for it.
    pub(crate) recording: Option<Table>,
}

/// A file or directory that a group is about.
#[derive(Debug, Clone, PartialEq)]
pub struct SourceFile {
    /// Its side; `None` if nothing is compared.
    pub side: Option<Side>,
    /// Its path.
    pub path: String,
    /// Its size, or how many ranks it holds.
    pub amount: String,
}

/// One device, or one device of one rank.
#[derive(Debug, Default)]
pub struct Section {
    /// Its name: `device 0`, `rank 3`.
    pub name: String,
    /// The worst finding of its checks.
    pub(crate) standing: Standing,
    /// Bytes by which its peak grew; zero where nothing was compared.
    pub(crate) growth: i128,
    /// Its parts, in order.
    pub blocks: Vec<Content>,
    /// Its curves and the holders of its memory, where [`crate::RenderOptions::pictures`] asks for them.
    pub(crate) picture: Option<Picture>,
}

/// The steps or snapshots of a search for leaks, or the profiles of a history.
#[derive(Debug)]
pub struct StepChart {
    /// The word for one of them.
    pub noun: &'static str,
    /// Title of the bars: `allocated at the end of each step`.
    pub title: String,
    /// Bytes held in each.
    pub points: Arc<[SeriesPoint]>,
    /// Memory of the device, where it is given.
    pub budget: Option<DeviceBudget>,
    /// Number of the first ones, which are warm-up.
    pub skip: usize,
    /// Title of the lines.
    pub lines_title: &'static str,
    /// The stacks that leak, the fastest first, or the largest stacks: each with its bytes in the steps after the warm-up. No more
    /// than [`MOST_LINES`].
    pub lines: Vec<StepLine>,
}

/// A stack over steps or profiles.
#[derive(Debug)]
pub struct StepLine {
    /// The name of the stack.
    pub name: String,
    /// The bytes in each step; `None` where they are not known.
    pub bytes: Vec<Option<u64>>,
}

/// Lines that are drawn over steps.
pub const MOST_LINES: usize = 8;

/// A part of a section.
#[derive(Debug)]
pub enum Content {
    /// Facts with their names.
    Facts(Vec<Fact>),
    /// A table.
    Table(Table),
    /// Curves over the recording on one scale, before the after. A terminal shows those of one side.
    Timeline(Vec<Curve>),
    /// Memory over steps, snapshots or profiles.
    Steps(StepChart),
    /// A sentence in place of a table.
    Sentence(String),
}

impl Content {
    /// The table that it is, if it is one.
    pub(crate) fn table(&self) -> Option<&Table> {
        if let Self::Table(table) = self { Some(table) } else { None }
    }
}

/// A named fact: one or more lines, each of items that are separated by commas.
#[derive(Debug, Clone, PartialEq)]
pub struct Fact {
    /// The subject: `recording`, `fragmentation`.
    pub name: &'static str,
    /// Its lines. A format may break a line between items, not within one.
    pub lines: Vec<Vec<String>>,
    /// The importance of its name.
    pub tone: Tone,
}

impl Section {
    /// A section of a result that judges nothing.
    pub fn new(name: String, blocks: Vec<Content>) -> Self {
        Self { name, blocks, ..Self::default() }
    }
}

impl Group {
    /// A group about files.
    pub fn about(sources: Vec<SourceFile>) -> Self {
        Self { sources, ..Self::default() }
    }

    /// Whether two sides are compared: the tables of its sections say what the checks found then.
    pub(crate) fn is_compared(&self) -> bool {
        self.sources.iter().any(|source| source.side.is_some())
    }

    /// The remarks that every format shows: warnings, and what the verdict rests on or asks for.
    pub(crate) fn open_remarks(&self) -> Vec<&Remark> {
        self.remarks.iter().filter(|remark| remark.is_open()).collect()
    }

    /// The remarks that reviewers must see.
    pub(crate) fn announced_remarks(&self) -> Vec<&Remark> {
        self.remarks.iter().filter(|remark| remark.code.is_announced()).collect()
    }

    /// The remarks that a page folds away and a terminal counts: other notes.
    pub(crate) fn folded_remarks(&self) -> Vec<&Remark> {
        self.remarks.iter().filter(|remark| !remark.is_open()).collect()
    }
}

impl SourceFile {
    /// The file of a profile.
    pub(super) fn of_profile(side: Option<Side>, profile: &Profile) -> Self {
        Self { side, path: profile.source.path.clone(), amount: Size(profile.source.bytes).to_string() }
    }
}

impl Fact {
    /// A fact of one item.
    pub fn new(name: &'static str, item: impl Into<String>) -> Self {
        Self::of_lines(name, vec![vec![item.into()]])
    }

    /// A fact of several lines of items.
    pub fn of_lines(name: &'static str, lines: Vec<Vec<String>>) -> Self {
        Self { name, lines, tone: Tone::Faint }
    }
}

/// The stack that explains a verdict.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Explanation {
    /// Its label.
    pub(crate) label: String,
    /// The direction of its change.
    pub(crate) kind: ChangeKind,
    /// Bytes gained.
    pub(crate) delta: i128,
    /// Whether there are more blocks or larger ones, in words.
    pub(crate) manner: Option<String>,
    /// Its innermost line of the user.
    pub(crate) place: Option<Place>,
}

impl StepChart {
    /// The bytes of those for which they are known.
    pub(crate) fn bytes(&self) -> Vec<u64> {
        self.points.iter().filter_map(|point| point.allocated).collect()
    }

    /// The line below them: their title, and the most bytes.
    pub(crate) fn caption(&self) -> String {
        format!("{}, at most {}", self.title, Size(self.bytes().into_iter().max().unwrap_or(0)))
    }
}

impl View {
    /// The model of a result that judges nothing.
    pub fn of_groups(groups: Vec<Group>) -> Self {
        Self { groups, ..Self::default() }
    }

    /// The first of the files that it is about.
    pub(crate) fn first_path(&self) -> &str {
        let mut sources = self.groups.iter().flat_map(|group| &group.sources);
        sources.next().map_or("", |source| &source.path)
    }

    /// The sections of all groups, the worst first.
    pub(crate) fn sections(&self) -> Vec<(&Group, &Section)> {
        let all = self.groups.iter().flat_map(|group| group.sections.iter().map(move |section| (group, section)));
        let mut sections: Vec<_> = all.collect();
        sections.sort_by_key(|(_, section)| Reverse((section.standing, section.growth)));
        sections
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn section(name: &str, standing: Standing, growth: i128) -> Section {
        Section { standing, growth, ..Section::new(name.to_owned(), Vec::new()) }
    }

    #[test]
    fn sections_are_read_worst_first_whatever_their_group() {
        let first = Group {
            sections: vec![section("ok", Standing::Ok, 9), section("warns", Standing::Warning, 1)],
            ..Group::default()
        };
        let second = Group {
            sections: vec![section("fails", Standing::Exceeded, 1), section("fails by more", Standing::Exceeded, 2)],
            ..Group::default()
        };
        let view = View::of_groups(vec![first, second]);
        let names: Vec<_> = view.sections().iter().map(|(_, section)| section.name.as_str()).collect();
        assert_eq!(names, ["fails by more", "fails", "warns", "ok"]);
    }
}

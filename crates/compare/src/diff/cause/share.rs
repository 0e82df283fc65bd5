//! The shares of edits in the growth of a figure, and the edit that leads.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use ptmem_base::sides::Sides;
use rustc_hash::FxHashSet;

use crate::patch::Edit;

/// A figure whose growth the rows of its moment explain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Figure {
    /// The place that is compared, at the peak.
    #[default]
    Peak,
    /// The start of the recording. Its growth is not divided among edits.
    Baseline,
    /// The dump.
    End,
    /// The peak inside of a phase, as an index into [`crate::diff::DeviceDiff::phases`].
    Phase(usize),
}

/// How a row grew.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RowGrowth {
    /// More allocations.
    More,
    /// Larger allocations, not more of them.
    Larger,
    /// The same allocations, freed later or never: the pass in which they were freed, and that in which they are now.
    Kept(Sides<Option<String>>),
    /// No counterpart before.
    New,
    /// The program did the same, and the peak is elsewhere now.
    MovedPeak,
}

impl fmt::Display for RowGrowth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::More => f.write_str("more allocations"),
            Self::Larger => f.write_str("larger allocations"),
            Self::New => f.write_str("new"),
            Self::MovedPeak => f.write_str("the same before, at another moment"),
            Self::Kept(passes) => {
                let inside = passes.before.as_ref().map(|pass| format!(" inside {pass}")).unwrap_or_default();
                // Two passes of one name say nothing of how long.
                let until = passes.after.as_ref().filter(|_| passes.before != passes.after);
                let until = until.map_or("longer".to_owned(), |pass| format!("until {pass}"));
                write!(f, "freed{inside} before, now kept {until}")
            }
        }
    }
}

/// How growth leads to an edit, the surest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum EditEvidence {
    /// Its stacks pass through the edited line.
    Line,
    /// They pass through the package.
    Package,
    /// They pass through the function or class that is edited.
    Scope,
    /// Blocks are larger, or more, by the ratio of an edited number and the earlier one, or by its square.
    Ratio,
    /// Blocks are kept that the before mostly freed next to allocations of the edited function or package.
    Kept,
}

ptmem_base::named!(EditEvidence);

/// The way by which a stack leads to an edit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct WayToEdit {
    /// The edit, as an index.
    pub(super) edit: usize,
    pub(super) how: EditEvidence,
    /// The edited statement that the stack passes through, as an index.
    pub(super) statement: Option<usize>,
}

impl WayToEdit {
    pub(super) fn new(edit: usize, how: EditEvidence) -> Self {
        Self { edit, how, statement: None }
    }

    /// That through a statement of an edit.
    pub(super) fn of_line((edit, statement): (usize, usize)) -> Self {
        Self { edit, how: EditEvidence::Line, statement: Some(statement) }
    }
}

/// The share of an edit.
#[derive(Debug, Clone)]
pub struct EditShare {
    /// The edit, as an index into [`Cause::edits`].
    pub edit: usize,
    /// Bytes of the growth.
    pub bytes: u64,
    /// How they lead to it, with the bytes of each way.
    pub ways: BTreeMap<EditEvidence, u64>,
    /// Bytes by the edited statement that their stacks pass through, as indices into [`Edit::statements`].
    pub statements: BTreeMap<usize, u64>,
    /// Bytes by which rows shrank that lead to it.
    pub shrunk: u64,
    /// The row that grew most among them, and how it grew.
    pub row: (String, RowGrowth),
}

impl EditShare {
    /// Its bytes less those that shrank.
    fn gained(&self) -> u64 {
        self.bytes.saturating_sub(self.shrunk)
    }

    /// Adds bytes that lead to its edit.
    pub(super) fn add(&mut self, way: WayToEdit, bytes: u64) {
        *self.ways.entry(way.how).or_default() += bytes;
        way.statement.into_iter().for_each(|at| *self.statements.entry(at).or_default() += bytes);
    }

    /// The edited statement that most of its bytes pass through, as an index.
    pub(super) fn statement(&self) -> Option<usize> {
        self.statements.iter().max_by_key(|&(at, bytes)| (bytes, Reverse(at))).map(|(at, _)| *at)
    }
}

/// The edits of a change, and their shares in the growth of a figure of a device.
#[derive(Debug, Clone, Default)]
pub struct Cause {
    /// The figure.
    pub figure: Figure,
    /// It in words, to follow "the growth".
    pub place: String,
    /// Those that can matter, and those that have a share.
    pub edits: Arc<[Edit]>,
    /// Those with the largest growth less what shrank first.
    pub shares: Vec<EditShare>,
    /// Bytes by which rows grew.
    pub grown: u64,
    /// Those that lead to no edit.
    pub no_edit: u64,
    /// Those of `no_edit` whose stacks have no Python frames, as in the backward pass.
    pub without_python: u64,
    /// Bytes by which rows shrank.
    pub shrunk: u64,
    /// Bytes by which the peak of the before, which is elsewhere, exceeds the compared place.
    pub elsewhere: u64,
    /// Number of changed files that were not read: their edits are not among these.
    pub unread: u64,
    /// The only edit that can matter, where nothing else is known to differ.
    pub only: Option<usize>,
    /// False if only the versions of packages are known, and no edits of code.
    pub is_code_known: bool,
}

/// The edit that a growth is reported by.
#[derive(Debug, Clone, Copy)]
pub struct Lead<'c> {
    /// The edit, as an index into [`Cause::edits`].
    pub edit: usize,
    /// Its share, if it has one.
    pub share: Option<&'c EditShare>,
    /// True if less than half of the growth leads to it, and it is named because no other edit can matter.
    pub is_inferred: bool,
}

impl Cause {
    /// The shares of other edits than one that are worth a word.
    pub(super) fn rest(&self, edit: usize) -> impl Iterator<Item = &EditShare> {
        self.shares.iter().filter(move |share| share.edit != edit && share.bytes > self.grown / 100)
    }

    /// The other edits that can matter, but for one: those without a share, and those with one that is not worth a word.
    pub(super) fn others_than(&self, edit: usize) -> impl Iterator<Item = &Edit> {
        let is_small = move |share: &&EditShare| share.edit != edit && share.bytes <= self.grown / 100;
        let small = self.shares.iter().filter(is_small).map(|share| &self.edits[share.edit]);
        let others = self.others().filter(move |other| !std::ptr::eq(*other, &raw const self.edits[edit]));
        small.filter(|edit| edit.can_matter()).chain(others)
    }

    /// The edits without a share that can matter.
    pub fn others(&self) -> impl Iterator<Item = &Edit> + Clone {
        let shared: FxHashSet<usize> = self.shares.iter().map(|share| share.edit).collect();
        let all = self.edits.iter().enumerate();
        let is_explained = self.is_explained_by_lines();
        let may = move |at: usize| self.only.map_or_else(|| self.may_matter(at, is_explained), |only| only == at);
        all.filter(move |&(at, _)| !shared.contains(&at) && may(at)).map(|(_, edit)| edit)
    }

    /// True for an edit that can matter, given whether edited lines explain the growth: then a new number does not.
    fn may_matter(&self, at: usize, is_explained: bool) -> bool {
        let edit = &self.edits[at];
        self.is_code_known && edit.can_matter() && !(is_explained && edit.sets_number())
    }

    /// True if the stacks of nearly all of the growth pass through edited lines.
    fn is_explained_by_lines(&self) -> bool {
        let of_lines = self.shares.iter().filter_map(|share| share.ways.get(&EditEvidence::Line));
        self.grown > 0 && of_lines.sum::<u64>() >= self.grown - self.grown / 100
    }

    /// Lets the statement of each edit stand for it that most of its growth passes through, or that it removes if a graph is the
    /// reason. It is of the same function if other growth leads to the edit by this.
    pub(super) fn show_statements(&mut self) {
        for share in &self.shares {
            let edit = &self.edits[share.edit];
            let is_by_scope = share.ways.keys().any(|how| matches!(how, EditEvidence::Scope | EditEvidence::Kept));
            let shown = share.statement().filter(|at| !edit.is_shown_by(*at));
            let shown = shown.filter(|at| !is_by_scope || edit.statements.after[*at].scope == edit.scope);
            if self.is_by_graph(share) {
                Arc::make_mut(&mut self.edits)[share.edit].line.after = None;
            } else if let Some(at) = shown {
                Arc::make_mut(&mut self.edits)[share.edit].stand(at);
            }
        }
    }

    /// True if blocks are kept by a graph, as the edit removes what switched gradients off, and no edit does so elsewhere.
    pub(super) fn is_by_graph(&self, share: &EditShare) -> bool {
        let is_kept = matches!(share.row.1, RowGrowth::Kept(_));
        is_kept && self.edits[share.edit].is_of_gradients() && !self.edits.iter().any(Edit::adds_no_grad)
    }

    /// The edit that explains at least half of the growth, or else the only one that can matter.
    pub fn leading(&self) -> Option<Lead<'_>> {
        if self.grown == 0 {
            return None;
        }
        // What an edit exchanges for other memory counts as little as that which is gone.
        let shrunk: u64 = self.shares.iter().map(|share| share.bytes - share.gained()).sum();
        let half = [self.grown, self.grown - shrunk].map(|whole| whole.div_ceil(2));
        let leads = |share: &&EditShare| share.bytes >= half[0] || share.gained() > 0 && share.gained() >= half[1];
        let measured = self.shares.iter().find(leads).map(|share| Lead {
            edit: share.edit,
            share: Some(share),
            is_inferred: false,
        });
        measured.or_else(|| {
            let edit = self.only?;
            let has_others = self.rest(edit).next().is_some();
            let share = self.shares.iter().find(|share| share.edit == edit);
            (!has_others).then_some(Lead { edit, share, is_inferred: true })
        })
    }

    /// That edit, with the statement that most of its growth passes through.
    pub fn leading_edit(&self) -> Option<&Edit> {
        Some(&self.edits[self.leading()?.edit])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The edit that leads, given the bytes that grew and shrank of each.
    fn leads(grown: u64, shares: &[(u64, u64)]) -> Option<usize> {
        let row = (String::new(), RowGrowth::More);
        let (ways, statements) = (BTreeMap::new(), BTreeMap::new());
        let share = EditShare { edit: 0, bytes: 0, ways, statements, shrunk: 0, row };
        let shares = shares.iter().enumerate();
        let shares = shares.map(|(edit, &(bytes, shrunk))| EditShare { edit, bytes, shrunk, ..share.clone() });
        Some(Cause { grown, shares: shares.collect(), ..Cause::default() }.leading()?.edit)
    }

    #[test]
    fn an_edit_leads_that_explains_half_of_the_growth_or_of_what_is_left_of_it() {
        assert_eq!(leads(100, &[(50, 0), (30, 0)]), Some(0));
        assert_eq!(leads(100, &[(40, 0), (30, 0)]), None);
        // The other one takes as much as it gives.
        assert_eq!(leads(100, &[(40, 0), (60, 60)]), Some(0));
        assert_eq!(leads(100, &[(30, 0), (55, 26)]), Some(1));
        assert_eq!(leads(100, &[(60, 60)]), Some(0));
        assert_eq!(leads(100, &[(40, 60)]), None);
    }

    #[test]
    fn blocks_are_kept_until_another_pass_or_longer() {
        let kept = |before: Option<&str>, after: Option<&str>| {
            RowGrowth::Kept(Sides { before, after }.map(|pass| pass.map(str::to_owned))).to_string()
        };
        assert_eq!(kept(Some("forward"), Some("backward")), "freed inside forward before, now kept until backward");
        assert_eq!(kept(Some("backward"), Some("backward")), "freed inside backward before, now kept longer");
        assert_eq!(kept(None, None), "freed before, now kept longer");
    }
}

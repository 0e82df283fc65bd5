//! The rows of a comparison: the change of each stack's memory.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::BTreeMap;

use ptmem_base::pattern::{Naming, Pattern};
use ptmem_base::units::Size;
use ptmem_snapshot::snapshot::StackId;
use ptmem_trace::profile::{Bucket, GroupMember, Held, Line, Lines, others};
use ptmem_trace::stack::{GroupBy, Grouper, Label};

use crate::patch::Edit;
use ptmem_base::sides::Sides;

/// The bytes of a figure on both sides, where they are known.
pub type Change = Sides<Option<u64>>;

/// Kinds of changes of the memory of a stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum ChangeKind {
    /// More bytes.
    Grew,
    /// Fewer bytes.
    Shrank,
    /// Held nothing before.
    Added,
    /// Holds nothing after.
    Removed,
    /// The same bytes.
    #[default]
    Same,
    /// Held by the other side as well, before the place that is compared.
    #[strum(serialize = "held earlier")]
    HeldEarlier,
    /// Held by the other side as well, after the place that is compared.
    #[strum(serialize = "held later")]
    HeldLater,
}

ptmem_base::named!(ChangeKind);

impl ChangeKind {
    pub(super) fn of(held: &Sides<Held>) -> Self {
        match (held.before.bytes, held.after.bytes) {
            (before, after) if before == after => Self::Same,
            (0, _) => Self::Added,
            (_, 0) => Self::Removed,
            (before, after) if after > before => Self::Grew,
            _ => Self::Shrank,
        }
    }

    /// Its name in machine-readable output, which goes by the bytes at the moment alone.
    pub fn code(self, delta: i128) -> &'static str {
        match self {
            Self::HeldEarlier | Self::HeldLater if delta > 0 => Self::Added.name(),
            Self::HeldEarlier | Self::HeldLater => Self::Removed.name(),
            kind => kind.name(),
        }
    }
}

/// The subject of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RowKind {
    /// One group of stacks.
    #[default]
    Stack,
    /// Memory whose stack is not known.
    Bucket(Bucket),
    /// The sum of rows that are not listed, with their number.
    Others(usize),
    /// The bytes by which the peak of the before, which is elsewhere, exceeds the compared place.
    PeakElsewhere,
}

/// The name of [`RowKind::PeakElsewhere`].
pub(super) const PEAK_ELSEWHERE: &str = "peak-elsewhere";

impl RowKind {
    /// The name of its bucket in machine-readable output; none for a group of stacks.
    pub fn bucket(self) -> Option<&'static str> {
        match self {
            Self::Stack => None,
            Self::Bucket(bucket) => Some(bucket.code()),
            Self::Others(_) => Some(Bucket::Others.code()),
            Self::PeakElsewhere => Some(PEAK_ELSEWHERE),
        }
    }

    /// True for memory that the row itself stands for, and not a sum of rows or a difference of moments.
    pub fn is_memory(self) -> bool {
        match self {
            Self::Stack | Self::Bucket(_) => true,
            Self::Others(_) | Self::PeakElsewhere => false,
        }
    }
}

/// The kind of edit that growth leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Destination {
    /// An edit of the repository.
    Edit,
    /// Another version of a package.
    Upgrade,
}

impl Destination {
    pub(super) fn of(edit: &Edit) -> Self {
        if edit.package().is_some() { Self::Upgrade } else { Self::Edit }
    }

    /// It in words, to follow the kind of a change.
    pub fn words(self) -> &'static str {
        match self {
            Self::Edit => ", leads to edit",
            Self::Upgrade => ", leads to upgrade",
        }
    }
}

/// The change of what code holds in the forward pass and where checkpoints run it again, if memory moved between these rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct JointChange {
    /// Bytes of the before in the rows from and to which it moved, or in the row itself if it is none of them.
    pub before: u64,
    /// Bytes that the rows to which it moved gained, less those that the others lost; of the row itself if it is none of them.
    pub delta: i128,
    /// How far `delta` may be from the truth, because the sizes of blocks are not certain.
    pub error: u64,
    /// The most that all rows of the code held at once; `None` where that is not known.
    pub highest: Sides<Option<u64>>,
    /// How far `highest` may be from the truth.
    pub highest_errors: Sides<u64>,
}

/// The change of one stack's total at the moment that is compared.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Row {
    /// Its subject.
    pub kind: RowKind,
    /// The kind of its change.
    pub change: ChangeKind,
    /// True if its sides were paired by similarity: the code between them has changed.
    pub moved: bool,
    /// Its name, as in the after where the line that changed most exists there.
    pub label: String,
    /// True if that line does not exist there.
    pub is_gone: bool,
    /// Its other names: in the before, or after another line of it.
    pub aliases: Vec<String>,
    /// Its key, as in the after where it exists there.
    pub key: String,
    /// Requested bytes of those in `held`; 0 where a saved profile does not say.
    pub requested: Sides<u64>,
    /// Bytes and blocks on both sides.
    pub held: Sides<Held>,
    /// The most bytes on both sides, at any moment; `None` where that is not known.
    pub highest: Sides<Option<u64>>,
    /// How far `held` may be from the truth on both sides, because the sizes of blocks are not certain.
    pub held_errors: Sides<u64>,
    /// How far `highest` may be.
    pub highest_errors: Sides<u64>,
    /// The most bytes in sizes that functions supposed, on simulated GPUs, on both sides by function.
    pub supposed: Sides<BTreeMap<String, u64>>,
    /// The stack of the group that changed most, on both sides.
    pub stack: Sides<Option<StackId>>,
    /// The stacks whose frames explain it: those of `stack` if both are known to be the same call, otherwise one side of it. If
    /// the row moved, a pair of its stacks shows how.
    pub explained_by: Sides<Option<StackId>>,
    /// Whether its blocks correspond one to one, by line, operator and number, and all changed their size by one ratio.
    pub is_resized: bool,
    /// The exact stacks of the group, as they are paired; none once a comparison was pooled.
    pub members: Vec<Sides<Option<GroupMember>>>,
    /// The lines that it sums; empty if it is one line.
    pub lines: RowLines,
    /// Types and shapes of the tensors that it consists of, where they were recorded.
    pub shapes: Vec<RowLine>,
    /// Its change together with other rows of its code, if memory moved into or out of checkpoints.
    pub joint: Option<JointChange>,
    /// The edit that most of its growth leads to, as an index into [`crate::diff::cause::Cause::edits`].
    pub edit: Option<usize>,
    /// The kind of that edit, if its own growth leads there; the edit may also be the single one that can matter.
    pub leads: Option<Destination>,
    /// The frame of an upgraded package that its growth passes through, where its label lacks it.
    pub through: Option<String>,
}

impl Row {
    /// The stack of the after that names it; `None` if the line that does so is gone.
    pub fn stack_now(&self) -> Option<StackId> {
        self.stack.after.filter(|_| !self.is_gone)
    }

    /// Bytes gained.
    pub fn delta(&self) -> i128 {
        self.held.delta()
    }

    /// True if it stands for memory without a name, because that is older than the recording.
    pub fn is_older_than_recording(&self) -> bool {
        matches!(self.kind, RowKind::Bucket(Bucket::BeforeRecording | Bucket::NotRecorded))
    }

    /// The way in which a pattern names it, on either side.
    pub fn naming(&self, pattern: &Pattern) -> Option<Naming> {
        pattern.naming(&self.label, self.other_names()).filter(|_| self.kind.is_memory())
    }

    /// The same with the lines that hold something at other moments only. Their names are made here: few patterns ask for them.
    pub fn naming_at_any_moment(&self, pattern: &Pattern, groupers: &Sides<Grouper<'_>>) -> Option<Naming> {
        let sums_lines = groupers.after.by() == GroupBy::Stack;
        let members = self.members.iter().filter(|_| sums_lines);
        let lines = members.filter_map(|pair| Some(Cow::Owned(line_of(*pair, groupers)?.to_string())));
        let names = self.other_names().map(Cow::Borrowed).chain(lines);
        pattern.naming(&self.label, names).filter(|_| self.kind.is_memory())
    }

    fn other_names(&self) -> impl Iterator<Item = &str> {
        let lines = self.lines.all.iter().map(|line| &line.label);
        self.aliases.iter().chain(lines).map(String::as_str)
    }

    /// The row that stands for `count` others.
    pub(super) fn others(count: usize, held: Sides<Held>) -> Self {
        Self::without_stack(RowKind::Others(count), others(count), Bucket::Others.label().to_owned(), held)
    }

    /// The row for the bytes by which the peak of the before is higher than the place that is compared. `place` is where
    /// that peak lies.
    pub(super) fn peak_elsewhere(bytes: u64, place: &str) -> Self {
        let label = format!("[the before had its peak, {} higher, elsewhere: {place}]", Size(bytes));
        let held = Sides { before: Held { bytes, blocks: 0 }, after: Held::default() };
        Self::without_stack(RowKind::PeakElsewhere, label, format!("<{PEAK_ELSEWHERE}>"), held)
    }

    fn without_stack(kind: RowKind, label: String, key: String, held: Sides<Held>) -> Self {
        Self { kind, change: ChangeKind::of(&held), label, key, held, ..Self::default() }
    }

    /// The bytes that the program asked for, where both sides have as many blocks.
    pub fn known_requests(&self) -> Option<Sides<u64>> {
        let Sides { before, after } = self.requested;
        let is_known = before > 0 && after > 0 && self.held.before.blocks == self.held.after.blocks;
        is_known.then_some(self.requested)
    }

    /// True if the program asked for no more in as many blocks that hold more, or for no less in those that hold less: what changed
    /// is the slack of the allocator, by what was free.
    pub fn is_slack(&self) -> bool {
        let asks_for_more = self.known_requests().map(|requested| requested.delta() * self.delta().signum() > 0);
        self.delta() != 0 && asks_for_more == Some(false)
    }

    /// The change in words, by number and size of blocks, that which explains more of it first: `twice as many blocks`,
    /// `blocks on average twice as large, 1.2 times as many`.
    pub fn manner(&self) -> Option<String> {
        let Sides { before, after } = self.held;
        if !matches!(self.change, ChangeKind::Grew | ChangeKind::Shrank) || before.bytes == 0 || after.bytes == 0 {
            return None;
        }
        if self.is_slack() {
            let [size, request] = if self.delta() > 0 { ["larger", "more"] } else { ["smaller", "less"] };
            return Some(format!("slack of the allocator: {size} blocks, and no {request} was requested"));
        }
        if self.is_resized {
            return resized(self.held.map(|held| held.bytes));
        }
        let means = self.held.map(|held| held.mean());
        let is_of_size = factor(means) > factor(self.held.map(|held| held.blocks));
        if let Some(size) = resized(means).filter(|_| is_of_size) {
            let number = times(after.blocks, before.blocks, ["many", "fewer"])?;
            return Some(format!("blocks on average {size}, {number}"));
        }
        times(after.blocks, before.blocks, ["many blocks", "fewer blocks"])
    }
}

/// The line of a pair of exact stacks, under the name that it has in the after, if it is there.
pub(super) fn line_of(pair: Sides<Option<GroupMember>>, groupers: &Sides<Grouper<'_>>) -> Option<Label> {
    match (pair.after, pair.before) {
        (Some(after), _) => Some(groupers.after.code().label_parts(after.stack)),
        (None, before) => Some(groupers.before.code().label_parts(before?.stack)),
    }
}

/// By how many thousandths the larger of two values exceeds the smaller one.
fn factor(values: Sides<u64>) -> u128 {
    let Sides { before, after } = values.map(|value| u128::from(*value).max(1));
    before.max(after) * 1000 / before.min(after)
}

/// Ratios of sizes above this compare with nearly nothing, and are not printed.
const MOST_TIMES: u64 = 100;

/// The ratio of sizes in words: `twice as large`, `57 % smaller`.
pub(super) fn resized(bytes: Sides<u64>) -> Option<String> {
    let Sides { before, after } = bytes;
    let is_told = before.max(after) / MOST_TIMES < before.min(after);
    is_told.then(|| times(after, before, ["large", "smaller"])).flatten()
}

/// `twice as many blocks`, `57 % smaller` and the like; `None` if the two differ by less than 5 %.
fn times(after: u64, before: u64, [what, less]: [&str; 2]) -> Option<String> {
    let [after, before] = [after, before].map(u128::from);
    let hundredths = (after * 200 + before) / (before * 2).max(1);
    Some(match hundredths {
        96..105 => return None,
        50 => format!("half as {what}"),
        200 => format!("twice as {what}"),
        0 => format!("over 99 % {less}"),
        1..96 => format!("{} % {less}", 100 - hundredths),
        105..1000 => {
            let text = format!("{}.{:02}", hundredths / 100, hundredths % 100);
            format!("{} times as {what}", text.trim_end_matches('0').trim_end_matches('.'))
        }
        _ => format!("{} times as {what}", (hundredths + 50) / 100),
    })
}

/// The choice of rows to show.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RowChoice {
    /// The most rows; 0 is all.
    pub top: usize,
    /// Only rows that changed by at least this many bytes.
    pub min_delta: u64,
    /// Unchanged rows too.
    pub unchanged: bool,
}

/// The rows to show, those that `explain` the verdict first, then one that sums the rest, and the one that closes the
/// sum: they still add up. Small ones are shown as long as half of what explains the verdict has no name yet.
pub fn listed(rows: &[Row], listing: RowChoice, explains: impl Fn(&Row) -> bool) -> Vec<Row> {
    let RowChoice { top, min_delta, unchanged } = listing;
    let limit = if top == 0 { usize::MAX } else { top };
    let rows = rows.iter().filter(|row| row.change != ChangeKind::Same || unchanged);
    let rows = rows.filter(|row| row.held.before.bytes > 0 || row.held.after.bytes > 0);
    let mut ordered: Vec<&Row> = rows.collect();
    ordered.sort_by_cached_key(|row| !explains(row));
    let mut unnamed: i128 = ordered.iter().filter(|row| explains(row)).map(|row| row.delta()).sum();
    let enough = unnamed / 2;
    let mut shown = Vec::new();
    let mut rest = Sides::default();
    let mut count = 0;
    let mut closing = None;
    for row in ordered {
        let large = row.delta().unsigned_abs() >= u128::from(min_delta) || row.change == ChangeKind::Same;
        let large = large || explains(row) && unnamed > enough;
        match row.kind {
            RowKind::Others(more) => (rest, count) = (rest.plus(row.held), count + more),
            RowKind::PeakElsewhere => closing = Some((row.clone(), large)),
            _ if shown.len() < limit && large => {
                unnamed -= row.delta();
                shown.push(row.clone());
            }
            _ => (rest, count) = (rest.plus(row.held), count + 1),
        }
    }
    // A small one is among the others, unless it is all that there is.
    if let Some((row, _)) = closing.take_if(|(_, large)| !*large && (count > 0 || !shown.is_empty())) {
        (rest, count) = (rest.plus(row.held), count + 1);
    }
    shown.extend((count > 0).then(|| Row::others(count, rest)));
    shown.extend(closing.map(|(row, _)| row));
    shown
}

/// One of the lines of a row, with its operator.
pub type RowLine = Line<Sides<Held>>;

/// The lines that a row sums.
pub type RowLines = Lines<Sides<Held>>;

/// The order of lines: those with the largest change first.
pub(super) fn largest_first(held: &Sides<Held>) -> impl Ord + use<> {
    (Reverse(held.delta().unsigned_abs()), Reverse(held.after.bytes))
}

//! The share of each edit in the growth of a device.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use ptmem_base::sides::{Side, Sides};
use ptmem_snapshot::snapshot::StackId;
use ptmem_trace::profile::{Moment, Profile};

use super::growth::{Growth, Lives, ratio};
use super::marks::Marks;
use crate::diff::{DeviceDiff, Diff, Row, RowKind};
use crate::patch::{Edit, EditKind, Patch};

/// How growth leads to an edit, the surest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum How {
    /// Its stacks pass through the edited line.
    Line,
    /// They pass through the package.
    Package,
    /// They pass through the function or class that is edited.
    Scope,
    /// Each block is larger by the ratio of the numbers in a configuration.
    Ratio,
    /// The edited function ran when the blocks were freed before.
    Kept,
}

impl How {
    /// Its name in machine-readable output.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// The share of an edit.
#[derive(Debug, Clone)]
pub struct Share {
    /// The edit, as an index into [`Cause::edits`].
    pub edit: usize,
    /// Bytes of the growth.
    pub bytes: u64,
    /// How they lead to it, with the bytes of each way.
    pub ways: BTreeMap<How, u64>,
    /// Bytes by which rows shrank that lead to it.
    pub shrunk: u64,
    /// The row that grew most among them, and how it grew.
    pub row: (String, Growth),
}

/// The edits of a change, and their shares in the growth of a device.
#[derive(Debug, Clone)]
pub struct Cause {
    /// Those that can matter, and those that have a share.
    pub edits: Arc<[Edit]>,
    /// Those with the largest growth less what shrank first.
    pub shares: Vec<Share>,
    /// Bytes by which rows grew.
    pub grown: u64,
    /// Those that lead to no edit.
    pub no_edit: u64,
    /// Bytes by which rows shrank.
    pub shrunk: u64,
    /// Bytes by which the peak of the before, which is elsewhere, exceeds the compared place.
    pub elsewhere: u64,
}

/// Frees that are looked at of each row.
const MOST_FREES: usize = 64;

impl Diff {
    /// Finds the shares of the edits of a change in the growth of each device. `checkout` has the paths of recorded files from
    /// the root that those of the patch begin at.
    pub fn find_causes(&mut self, patch: &Patch, checkout: &BTreeMap<String, String>) {
        if !matches!(self.profiles.after.options.at, Moment::Peak | Moment::Aligned(_)) {
            return;
        }
        let edits: Arc<[Edit]> = with_dependencies(&patch.edits, self.changed_versions()).into();
        let Self { profiles, devices, .. } = self;
        let marks = Sides {
            before: Marks::new(&profiles.before, Side::Before, &edits, patch, checkout),
            after: Marks::new(&profiles.after, Side::After, &edits, patch, checkout),
        };
        for device in devices {
            device.cause = cause(device, profiles, &edits, &marks);
        }
    }
}

/// Adds packages of other versions; a line of the change that names one stands for it.
fn with_dependencies(edits: &[Edit], versions: Vec<(String, Sides<String>)>) -> Vec<Edit> {
    let mut edits = edits.to_vec();
    for (name, versions) in versions {
        let names = |edit: &Edit| {
            let text = edit.line.after.as_ref().filter(|_| edit.kind == EditKind::Configuration);
            text.is_some_and(|(_, text)| text.contains(&name) && text.contains(&versions.after))
        };
        let line = edits.iter().position(names).map(|at| edits.remove(at));
        let edit = line.unwrap_or_else(|| Edit {
            kind: EditKind::Configuration,
            path: Sides::default(),
            line: Sides::default(),
            near: None,
            scope: None,
            lines: Sides::default(),
            body: Sides::default(),
        });
        edits.push(Edit { kind: EditKind::Dependency(name, versions), ..edit });
    }
    edits
}

fn cause(
    device: &mut DeviceDiff,
    profiles: &Sides<Profile>,
    edits: &Arc<[Edit]>,
    marks: &Sides<Marks<'_>>,
) -> Option<Cause> {
    let lives = Lives::new(device, profiles)?;
    let mut sums: BTreeMap<usize, BTreeMap<How, u64>> = BTreeMap::new();
    let mut shrunk: BTreeMap<usize, u64> = BTreeMap::new();
    let mut found: Vec<(usize, usize)> = Vec::new();
    let mut largest: BTreeMap<usize, (u64, usize, Growth)> = BTreeMap::new();
    let mut cause =
        Cause { edits: Arc::clone(edits), shares: Vec::new(), grown: 0, no_edit: 0, shrunk: 0, elsewhere: 0 };
    for (index, row) in device.rows.iter().enumerate() {
        let bytes = u64::try_from(row.delta().unsigned_abs()).unwrap_or(u64::MAX);
        match (row.kind, row.delta()) {
            (RowKind::PeakElsewhere, _) => cause.elsewhere += bytes,
            (_, ..0) => {
                cause.shrunk += bytes;
                let stack = row.stack.before;
                let line = stack.and_then(|stack| marks.before.line(stack)).map(|(edit, _)| edit);
                let edit = line.or_else(|| stack.and_then(|stack| marks.before.scope(stack)));
                edit.into_iter().for_each(|edit| *shrunk.entry(edit).or_default() += bytes);
            }
            (_, 0) => {}
            (_, 1..) => {
                cause.grown += bytes;
                let growth = lives.growth(index, row);
                let parts = attribution(index, row, &growth, bytes, edits, marks, &lives);
                cause.no_edit += bytes - parts.iter().map(|(_, _, bytes)| bytes).sum::<u64>();
                let most = parts.iter().max_by_key(|(edit, _, bytes)| (*bytes, Reverse(*edit)));
                found.extend(most.filter(|most| most.2 >= bytes.div_ceil(2)).map(|most| (index, most.0)));
                for (edit, how, bytes) in parts {
                    *sums.entry(edit).or_default().entry(how).or_default() += bytes;
                    if largest.get(&edit).is_none_or(|(most, ..)| *most < bytes) {
                        largest.insert(edit, (bytes, index, growth.clone()));
                    }
                }
            }
        }
    }
    for (row, edit) in found {
        device.rows[row].edit = Some(edit);
    }
    for (edit, ways) in sums {
        let (_, row, growth) = largest.remove(&edit)?;
        let row = (device.rows[row].label.clone(), growth);
        let shrunk = shrunk.get(&edit).copied().unwrap_or_default();
        cause.shares.push(Share { edit, bytes: ways.values().sum(), ways, shrunk, row });
    }
    cause.shares.sort_by_key(|share| (Reverse(i128::from(share.bytes) - i128::from(share.shrunk)), share.edit));
    Some(cause)
}

/// The edits that a row leads to, with their bytes.
fn attribution(
    index: usize,
    row: &Row,
    growth: &Growth,
    bytes: u64,
    edits: &[Edit],
    marks: &Sides<Marks<'_>>,
    lives: &Lives<'_>,
) -> Vec<(usize, How, u64)> {
    let is_kept = matches!(growth, Growth::Kept(_));
    let kept = if is_kept { running(index, edits, marks, lives) } else { None };
    let is_larger = *growth == Growth::Larger;
    let ratio = edits.iter().position(|edit| is_larger && edit.explains(ratio(row)));
    let of = |stack: StackId| {
        let line = marks.after.line(stack);
        // What a package allocated as before is not kept by it.
        let own = line.filter(|(_, how)| *how == How::Line || !is_kept);
        own.or(kept.map(|edit| (edit, How::Kept)))
            .or(line)
            .or(ratio.map(|edit| (edit, How::Ratio)))
            .or_else(|| marks.after.scope(stack).map(|edit| (edit, How::Scope)))
    };
    // Each member grew by its part.
    let members = row.members.iter().filter_map(|pair| {
        let grown = pair.after?.at.bytes.saturating_sub(pair.before.map_or(0, |before| before.at.bytes));
        Some((pair.after?.stack, grown))
    });
    let members: Vec<(StackId, u64)> = members.filter(|(_, grown)| *grown > 0).collect();
    let whole: u128 = members.iter().map(|(_, grown)| u128::from(*grown)).sum();
    let mut parts: BTreeMap<(usize, How), u64> = BTreeMap::new();
    let mut left = bytes;
    for (at, (stack, grown)) in members.iter().enumerate() {
        let part = u128::from(bytes) * u128::from(*grown) / whole;
        let part = u64::try_from(part).unwrap_or(u64::MAX);
        let part = if at + 1 == members.len() { left } else { part.min(left) };
        left -= part;
        if let Some(found) = of(*stack) {
            *parts.entry(found).or_default() += part;
        }
    }
    parts.into_iter().map(|((edit, how), bytes)| (edit, how, bytes)).collect()
}

/// The edit whose function or package ran when the blocks of a row were freed before.
fn running(index: usize, edits: &[Edit], marks: &Sides<Marks<'_>>, lives: &Lives<'_>) -> Option<usize> {
    let mut votes: BTreeMap<usize, u32> = BTreeMap::new();
    for life in lives.freed(index).iter().rev().take(MOST_FREES) {
        let next = lives.born.partition_point(|(at, _)| *at < life.freed);
        let stack = |at: usize| lives.born.get(at).and_then(|(_, stack)| *stack);
        let around = [next.checked_sub(1).and_then(stack), stack(next)];
        for (weight, stack) in [2, 1].into_iter().zip(around) {
            let all = stack.map(|stack| marks.before.all(stack)).unwrap_or_default();
            all.into_iter()
                .filter(|edit| edits[*edit].kind != EditKind::Log)
                .for_each(|edit| *votes.entry(edit).or_default() += weight);
        }
    }
    votes.into_iter().max_by_key(|&(edit, votes)| (votes, edits[edit].may_keep(), Reverse(edit))).map(|(edit, _)| edit)
}

impl Cause {
    /// The edits without a share that can matter.
    pub fn others(&self) -> impl Iterator<Item = &Edit> + Clone {
        let has_share = |at: usize| self.shares.iter().any(|share| share.edit == at);
        let all = self.edits.iter().enumerate();
        all.filter(move |(at, edit)| !has_share(*at) && edit.can_matter()).map(|(_, edit)| edit)
    }

    /// The share that explains most, if it is at least half of the growth.
    #[must_use]
    pub fn leading(&self) -> Option<&Share> {
        self.shares.first().filter(|share| self.grown > 0 && share.bytes >= self.grown.div_ceil(2))
    }
}

//! The share of each edit in the growth of a device.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use ptmem_base::diagnostic::{Code, Diagnostic};
use ptmem_base::sides::Sides;
use ptmem_snapshot::snapshot::StackId;
use ptmem_trace::profile::{Moment, Profile};
use ptmem_trace::trace::{Life, Position};
use rustc_hash::FxHashSet;

use super::edit::explains;
use super::figure::Holding;
use super::growth::Lives;
use super::marks::Marks;
use super::share::{Cause, EditEvidence, EditShare, Figure, RowGrowth, WayToEdit};
use crate::diff::inputs;
use crate::diff::{Destination, DeviceDiff, Diff, Row, RowKind};
use crate::patch::{Edit, EditKind, Patch};

/// Maximum number of frees that are examined per row.
const MOST_FREES: usize = 64;

impl Diff {
    /// Finds the shares of the edits of a change, or without one those of upgraded packages alone, in the growth of each device.
    /// `checkout` has the paths of recorded files from the root that those of the patch begin at.
    pub fn find_causes(&mut self, patch: Option<&Patch>, checkout: &BTreeMap<String, String>) {
        let versions = self.changed_versions();
        let is_listed = matches!(self.profiles.after.options.at, Moment::Peak | Moment::Aligned);
        if !is_listed || patch.is_none() && versions.is_empty() {
            return;
        }
        let is_code_known = patch.is_some();
        let no_patch = Patch::default();
        let patch = patch.unwrap_or(&no_patch);
        let edits: Arc<[Edit]> = with_dependencies(&patch.edits, versions).into();
        let Self { profiles, devices, diagnostics } = self;
        let marks = Sides::BOTH.map(|&side| Marks::new(profiles.of(side), side, &edits, patch, checkout));
        // A file that was not read may have edits that can matter.
        let only = only(&edits, &marks, diagnostics, || {
            devices.iter().flat_map(|device| inputs::ratios(device, profiles)).collect()
        });
        let only = only.filter(|_| is_code_known && patch.unread == 0);
        let of_numbers =
            edits.iter().enumerate().filter_map(|(at, edit)| Some((at, edit.times().filter(|_| !edit.is_view())?)));
        let of_numbers: Vec<(usize, f64)> = of_numbers.filter(|(at, _)| may_run(*at, &edits, &marks)).collect();
        let unread = patch.unread as u64;
        let change = ChangeEdits { edits: &edits, of_numbers: &of_numbers, marks: &marks, only, unread, is_code_known };
        for device in devices {
            causes(device, profiles, change);
        }
    }
}

/// The edits of a change, and what is known of them.
#[derive(Clone, Copy)]
struct ChangeEdits<'c, 'p> {
    edits: &'c Arc<[Edit]>,
    /// Those that replace numbers and may run, and how many times as large or as small these are.
    of_numbers: &'c [(usize, f64)],
    marks: &'c Sides<Marks<'p>>,
    /// The only edit that can matter, if there is only one.
    only: Option<usize>,
    /// Number of changed files that were not read.
    unread: u64,
    /// False if only the versions of packages are known.
    is_code_known: bool,
}

/// The only edit that can matter, unless the recordings differ in more than the change says.
fn only(
    edits: &[Edit],
    marks: &Sides<Marks<'_>>,
    diagnostics: &[Diagnostic],
    ratios_of_inputs: impl Fn() -> Vec<f64>,
) -> Option<usize> {
    let mut all = (0..edits.len()).filter(|&at| edits[at].can_matter() && may_run(at, edits, marks));
    let only = all.next().filter(|_| all.next().is_none())?;
    // A configuration has the sizes of inputs and the number of steps; a number in code is known to if inputs grew with it.
    let is_configuration = edits[only].kind == EditKind::Configuration;
    let differs = |found: &Diagnostic| match found.code {
        Code::InputsDiffer => {
            let times = edits[only].times().filter(|_| edits[only].raises_number());
            !is_configuration && !times.is_some_and(|times| explains(times, &ratios_of_inputs()))
        }
        Code::LengthsDiffer => !is_configuration,
        code => matches!(code, Code::SettingsDiffer | Code::RecordingsDiffer),
    };
    (!diagnostics.iter().any(differs)).then_some(only)
}

/// False for an edit of a test that did not run.
fn may_run(at: usize, edits: &[Edit], marks: &Sides<Marks<'_>>) -> bool {
    !edits[at].is_of_tests() || marks.before.marks(at) || marks.after.marks(at)
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
        let edit = line.unwrap_or_default();
        edits.push(Edit { kind: EditKind::Dependency(name, versions), ..edit });
    }
    edits
}

/// Finds the causes of all figures of a device, and the edits of its rows.
fn causes(device: &mut DeviceDiff, profiles: &Sides<Profile>, change: ChangeEdits<'_, '_>) {
    let Some(lives) = Lives::new(device, profiles) else { return };
    // The first figure at which a row grew decides; the peak, whose rows are listed, comes first.
    let mut of_rows: Vec<Option<Option<usize>>> = vec![None; device.rows.len()];
    for (figure, places) in Figure::grown(device, lives.devices) {
        let seen = GrowthParts { device, figure, places, change, lives: &lives };
        let cause = seen.cause(&figure.holdings(device, lives.devices, places), &mut of_rows);
        device.causes.push(cause);
    }
    for (row, edit) in device.rows.iter_mut().zip(of_rows) {
        let grew = (row.delta() > 0 || row.highest.after > row.highest.before) && !row.is_slack();
        // A row whose growth was examined leads nowhere else.
        let found = edit.unwrap_or_else(|| through_all(row, &change.marks.after)).filter(|_| !row.is_slack());
        row.edit = found.or(change.only).filter(|_| grew);
        row.leads = found.filter(|_| row.delta() > 0).map(|edit| Destination::of(&change.edits[edit]));
        let package = found.filter(|edit| change.edits[*edit].package().is_some());
        let frame = package.zip(row.stack.after).and_then(|(edit, stack)| change.marks.after.frame(stack, edit));
        row.through = frame.filter(|frame| !row.label.contains(frame.as_str()));
    }
}

/// The edit whose lines or package every stack of a row passes through.
fn through_all(row: &Row, marks: &Marks<'_>) -> Option<usize> {
    let stacks = row.members.iter().filter_map(|pair| Some(pair.after?.stack));
    let mut edits = stacks.map(|stack| Some(marks.line(stack)?.edit));
    let first = edits.next()??;
    edits.all(|edit| edit == Some(first)).then_some(first)
}

/// The growth of a figure that is divided, and the edits that it is divided among.
#[derive(Clone, Copy)]
struct GrowthParts<'s, 'p> {
    device: &'s DeviceDiff,
    figure: Figure,
    /// Its places on both sides.
    places: Sides<Position>,
    change: ChangeEdits<'s, 'p>,
    lives: &'s Lives<'p>,
}

impl GrowthParts<'_, '_> {
    /// Divides the growth of rows among the edits; `of_rows` gets the edit, if any, of each that is not decided yet.
    fn cause(self, holdings: &[Holding], of_rows: &mut [Option<Option<usize>>]) -> Cause {
        let Self { device, figure, change, .. } = self;
        let ChangeEdits { edits, marks, only, unread, is_code_known, .. } = change;
        let mut sums: BTreeMap<WayToEdit, u64> = BTreeMap::new();
        let mut shrunk: BTreeMap<usize, u64> = BTreeMap::new();
        let mut largest: BTreeMap<usize, (u64, usize, RowGrowth)> = BTreeMap::new();
        let place = figure.place(device);
        let edits = Arc::clone(edits);
        let mut cause = Cause { figure, place, edits, only, unread, is_code_known, ..Cause::default() };
        let mut slack = 0;
        for holding in holdings {
            let grown = self.grown(holding);
            let row = &device.rows[holding.row];
            let delta = holding.held.delta();
            let bytes = u64::try_from(delta.unsigned_abs()).unwrap_or(u64::MAX);
            match (row.kind, delta) {
                (RowKind::PeakElsewhere, _) => cause.elsewhere += bytes,
                (_, ..0) => {
                    cause.shrunk += bytes;
                    let edit = row.stack.before.and_then(|stack| marks.before.edit(stack));
                    edit.into_iter().for_each(|edit| *shrunk.entry(edit).or_default() += bytes);
                }
                (_, 0) => {}
                (_, 1..) => {
                    cause.grown += bytes;
                    let Some(GrownPart { growth, parts }) = grown else { continue };
                    let is_slack = figure == Figure::Peak && row.is_slack();
                    slack += if is_slack { bytes } else { 0 };
                    let left = bytes - parts.values().sum::<u64>();
                    cause.no_edit += left;
                    if !row.stack.after.is_some_and(|stack| marks.after.has_python(stack)) {
                        cause.without_python += left;
                    }
                    let of_edits = by_edit(&parts);
                    let most = of_edits.iter().max_by_key(|&(edit, bytes)| (*bytes, Reverse(*edit)));
                    let most = most.filter(|most| *most.1 >= bytes.div_ceil(2)).map(|most| *most.0);
                    of_rows[holding.row].get_or_insert(most);
                    for (edit, bytes) in of_edits {
                        if largest.get(&edit).is_none_or(|(most, ..)| *most < bytes) {
                            largest.insert(edit, (bytes, holding.row, growth.clone()));
                        }
                    }
                    parts.into_iter().for_each(|(way, bytes)| *sums.entry(way).or_default() += bytes);
                }
            }
        }
        // An edit is no reason for what the allocator left unused.
        cause.only = cause.only.filter(|_| slack < cause.grown.div_ceil(2));
        let shares = by_edit(&sums).into_iter().filter_map(|(edit, bytes)| {
            let (_, row, growth) = largest.remove(&edit)?;
            let row = (device.rows[row].label.clone(), growth);
            let shrunk = shrunk.get(&edit).copied().unwrap_or_default();
            Some((edit, EditShare { edit, bytes, ways: BTreeMap::new(), statements: BTreeMap::new(), shrunk, row }))
        });
        let mut shares: BTreeMap<usize, EditShare> = shares.collect();
        for (way, bytes) in sums {
            shares.entry(way.edit).and_modify(|share| share.add(way, bytes));
        }
        cause.shares = shares.into_values().collect();
        cause.shares.sort_by_key(|share| (Reverse(i128::from(share.bytes) - i128::from(share.shrunk)), share.edit));
        cause.show_statements();
        cause
    }

    /// How a row grew, and the ways from it to edits; `None` if it did not.
    fn grown(self, holding: &Holding) -> Option<GrownPart> {
        let Self { device, figure, .. } = self;
        let row = &device.rows[holding.row];
        let bytes = u64::try_from(holding.held.delta()).ok().filter(|bytes| *bytes > 0)?;
        let growth = self.lives.growth(figure, holding, row, self.places);
        let is_slack = figure == Figure::Peak && row.is_slack();
        let parts = if is_slack { BTreeMap::new() } else { self.attribution(holding, &growth, bytes) };
        Some(GrownPart { growth, parts })
    }

    /// The ways from a row to edits, with their bytes.
    fn attribution(self, holding: &Holding, growth: &RowGrowth, bytes: u64) -> BTreeMap<WayToEdit, u64> {
        let Self { change: ChangeEdits { edits, of_numbers, marks, only, is_code_known, .. }, lives, places, .. } =
            self;
        // Without the edits of the code, packages are not alone in question.
        let is_kept = is_code_known && matches!(growth, RowGrowth::Kept(_));
        let freed = if is_kept { lives.freed_of_grown(&self.device.rows[holding.row], holding) } else { Vec::new() };
        let kept = beside_frees(&freed, edits, &marks.before, lives);
        let may_another_keep =
            edits.iter().any(|edit| edit.may_keep() && edit.times().is_none() && !edit.is_of_gradients());
        let outlasting = match may_another_keep && edits.iter().any(Edit::is_of_gradients) {
            true => lives.outlasting(holding.row, &self.device.rows[holding.row], places),
            false => FxHashSet::default(),
        };
        let is_larger = *growth == RowGrowth::Larger;
        let is_by_number = is_larger || *growth == RowGrowth::More;
        let ratios = if is_by_number { lives.ratios(holding.row, places) } else { Vec::new() };
        let of_ratio = of_ratios(edits, of_numbers, &ratios).map(|edit| WayToEdit::new(edit, EditEvidence::Ratio));
        let of = |stack: StackId| {
            // What outlasts the next backward pass is rather kept by another edit, if one may.
            let may =
                |edit: usize| only == Some(edit) || !(outlasting.contains(&stack) && edits[edit].is_of_gradients());
            let line = marks.after.line(stack).filter(|way| may(way.edit));
            // A package does not keep blocks that it also allocated before.
            let own = line.filter(|way| way.how == EditEvidence::Line || !is_kept);
            // The graph keeps blocks, unless what is written at their lines may.
            let may_keep = own.is_some_and(|way| edits[way.edit].may_keep());
            let graph = marks.after.graph(stack).filter(|way| is_kept && !may_keep && may(way.edit));
            graph
                .or(own)
                .or(kept.filter(|edit| may(*edit)).map(|edit| WayToEdit::new(edit, EditEvidence::Kept)))
                .or(line)
                .or(of_ratio.filter(|_| is_larger))
                .or_else(|| {
                    // An edit may keep what is allocated above it.
                    let is_kept = is_kept || lives.kept.contains(&stack);
                    let scope = if is_kept { marks.after.scope(stack) } else { marks.after.above(stack) };
                    // What sets the sizes of larger blocks may be far from them.
                    let scope = scope.filter(|edit| may(*edit) && (!is_larger || only == Some(*edit)));
                    scope.map(|edit| WayToEdit::new(edit, EditEvidence::Scope))
                })
                // There are many reasons to allocate more often, and some number fits by chance: an edited function on the way comes
                // first.
                .or(of_ratio)
        };
        // Each member grew by its part.
        let members = &holding.members;
        let whole: u128 = members.iter().map(|(_, grown)| u128::from(*grown)).sum();
        let mut parts: BTreeMap<WayToEdit, u64> = BTreeMap::new();
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
        parts
    }
}

/// How a row grew, and the ways from it to edits, with their bytes.
struct GrownPart {
    growth: RowGrowth,
    parts: BTreeMap<WayToEdit, u64>,
}

/// The bytes of each edit.
fn by_edit(parts: &BTreeMap<WayToEdit, u64>) -> BTreeMap<usize, u64> {
    let mut edits: BTreeMap<usize, u64> = BTreeMap::new();
    parts.iter().for_each(|(way, bytes)| *edits.entry(way.edit).or_default() += bytes);
    edits
}

/// The one edit of a number that explains how many times as large blocks are, by the first ratios that one explains; of several,
/// the one that raises its number.
fn of_ratios(edits: &[Edit], of_numbers: &[(usize, f64)], ratios: &[Vec<f64>]) -> Option<usize> {
    let explaining = ratios.iter().map(|ratios| {
        let explaining = of_numbers.iter().filter(|(_, times)| explains(*times, ratios));
        explaining.map(|(at, _)| *at).collect::<Vec<_>>()
    });
    let all = explaining.into_iter().find(|all| !all.is_empty())?;
    let raised: Vec<usize> = all.iter().copied().filter(|&at| edits[at].raises_number()).collect();
    match (&raised[..], &all[..]) {
        ([one], _) | ([], [one]) => Some(*one),
        _ => None,
    }
}

/// The edit whose function or package allocated next to most frees of these blocks of the before.
fn beside_frees(freed: &[&Life], edits: &[Edit], marks: &Marks<'_>, lives: &Lives<'_>) -> Option<usize> {
    let mut votes: BTreeMap<usize, EditVotes> = BTreeMap::new();
    let examined = &freed[freed.len().saturating_sub(MOST_FREES)..];
    for life in examined {
        let next = lives.born.partition_point(|(at, _)| *at < life.freed);
        let keeper = |at: usize| lives.born.get(at).and_then(|(_, stack)| marks.keeper((*stack)?, edits));
        let [before, after] = [next.checked_sub(1).and_then(keeper), keeper(next)];
        for edit in before.into_iter().chain(after.filter(|edit| before != Some(*edit))) {
            let votes = votes.entry(edit).or_default();
            votes.frees += 1;
            votes.weight += 2 * u32::from(before == Some(edit)) + u32::from(after == Some(edit));
        }
    }
    votes.retain(|_, votes| 2 * votes.frees > examined.len());
    votes
        .into_iter()
        .max_by_key(|&(edit, votes)| (votes.weight, edits[edit].may_keep(), Reverse(edit)))
        .map(|(edit, _)| edit)
}

/// How often an edited function or package allocates next to a free.
#[derive(Clone, Copy, Default)]
struct EditVotes {
    /// The frees.
    frees: usize,
    /// An allocation before the free counts twice.
    weight: u32,
}

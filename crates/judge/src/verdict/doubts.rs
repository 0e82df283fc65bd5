//! Doubts: reasons to trust no check of a kind, whatever the rules found. They come after all rules, in this order.

use ptmem_base::units::Size;
use ptmem_compare::diff::{DeviceDiff, Diff, PhaseRow, Row, Side, Sides};
use ptmem_trace::profile::{DeviceProfile, EndingKind, Profile, SupposedSizes, Unknown};
use ptmem_trace::replay::HistoryKind;

use super::kind::NeededPart;
use super::row_names::RowNames;
use super::{Check, GrowthLimit, LimitKind, Outcome, PassedBy, Thresholds};

/// A reason to distrust checks of a comparison or of one snapshot.
pub(super) struct RunDoubt {
    reason: String,
    doubtful: Doubtful,
}

/// The checks that a doubt makes inconclusive.
enum Doubtful {
    /// All of them.
    All,
    /// Of growth.
    Growth,
    /// Of growth, unless memory no longer runs out.
    GrowthBesideMended,
    /// Of growth by more than its limit, in either direction.
    LargeGrowth,
    /// Those whose outcome could change if a figure is wrong by this number of bytes.
    DecidedBy(u64),
    /// Those that do not fail: a part of a run needs as much as it shows, and perhaps more.
    NotExceeded,
}

/// Applies all doubts about a comparison: memory of supposed sizes, counters that cannot be, then the runs as a whole.
pub(super) fn apply_to_diff(diff: &Diff, thresholds: &Thresholds, checks: &mut [Check]) {
    let Sides { before, after } = &diff.profiles;
    apply_supposed_sizes(diff, thresholds, checks);
    apply_impossible(&[(Side::Before, before), (Side::After, after)], checks);
    apply(of_diff(diff), checks);
}

/// Applies all doubts about one snapshot under absolute limits.
pub(super) fn apply_to_profile(profile: &Profile, checks: &mut [Check]) {
    apply_impossible(&[(Side::After, profile)], checks);
    apply(of_run(failure(profile)).into_iter().chain(ignores_otherwise(profile, "snapshot", Doubtful::All)), checks);
}

/// Makes the checks inconclusive that are doubtful.
pub(super) fn apply(doubts: impl IntoIterator<Item = RunDoubt>, checks: &mut [Check]) {
    for doubt in doubts {
        checks.iter_mut().for_each(|check| doubt.apply(check));
    }
}

/// The doubts about a comparison: both sides ran the same code, one program differs from run to run, a side is not a whole run, or
/// phases to ignore are not left out.
fn of_diff(diff: &Diff) -> impl Iterator<Item = RunDoubt> {
    let Sides { before, after } = &diff.profiles;
    let ignoring =
        [ignores_otherwise(before, "before", Doubtful::Growth), ignores_otherwise(after, "after", Doubtful::All)];
    let of_runs = [same_code(diff), not_repeatable(diff), after_is_partial(diff), before_is_partial(diff)];
    of_runs.into_iter().chain(ignoring).flatten()
}

/// The doubt about a run under absolute limits, or about a search for leaks.
pub(super) fn of_run(failure: Option<String>) -> Option<RunDoubt> {
    let reason = format!("the snapshot is not of a whole run: {}", failure?);
    Some(RunDoubt { reason, doubtful: Doubtful::NotExceeded })
}

fn ignores_otherwise(profile: &Profile, side: &str, doubtful: Doubtful) -> Option<RunDoubt> {
    Some(RunDoubt { reason: format!("the {side} {}", profile.ignores_otherwise()?), doubtful })
}

fn same_code(diff: &Diff) -> Option<RunDoubt> {
    Some(RunDoubt { reason: diff.same_code()?, doubtful: Doubtful::Growth })
}

fn not_repeatable(diff: &Diff) -> Option<RunDoubt> {
    let reason = "both sides ran the same program, and differ by more than the limit allows: seed it, or allow more";
    diff.is_not_repeatable().then(|| RunDoubt { reason: reason.to_owned(), doubtful: Doubtful::LargeGrowth })
}

/// Makes checks inconclusive that rows could decide whose sizes simulated GPUs supposed, not the same ones on both sides.
fn apply_supposed_sizes(diff: &Diff, thresholds: &Thresholds, checks: &mut [Check]) {
    let mut rows = diff.devices.iter().flat_map(|device| &device.rows);
    // As in every recording of a real GPU.
    if rows.all(|row| row.supposed.before.is_empty() && row.supposed.after.is_empty()) {
        return;
    }
    let supposed = SupposedSizes::of(&diff.profiles);
    for check in checks {
        let devices = diff.devices.iter().filter(|device| check.device.is_none_or(|id| device.id() == Some(id)));
        let limits = thresholds.growth.iter();
        let mut limits = limits.filter(|limit| limit.target == check.of && limit.level == check.limit.level);
        // One that passes for many stacks, phases or modules has the figures of none.
        let of_many = limits.next().filter(|_| check.outcome == Outcome::Pass && check.figures.delta.is_none());
        let doubt = if let Some(limit) = of_many {
            let scopes =
                devices.map(|device| Scope { diff, device, limit, least: thresholds.min_delta, supposed: &supposed });
            scopes.filter_map(|scope| scope.unknown()).next().map(|unknown| (unknown, Doubtful::All))
        } else {
            let rows = devices.flat_map(|device| &device.rows).filter(|row| check.may_concern(row));
            let unknown = supposed.unknown(rows.map(|row| &row.supposed));
            unknown.map(|unknown| (unknown.clone(), Doubtful::DecidedBy(unknown.bytes)))
        };
        if let Some((Unknown { bytes, first }, doubtful)) = doubt {
            let reason = format!(
                "{} of memory have sizes that simulated GPUs supposed, not the same on both sides, first in {first}: record both with \
                 --compute all (compute = \"all\" in a gate)",
                Size(bytes)
            );
            RunDoubt { reason, doubtful }.apply(check);
        }
    }
}

/// The stacks, phases or other parts of a device that one limit is about.
struct Scope<'a> {
    diff: &'a Diff,
    device: &'a DeviceDiff,
    limit: &'a GrowthLimit,
    /// The least change that counts.
    least: u64,
    supposed: &'a SupposedSizes<'a>,
}

impl Scope<'_> {
    /// Memory of supposed sizes that could carry a part beyond the limit, although all parts stay within it.
    fn unknown(&self) -> Option<Unknown> {
        match self.limit.target.kind {
            LimitKind::Stacks => self.unknown_of_rows(|row| Some(row.held.map(|held| held.bytes))),
            LimitKind::StackHighest => self.unknown_of_rows(|row| row.highest.both()),
            LimitKind::Phases => self.unknown_of_phases(|row| row.peak.both()),
            LimitKind::ReservedInPhases => self.unknown_of_phases(|row| row.of_reserved().reserved.both()),
            LimitKind::Modules | LimitKind::Pools => self
                .supposed
                .unknown(self.device.rows.iter().map(|row| &row.supposed))
                .filter(|unknown| unknown.bytes >= self.least),
            LimitKind::Metric(_)
            | LimitKind::Outside
            | LimitKind::Serving(_)
            | LimitKind::Imbalance
            | LimitKind::Ranks
            | LimitKind::Leaks
            | LimitKind::OutOfMemory
            | LimitKind::Headroom
            | LimitKind::Growth
            | LimitKind::Trust => None,
        }
    }

    fn unknown_of_rows(&self, figures: impl Fn(&Row) -> Option<Sides<u64>>) -> Option<Unknown> {
        let names = RowNames::of(self.limit.target.kind, self.diff);
        let selector = self.limit.target.pattern.as_ref().map(|pattern| names.selector(self.device, pattern));
        let rows = self.device.rows.iter().filter(|row| row.kind.is_memory());
        let mut rows = rows.filter(|row| selector.as_ref().is_none_or(|selector| names.is_selected(row, selector)));
        rows.find_map(|row| {
            let unknown = self.supposed.unknown(std::iter::once(&row.supposed))?;
            self.could_exceed(figures(row)?, unknown.bytes).then_some(unknown)
        })
    }

    fn unknown_of_phases(&self, figures: impl Fn(&PhaseRow) -> Option<Sides<u64>>) -> Option<Unknown> {
        let unknown = self.supposed.unknown(self.device.rows.iter().map(|row| &row.supposed))?;
        let pattern = self.limit.target.pattern.as_ref();
        let phases = self.device.phases.iter();
        let phases = phases.filter(|row| pattern.map_or(row.is_outermost, |pattern| pattern.matches(&row.name)));
        phases.filter_map(figures).any(|figures| self.could_exceed(figures, unknown.bytes)).then_some(unknown)
    }

    /// Whether a change exceeds the limit if it is wrong by so many bytes.
    fn could_exceed(&self, figures: Sides<u64>, unknown: u64) -> bool {
        let unknown = i128::from(unknown);
        [-unknown, unknown].into_iter().any(|error| {
            let change = figures.delta().saturating_add(error);
            !self.limit.limit.holds(figures.before, change) && change.unsigned_abs() >= u128::from(self.least)
        })
    }
}

/// Makes checks inconclusive of counters that cannot be: they count other memory than that of the device. What they count at most
/// is enough for an absolute limit to hold.
fn apply_impossible(profiles: &[(Side, &Profile)], checks: &mut [Check]) {
    for check in checks.iter_mut().filter(|check| !(check.limit.is_absolute && check.outcome == Outcome::Pass)) {
        let is_relative = !check.limit.is_absolute;
        let concerned = profiles.iter().filter(|(side, _)| is_relative || *side == Side::After);
        let mut found = concerned.flat_map(|(side, profile)| {
            let devices = profile.devices.iter().filter(|device| check.device == Some(device.device));
            devices.filter_map(|device| Some((*side, check.measure().and_then(|of| profile.impossible(device, of))?)))
        });
        let Some((side, words)) = found.next() else { continue };
        let side = if is_relative { format!(" of the {}", side.name()) } else { String::new() };
        RunDoubt { reason: format!("the figures{side} cannot be: {words}"), doubtful: Doubtful::All }.apply(check);
    }
}

fn after_is_partial(diff: &Diff) -> Option<RunDoubt> {
    let reason = format!("the after is not a whole run: {}", failure(&diff.profiles.after)?);
    Some(RunDoubt { reason, doubtful: Doubtful::NotExceeded })
}

fn before_is_partial(diff: &Diff) -> Option<RunDoubt> {
    let before = &diff.profiles.before;
    let reason = format!("the before is not a whole run: {}", failure(before)?);
    let ending = before.run.as_ref().and_then(|run| run.ending.as_ref());
    let ran_out = ending.is_some_and(|ending| ending.kind == EndingKind::Oom);
    Some(RunDoubt { reason, doubtful: if ran_out { Doubtful::GrowthBesideMended } else { Doubtful::Growth } })
}

impl RunDoubt {
    /// Makes a check inconclusive if it is doubtful. Memory that ran out did so.
    fn apply(&self, check: &mut Check) {
        if check.kind() != LimitKind::OutOfMemory && self.doubtful.concerns(check) {
            check.outcome = Outcome::Inconclusive;
            check.reason = Some(self.reason.clone());
            check.advice = None;
            check.figures.bound = None;
            check.excuse = check.excuse.filter(|excuse| *excuse == PassedBy::Mended);
        }
    }
}

impl Doubtful {
    fn concerns(&self, check: &Check) -> bool {
        match self {
            Self::All => true,
            Self::Growth => !check.limit.is_absolute,
            Self::GrowthBesideMended => !check.limit.is_absolute && check.excuse != Some(PassedBy::Mended),
            Self::LargeGrowth => !check.limit.is_absolute && check.differs_by_more_than_allowed(),
            Self::DecidedBy(bytes) => check.is_decided_within(*bytes),
            // More may be needed than an improvement shows.
            Self::NotExceeded => check.outcome != Outcome::Exceeded || check.is_improvement(),
        }
    }
}

/// The reason why a profile is not that of a whole run.
pub(super) fn failure(profile: &Profile) -> Option<String> {
    profile.run.as_ref()?.failure()
}

/// The reason why a figure that needs a history cannot be known, if there is one.
pub(super) fn no_history(device: &DeviceProfile, side: &str, kind: LimitKind) -> Option<String> {
    let why = match device.figures.history {
        HistoryKind::Recorded if device.figures.allocation_count > 0 => return None,
        // The state at the dump has them.
        history if kind.needs() == NeededPart::Dump && history != HistoryKind::NumbersOnly => return None,
        HistoryKind::NumbersOnly if matches!(kind, LimitKind::Metric(_)) => return None,
        HistoryKind::NumbersOnly => {
            "holds only figures, without stacks or a history (record the same run, as with ptmem_gate.record(), and compare \
             snapshots)"
        }
        HistoryKind::Recorded => "allocates nothing in its recorded part",
        HistoryKind::StateOnly | HistoryKind::Empty => "records no allocations, only the state at the dump",
        HistoryKind::NoAllocations => "records frees but no allocations",
    };
    Some(format!("the {side} {why}"))
}

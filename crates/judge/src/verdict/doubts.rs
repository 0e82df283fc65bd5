//! Doubts: reasons to trust no check of a kind, whatever the rules found. They come after all rules, in this order.

use ptmem_base::diagnostic::Diagnostic;
use ptmem_base::units::Size;
use ptmem_compare::diff::{Diff, Side, Sides};
use ptmem_trace::profile::{DeviceProfile, EndingKind, Profile, SupposedSizes, Unknown};

use super::growth::{RAN_OUT, RAN_OUT_OF_ONE};
use super::kind::NeededPart;
use super::limited::lost_part;
use super::parts::of_many;
use super::{Check, LimitKind, Outcome, PassedBy, Thresholds};

/// The recordings that checks are about.
#[derive(Debug, Clone, Copy)]
pub(super) enum JudgedInput<'a> {
    /// Both sides of a comparison.
    Comparison(&'a Diff),
    /// One snapshot.
    Snapshot(&'a Profile),
}

/// A reason to distrust checks of a comparison or of one snapshot.
pub(super) struct RunDoubt {
    reason: String,
    doubtful: Doubtful,
}

/// Whether memory ran out on both sides.
fn ran_out(sides: Sides<&DeviceProfile>) -> bool {
    sides.before.ran_out_of_memory() && sides.after.ran_out_of_memory()
}

/// The checks that a doubt makes inconclusive.
enum Doubtful {
    /// All of them.
    All,
    /// Of growth.
    Growth,
    /// Of growth, unless memory no longer runs out.
    GrowthBesideMended,
    /// Those whose outcome could change if a figure is wrong by this number of bytes.
    DecidedBy(u64),
    /// Those that do not fail by a figure of which a part of a run needs as much as it shows, and perhaps more.
    NotExceeded,
}

/// Applies all doubts about recordings to checks of any kind. A check of several ranks is doubtful for what is of one of them.
pub(super) fn apply_all(input: JudgedInput<'_>, thresholds: &Thresholds, checks: &mut [Check]) {
    apply_each(checks, |check, _| of_ran_out(input, thresholds, check));
    apply_each(checks, |check, _| of_lost_part(input, thresholds, check));
    match input {
        JudgedInput::Comparison(diff) => {
            let Sides { before, after } = &diff.profiles;
            apply_supposed_sizes(diff, thresholds, checks);
            apply_each(checks, |check, _| of_impossible(&[(Side::Before, before), (Side::After, after)], check));
            apply(same_code(diff), checks);
            apply_not_repeatable(diff, thresholds, checks);
            apply(of_sides(diff), checks);
        }
        JudgedInput::Snapshot(profile) => {
            apply_each(checks, |check, _| of_impossible(&[(Side::After, profile)], check));
            apply(of_run(failure(profile)), checks);
            apply(ignores_otherwise(profile, "snapshot", Doubtful::All), checks);
        }
    }
}

/// Makes the checks inconclusive that are doubtful.
pub(super) fn apply(doubts: impl IntoIterator<Item = RunDoubt>, checks: &mut [Check]) {
    for doubt in doubts {
        checks.iter_mut().for_each(|check| doubt.apply(check));
    }
}

/// Makes each check inconclusive about which there is a doubt, which may depend on the other checks.
fn apply_each(checks: &mut [Check], doubt: impl Fn(&Check, &[Check]) -> Option<RunDoubt>) {
    let doubts: Vec<_> = checks.iter().map(|check| doubt(check, checks)).collect();
    for (doubt, check) in doubts.into_iter().zip(checks) {
        doubt.into_iter().for_each(|doubt| doubt.apply(check));
    }
}

/// The doubts about a comparison of which a side is not a whole run, or phases to ignore are not left out.
fn of_sides(diff: &Diff) -> impl Iterator<Item = RunDoubt> {
    let Sides { before, after } = &diff.profiles;
    let ending = before.run.as_ref().and_then(|run| run.ending.as_ref());
    let ran_out = ending.is_some_and(|ending| ending.kind == EndingKind::Oom);
    let of_before = if ran_out { Doubtful::GrowthBesideMended } else { Doubtful::Growth };
    let doubts = [
        not_whole("the after is not a whole run", failure(after), Doubtful::NotExceeded),
        not_whole("the before is not a whole run", failure(before), of_before),
        ignores_otherwise(before, "before", Doubtful::Growth),
        ignores_otherwise(after, "after", Doubtful::All),
    ];
    doubts.into_iter().flatten()
}

/// The doubt about a run under absolute limits, or about a search for leaks.
pub(super) fn of_run(failure: Option<String>) -> Option<RunDoubt> {
    not_whole("the snapshot is not of a whole run", failure, Doubtful::NotExceeded)
}

fn not_whole(words: &str, failure: Option<String>, doubtful: Doubtful) -> Option<RunDoubt> {
    Some(RunDoubt { reason: format!("{words}: {}", failure?), doubtful })
}

fn ignores_otherwise(profile: &Profile, side: &str, doubtful: Doubtful) -> Option<RunDoubt> {
    Some(RunDoubt { reason: format!("the {side} {}", profile.ignores_otherwise()?), doubtful })
}

fn same_code(diff: &Diff) -> Option<RunDoubt> {
    Some(RunDoubt { reason: diff.same_code()?, doubtful: Doubtful::Growth })
}

/// Makes checks inconclusive where runs of one program differ by more than the limit allows, in either direction.
fn apply_not_repeatable(diff: &Diff, thresholds: &Thresholds, checks: &mut [Check]) {
    if !diff.is_not_repeatable() {
        return;
    }
    let advice = if diff.is_by_collector() {
        ", as Python's garbage collector ran at other moments: call gc.collect() in each step, or allow more"
    } else {
        ": seed it, or allow more"
    };
    apply_each(checks, |check, checks| {
        let mut parts = of_many(check, checks, diff, thresholds).into_iter().flatten();
        let differs = check.differs_by_more_than_allowed() || parts.any(|parts| parts.differ_by_more_than_allowed());
        let reason = format!("both sides ran the same program, and differ by more than the limit allows{advice}");
        differs.then_some(RunDoubt { reason, doubtful: Doubtful::Growth })
    });
}

/// The doubt about a check of a peak where memory ran out: on both sides of growth, or on the one that an absolute limit is about.
fn of_ran_out(input: JudgedInput<'_>, thresholds: &Thresholds, check: &Check) -> Option<RunDoubt> {
    if thresholds.allow_oom || !check.kind().is_at_peak() || check.outcome == Outcome::Inconclusive {
        return None;
    }
    let (reason, doubtful, ran_out) = match input {
        JudgedInput::Comparison(diff) if !check.limit.is_absolute => {
            let mut sides = diff.devices.iter().filter(|of| check.is_about(of.id())).map(|of| diff.sides_of(of));
            (RAN_OUT, Doubtful::All, sides.any(|of| of.both().is_some_and(ran_out)))
        }
        _ => {
            let mut devices = input.after().devices.iter().filter(|of| check.is_about(Some(of.device)));
            (RAN_OUT_OF_ONE, Doubtful::NotExceeded, devices.any(DeviceProfile::ran_out_of_memory))
        }
    };
    ran_out.then(|| RunDoubt { reason: reason.to_owned(), doubtful })
}

/// The doubt about a check of an absolute limit on a figure of which a part of the recording is lost.
fn of_lost_part(input: JudgedInput<'_>, thresholds: &Thresholds, check: &Check) -> Option<RunDoubt> {
    if !check.limit.is_absolute || check.outcome == Outcome::Inconclusive {
        return None;
    }
    let profile = input.after();
    let diff = input.diff().filter(|_| !thresholds.allow_partial);
    let mut devices = profile.devices.iter().filter(|device| check.is_about(Some(device.device)));
    let reason = devices.find_map(|device| lost_part(profile, diff, device, check.kind()))?;
    // The recorded start may be too high or too low.
    let is_of_start = check.kind().needs() == NeededPart::Start;
    Some(RunDoubt { reason, doubtful: if is_of_start { Doubtful::All } else { Doubtful::NotExceeded } })
}

/// Makes checks inconclusive that rows could decide whose sizes simulated GPUs supposed, not the same ones on both sides.
fn apply_supposed_sizes(diff: &Diff, thresholds: &Thresholds, checks: &mut [Check]) {
    let mut rows = diff.devices.iter().flat_map(|device| &device.rows);
    // As in every recording of a real GPU.
    if rows.all(|row| row.supposed.before.is_empty() && row.supposed.after.is_empty()) {
        return;
    }
    let supposed = SupposedSizes::of(&diff.profiles);
    apply_each(checks, |check, checks| match of_many(check, checks, diff, thresholds) {
        Some(parts) => {
            let unknown = parts.iter().find_map(|parts| parts.could_exceed_by(&supposed))?;
            Some(RunDoubt::of_supposed(&unknown, Doubtful::All))
        }
        None => {
            let devices = diff.devices.iter().filter(|device| check.device.is_none() || check.is_about(device.id()));
            let rows = devices.flat_map(|device| &device.rows).filter(|row| check.may_concern(row));
            let unknown = supposed.unknown(rows.map(|row| &row.supposed))?;
            Some(RunDoubt::of_supposed(&unknown, Doubtful::DecidedBy(unknown.bytes)))
        }
    });
}

/// The doubt about a check of counters that cannot be: they count other memory than that of the device. What they count at most
/// is enough for an absolute limit to hold, except on a difference between ranks.
fn of_impossible(profiles: &[(Side, &Profile)], check: &Check) -> Option<RunDoubt> {
    let is_relative = !check.limit.is_absolute;
    if !is_relative && check.outcome == Outcome::Pass && !check.kind().is_of_ranks() {
        return None;
    }
    let concerned = profiles.iter().filter(|(side, _)| is_relative || *side == Side::After);
    let mut found = concerned.flat_map(|(side, profile)| {
        let devices = profile.devices.iter().filter(|device| check.is_about(Some(device.device)));
        devices.filter_map(|device| Some((*side, check.measure().and_then(|of| profile.impossible(device, of))?)))
    });
    let (side, words) = found.next()?;
    let side = if is_relative { format!(" of the {}", side.name()) } else { String::new() };
    Some(RunDoubt { reason: format!("the figures{side} cannot be: {words}"), doubtful: Doubtful::All })
}

impl<'a> JudgedInput<'a> {
    /// The profile that absolute limits are about.
    fn after(self) -> &'a Profile {
        match self {
            Self::Comparison(diff) => &diff.profiles.after,
            Self::Snapshot(profile) => profile,
        }
    }

    pub(super) fn diff(self) -> Option<&'a Diff> {
        match self {
            Self::Comparison(diff) => Some(diff),
            Self::Snapshot(_) => None,
        }
    }

    /// The diagnostics of both sides, then those of the comparison.
    pub(super) fn diagnostics(self) -> impl Iterator<Item = &'a Diagnostic> {
        let of_before = self.diff().into_iter().flat_map(|diff| &diff.profiles.before.diagnostics);
        let of_both = self.diff().into_iter().flat_map(|diff| &diff.diagnostics);
        of_before.chain(&self.after().diagnostics).chain(of_both)
    }
}

impl RunDoubt {
    /// The doubt about memory of supposed sizes.
    fn of_supposed(Unknown { bytes, first }: &Unknown, doubtful: Doubtful) -> Self {
        let reason = format!(
            "{} of memory have sizes that simulated GPUs supposed, not the same on both sides, first in {first}: record both with \
             --compute all (compute = \"all\" in a gate)",
            Size(*bytes)
        );
        Self { reason, doubtful }
    }

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
            Self::DecidedBy(bytes) => {
                !check.limit.is_absolute && check.measured() != Some(0) && check.crosses_within((*bytes).into())
            }
            // More may be needed than an improvement shows; and less is between a peak and a median that are higher.
            Self::NotExceeded => {
                let is_least = check.kind().is_least_in_part() && !check.kind().is_of_ranks();
                check.outcome != Outcome::Exceeded || check.is_improvement() || !is_least
            }
        }
    }
}

/// The reason why a profile is not that of a whole run.
pub(super) fn failure(profile: &Profile) -> Option<String> {
    profile.run.as_ref()?.failure()
}

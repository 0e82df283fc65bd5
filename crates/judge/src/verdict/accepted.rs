//! Growth that was agreed to: how much, of what, why, and until when.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::iter;
use std::str::FromStr;
use std::time::{Duration, UNIX_EPOCH};

use ptmem_base::device::DeviceId;
use ptmem_base::pattern::{Pattern, Selector};
use ptmem_base::units::Size;
use ptmem_compare::diff::{DeviceDiff, Row};
use ptmem_compare::patch::Edit;
use ptmem_trace::profile::Metric;

use super::cover::Cover;
use super::row_names::RowNames;
use super::{Check, Level, LimitKind, Outcome, PassedBy, Target};

/// A day in UTC, as the number of days since the first of January 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Day(u64);

const SECONDS_OF_DAY: u64 = 24 * 60 * 60;

/// The last day that is written: of the year 9999.
const LAST: u64 = 2_932_896;

impl Day {
    /// The day of a time in seconds since the Unix epoch.
    pub fn of_unix_time(seconds: u64) -> Self {
        Self(seconds / SECONDS_OF_DAY)
    }

    /// The day that follows after a number of days.
    #[must_use]
    pub fn after(self, days: u32) -> Self {
        Self(self.0.saturating_add(days.into()))
    }
}

/// From a date such as 2026-12-31.
impl FromStr for Day {
    type Err = humantime::TimestampError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let midnight = humantime::parse_rfc3339_weak(&format!("{text}T00:00:00"))?;
        Ok(Self::of_unix_time(midnight.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())))
    }
}

impl fmt::Display for Day {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let midnight = UNIX_EPOCH + Duration::from_secs(self.0.min(LAST) * SECONDS_OF_DAY);
        let text = humantime::format_rfc3339_seconds(midnight).to_string();
        f.write_str(text.split('T').next().unwrap_or(&text))
    }
}

/// Growth that was agreed to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Accepted {
    /// What may grow: figures, or stacks, phases or modules whose names match. With stacks the peak may, as far as they made
    /// it grow.
    pub subjects: Vec<Target>,
    /// In place of these: the edit that growth leads to, by its line, its place, its function or its package.
    pub through: Option<Pattern>,
    /// Bytes beyond the limit, on each device. Stacks share them; each figure may grow by them.
    pub bytes: u64,
    /// The reason that was given.
    pub reason: String,
    /// The last day on which it counts.
    pub expires: Day,
}

/// The limits that share the bytes of agreements: those of one kind and level on a device.
pub(super) type CoverKey = (Option<DeviceId>, LimitKind, Level);

/// How agreements cover the growth of stacks.
pub(super) type StackCovers = HashMap<CoverKey, StackCover>;

/// How agreements cover the growth of the stacks of a device beyond limits of one kind and level.
#[derive(Debug, Default)]
pub(super) struct StackCover {
    /// The agreements, with the bytes that cover nothing so far.
    rest: Cover,
    /// The bytes of each agreement that cover the growth of a stack, by its key.
    by_stack: HashMap<String, Vec<u64>>,
    /// The bytes by which a stack may be beyond its limit, whatever other stacks of uncertain size hold.
    available: HashMap<String, u64>,
}

/// Stacks whose growth is covered, each once: several limits may be about it.
#[derive(Default)]
struct CoveredStacks<'r> {
    all: Vec<CoveredStack<'r>>,
    numbers: HashMap<&'r str, usize>,
}

struct CoveredStack<'r> {
    key: &'r str,
    /// The growth of all stacks that the same agreements are about.
    growth: usize,
    bytes: u64,
}

impl<'r> CoveredStacks<'r> {
    /// The stack of a row that these agreements are about.
    fn of(&mut self, row: &'r Row, about: Vec<bool>, cover: &mut Cover) -> &mut CoveredStack<'r> {
        let number = *self.numbers.entry(&row.key).or_insert(self.all.len());
        if number == self.all.len() {
            self.all.push(CoveredStack { key: &row.key, growth: cover.growth(about), bytes: 0 });
        }
        &mut self.all[number]
    }
}

impl StackCover {
    /// The bytes of each agreement for the growth of a stack: those that cover it; if they do not suffice, also those that are left.
    fn offers(&self, key: &str, about: &[bool], excess: u128) -> Vec<u64> {
        let own = self.by_stack.get(key).map_or(&[][..], Vec::as_slice);
        if own.iter().copied().map(u128::from).sum::<u128>() >= excess {
            return own.to_vec();
        }
        let own = own.iter().copied().chain(iter::repeat(0));
        own.zip(self.rest.left(about)).map(|(own, left)| own + left).collect()
    }

    /// The bytes by which a stack of uncertain size may be beyond its limit.
    pub(super) fn available(&self, key: &str) -> u128 {
        self.available.get(key).copied().unwrap_or(0).into()
    }
}

/// Accepted growth of one device.
#[derive(Debug)]
pub(super) struct Budget<'a> {
    accepted: &'a [Accepted],
    /// For each of them, the stacks of the device that it is about.
    stacks: Vec<Vec<Selector<'a>>>,
    names: RowNames<'a>,
    device: &'a DeviceDiff,
    today: Day,
}

impl<'a> Budget<'a> {
    /// `names` are those by which the limit selects stacks.
    pub(super) fn new(accepted: &'a [Accepted], device: &'a DeviceDiff, names: RowNames<'a>, today: Day) -> Self {
        let stacks = accepted.iter().map(|accepted| {
            let of_stacks = accepted.subjects.iter().filter(|subject| subject.kind == LimitKind::Stacks);
            let patterns =
                of_stacks.filter(|subject| subject.concerns(device.id())).filter_map(|of| of.pattern.as_ref());
            patterns.map(|pattern| names.selector(device, pattern)).collect()
        });
        Self { accepted, stacks: stacks.collect(), names, device, today }
    }

    /// Covers the growth of stacks beyond their limits; then the most bytes by which each of those of uncertain size may be beyond it.
    pub(super) fn cover_stacks<'r>(
        &self,
        mut exceeding: Vec<(&'r Row, Check)>,
        uncertain: Vec<(&'r Row, Check, u64)>,
    ) -> StackCover {
        let valid = self.accepted.iter().map(|accepted| if self.has_expired(accepted) { 0 } else { accepted.bytes });
        let mut cover = Cover::new(valid);
        let mut stacks = CoveredStacks::default();
        // What grew for certain fails a limit, what may have grown does not.
        exceeding.sort_by_key(|(_, check)| check.outcome == Outcome::Inconclusive);
        for (row, check) in exceeding {
            let excess = excess_of_stack(&check).and_then(|excess| u64::try_from(excess).ok());
            let stack = stacks.of(row, self.about(&check, row), &mut cover);
            stack.bytes += cover.cover_all(stack.growth, excess.unwrap_or(0).saturating_sub(stack.bytes));
        }
        let mut rest = cover.clone();
        let by_stack = stacks.all.iter().map(|stack| (stack.key.to_owned(), rest.take(stack.growth, stack.bytes)));
        let by_stack = by_stack.collect();
        for (row, check, most) in uncertain {
            let stack = stacks.of(row, self.about(&check, row), &mut cover);
            stack.bytes += cover.cover(stack.growth, most.saturating_sub(stack.bytes));
        }
        let available = stacks.all.iter().map(|stack| (stack.key.to_owned(), stack.bytes)).collect();
        StackCover { rest, by_stack, available }
    }

    /// Accepts the growth of a stack if it is covered.
    pub(super) fn accept_stack(&self, check: &mut Check, row: &Row, covered: &StackCover) {
        let Some(excess) = excess_of_stack(check) else { return };
        let about = self.about(check, row);
        check.limit.accepted = covered.available(&row.key);
        let offers = covered.offers(&row.key, &about, excess);
        let offers = offers.into_iter().zip(&about).zip(self.accepted).map(|((offer, is_about), accepted)| {
            if *is_about && self.has_expired(accepted) { accepted.bytes } else { offer }
        });
        self.accept_excess(check, excess, &offers.collect::<Vec<_>>());
    }

    /// Whether each agreement is about a stack, or about the edit that its growth leads to.
    fn about(&self, check: &Check, row: &Row) -> Vec<bool> {
        let edit = row.edit.filter(|_| !check.limits_improvement()).and_then(|edit| self.device.edit(edit));
        let agreements = self.accepted.iter().zip(&self.stacks);
        agreements.map(|(accepted, stacks)| self.covers(stacks, row) || is_through(accepted, edit)).collect()
    }

    fn has_expired(&self, accepted: &Accepted) -> bool {
        accepted.expires < self.today
    }

    /// Accepts growth of a phase or of a module.
    pub(super) fn accept_named(&self, check: &mut Check, name: &str) {
        self.accept(check, &self.offers_for(check, name));
    }

    fn offers_for(&self, check: &Check, name: &str) -> Vec<u64> {
        let has_edits = self.accepted.iter().any(|accepted| accepted.through.is_some());
        let edit = if has_edits { check.accepted_edit(self.device) } else { None };
        let offers = self.accepted.iter().map(|accepted| {
            let is_named = accepted.subjects.iter().any(|subject| {
                subject.of_host == check.of.of_host && subject.kind == check.kind() && subject.selects(name)
            });
            if is_through(accepted, edit) || is_named { accepted.bytes } else { 0 }
        });
        offers.collect()
    }

    /// Accepts the growth of a figure: of the peak as much as stacks made it grow whose growth is accepted.
    pub(super) fn accept_metric(&self, check: &mut Check, metric: Metric, rows_at_peak: bool) {
        let mut offers = self.offers_for(check, metric.name());
        let is_compared = rows_at_peak && !check.figures.is_elsewhere;
        let is_by_stacks = metric == Metric::Peak && is_compared && !check.limits_improvement();
        if is_by_stacks {
            self.offer_for_stacks(&mut offers);
        }
        self.accept(check, &offers);
    }

    /// Adds what agreements offer for the growth of stacks, which is covered once, first by those that have not expired.
    fn offer_for_stacks(&self, offers: &mut [u64]) {
        let mut growths: BTreeMap<Vec<bool>, u64> = BTreeMap::new();
        for row in self.device.rows.iter().filter(|row| row.delta() > 0) {
            let about = self.stacks.iter().map(|stacks| self.covers(stacks, row)).collect();
            let growth = growths.entry(about).or_default();
            *growth = growth.saturating_add(u64::try_from(row.delta()).unwrap_or(u64::MAX));
        }
        for expired in [false, true] {
            let bytes = self.accepted.iter().zip(&*offers);
            let mut cover =
                Cover::new(bytes.map(
                    |(accepted, offer)| {
                        if self.has_expired(accepted) == expired { accepted.bytes - offer } else { 0 }
                    },
                ));
            for (about, bytes) in &mut growths {
                let growth = cover.growth(about.clone());
                *bytes -= cover.cover(growth, *bytes);
            }
            offers.iter_mut().zip(cover.used()).for_each(|(offer, used)| *offer += used);
        }
    }

    /// Whether an agreement about these stacks is about a row.
    fn covers(&self, stacks: &[Selector<'_>], row: &Row) -> bool {
        stacks.iter().any(|selector| self.names.is_selected(row, selector))
    }

    /// Lets a check pass if what is offered makes up for its excess, and states that as its reason. One that passes notes what is
    /// offered, for doubts.
    fn accept(&self, check: &mut Check, offers: &[u64]) {
        if let Some(excess) = excess(check) {
            let valid = self.accepted.iter().zip(offers).filter(|(accepted, _)| !self.has_expired(accepted));
            check.limit.accepted = valid.map(|(_, offer)| u128::from(*offer)).sum();
            self.accept_excess(check, excess, offers);
        }
    }

    /// The same for a stated excess.
    fn accept_excess(&self, check: &mut Check, mut excess: u128, offers: &[u64]) {
        let mut said = Vec::new();
        let (expired, valid): (Vec<_>, Vec<_>) =
            self.accepted.iter().zip(offers).filter(|(_, offer)| **offer > 0).partition(|(of, _)| self.has_expired(of));
        for (Accepted { reason, expires, .. }, &offer) in valid {
            let take = u64::try_from(excess.min(u128::from(offer))).unwrap_or(offer);
            if take > 0 {
                excess -= u128::from(take);
                said.push(format!("{} accepted until {expires}: {reason}", Size(take)));
            }
        }
        for (Accepted { reason, expires, .. }, &offer) in expired.into_iter().filter(|_| excess > 0) {
            said.push(format!("{} were accepted until {expires}, which has passed: {reason}", Size(offer)));
        }
        if said.is_empty() {
            return;
        }
        if excess == 0 || check.outcome == Outcome::Exceeded {
            check.reason = Some(said.join("; "));
            check.advice = None;
        }
        if excess == 0 {
            check.outcome = Outcome::Pass;
            check.excuse = Some(PassedBy::Accepted);
        }
    }
}

/// The bytes by which a check goes beyond its limit, where both are known.
fn excess(check: &Check) -> Option<u128> {
    Some(u128::try_from(check.measured()?).unwrap_or(0).saturating_sub(check.limit.allowed?))
}

/// The same for a stack. Growth that is not known is at most the figure of the after.
fn excess_of_stack(check: &Check) -> Option<u128> {
    match check.outcome {
        Outcome::Inconclusive => check.figures.after.map(u128::from),
        Outcome::Pass | Outcome::Exceeded => excess(check),
    }
}

/// Whether an agreement is about an edit.
fn is_through(accepted: &Accepted, edit: Option<&Edit>) -> bool {
    accepted.through.as_ref().zip(edit).is_some_and(|(pattern, edit)| edit.is_named(pattern))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_those_of_the_calendar() {
        for (date, seconds) in [
            ("1970-01-01", 0),
            ("1999-12-31", 946_598_400),
            ("2000-02-29", 951_782_400),
            ("2026-11-21", 1_795_219_200),
            ("2100-03-01", 4_107_542_400),
        ] {
            let day: Day = date.parse().unwrap();
            assert_eq!(day, Day::of_unix_time(seconds), "{date}");
            assert_eq!(day.to_string(), date);
        }
        for date in ["2026-02-29", "2026-13-01", "2026-4-1", "2026-01-00", "2026-01-01T00:00:00", "soon", ""] {
            assert!(date.parse::<Day>().is_err(), "{date}");
        }
        let last: Day = "9999-12-31".parse().unwrap();
        assert_eq!(last.after(14).to_string(), "9999-12-31");
    }
}

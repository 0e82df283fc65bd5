//! Growth that was agreed to: how much, of what, why, and until when.

use std::collections::HashMap;
use std::fmt;
use std::str::FromStr;
use std::time::{Duration, UNIX_EPOCH};

use ptmem_base::device::DeviceId;
use ptmem_base::pattern::{Pattern, Selector};
use ptmem_base::units::Size;
use ptmem_compare::diff::{DeviceDiff, Row};
use ptmem_compare::patch::Edit;
use ptmem_trace::profile::Metric;

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

/// Bytes of agreements that stacks have used up. All limits of one kind and level on a device share them.
#[derive(Debug, Default)]
pub(super) struct SpentBytes(HashMap<(Option<DeviceId>, LimitKind, Level), Vec<Spent>>);

/// Bytes of one agreement that stacks have used up.
#[derive(Debug, Clone, Default)]
struct Spent {
    total: u64,
    /// The bytes of each stack by its key: several limits may be about one stack, whose growth is covered once.
    by_stack: HashMap<String, u64>,
}

impl Spent {
    /// The bytes that all other stacks have used up.
    fn by_others(&self, key: &str) -> u64 {
        self.total - self.by_stack.get(key).copied().unwrap_or(0)
    }

    fn spend(&mut self, key: &str, bytes: u64) {
        let own = self.by_stack.entry(key.to_owned()).or_default();
        self.total += bytes.saturating_sub(*own);
        *own = bytes.max(*own);
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

    /// Accepts the growth of a stack, as far as other stacks leave something.
    pub(super) fn accept_stack(&self, check: &mut Check, row: &Row, spent: &mut SpentBytes) {
        let edit = row.edit.filter(|_| !check.is_improvement()).and_then(|edit| self.device.edit(edit));
        let spent = spent.0.entry((check.device, check.kind(), check.limit.level)).or_default();
        spent.resize_with(self.accepted.len(), Spent::default);
        let agreements = self.accepted.iter().zip(&self.stacks).zip(&*spent);
        let offers = agreements.map(|((accepted, stacks), spent)| {
            let is_about = self.covers(stacks, row) || is_through(accepted, edit);
            if is_about { accepted.bytes.saturating_sub(spent.by_others(&row.key)) } else { 0 }
        });
        let offers: Vec<u64> = offers.collect();
        let excess = match check.outcome {
            // Growth that is not known is at most what the stack holds now.
            Outcome::Inconclusive => Some(u128::from(row.held.after.bytes)),
            Outcome::Pass | Outcome::Exceeded => excess(check),
        };
        let Some(excess) = excess else { return };
        let used = self.accept_excess(check, excess, &offers);
        for (spent, used) in spent.iter_mut().zip(used).filter(|(_, used)| *used > 0) {
            spent.spend(&row.key, used);
        }
    }

    /// Accepts growth of a phase or of a module.
    pub(super) fn accept_named(&self, check: &mut Check, name: &str) {
        self.accept(check, &self.offers_for(check, name));
    }

    fn offers_for(&self, check: &Check, name: &str) -> Vec<u64> {
        let edit = check.accepted_edit(self.device).and_then(|edit| self.device.edit(edit));
        let offers = self.accepted.iter().map(|accepted| {
            let is_named = accepted.subjects.iter().any(|subject| {
                subject.of_host == check.of.of_host && subject.kind == check.kind() && subject.selects(name)
            });
            if is_through(accepted, edit) || is_named { accepted.bytes } else { 0 }
        });
        offers.collect()
    }

    /// Accepts the growth of a figure: of the peak as much as stacks made it grow whose growth is accepted.
    pub(super) fn accept_metric(&self, check: &mut Check, metric: Metric, device: &DeviceDiff, rows_at_peak: bool) {
        let mut offers = self.offers_for(check, metric.name());
        let is_compared = rows_at_peak && !check.figures.is_elsewhere;
        let is_by_stacks = metric == Metric::Peak && is_compared && !check.is_improvement();
        for row in device.rows.iter().filter(|row| is_by_stacks && row.delta() > 0) {
            // Growth is covered once; agreements that have not expired come first.
            let mut left = u64::try_from(row.delta()).unwrap_or(u64::MAX);
            for expired in [false, true] {
                for (at, accepted) in self.accepted.iter().enumerate() {
                    if self.covers(&self.stacks[at], row) && (accepted.expires < self.today) == expired {
                        let offer = &mut offers[at];
                        let take = left.min(accepted.bytes - *offer);
                        *offer += take;
                        left -= take;
                    }
                }
            }
        }
        self.accept(check, &offers);
    }

    /// Whether an agreement about these stacks is about a row.
    fn covers(&self, stacks: &[Selector<'_>], row: &Row) -> bool {
        stacks.iter().any(|selector| self.names.is_selected(row, selector))
    }

    /// Lets a check pass if what is offered makes up for its excess, and states that as its reason.
    fn accept(&self, check: &mut Check, offers: &[u64]) {
        if let Some(excess) = excess(check) {
            self.accept_excess(check, excess, offers);
        }
    }

    /// The same for a stated excess; returns the bytes that were used of each offer.
    fn accept_excess(&self, check: &mut Check, mut excess: u128, offers: &[u64]) -> Vec<u64> {
        let mut used = vec![0; offers.len()];
        let mut said = Vec::new();
        for (i, (accepted, &offer)) in self.accepted.iter().zip(offers).enumerate() {
            let Accepted { reason, expires, .. } = accepted;
            if *expires >= self.today {
                check.limit.accepted += u128::from(offer);
            }
            if offer == 0 || excess == 0 {
                continue;
            }
            if *expires < self.today {
                said.push(format!("{} were accepted until {expires}, which has passed: {reason}", Size(offer)));
                continue;
            }
            let take = u64::try_from(excess.min(u128::from(offer))).unwrap_or(offer);
            used[i] = take;
            excess -= u128::from(take);
            said.push(format!("{} accepted until {expires}: {reason}", Size(take)));
        }
        if !said.is_empty() && (excess == 0 || check.outcome == Outcome::Exceeded) {
            check.reason = Some(said.join("; "));
            check.advice = None;
        }
        if excess > 0 {
            return Vec::new();
        }
        check.outcome = Outcome::Pass;
        check.excuse = Some(PassedBy::Accepted);
        used
    }
}

/// The bytes by which a check goes beyond its limit, where both are known.
fn excess(check: &Check) -> Option<u128> {
    Some(check.figures.delta?.unsigned_abs().saturating_sub(check.limit.allowed?))
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

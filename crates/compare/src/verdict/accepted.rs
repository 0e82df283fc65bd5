//! Growth that was agreed to: how much, of what, why, and until when.

use std::fmt;
use std::str::FromStr;

use super::{Check, Outcome};
use crate::diff::{DeviceDiff, Row};
use crate::pattern::{Pattern, Selector};
use crate::profile::Metric;
use crate::units::Size;

/// A day in UTC, as the number of days since the first of January 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Day(i64);

impl Day {
    /// The day of a time in seconds since the Unix epoch.
    #[must_use]
    pub fn of_unix_time(seconds: u64) -> Self {
        Self(i64::try_from(seconds / 86_400).unwrap_or(i64::MAX))
    }

    /// A day of the Gregorian calendar; `None` if the calendar has no such day.
    #[must_use]
    pub fn from_date(year: u16, month: u8, day: u8) -> Option<Self> {
        let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
        let lengths = [31, if leap { 29 } else { 28 }, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
        let month = usize::from(month).checked_sub(1)?;
        if day == 0 || i64::from(day) > *lengths.get(month)? {
            return None;
        }
        // Years begin in March, so that the leap day is the last of one; then every fifth month pattern repeats.
        let year = i64::from(year) - i64::from(month < 2);
        let month = i64::try_from((month + 10) % 12).ok()?;
        let days = 365 * year + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
        Some(Self(days + (153 * month + 2) / 5 + i64::from(day) - 1 - 719_468))
    }

    /// The day that follows after a number of days.
    #[must_use]
    pub fn after(self, days: u32) -> Self {
        Self(self.0.saturating_add(i64::from(days)))
    }

    /// The same in the Gregorian calendar.
    fn date(self) -> Date {
        let days = self.0.saturating_add(719_468);
        let era = days.div_euclid(146_097);
        let of_era = days.rem_euclid(146_097);
        let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
        let of_year = of_era - (365 * year + year / 4 - year / 100);
        let month = (5 * of_year + 2) / 153;
        let day = of_year - (153 * month + 2) / 5 + 1;
        // Such a year begins in March: its last two months belong to the next.
        let is_next_year = month >= 10;
        let year = year + era * 400 + i64::from(is_next_year);
        Date { year, month: if is_next_year { month - 9 } else { month + 3 }, day }
    }
}

/// A day as a calendar has it.
struct Date {
    year: i64,
    month: i64,
    day: i64,
}

impl FromStr for Day {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let date: toml::value::Datetime = text.parse().map_err(|_| ())?;
        let date = date.date.ok_or(())?;
        Self::from_date(date.year, date.month, date.day).ok_or(())
    }
}

impl fmt::Display for Day {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Date { year, month, day } = self.date();
        write!(f, "{year:04}-{month:02}-{day:02}")
    }
}

/// Subject of accepted growth.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Subject {
    /// Stacks whose label matches, and the peak as far as they made it grow.
    Stacks(Pattern),
    /// A figure.
    Metric(Metric),
    /// The peaks inside phases whose name matches.
    Phases(Pattern),
    /// Modules whose path matches.
    Modules(Pattern),
}

/// Growth that was agreed to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Accepted {
    /// Stacks or figure that may grow.
    pub subject: Subject,
    /// Bytes beyond the limit, on each device.
    pub bytes: u64,
    /// The reason that was given.
    pub reason: String,
    /// The last day on which it counts.
    pub expires: Day,
}

impl Accepted {
    fn is_of_phase(&self, name: &str) -> bool {
        matches!(&self.subject, Subject::Phases(pattern) if pattern.matches(name))
    }

    fn is_of_module(&self, name: &str) -> bool {
        matches!(&self.subject, Subject::Modules(pattern) if pattern.matches(name))
    }

    fn is_of_metric(&self, metric: Metric) -> bool {
        self.subject == Subject::Metric(metric)
    }

    /// Its bytes where it is of the subject that is asked about.
    fn bytes_if(&self, is_of_subject: bool) -> u64 {
        if is_of_subject { self.bytes } else { 0 }
    }
}

/// Accepted growth and how much of it one device has used up.
#[derive(Debug)]
pub(super) struct Budget<'a> {
    accepted: &'a [Accepted],
    /// For each of them, the stacks of the device that it is about, if any.
    stacks: Vec<Option<Selector<'a>>>,
    left: Vec<u64>,
    today: Day,
}

impl<'a> Budget<'a> {
    pub(super) fn new(accepted: &'a [Accepted], device: &DeviceDiff, today: Day) -> Self {
        let stacks = accepted.iter().map(|accepted| match &accepted.subject {
            Subject::Stacks(pattern) => Some(device.selector(pattern)),
            Subject::Phases(_) | Subject::Modules(_) | Subject::Metric(_) => None,
        });
        let left = accepted.iter().map(|accepted| accepted.bytes).collect();
        Self { accepted, stacks: stacks.collect(), left, today }
    }

    /// Accepts the growth of a stack, as far as there is something left.
    pub(super) fn accept_stack(&mut self, check: &mut Check, row: &Row) {
        let stacks = self.stacks.iter().zip(&self.left);
        let offers: Vec<u64> = stacks.map(|(stacks, &left)| if covers(stacks, row) { left } else { 0 }).collect();
        let excess = match check.outcome {
            // Growth that is not known is at most what the stack holds now.
            Outcome::Inconclusive => Some(u128::from(row.held.after.bytes)),
            Outcome::Pass | Outcome::Exceeded => excess(check),
        };
        let Some(excess) = excess else { return };
        let used = self.accept_excess(check, excess, &offers);
        for (left, used) in self.left.iter_mut().zip(used) {
            *left -= used;
        }
    }

    /// Accepts the growth of the peak inside a phase.
    pub(super) fn accept_phase(&self, check: &mut Check, name: &str) {
        let offers = self.accepted.iter().map(|accepted| accepted.bytes_if(accepted.is_of_phase(name)));
        self.accept(check, &offers.collect::<Vec<_>>());
    }

    /// Accepts the growth of a module.
    pub(super) fn accept_module(&self, check: &mut Check, name: &str) {
        let offers = self.accepted.iter().map(|accepted| accepted.bytes_if(accepted.is_of_module(name)));
        self.accept(check, &offers.collect::<Vec<_>>());
    }

    /// Accepts the growth of a figure: of the peak as much as stacks made it grow whose growth is accepted.
    pub(super) fn accept_metric(&self, check: &mut Check, metric: Metric, device: &DeviceDiff, rows_at_peak: bool) {
        let rows = device.rows.iter().filter(|_| rows_at_peak);
        self.accept(check, &self.offers(metric, rows));
    }

    /// Bytes that each agreement offers for a figure, given the growth of the stacks.
    fn offers<'r>(&self, metric: Metric, rows: impl Iterator<Item = &'r Row>) -> Vec<u64> {
        let of_metric = self.accepted.iter().map(|accepted| accepted.bytes_if(accepted.is_of_metric(metric)));
        let mut offers: Vec<u64> = of_metric.collect();
        for row in rows.filter(|row| metric == Metric::Peak && row.delta() > 0) {
            // Growth is covered once; agreements that have not expired come first.
            let mut left = u64::try_from(row.delta()).unwrap_or(u64::MAX);
            for expired in [false, true] {
                for (at, accepted) in self.accepted.iter().enumerate() {
                    if covers(&self.stacks[at], row) && (accepted.expires < self.today) == expired {
                        let offer = &mut offers[at];
                        let take = left.min(accepted.bytes - *offer);
                        *offer += take;
                        left -= take;
                    }
                }
            }
        }
        offers
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
        check.accepted = true;
        used
    }
}

/// The bytes by which a check goes beyond its limit, where both are known.
fn excess(check: &Check) -> Option<u128> {
    Some(check.delta?.unsigned_abs().saturating_sub(check.allowed?))
}

/// Whether an agreement is about a stack.
fn covers(stacks: &Option<Selector<'_>>, row: &Row) -> bool {
    stacks.is_some_and(|selector| row.is_selected(&selector))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_those_of_the_calendar() {
        for (year, month, day, seconds) in [
            (1970, 1, 1, 0),
            (1999, 12, 31, 946_598_400),
            (2000, 2, 29, 951_782_400),
            (2026, 11, 21, 1_795_219_200),
            (2100, 3, 1, 4_107_542_400),
        ] {
            let from_date = Day::from_date(year, month, day);
            assert_eq!(from_date, Some(Day::of_unix_time(seconds)), "{year}-{month}-{day}");
            assert_eq!(from_date.unwrap().to_string(), format!("{year:04}-{month:02}-{day:02}"));
        }
        for (year, month, day) in
            [(2026, 2, 29), (2100, 2, 29), (2026, 13, 1), (2026, 0, 1), (2026, 4, 31), (2026, 1, 0)]
        {
            assert_eq!(Day::from_date(year, month, day), None, "{year}-{month}-{day}");
        }
        let mut last = Day::from_date(1999, 12, 31).unwrap();
        for days in 1..200_000 {
            let next = Day(last.0 + 1);
            let Date { year, month, day } = next.date();
            let again =
                Day::from_date(u16::try_from(year).unwrap(), u8::try_from(month).unwrap(), u8::try_from(day).unwrap());
            assert_eq!(again, Some(next), "{days}");
            last = next;
        }
    }
}

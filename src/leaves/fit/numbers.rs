//! Numbers in a command, the smallest first: each is run until the largest that fits on the card is known.

use std::fmt::{self, Display};
use std::rc::Rc;

use anyhow::{Context as _, Result};

use crate::leaves::search::{Answer, Asked, Candidates};

/// The numbers that a name stands for in a command.
pub(super) struct Numbers {
    pub(super) name: Rc<str>,
    /// As the user gives them.
    pub(super) range: String,
    pub(super) first: u64,
    step: u64,
    /// How many there are.
    count: u64,
}

/// One of them.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Number {
    name: Rc<str>,
    /// Its index.
    at: u64,
    pub(super) value: u64,
    /// Bytes that its run reserved, and those that were left, where it fits and the memory of the card is known.
    pub(super) used: u64,
    pub(super) left: Option<u64>,
}

impl Display for Number {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} = {}", self.name, self.value)
    }
}

impl Numbers {
    /// The numbers of `NAME=FROM..TO[/STEP]`.
    pub(super) fn of(text: &str) -> Result<Self> {
        let parts = || {
            let (name, range) = text.split_once('=')?;
            let (ends, step) = range.split_once('/').unwrap_or((range, "1"));
            let (first, last) = ends.split_once("..")?;
            let numbers: [u32; 3] = [first.parse().ok()?, last.parse().ok()?, step.parse().ok()?];
            let [first, last, step] = numbers.map(u64::from);
            let is_range = !name.is_empty() && first > 0 && first <= last && step > 0;
            is_range.then(|| Self {
                name: name.into(),
                range: range.to_owned(),
                first,
                step,
                count: (last - first) / step + 1,
            })
        };
        parts().with_context(|| {
            format!(
                "{text}: expected a name and its numbers, the smallest (at least 1) first, such as batch=1..4096 or \
                 seq=128..8192/128"
            )
        })
    }

    /// What stands for the number in the command.
    pub(super) fn place(&self) -> String {
        format!("{{{}}}", self.name)
    }
}

/// The numbers with an answer, in order.
pub(super) fn by(answer: &Answer, asked: &Asked<Number>) -> Vec<Number> {
    let mut found: Vec<Number> =
        asked.iter().filter(|(_, of)| of == answer).map(|(number, _)| number.clone()).collect();
    found.sort_by_key(|number| number.at);
    found
}

/// The largest number that a guess may be, in multiples of one that fits: memory of small numbers says little about large ones.
const FARTHEST: u64 = 64;

impl Candidates for Numbers {
    type One = Number;

    fn next(&self, asked: &Asked<Number>) -> Result<Option<(Number, u64)>> {
        let (good, bad) = (by(&Answer::Good, asked), by(&Answer::Bad, asked));
        let high = bad.first().map_or(self.count, |number| number.at);
        let next = match good.last() {
            None if bad.is_empty() => 0,
            Some(low) if low.at + 1 < high => {
                let doubled = low.at + (low.value / self.step).max(1);
                let middle = if bad.is_empty() { doubled } else { low.at.midpoint(high) };
                // A guess is only as good as a line: each third question halves what is left.
                let farthest = low.at + low.value / self.step * FARTHEST;
                let guess = guess(&good).map(|guess| guess.min(farthest));
                let guess = guess.filter(|&guess| asked.len() % 3 != 2 && (bad.is_empty() || guess < high));
                guess.unwrap_or(middle).clamp(low.at + 1, high - 1)
            }
            _ => return Ok(None),
        };
        let value = self.first + next * self.step;
        let mut unknown = high - good.last().map_or(0, |number| number.at + 1);
        if bad.is_empty() {
            // As long as all fit, questions double; once one does not, they halve what is below it.
            let last = self.first + (self.count - 1) * self.step;
            unknown = unknown.min((last / value).max(next - good.last().map_or(0, |number| number.at)));
        }
        Ok(Some((Number { name: Rc::clone(&self.name), at: next, value, used: 0, left: None }, unknown)))
    }
}

/// The place at which the line through the two largest that fit leaves nothing, where it is known what they left.
fn guess(good: &[Number]) -> Option<u64> {
    let [.., low, high] = good else { return None };
    let rise = high.used.checked_sub(low.used).filter(|&rise| rise > 0)?;
    let more = u128::from(high.left?) * u128::from(high.at - low.at) / u128::from(rise);
    high.at.checked_add(u64::try_from(more).ok()?)
}

/// Two numbers of which the larger took so much less memory that a number beyond the first that does not fit may fit. By the line
/// through the two largest that fit, that one lacks some memory: a smaller fall decides nothing.
pub(super) fn falling(good: &[Number], above: &Number) -> Option<[u64; 2]> {
    let [.., low, high] = good else { return None };
    let rise = u128::from(high.used.saturating_sub(low.used)) * u128::from(above.at - high.at);
    let lacking = (rise / u128::from(high.at - low.at)).saturating_sub(high.left.unwrap_or(0).into());
    let mut pairs = good.windows(2);
    let pair = pairs.find(|pair| u128::from(pair[0].used.saturating_sub(pair[1].used)) > lacking)?;
    Some([pair[0].value, pair[1].value])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::leaves::search::search;

    const ROOM: u64 = 1000;

    fn asked(range: &str, tell: impl FnMut(&str), bytes: impl Fn(u64) -> u64) -> Asked<Number> {
        let numbers = Numbers::of(&format!("x={range}")).unwrap();
        let asked = search(&numbers, Vec::new(), tell, |number| {
            number.used = bytes(number.value);
            number.left = Some(ROOM.saturating_sub(number.used));
            Ok(if number.used <= ROOM { Answer::Good } else { Answer::Bad })
        });
        asked.unwrap()
    }

    fn largest(range: &str, bytes: impl Fn(u64) -> u64) -> (Option<u64>, usize) {
        let asked = asked(range, |_| {}, bytes);
        (by(&Answer::Good, &asked).last().map(|number| number.value), asked.len())
    }

    #[test]
    fn the_largest_that_fits_is_found_in_few_questions() {
        assert_eq!(largest("1..4096", |x| 100 + 3 * x).0, Some(300));
        assert!(largest("1..4096", |x| 100 + 3 * x).1 <= 7);
        for (expected, bytes) in [
            (31, (|x| x * x) as fn(u64) -> u64),
            (1, |x| x * 501),
            (1000, |x| x),
            (99, |x| if x < 100 { 5 } else { 5000 }),
        ] {
            let (found, asked) = largest("1..4096", bytes);
            assert_eq!(found, Some(expected));
            assert!(asked <= 30, "{asked}");
        }
        assert_eq!(largest("1..64", |_| 10).0, Some(64));
        assert_eq!(largest("5..64", |_| 1001), (None, 1));
        assert_eq!(largest("7..7", |_| 10), (Some(7), 1));
        assert_eq!(largest("8..4096/8", |x| x).0, Some(1000));
        assert_eq!(largest("100..900/250", |x| x).0, Some(850));
    }

    #[test]
    fn a_search_tells_what_it_tries_and_how_much_is_left() {
        let mut told = Vec::new();
        asked("1..4", |line| told.push(line.to_owned()), |_| 1);
        let expected = [
            "trying x = 1 (then about 2 more)",
            "trying x = 2 (then about 1 more)",
            "trying x = 4 (then about 1 more)",
        ];
        assert_eq!(told, expected);
    }

    /// Without the memory of the card, only a run tells whether its number fits.
    #[test]
    fn a_search_doubles_as_long_as_it_does_not_know_what_is_left() {
        let numbers = Numbers::of("x=1..4096").unwrap();
        let mut told = Vec::new();
        let asked = search(
            &numbers,
            Vec::new(),
            |line| told.push(line.to_owned()),
            |number| {
                number.used = 100 + number.value;
                Ok(if number.value <= 20 { Answer::Good } else { Answer::Bad })
            },
        );
        assert_eq!(by(&Answer::Good, &asked.unwrap()).last().map(|number| number.value), Some(20));
        let expected = [
            "trying x = 1 (then about 12 more)",
            "trying x = 2 (then about 11 more)",
            "trying x = 4 (then about 10 more)",
            "trying x = 8 (then about 9 more)",
            "trying x = 16 (then about 8 more)",
            "trying x = 32 (then about 7 more)",
            "trying x = 24 (then about 3 more)",
            "trying x = 20 (then about 2 more)",
            "trying x = 22 (then about 1 more)",
            "trying x = 21 (the last)",
        ];
        assert_eq!(told, expected);
    }

    #[test]
    fn a_larger_number_that_took_less_is_told() {
        let number = |value: u64, used: u64, room: u64| Number {
            name: "x".into(),
            at: value - 1,
            value,
            used,
            left: Some(room - used),
        };
        let good = |used: &[u64], room| -> Vec<Number> {
            (1..).zip(used).map(|(value, &used)| number(value, used, room)).collect()
        };
        assert_eq!(falling(&good(&[5, 9, 7], 10), &number(4, 0, 10)), Some([2, 3]));
        assert_eq!(falling(&good(&[5, 5], 10), &number(3, 0, 10)), None);
        // Far from the answer, where each step takes 400 more and the first that does not fit lacks 200.
        assert_eq!(falling(&good(&[50, 45, 500, 900], 1100), &number(5, 0, 0)), None);
        assert_eq!(falling(&good(&[50, 45, 500, 900], 1298), &number(5, 0, 0)), Some([1, 2]));
    }
}

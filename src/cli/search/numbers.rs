//! Numbers in a command, the smallest first: each is run until the largest that fits on the card is known.

use std::collections::BTreeMap;
use std::env;
use std::ffi::OsString;
use std::fmt::{self, Display};
use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use anyhow::{Context as _, Result, anyhow, bail};
use ptmem::budget::{DeviceMemory, Overhead};
use ptmem::profile::{DeviceProfile, Moment, Profile, ReadOptions};
use ptmem::scale::{Options, Run, Scale, Search};
use ptmem_simulate::Card;

use super::super::input;
use super::failure::Cause;
use super::recorder::{Job, RecordArguments, Recorded, Recorder, own_files};
use super::{Answer, Asked, Candidates, search};

/// The numbers that a name stands for in a command.
struct Numbers {
    name: Rc<str>,
    /// As the user gives them.
    range: String,
    first: u64,
    step: u64,
    /// How many there are.
    count: u64,
}

/// One of them.
#[derive(Debug, Clone, PartialEq)]
struct Number {
    name: Rc<str>,
    /// Its index.
    at: u64,
    value: u64,
    /// Bytes that its run reserved, and those that were left, where it fits.
    used: u64,
    left: u64,
}

impl Display for Number {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} = {}", self.name, self.value)
    }
}

impl Numbers {
    /// The numbers of `NAME=FROM..TO[/STEP]`.
    fn of(text: &str) -> Result<Self> {
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
            format!("{text}: expected a name and its numbers, such as batch=1..4096 or seq=128..8192/128")
        })
    }

    /// What stands for the number in the command.
    fn place(&self) -> String {
        format!("{{{}}}", self.name)
    }
}

fn by(answer: &Answer, asked: &Asked<Number>) -> Vec<Number> {
    let mut found: Vec<Number> =
        asked.iter().filter(|(_, of)| of == answer).map(|(number, _)| number.clone()).collect();
    found.sort_by_key(|number| number.at);
    found
}

/// The largest number that a guess may be, in multiples of one that fits: memory of small numbers says little about large ones.
const FARTHEST: u64 = 64;

impl Candidates for Numbers {
    type One = Number;

    fn next(&self, asked: &Asked<Number>) -> Result<Option<(Number, u32)>> {
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
        let left = high - good.last().map_or(0, |number| number.at);
        let number =
            Number { name: Rc::clone(&self.name), at: next, value: self.first + next * self.step, used: 0, left: 0 };
        Ok(Some((number, left.max(1).ilog2())))
    }
}

/// The place at which the line through the two largest that fit leaves nothing.
fn guess(good: &[Number]) -> Option<u64> {
    let [.., low, high] = good else { return None };
    let rise = high.used.checked_sub(low.used).filter(|&rise| rise > 0)?;
    let more = u128::from(high.left) * u128::from(high.at - low.at) / u128::from(rise);
    high.at.checked_add(u64::try_from(more).ok()?)
}

/// Two numbers of which the larger took so much less memory that a number beyond the first that does not fit may fit. By the line
/// through the two largest that fit, that one lacks some memory: a smaller fall decides nothing.
fn falling(good: &[Number], above: &Number) -> Option<[u64; 2]> {
    let [.., low, high] = good else { return None };
    let rise = u128::from(high.used.saturating_sub(low.used)) * u128::from(above.at - high.at);
    let lacking = (rise / u128::from(high.at - low.at)).saturating_sub(high.left.into());
    let mut pairs = good.windows(2);
    let pair = pairs.find(|pair| u128::from(pair[0].used.saturating_sub(pair[1].used)) > lacking)?;
    Some([pair[0].value, pair[1].value])
}

/// How commands are run, and how their recordings are read.
pub(in super::super) struct Fitting<'a> {
    pub(in super::super) record: &'a RecordArguments,
    pub(in super::super) reading: &'a ReadOptions,
    pub(in super::super) options: Options,
}

impl Fitting<'_> {
    /// Searches each of the numbers, with the others at their first.
    pub(in super::super) fn all(mut self, ranges: &[String]) -> Result<Vec<Scale>> {
        let numbers = ranges.iter().map(|range| Numbers::of(range)).collect::<Result<Vec<_>>>()?;
        for place in numbers.iter().map(Numbers::place) {
            if !self.record.command.iter().any(|word| word.to_string_lossy().contains(&place)) {
                bail!(
                    "the command has no {place}, which stands for the number; write for example --batch-size {place}"
                );
            }
        }
        let card = self.card()?;
        if let Some(card) = card {
            self.options.device_memory.get_or_insert(DeviceMemory { bytes: card.memory, overhead: None });
        }
        let recorder = Recorder::new(
            self.record,
            &("fit", self.options.device_memory.map(|of| (of.bytes, of.overhead))),
            &own_files(),
        )?;
        (0..numbers.len()).map(|at| self.one(&numbers, at, card, &recorder)).collect()
    }

    /// The simulated card; `None` for a real one.
    fn card(&self) -> Result<Option<Card>> {
        let RecordArguments { gpu, steps, .. } = self.record;
        if steps == "none" {
            return Ok(None);
        }
        Card::named(gpu).map(Some).map_err(|error| anyhow!("--gpu: {error}"))
    }

    fn one(&self, numbers: &[Numbers], at: usize, card: Option<Card>, recorder: &Recorder<'_>) -> Result<Scale> {
        let Numbers { name, range, .. } = &numbers[at];
        let mut fitting = BTreeMap::new();
        let mut beyond = None;
        let mut memory = card.zip(self.options.device_memory).map(|(card, of)| match of.overhead {
            Some(given) => of.bytes.saturating_sub(given) + card.context(),
            None => of.bytes,
        });
        let asked = search(&numbers[at], Vec::new(), |number| {
            let values: Vec<u64> = numbers.iter().map(|other| other.first).collect();
            let (is_whole, mut profile) = self.run(numbers, &replaced(values, at, number.value), memory, recorder)?;
            let device = fullest(&profile);
            number.used = reserved(device);
            let budget = self
                .options
                .device_memory
                .zip(device)
                .map(|(of, device)| of.budget(profile.run.as_ref(), device.device));
            let mut fits = is_whole && profile.devices.iter().all(|device| device.figures.ooms.is_empty());
            if let Some(budget) = budget.filter(|budget| budget.overhead != Overhead::Unknown) {
                fits &= number.used <= budget.usable();
                number.left = budget.usable().saturating_sub(number.used);
                // From the first run on it is known what NCCL takes.
                memory = card.map(|card| budget.usable() + card.context());
            }
            if fits {
                fitting.insert(number.value, profile);
                return Ok(Answer::Good);
            }
            if profile.devices.iter().any(|device| !device.figures.ooms.is_empty()) {
                profile.look_at(Moment::Oom);
            }
            // Each that does not fit is smaller than the one before it.
            beyond = Some((place(number.value), profile));
            Ok(Answer::Bad)
        })?;
        let (good, bad) = (by(&Answer::Good, &asked), by(&Answer::Bad, &asked));
        let (values, profiles): (Vec<u64>, Vec<Profile>) = fitting.into_iter().unzip();
        let runs = values
            .iter()
            .zip(&profiles)
            .map(|(&value, profile)| Run { path: profile.source.path.clone(), x: place(value) });
        let falling = bad.first().and_then(|above| falling(&good, above)).map(|pair| pair.map(place));
        let search = Search {
            range: range.clone(),
            card: self.on(card),
            too_large: bad.iter().map(|number| place(number.value)).collect(),
            falling,
            beyond,
        };
        let runs = runs.collect();
        Ok(Scale { search: Some(search), ..Scale::new(name.to_string(), runs, &profiles, &self.options) })
    }

    /// The card in words.
    fn on(&self, card: Option<Card>) -> String {
        let card = card.map_or_else(|| "the card of this machine".to_owned(), |card| format!("a simulated {card}"));
        match self.record.world_size {
            Some(size) => format!("{card}, as rank 0 of {size}"),
            None => card,
        }
    }

    /// The run with these values, kept or new: whether it ended well, and its recording.
    fn run(
        &self,
        numbers: &[Numbers],
        values: &[u64],
        memory: Option<u64>,
        recorder: &Recorder<'_>,
    ) -> Result<(bool, Profile)> {
        let values: Vec<String> = values.iter().map(u64::to_string).collect();
        let name = values.join("-");
        let recorded = match recorder.kept(&name) {
            Some(kept) => kept,
            None => {
                let command: Vec<OsString> =
                    self.record.command.iter().map(|word| filled(word, numbers, &values)).collect();
                let here = env::current_dir()?;
                recorder.record(&name, &Job { command: &command, folder: &here, variables: &[], memory })?
            }
        };
        match recorded {
            Recorded::Whole(path) => Ok((true, self.profile(&path)?)),
            Recorded::OutOfMemory(path) => Ok((false, self.profile(&path)?)),
            Recorded::Failed(failure) => {
                let pairs = numbers.iter().zip(&values).map(|(number, value)| format!("{} = {value}", number.name));
                let advice = match failure.cause {
                    Cause::Candidate => "; if it takes only some numbers, search those, such as batch=8..512/8",
                    Cause::Environment | Cause::Unrecorded => "",
                };
                bail!("{}: {failure}{advice}", pairs.collect::<Vec<_>>().join(", "))
            }
        }
    }

    /// The recording of a run; of several ranks that of the one that reserved most.
    fn profile(&self, path: &Path) -> Result<Profile> {
        if !path.is_dir() {
            return input::profile(path, self.reading);
        }
        let files = fs::read_dir(path)?.flatten().map(|entry| entry.path());
        let files: Vec<PathBuf> = files.filter(|file| file.extension().is_some_and(|ending| ending == "pkl")).collect();
        let profiles = files.iter().map(|file| input::profile(file, self.reading)).collect::<Result<Vec<_>>>()?;
        let fullest = profiles.into_iter().max_by_key(|profile| reserved(fullest(profile)));
        fullest.with_context(|| format!("{}: has no recording", path.display()))
    }
}

/// The device that reserved most.
fn fullest(profile: &Profile) -> Option<&DeviceProfile> {
    profile.devices.iter().max_by_key(|device| device.figures.reserved.peak)
}

fn reserved(device: Option<&DeviceProfile>) -> u64 {
    device.and_then(|device| device.figures.reserved.peak).unwrap_or(0)
}

fn replaced(mut values: Vec<u64>, at: usize, value: u64) -> Vec<u64> {
    values[at] = value;
    values
}

/// A word of the command with the values of all numbers.
fn filled(word: &OsString, numbers: &[Numbers], values: &[String]) -> OsString {
    let mut text = word.to_string_lossy().into_owned();
    for (number, value) in numbers.iter().zip(values) {
        text = text.replace(&number.place(), value);
    }
    text.into()
}

/// A number, which has at most 32 bits, as a place of the curve.
fn place(value: u64) -> f64 {
    u32::try_from(value).map_or(f64::INFINITY, f64::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOM: u64 = 1000;

    fn asked(range: &str, bytes: impl Fn(u64) -> u64) -> Asked<Number> {
        let numbers = Numbers::of(&format!("x={range}")).unwrap();
        let asked = search(&numbers, Vec::new(), |number| {
            number.used = bytes(number.value);
            number.left = ROOM.saturating_sub(number.used);
            Ok(if number.used <= ROOM { Answer::Good } else { Answer::Bad })
        });
        asked.unwrap()
    }

    fn largest(range: &str, bytes: impl Fn(u64) -> u64) -> (Option<u64>, usize) {
        let asked = asked(range, bytes);
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
    fn a_larger_number_that_took_less_is_told() {
        let number = |value: u64, used: u64, room: u64| Number {
            name: "x".into(),
            at: value - 1,
            value,
            used,
            left: room - used,
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

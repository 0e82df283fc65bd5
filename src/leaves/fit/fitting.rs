//! `ptmem fit` with a command: runs it with each number that the search asks for.

use std::collections::BTreeMap;
use std::env;
use std::ffi::OsString;
use std::path::Path;

use anyhow::{Context as _, Result, anyhow, bail};
use ptmem::budget::{DeviceMemory, Overhead};
use ptmem::profile::{DeviceProfile, Moment, Profile, ReadOptions};
use ptmem::units::GivenSize;
use ptmem::verdict::Limits;
use ptmem_simulate::Card;

use super::numbers::{Numbers, by, falling};
use super::runs::{NumberSearch, Runs};
use crate::cli::recorder::{Candidate, Detail, Failure, InProgress, Program, RecordArguments, Recorder, own_files};
use crate::cli::{input, output, ranks};
use crate::leaves::search::{Answer, search};

/// How commands are run, and how their recordings are read.
pub(super) struct Fitting<'a> {
    pub(super) record: &'a RecordArguments,
    pub(super) reading: &'a ReadOptions,
    /// The simulated card.
    pub(super) card: Option<Card>,
    pub(super) memory: Option<DeviceMemory>,
    /// Whether a program may exhaust memory and go on.
    pub(super) allow_oom: bool,
}

impl Fitting<'_> {
    /// Searches each of the numbers, with the others at their first.
    pub(super) fn all(self, ranges: &[String]) -> Result<Vec<NumberSearch>> {
        let numbers = ranges.iter().map(|range| Numbers::of(range)).collect::<Result<Vec<_>>>()?;
        for (at, number) in numbers.iter().enumerate() {
            let place = number.place();
            if numbers[..at].iter().any(|other| other.name == number.name) {
                bail!("{}: is given twice; expected one range for each name", number.name);
            }
            if !self.record.command.iter().any(|word| word.to_string_lossy().contains(&place)) {
                bail!(
                    "the command has no {place}, which stands for the number; write for example --batch-size {place}"
                );
            }
        }
        let memory = self.memory.map(|of| (of.bytes, of.overhead));
        let recorder = Recorder::of_command(self.record, self.detail(), &("fit", memory), &own_files())?;
        (0..numbers.len()).map(|at| self.one(&numbers, at, &recorder)).collect()
    }

    /// What the stacks of the report need.
    fn detail(&self) -> Detail {
        Detail::needed(self.reading.group_by, &Limits::default())
    }

    fn one(&self, numbers: &[Numbers], at: usize, recorder: &Recorder) -> Result<NumberSearch> {
        let Numbers { name, range, .. } = &numbers[at];
        let mut fitting = BTreeMap::new();
        let mut beyond = None;
        let mut went_on = false;
        let mut memory = self.card.zip(self.memory).map(|(card, of)| match of.overhead {
            Some(given) => of.bytes.saturating_sub(given) + card.context(),
            None => of.bytes,
        });
        let asked = search(&numbers[at], Vec::new(), output::print_note, |number| {
            let mut values: Vec<u64> = numbers.iter().map(|other| other.first).collect();
            values[at] = number.value;
            let (is_whole, mut profile) = self.run(numbers, &values, memory, recorder)?;
            let device = fullest(&profile);
            number.used = reserved(device);
            let budget = self.memory.zip(device).map(|(of, device)| of.budget(profile.run.as_ref(), device.device));
            let ran_out = !is_whole || !self.allow_oom && profile.devices.iter().any(DeviceProfile::ran_out_of_memory);
            let mut fits = !ran_out;
            if let Some(budget) = budget {
                fits &= number.used <= budget.usable();
                number.left = Some(budget.usable().saturating_sub(number.used));
            }
            if let Some(budget) = budget.filter(|budget| budget.overhead != Overhead::Unknown) {
                // From the first run on it is known what NCCL takes.
                memory = self.card.map(|card| budget.usable() + card.context());
            }
            if fits {
                fitting.insert(number.value, profile);
                return Ok(Answer::Good);
            }
            if ran_out && profile.devices.iter().any(|device| device.figures.first_oom().is_some()) {
                profile.look_at(Moment::Oom);
            }
            // Each that does not fit is smaller than the one before it.
            beyond = Some((number.value, profile));
            went_on = is_whole && ran_out;
            Ok(Answer::Bad)
        })?;
        let (good, bad) = (by(&Answer::Good, &asked), by(&Answer::Bad, &asked));
        let (values, profiles): (Vec<u64>, Vec<Profile>) = fitting.into_iter().unzip();
        Ok(NumberSearch {
            name: name.to_string(),
            range: range.clone(),
            card: self.on(),
            runs: Runs::new(&profiles, &values, self.memory),
            too_large: bad.iter().map(|number| number.value).collect(),
            falling: bad.first().and_then(|above| falling(&good, above)),
            beyond,
            went_on,
        })
    }

    /// The card in words.
    fn on(&self) -> String {
        let other = self.card.zip(self.memory).filter(|(card, memory)| memory.bytes != card.memory);
        let other = other.map(|(_, memory)| format!(" with {} of memory", GivenSize(memory.bytes))).unwrap_or_default();
        let card = self
            .card
            .map_or_else(|| "the card of this machine".to_owned(), |card| format!("a simulated {card}{other}"));
        match self.record.method.world_size {
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
        recorder: &Recorder,
    ) -> Result<(bool, Profile)> {
        let values: Vec<String> = values.iter().map(u64::to_string).collect();
        let name = values.join("-");
        let recorded = match recorder.kept(&name) {
            Some(kept) => Ok(kept),
            None => {
                let words = self.record.command.iter().map(|word| filled(word, numbers, &values));
                let words: Vec<_> = words.collect();
                let program = Program { command: &words, method: &self.record.method, detail: self.detail() };
                let here = env::current_dir()?;
                let candidate = Candidate { memory, ..Candidate::new(program, &here, &[]) };
                recorder.record(&name, &candidate, &InProgress::new(&name))?
            }
        };
        let recorded = recorded.map_err(|failure| {
            let pairs = numbers.iter().zip(&values).map(|(number, value)| format!("{} = {value}", number.name));
            let advice = match failure {
                Failure::Candidate(_) => {
                    let method = &self.record.method;
                    method.advice("if it takes only some numbers, search those, such as batch=8..512/8")
                }
                Failure::Environment(_) | Failure::Command(_) | Failure::Elsewhere(_) | Failure::Killed(_) => {
                    String::new()
                }
            };
            anyhow!("{}: {failure}{advice}", pairs.collect::<Vec<_>>().join(", "))
        })?;
        Ok((recorded.is_whole, self.profile(&recorded.path)?))
    }

    /// The recording of a run; of several ranks that of the one that reserved most.
    fn profile(&self, path: &Path) -> Result<Profile> {
        let files = ranks::files(&[path.to_owned()])?;
        let profiles = files.iter().map(|file| input::profile(&file.path, self.reading)).collect::<Result<Vec<_>>>()?;
        let fullest = profiles.into_iter().max_by_key(|profile| reserved(fullest(profile)));
        fullest.with_context(|| format!("{}: has no recording", path.display()))
    }
}

/// The device that reserved most.
fn fullest(profile: &Profile) -> Option<&DeviceProfile> {
    profile.devices.iter().filter(|of| of.device.is_device()).max_by_key(|device| device.figures.reserved.peak)
}

fn reserved(device: Option<&DeviceProfile>) -> u64 {
    device.and_then(|device| device.figures.reserved.peak).unwrap_or(0)
}

/// A word of the command with the values of all numbers.
fn filled(word: &OsString, numbers: &[Numbers], values: &[String]) -> OsString {
    let text = word.to_string_lossy().into_owned();
    let pairs = numbers.iter().zip(values);
    pairs.fold(text, |text, (number, value)| text.replace(&number.place(), value)).into()
}

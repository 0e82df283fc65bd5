//! Runs a command with one number after the other on a simulated card. Each run is kept: a search that was ended goes on from them.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;
use std::{env, fs};

use anyhow::{Context as _, Result, anyhow, bail};
use ptmem::scale::Run;
use ptmem::units::Size;
use ptmem_simulate::Card;

use super::super::{checkout, many, output};
use super::search::{self, Fits};

/// A command with a number in it, the numbers to try, and the card.
pub(super) struct Varied<'a> {
    pub(super) range: &'a str,
    pub(super) command: &'a [String],
    pub(super) gpu: &'a str,
    pub(super) steps: &'a str,
    pub(super) memory: Option<u64>,
}

/// The signals of shells begin here: a run that one ended says nothing about memory.
const SIGNALS: u64 = 128;

/// Beginnings of the names of variables on which a run may depend.
const RELEVANT: [&str; 8] = ["CUDA", "NCCL", "PYTORCH", "TORCH", "PYTHON", "PATH", "VIRTUAL_ENV", "CONDA"];

impl Varied<'_> {
    /// Searches, says what was found, and gives the runs that fit.
    pub(super) fn search(&self) -> Result<Vec<Run>> {
        let expected = || anyhow!("{}: expected a name and its numbers, such as batch=1..4096", self.range);
        let (name, numbers) = self.range.split_once('=').ok_or_else(expected)?;
        let (first, last) = numbers.split_once("..").ok_or_else(expected)?;
        let (first, last): (u64, u64) = (first.parse().map_err(|_| expected())?, last.parse().map_err(|_| expected())?);
        let place = format!("{{{name}}}");
        if first == 0 || first > last || last > u64::from(u32::MAX) || name.is_empty() {
            return Err(expected());
        }
        if !self.command.iter().any(|word| word.contains(&place)) {
            bail!("the command has no {place}, which stands for the number; write for example --batch-size {place}");
        }
        let card = Card::named(self.gpu).map_err(|error| anyhow!("--gpu: {error}"))?;
        let memory = self.memory.unwrap_or(card.memory);
        let room = memory.saturating_sub(card.context());
        let folder = self.folder(room)?;
        let began = Instant::now();
        let tried = search::search(first, last, room, |number, tried| {
            let took = began.elapsed().as_secs() / u64::try_from(tried.len().max(1)).unwrap_or(1);
            let estimate = if tried.is_empty() { String::new() } else { format!(", about {took} s a run") };
            output::print_note(&format!("run {}: {name} = {number}{estimate}", tried.len() + 1));
            self.fits(&place, number, room, &folder)
        })?;
        say(name, &tried, room, &folder);
        let fitting = tried.iter().filter(|(_, fits)| fits.is_some());
        let run = |&(number, _): &(u64, Fits)| {
            let x = f64::from(u32::try_from(number).unwrap_or(u32::MAX));
            Run { path: recording(&folder, number).display().to_string(), x }
        };
        Ok(fitting.map(run).collect())
    }

    fn context(&self) -> u64 {
        Card::named(self.gpu).map_or(0, |card| card.context())
    }

    /// Whether the command ends well with a number: from the run that is kept, or a new one.
    fn fits(&self, place: &str, number: u64, room: u64, folder: &Path) -> Result<Fits> {
        let [report, log] = ["json", "log"].map(|suffix| folder.join(format!("{number}.{suffix}")));
        if let Ok(kept) = read(&report, &log)
            && let Some(fits) = kept
        {
            return Ok(fits);
        }
        let words = fs::File::create(&log).with_context(|| format!("{}: cannot be written", log.display()))?;
        let program = env::current_exe().context("ptmem itself cannot be found")?;
        let mut simulate = Command::new(program);
        simulate.args(["simulate", "--gpu", self.gpu, "--memory", &format!("{}B", room + self.context()), "--record"]);
        let steps = if self.steps == "all" { String::new() } else { format!(",steps={}", self.steps) };
        simulate.arg(format!("{}{steps}", recording(folder, number).display())).arg("--report").arg(&report).arg("--");
        simulate.args(self.command.iter().map(|word| word.replace(place, &number.to_string())));
        simulate.stdin(Stdio::null()).stdout(words.try_clone()?).stderr(words);
        let status = simulate.status().context("ptmem simulate cannot be started")?;
        match read(&report, &log) {
            Ok(Some(fits)) if fits.is_none() || status.success() => Ok(fits),
            _ => {
                // What says nothing is not kept as an answer; it may not be there.
                let _ = fs::remove_file(&report);
                let text = fs::read_to_string(&log).unwrap_or_default();
                let end: Vec<&str> = text.lines().rev().filter(|line| !line.trim().is_empty()).take(3).collect();
                let end = end.into_iter().rev().collect::<Vec<_>>().join(" / ");
                bail!(
                    "the command failed with {number}, and its output does not mention memory; make it run with 'ptmem \
                     simulate' first. The end of its output, from {}: {end}",
                    log.display()
                )
            }
        }
    }

    /// Where runs of the same command, card, environment and Python files are kept.
    fn folder(&self, room: u64) -> Result<PathBuf> {
        let mut key = DefaultHasher::new();
        let here = env::current_dir()?;
        (env!("CARGO_PKG_VERSION"), self.command, self.gpu, self.steps, room, &here).hash(&mut key);
        let mut variables: Vec<_> = env::vars_os().collect();
        variables.retain(|(name, _)| RELEVANT.iter().any(|prefix| name.to_string_lossy().starts_with(prefix)));
        variables.sort();
        variables.hash(&mut key);
        let files = checkout::list(&here).into_iter().map(|file| here.join(file));
        for file in files.chain(self.command.iter().map(PathBuf::from)) {
            if let Ok(facts) = fs::metadata(&file) {
                (&file, facts.len(), facts.modified().ok()).hash(&mut key);
            }
        }
        let cache = env::var_os("XDG_CACHE_HOME").filter(|cache| !cache.is_empty()).map(PathBuf::from);
        let cache = cache.or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".cache")));
        let cache = cache.context("no folder to keep runs; set XDG_CACHE_HOME to a folder")?;
        let folder = cache.join("ptmem").join("fit").join(format!("{:016x}", key.finish()));
        fs::create_dir_all(&folder).with_context(|| format!("{}: cannot be made", folder.display()))?;
        Ok(folder)
    }
}

fn recording(folder: &Path, number: u64) -> PathBuf {
    folder.join(format!("{number}.pkl"))
}

/// The answer of a report of `ptmem simulate` and the output of the command; `None` if the run says nothing about memory. A program
/// that tried too large a request may have failed later for another reason.
fn read(report: &Path, log: &Path) -> Result<Option<Fits>> {
    let log = fs::read_to_string(log)?.to_ascii_lowercase();
    // Not the summary of ptmem itself.
    let log = log.lines().filter(|line| !line.starts_with("ptmem simulate:")).collect::<Vec<_>>().join(" ");
    let names_memory = ["out of memory", "outofmemory", "out_of_memory"].iter().any(|words| log.contains(words));
    let report: serde_json::Value = serde_json::from_slice(&fs::read(report)?)?;
    let number = |key: &str| report[key].as_u64();
    Ok(match (number("exit_code"), number("allocations_that_did_not_fit")) {
        (Some(0), _) => Some(number("highest_use")),
        (Some(1..SIGNALS), Some(1..)) if names_memory => Some(None),
        _ => None,
    })
}

/// Says what was found, and what that rests on.
fn say(name: &str, tried: &[(u64, Fits)], room: u64, folder: &Path) {
    let largest = tried.iter().rev().find(|(_, fits)| fits.is_some());
    let above = tried.iter().find(|(_, fits)| fits.is_none());
    let (room, runs) = (Size(room), many(tried.len(), "run"));
    let found = match (largest, above) {
        (Some((largest, _)), Some((above, _))) => format!("{name} = {largest} fits in {room}, {above} does not"),
        (Some((largest, _)), None) => format!("{name} = {largest}, the last, fits in {room}"),
        (None, _) => format!("not even the first {name} fits in {room}; give smaller numbers or a larger --gpu"),
    };
    output::print_note(&format!("{found}: {runs} on a simulated card, without what the CUDA context takes"));
    if let Some((number, _)) = above {
        let held = recording(folder, *number);
        output::print_note(&format!("what holds memory at {name} = {number}: ptmem show {}", held.display()));
    }
    if let Some((less, more)) = search::falling(tried, room.0) {
        output::print_note(&format!(
            "{name} = {more} takes less than {less}: a larger one that was not tried may fit; try a smaller range"
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_one_of_memory_only_if_the_command_says_so() {
        let folder = tempfile::tempdir().unwrap();
        let [report, log] = ["report", "log"].map(|name| folder.path().join(name));
        fs::write(&report, r#"{"exit_code": 1, "allocations_that_did_not_fit": 1}"#).unwrap();
        fs::write(&log, "torch.OutOfMemoryError: CUDA out of memory.").unwrap();
        assert_eq!(read(&report, &log).unwrap(), Some(None));
        fs::write(&log, "ptmem simulate: 1 allocation did not fit: out of memory\nKeyError: 'loss'").unwrap();
        assert_eq!(read(&report, &log).unwrap(), None);
    }
}

//! Arguments of `ptmem simulate`.

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::Args;
use ptmem_base::units::{Size, parse_size};

use crate::card::Card;
use crate::compute::Compute;
use crate::ranks::{JobArguments, PartialJob};
use crate::settings::{Addresses, Events, LARGEST_MEMORY, MOST_GPUS, Settings, Unsupported};

const EXIT_CODES: &str = include_str!("exit_codes.txt").trim_ascii_end();
const EXAMPLES: &str = include_str!("help.txt").trim_ascii_end();

/// Arguments of `ptmem simulate`.
#[derive(Debug, Args)]
#[command(
    next_help_heading = "Simulated GPUs",
    after_long_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"),
    after_help = EXIT_CODES,
    override_usage = "ptmem simulate [OPTIONS] -- <COMMAND>...\n       ptmem simulate --gpu list"
)]
pub struct SimulateArguments {
    /// Card to simulate, such as t4, a100-40gb, h100 or rtx-4090; list prints them all
    #[arg(long, value_name = "NAME", default_value = Card::DEFAULT)]
    pub(super) gpu: Gpu,
    /// Number of cards, at most 64 [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(MOST_GPUS)))]
    pub(super) gpus: Option<u32>,
    /// Memory of each card [default: that of the card]
    #[arg(long, value_name = "SIZE", value_parser = memory)]
    pub(super) memory: Option<u64>,
    /// Memory that may hold values, which the host computes; all computes whatever it can
    #[arg(long, value_name = "LIMIT", default_value_t = Compute::DEFAULT)]
    pub(super) compute: Compute,
    /// Value of every unknown byte that the program reads
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(super) fill: u8,
    /// Share of elements for which a condition on unknown values is true, such as a mask of boxes
    #[arg(long, value_name = "PERCENT", default_value = "50%", value_parser = share)]
    pub(super) keep: u32,
    /// When CUDA events complete
    #[arg(long, value_enum, default_value_t = Events::Ready, value_name = "WHEN")]
    pub(super) events: Events,
    /// Order of addresses, on which some reserved bytes depend
    #[arg(long, value_enum, default_value_t = Addresses::Up, value_name = "ORDER")]
    pub(super) addresses: Addresses,
    /// Reaction to CUDA calls that are not simulated
    #[arg(long, value_enum, default_value_t = Unsupported::Warn, value_name = "HOW")]
    pub(super) unsupported: Unsupported,
    /// Workspace of each convolution, recurrent network and attention of cuDNN
    #[arg(long, value_parser = parse_size, value_name = "SIZE", default_value = "0")]
    pub(super) cudnn_workspace: u64,
    #[command(flatten)]
    pub(super) job: JobArguments,
    /// Record a memory snapshot to FILE: of the whole run, of one step of the optimizer (steps=3) or of several
    /// (steps=3..5)
    ///
    /// The program needs no change. The snapshot is written when the program ends, after the last of these steps, or
    /// when memory runs out. The program then ends with exit code 0, unless 'steps=N,continue' is given. Blocks
    /// allocated before these steps have call stacks, too. FILE.json gets only PyTorch's counters. Each rank of a job
    /// writes its own file: FILE with _rank0, _rank1 … before the suffix, or with {rank} replaced.
    #[arg(long, value_name = "FILE[,steps=N]", help_heading = "Output")]
    pub(super) record: Option<RecordedSnapshot>,
    /// Record the nn.Module and the purpose of each allocation: for --group-by module and --group-by purpose
    #[arg(long, requires = "record", help_heading = "Output")]
    pub(super) modules: bool,
    /// Also record the type and shape of each tensor, for --group-by shape and --explain; slower. Includes --modules
    #[arg(long, requires = "record", help_heading = "Output")]
    pub(super) shapes: bool,
    /// Frames of the recorded call stacks: python leaves out those of C++, and with them the operators and the backward
    /// pass; it is faster
    #[arg(long, requires = "record", value_enum, default_value_t = RecordedStacks::All, value_name = "FRAMES", help_heading = "Output")]
    pub(super) stacks: RecordedStacks,
    /// Write a report of the run to FILE, as JSON
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(super) report: Option<PathBuf>,
    /// The command and its arguments, after --
    #[arg(last = true, value_name = "COMMAND")]
    pub(super) command: Vec<OsString>,
}

impl SimulateArguments {
    /// Refuses options about allocations where none are recorded.
    pub(super) fn require_used(&self, record: &RecordedSnapshot) -> anyhow::Result<()> {
        let given =
            [(self.modules, "--modules"), (self.shapes, "--shapes"), (self.stacks != RecordedStacks::All, "--stacks")];
        let unused: Vec<&str> = given.into_iter().filter(|(is_given, _)| *is_given).map(|(_, name)| name).collect();
        if unused.is_empty() || record.path.extension().is_none_or(|ending| ending != "json") {
            return Ok(());
        }
        anyhow::bail!(
            "{}: not used, because {} gets only counters; leave it out",
            unused.join(", "),
            record.path.display()
        )
    }

    pub(super) fn settings(&self, card: Card, job: Option<&PartialJob>) -> Settings {
        Settings {
            card,
            gpus: self.gpus.unwrap_or(job.map_or(1, |job| job.per_node)),
            memory: self.memory.unwrap_or(card.memory),
            fill: self.fill,
            compute: self.compute,
            keep: self.keep,
            events: self.events,
            addresses: self.addresses,
            unsupported: self.unsupported,
            cudnn_workspace: self.cudnn_workspace,
        }
    }

    /// The list of all cards, if requested.
    #[must_use]
    pub fn list_of_cards(&self) -> Option<String> {
        (self.gpu == Gpu::List).then(list_of_cards)
    }

    /// Files to write whose folders must be there before; the folder of a rank may come to be.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        let files = self.record.iter().map(|record| &*record.path).chain(self.report.as_deref());
        files.filter(|file| !file.parent().unwrap_or(file).to_string_lossy().contains("{rank}"))
    }
}

fn list_of_cards() -> String {
    let mut text = String::new();
    for card in Card::all() {
        let Card { key, name, processors, memory, .. } = card;
        let capability = card.capability_text();
        let default = if key == Card::DEFAULT { " (default)" } else { "" };
        text.push_str(&format!(
            "{key:<15} {name:<44} sm {capability:<5} {processors:>3} processors {:>11}{default}\n",
            Size(memory).to_string()
        ));
    }
    text
}

/// Value of `--gpu`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Gpu {
    Card(Card),
    List,
}

impl FromStr for Gpu {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "list" {
            return Ok(Self::List);
        }
        Card::named(text).map(Self::Card).map_err(|error| format!("{error}; 'ptmem simulate --gpu list' prints all"))
    }
}

/// Frames of recorded call stacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum RecordedStacks {
    /// Those of Python and C++.
    All,
    /// Those of Python.
    Python,
}

/// A snapshot to record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RecordedSnapshot {
    pub(super) path: PathBuf,
    pub(super) steps: Option<StepRange>,
}

/// Steps of the optimizer, both included, counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StepRange {
    pub(super) first: u64,
    pub(super) last: u64,
    /// Whether the program runs on after the last step.
    pub(super) continues: bool,
}

impl fmt::Display for StepRange {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.last - self.first {
            0 => write!(out, "step {}", self.first),
            1 => write!(out, "steps {} and {}", self.first, self.last),
            _ => write!(out, "steps {} to {}", self.first, self.last),
        }
    }
}

impl FromStr for RecordedSnapshot {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let record = match text.rsplit_once(",steps=") {
            Some((path, steps)) => Self { path: path.into(), steps: Some(steps.parse()?) },
            None => Self { path: text.into(), steps: None },
        };
        if record.path.as_os_str().is_empty() {
            return Err("no file to write; expected FILE or FILE,steps=A..B".to_owned());
        }
        if record.path.as_os_str() == "-" {
            return Err("standard output is that of the program; expected FILE or FILE,steps=A..B".to_owned());
        }
        if let Some(rest) = record.after_comma().filter(|rest| !has_extension(rest)) {
            return Err(format!(
                "unknown '{rest}' behind the comma; expected FILE or FILE,steps=A..B[,continue], with an extension at the end \
                 of a FILE that has a comma"
            ));
        }
        Ok(record)
    }
}

impl RecordedSnapshot {
    /// The end of the name of the file, behind its last comma: a mistyped option would be written there.
    fn after_comma(&self) -> Option<String> {
        let name = self.path.file_name()?.to_string_lossy().into_owned();
        Some(name.rsplit_once(',')?.1.to_owned())
    }
}

/// Whether a text ends as names of files do, and ranges of steps do not.
fn has_extension(text: &str) -> bool {
    let extension = text.rsplit_once('.').map(|(_, extension)| extension).unwrap_or_default();
    let is_of_letters = extension.chars().all(char::is_alphanumeric) && extension.contains(char::is_alphabetic);
    is_of_letters && !text.contains("..")
}

impl FromStr for StepRange {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let numbers = text.strip_suffix(",continue");
        let continues = numbers.is_some();
        let numbers = numbers.unwrap_or(text);
        let (first, last) = numbers.split_once("..").unwrap_or((numbers, numbers));
        match (first.parse(), last.parse()) {
            (Ok(first), Ok(last)) if 1 <= first && first <= last => Ok(Self { first, last, continues }),
            _ => Err(format!(
                "invalid steps '{text}'; expected one step or A..B, counted from 1, such as steps=3, steps=3..4, or steps=3,continue"
            )),
        }
    }
}

fn memory(text: &str) -> Result<u64, String> {
    let size = parse_size(text).map_err(|error| error.to_string())?;
    match size {
        0 => Err("a card needs memory; expected a size such as 24GiB".to_owned()),
        size if size > LARGEST_MEMORY => Err("more than a simulated card can have; expected at most 511GiB".to_owned()),
        size => Ok(size),
    }
}

fn share(text: &str) -> Result<u32, String> {
    let number = text.strip_suffix('%').unwrap_or(text).parse().ok().filter(|&percent: &u32| percent <= 100);
    number.ok_or_else(|| format!("invalid share '{text}'; expected a whole percentage such as 50%"))
}

/// Arguments of `ptmem stand-ins`.
#[derive(Debug, Args)]
pub struct StandInsArguments {
    /// Folder of PyTorch's libraries
    pub(super) torch: PathBuf,
    /// Folder of the stand-ins
    pub(super) folder: PathBuf,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recording_is_a_file_and_perhaps_steps() {
        assert_eq!("a,b.pkl".parse(), Ok(RecordedSnapshot { path: "a,b.pkl".into(), steps: None }));
        let steps = Some(StepRange { first: 2, last: 3, continues: false });
        assert_eq!("x.pkl,steps=2..3".parse(), Ok(RecordedSnapshot { path: "x.pkl".into(), steps }));
        let continued = Some(StepRange { first: 3, last: 3, continues: true });
        assert_eq!("x,steps=3,continue".parse::<RecordedSnapshot>().unwrap().steps, continued);
        for wrong in ["x,steps=3,continues", "x,steps=", "x,steps=0", "x,steps=0..1", "x,steps=3..2", ",steps=1..2", ""]
        {
            assert!(wrong.parse::<RecordedSnapshot>().is_err(), "{wrong}");
        }
        for rest in ["step=2", "step=2..3", "step=2..end", "steps:2", " steps=1..2", "3", "1..3", "continue", ""] {
            let error = format!("x.pkl,{rest}").parse::<RecordedSnapshot>().unwrap_err();
            assert!(error.starts_with(&format!("unknown '{rest}' behind the comma")), "{error}");
        }
        assert!("x,y/a.pkl".parse::<RecordedSnapshot>().is_ok());
        assert!("-".parse::<RecordedSnapshot>().is_err() && "-,steps=1".parse::<RecordedSnapshot>().is_err());
    }
}

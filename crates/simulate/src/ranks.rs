//! `--world-size` and `--rank`: the ranks of a job that run.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::Args;

/// Cards of a node of which nobody said how many it has.
const USUAL_GPUS: u32 = 8;
/// Most ranks that a job can have.
const MOST_RANKS: u32 = 1 << 20;

/// Part of a path that stands for the number of a rank.
const RANK: &str = "{rank}";
/// Word before the number of stages in `--rank one-per-stage=P`.
const ONE_PER_STAGE: &str = "one-per-stage=";

#[derive(Debug, Args)]
pub(super) struct JobArguments {
    /// Simulate single ranks of a job of N ranks: those of --rank, each without the others
    ///
    /// The command is the program itself, without torchrun, whose variables (RANK, WORLD_SIZE, …) are set. --gpus is
    /// the number of cards per node [default here: 8, at most N].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(MOST_RANKS)))]
    pub(super) world_size: Option<u32>,
    /// Ranks to run: numbers and ranges such as 0,8,56..63, or one-per-stage=P for the first rank of each of P stages of a pipeline
    #[arg(long, value_name = "RANKS", default_value = "0", requires = "world_size")]
    pub(super) rank: RankChoice,
    /// Number of ranks to run at the same time
    #[arg(long, value_name = "N", default_value_t = 1, requires = "world_size", value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) jobs: u32,
    /// Value that only another rank knows, received by the function NAME or under the store key NAME
    ///
    /// NAME is a pattern, VALUE a Python literal, such as 'build_data_iterators=[1, 1, 0]'. Repeatable.
    #[arg(long = "peer-value", value_name = "NAME=VALUE", requires = "world_size", value_parser = peer_value)]
    pub(super) peer_values: Vec<String>,
}

fn peer_value(text: &str) -> Result<String, String> {
    match text.split_once('=') {
        Some((name, _)) if !name.is_empty() && !text.contains('\n') => Ok(text.to_owned()),
        _ => Err("expected NAME=VALUE in one line, such as 'setup=[1, 1, 0]'".to_owned()),
    }
}

/// Value of `--rank`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum RankChoice {
    /// These, both ends of each range included.
    Ranges(Vec<(u32, u32)>),
    /// The first rank of each stage, by the number of stages: a stage is a block of neighbouring ranks.
    OnePerStage(u32),
}

impl FromStr for RankChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let choice = match text.strip_prefix(ONE_PER_STAGE) {
            Some(stages) => stages.parse().ok().filter(|stages| *stages > 0).map(Self::OnePerStage),
            None => text.split(',').map(range).collect::<Option<_>>().map(Self::Ranges),
        };
        choice.ok_or_else(|| format!("invalid ranks '{text}'; expected ranks such as 0,8,56..63 or one-per-stage=4"))
    }
}

fn range(text: &str) -> Option<(u32, u32)> {
    let (first, last) = text.split_once("..").unwrap_or((text, text));
    let range = (first.parse().ok()?, last.parse().ok()?);
    (range.0 <= range.1).then_some(range)
}

/// A job of which some ranks run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PartialJob {
    pub(super) world_size: u32,
    /// The ranks to run, in order and each once.
    pub(super) ranks: Vec<u32>,
    /// Ranks of each node.
    pub(super) per_node: u32,
    pub(super) peer_values: Vec<String>,
}

impl JobArguments {
    /// The job, where there is one. `gpus` are the cards of a node, where somebody said it.
    pub(super) fn job(&self, gpus: Option<u32>) -> Result<Option<PartialJob>, String> {
        let Some(world_size) = self.world_size else { return Ok(None) };
        let mut ranks: Vec<u32> = match &self.rank {
            RankChoice::Ranges(ranges) => {
                ranges.iter().flat_map(|(first, last)| *first..=(*last).min(world_size)).collect()
            }
            RankChoice::OnePerStage(stages) if !world_size.is_multiple_of(*stages) => {
                return Err(format!("{world_size} ranks cannot be split into {stages} stages of equal size"));
            }
            RankChoice::OnePerStage(stages) => (0..*stages).map(|stage| stage * (world_size / stages)).collect(),
        };
        ranks.sort_unstable();
        ranks.dedup();
        if let Some(rank) = ranks.iter().find(|rank| **rank >= world_size) {
            return Err(format!("no rank {rank} in a job of {world_size}; expected 0 to {}", world_size - 1));
        }
        let per_node = gpus.unwrap_or(USUAL_GPUS).min(world_size);
        Ok(Some(PartialJob { world_size, ranks, per_node, peer_values: self.peer_values.clone() }))
    }
}

impl PartialJob {
    /// The file of a rank. With a single rank, it is the requested file.
    pub(super) fn file_of(&self, rank: u32, path: &Path) -> PathBuf {
        let is_only = self.ranks.len() == 1 && !path.to_string_lossy().contains(RANK);
        if is_only { path.to_owned() } else { file_of_rank(rank, path) }
    }
}

/// The file of a rank, as the hook in Python names recordings: `{rank}` is replaced, or `_rank3` added.
pub(super) fn file_of_rank(rank: u32, path: &Path) -> PathBuf {
    let text = path.to_string_lossy();
    if text.contains(RANK) {
        return text.replace(RANK, &rank.to_string()).into();
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let (stem, suffix) = name.split_at(name.find('.').unwrap_or(name.len()));
    path.with_file_name(format!("{stem}_rank{rank}{suffix}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(world_size: u32, rank: &str) -> Result<PartialJob, String> {
        let arguments =
            JobArguments { world_size: Some(world_size), rank: rank.parse()?, jobs: 1, peer_values: Vec::new() };
        arguments.job(None).map(|job| job.unwrap())
    }

    #[test]
    fn ranks_are_numbers_ranges_or_one_of_each_stage() {
        assert_eq!(job(64, "56..58,0,8,57").unwrap().ranks, [0, 8, 56, 57, 58]);
        assert_eq!(job(512, "one-per-stage=4").unwrap().ranks, [0, 128, 256, 384]);
        for wrong in
            ["8", "3..9", "0..4294967295", "one-per-stage=3", "one-per-stage=0", "3..1", "a", "", "one-per-stage"]
        {
            assert!(job(8, wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_file_of_a_rank_has_its_number_where_several_run() {
        let [several, one] = ["3,17", "17"].map(|ranks| job(20, ranks).unwrap());
        assert_eq!(several.file_of(17, Path::new("a/x.pkl.gz")), Path::new("a/x_rank17.pkl.gz"));
        assert_eq!(one.file_of(17, Path::new("a/x.pkl.gz")), Path::new("a/x.pkl.gz"));
        for job in [several, one] {
            assert_eq!(job.file_of(17, Path::new("{rank}/x.pkl")), Path::new("17/x.pkl"));
        }
    }
}

//! The processes that wrote the snapshots of a series.

use std::collections::BTreeMap;

use ptmem::verdict::Rank;

use super::find::FoundFile;
use super::pair::RankRule;

/// The process that wrote a snapshot.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Process {
    /// The names of the files do not distinguish processes.
    Only,
    /// A rank of a job.
    Rank(Rank),
    /// A case of a file of figures.
    Case(String),
}

impl Process {
    fn of(file: &FoundFile, rule: RankRule) -> Self {
        match rule.rank(file) {
            Some(rank) => Self::Rank(rank),
            None if file.is_case => Self::Case(file.name.clone()),
            None => Self::Only,
        }
    }

    /// Its name among several.
    pub(crate) fn name(&self) -> Option<String> {
        match self {
            Self::Only => None,
            Self::Rank(rank) => Some(rank.to_string()),
            Self::Case(name) => Some(name.clone()),
        }
    }

    /// The number of its rank.
    pub(crate) fn rank(&self) -> Option<u64> {
        match self {
            Self::Rank(rank) => Some(rank.number),
            Self::Only | Self::Case(_) => None,
        }
    }
}

/// Files of one job by their ranks, as they are compared; those without a rank go by their names, or paths.
pub(crate) fn by_member(files: Vec<FoundFile>) -> BTreeMap<Process, Vec<FoundFile>> {
    let rule = RankRule::of(&[&files]);
    let mut stems: BTreeMap<String, usize> = BTreeMap::new();
    files.iter().for_each(|file| *stems.entry(file.stem().to_owned()).or_default() += 1);
    let mut processes: BTreeMap<Process, Vec<FoundFile>> = BTreeMap::new();
    for file in files {
        let process = match Process::of(&file, rule) {
            Process::Only if stems[file.stem()] > 1 => Process::Case(file.path.to_string_lossy().into_owned()),
            Process::Only => Process::Case(file.stem().to_owned()),
            known => known,
        };
        processes.entry(process).or_default().push(file);
    }
    processes
}

/// The files of a series by the rank that their names state, or by their case.
pub(crate) fn by_process(files: Vec<FoundFile>) -> BTreeMap<Process, Vec<FoundFile>> {
    let rule = RankRule::of_series(&files);
    let mut processes: BTreeMap<Process, Vec<FoundFile>> = BTreeMap::new();
    for file in files {
        processes.entry(Process::of(&file, rule)).or_default().push(file);
    }
    processes
}

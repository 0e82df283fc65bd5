//! The files of a job: the ranks that wrote them, and their names.

use std::fmt;

use ptmem_base::text::{count, numbers as written};
use ptmem_compare::diff::Side;

use super::RankPeaks;

/// The process of a job that wrote a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rank {
    /// The node, where ranks are counted on each.
    pub node: Option<u64>,
    /// Its number.
    pub number: u64,
}

impl fmt::Display for Rank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(node) = self.node {
            write!(f, "node {node} ")?;
        }
        write!(f, "rank {}", self.number)
    }
}

/// One of several files of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// Its rank, if the file name contains it.
    pub rank: Option<Rank>,
    /// Name of the rank: `rank 3`, or the name of the file.
    pub label: String,
}

/// Whether a file states a rank; otherwise the files are cases, which need not be in balance.
pub fn has_ranks<'m>(mut members: impl Iterator<Item = &'m Member>) -> bool {
    members.any(|member| member.rank.is_some())
}

/// A rank that only one side has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingRank {
    /// The rank.
    pub member: Member,
    /// The side that lacks it.
    pub side: Side,
    /// Its file on the side that has it.
    pub path: String,
    /// The peaks there.
    pub peaks: RankPeaks,
}

/// Ranks in words: `rank 3`, `ranks 0-3 and 7`, or what else they are called; not all where they are many.
pub fn numbers(members: &[&Member]) -> String {
    const MOST: usize = 6;
    let plain: Option<Vec<u64>> =
        members.iter().map(|member| member.rank.filter(|rank| rank.node.is_none()).map(|rank| rank.number)).collect();
    match (members, plain) {
        ([only], _) => only.label.clone(),
        (_, Some(all)) => format!("ranks {}", written(all)),
        _ if members.len() <= MOST => members.iter().map(|member| &*member.label).collect::<Vec<_>>().join(", "),
        _ => {
            let first: Vec<_> = members.iter().take(MOST - 1).map(|member| &*member.label).collect();
            let more = count((members.len() - first.len()) as u64, "more", "more");
            format!("{} and {more}", first.join(", "))
        }
    }
}

//! The rule by which every command derives ranks from the names of files.

use std::collections::{BTreeMap, BTreeSet};

use ptmem::verdict::Rank;

use super::find::Found;

/// Decided from the files of all sides together, so that the same name means the same rank on each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RankRule {
    /// Whether ranks are counted on each node, rather than over the whole job.
    with_node: bool,
    /// Whether a number behind no word that says what it counts is a rank.
    bare: bool,
}

impl RankRule {
    /// The rule for sets of files of which each has one file a rank.
    pub(crate) fn of(sides: &[&[Found]]) -> Self {
        Self {
            with_node: sides.iter().any(|found| counts_on_nodes(found)),
            bare: sides.iter().all(|found| bare_numbers_are_alike(found)),
        }
    }

    /// The rule for series of snapshots: a bare number there is that of the snapshot.
    pub(crate) fn of_series(found: &[Found]) -> Self {
        Self { with_node: counts_on_nodes(found), bare: false }
    }

    /// The rank that the name of a file states.
    pub(crate) fn rank(self, found: &Found) -> Option<Rank> {
        let number = found.rank.or(found.number.filter(|_| self.bare))?;
        Some(Rank { node: found.node.filter(|_| self.with_node), number })
    }
}

/// Whether the same rank is there on several nodes.
fn counts_on_nodes(found: &[Found]) -> bool {
    let stated = found.iter().filter_map(|found| Some((found.node, found.rank.or(found.number)?)));
    let places: BTreeSet<_> = stated.collect();
    let numbers: BTreeSet<_> = places.iter().map(|(_, number)| number).collect();
    numbers.len() < places.len()
}

/// Numbers behind different words, such as `encoder_1` and `decoder_1`, are not ranks.
fn bare_numbers_are_alike(found: &[Found]) -> bool {
    let mut first: BTreeMap<u64, &Found> = BTreeMap::new();
    let mut bare = found.iter().filter(|found| found.rank.is_none());
    bare.all(|found| {
        let Some(number) = found.number else { return true };
        let other = *first.entry(number).or_insert(found);
        other.path == found.path || shape(other) == shape(found)
    })
}

/// The words of a name, without its numbers.
fn shape(found: &Found) -> String {
    found.stem().split(|c: char| c.is_ascii_digit()).filter(|part| !part.is_empty()).collect::<Vec<_>>().join("#")
}

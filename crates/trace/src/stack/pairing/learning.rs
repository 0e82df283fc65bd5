//! Learns from pairs beyond doubt which function became which, and which file moved where.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use rustc_hash::FxHashSet;

use super::Pairing;
use crate::stack::Token;

/// Changes that pairs beyond doubt show, with the number of times that they do.
#[derive(Default)]
struct PairVotes {
    /// Functions of the before that became functions of the after.
    became: BTreeMap<(Token, Token), usize>,
    /// Functions that exist on one side only.
    inserted: BTreeSet<Token>,
}

impl PairVotes {
    /// The renames, the most frequent first.
    fn renames(&self) -> impl Iterator<Item = (usize, Token, Token)> {
        let mut renames: Vec<_> = self.became.iter().map(|(&(old, new), &count)| (Reverse(count), old, new)).collect();
        renames.sort_unstable();
        renames.into_iter().map(|(Reverse(count), old, new)| (count, old, new))
    }
}

impl Pairing<'_> {
    /// Learns which function became which from unambiguous pairs: as similar as this, with equal counts. Returns whether
    /// anything was learned.
    pub(super) fn learn(&mut self, ratio: f64) -> bool {
        let candidates = self.candidates(Self::counts);
        let confident = self.best_first(candidates, ratio);
        let mut votes = PairVotes::default();
        for (before, after) in confident {
            let old = self.translated(&self.before.groups[before]);
            let new = self.reduced(&self.after.groups[after]);
            for hunk in self.hunks(&old, &new) {
                for pair in &hunk.pairs {
                    *votes.became.entry((pair.old, pair.new)).or_default() += 1;
                }
                for &token in hunk.old_only.iter().chain(&hunk.new_only).filter(|token| !self.kept.contains(token)) {
                    votes.inserted.insert(token);
                }
            }
        }
        self.adopt(&votes)
    }

    /// Takes over the changes that most pairs show. Returns whether some are new.
    fn adopt(&mut self, votes: &PairVotes) -> bool {
        let known = self.renamed.len() + self.dropped.len();
        let mut taken: FxHashSet<Token> = self.renamed.values().copied().collect();
        let mut files: BTreeMap<(u64, u64), usize> = BTreeMap::new();
        for (count, old, new) in votes.renames() {
            if !self.renamed.contains_key(&old) && !taken.contains(&new) {
                self.renamed.insert(old, new);
                taken.insert(new);
                if old.file != new.file {
                    *files.entry((old.file, new.file)).or_default() += count;
                }
            }
        }
        // A file moves as a whole, to where most of its functions are.
        let mut files: Vec<_> = files.into_iter().map(|(files, count)| (Reverse(count), files)).collect();
        files.sort_unstable();
        for (_, (old, new)) in files {
            self.moved.entry(old).or_insert(new);
        }
        for token in &votes.inserted {
            if !self.renamed.contains_key(token) && !taken.contains(token) {
                self.dropped.insert(*token);
            }
        }
        self.kept.extend(self.renamed.values());
        self.renamed_shifts = self.functions.shifts_with(&self.renamed);
        self.renamed.len() + self.dropped.len() > known
    }
}

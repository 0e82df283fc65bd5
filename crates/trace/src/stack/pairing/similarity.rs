//! Pairs the stacks that still differ by their similarity, best first.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use rustc_hash::{FxHashMap, FxHashSet};

use super::super::Token;
use super::likeness::Score;
use super::{GroupFigures, MOST_CANDIDATES, Pairing, StackGroup};

/// Something that groups which may be the same have in common.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum SharedAspect {
    Site(Token),
    Caller(Token),
    Skeleton(Vec<Token>),
    /// The skeleton with runs of one function put together: functions of one name in one file may move to several.
    Outline(Vec<Token>),
    Counts(GroupFigures),
}

/// A candidate with its score.
struct Scored {
    score: Score,
    before: usize,
    after: usize,
}

impl Scored {
    /// The best first; of equal ones by their places.
    fn order(&self, other: &Self) -> Ordering {
        let ratio = other.score.ratio.total_cmp(&self.score.ratio);
        let size = other.score.closeness.total_cmp(&self.score.closeness);
        ratio.then(size).then_with(|| (self.before, self.after).cmp(&(other.before, other.after)))
    }
}

impl Pairing<'_> {
    /// Pairs the rest by similarity, best first.
    pub(super) fn by_similarity(&mut self, ratio: f64) {
        if self.is_done() {
            return;
        }
        let candidates = self.candidates(Self::aspects);
        for (before, after) in self.best_first(candidates, ratio) {
            self.take(before, after);
        }
    }

    /// Free groups of both sides that have an aspect in common: for each of the before those whose figures are nearest.
    pub(super) fn candidates(
        &self,
        aspects: fn(&Self, &StackGroup<'_>, &[Token], Option<Token>) -> Vec<SharedAspect>,
    ) -> BTreeSet<(usize, usize)> {
        let mut buckets: BTreeMap<SharedAspect, Vec<usize>> = BTreeMap::new();
        for (index, group) in self.after.free() {
            for aspect in aspects(self, group, &self.reduced(group), Self::new_site(group)) {
                buckets.entry(aspect).or_default().push(index);
            }
        }
        for list in buckets.values_mut() {
            list.sort_by_key(|&index| (self.after.groups[index].figures, index));
        }
        let mut candidates = BTreeSet::new();
        for (before, group) in self.before.free() {
            for aspect in aspects(self, group, &self.translated(group), self.old_site(group)) {
                let list = buckets.get(&aspect).map(Vec::as_slice).unwrap_or_default();
                let at = list.partition_point(|&index| self.after.groups[index].figures < group.figures);
                let end = (at + MOST_CANDIDATES / 2).max(MOST_CANDIDATES).min(list.len());
                let nearest = &list[end.saturating_sub(MOST_CANDIDATES)..end];
                candidates.extend(nearest.iter().map(|&after| (before, after)));
            }
        }
        candidates
    }

    /// The aspects of a group, one of which a candidate has as well.
    fn aspects(&self, group: &StackGroup<'_>, tokens: &[Token], site: Option<Token>) -> Vec<SharedAspect> {
        let skeleton: Vec<Token> = tokens.iter().filter(|token| self.kept.contains(token)).copied().collect();
        let caller = skeleton.iter().find(|token| Some(**token) != site).copied();
        let mut outline = skeleton.clone();
        outline.dedup();
        let mut aspects = vec![
            SharedAspect::Skeleton(skeleton),
            SharedAspect::Outline(outline),
            SharedAspect::Counts(group.figures.counts()),
        ];
        aspects.extend(site.map(SharedAspect::Site).into_iter().chain(caller.map(SharedAspect::Caller)));
        aspects
    }

    /// The one aspect in which groups match without doubt.
    pub(super) fn counts(&self, group: &StackGroup<'_>, _: &[Token], _: Option<Token>) -> Vec<SharedAspect> {
        vec![SharedAspect::Counts(group.figures.counts())]
    }

    /// The candidates that are at least as similar as `ratio`, the best first and each group once.
    pub(super) fn best_first(&self, candidates: BTreeSet<(usize, usize)>, ratio: f64) -> Vec<(usize, usize)> {
        let mut scored: Vec<Scored> = candidates
            .into_iter()
            .filter(|(before, after)| self.most_alike(*before, *after) >= ratio)
            .filter_map(|(before, after)| Some(Scored { score: self.score(before, after)?, before, after }))
            .filter(|scored| scored.score.ratio >= ratio)
            .collect();
        scored.sort_by(Scored::order);
        let mut used_before = FxHashSet::default();
        let mut used_after = FxHashSet::default();
        let mut chosen = Vec::new();
        for Scored { before, after, .. } in scored {
            if !used_before.contains(&before) && !used_after.contains(&after) {
                used_before.insert(before);
                used_after.insert(after);
                chosen.push((before, after));
            }
        }
        chosen
    }

    /// The highest ratio that the score of two groups can have, by the functions of both in whatever order: to compare thousands
    /// of long stacks in order would take minutes.
    fn most_alike(&self, before: usize, after: usize) -> f64 {
        let old = self.translated(&self.before.groups[before]);
        let new = self.reduced(&self.after.groups[after]);
        let mut left: FxHashMap<Token, usize> = FxHashMap::default();
        old.iter().for_each(|token| *left.entry(*token).or_default() += 1);
        let mut matched = 0.0;
        for token in new.iter() {
            if let Some(count @ 1..) = left.get_mut(token) {
                *count -= 1;
                matched += self.weight(token);
            }
        }
        // Functions that only one side has may have been renamed.
        matched += self.one_sided_weight(&old).min(self.one_sided_weight(&new));
        2.0 * matched / old.iter().chain(&*new).map(|token| self.weight(token)).sum::<f64>()
    }

    /// The weight of the functions that not both sides know.
    fn one_sided_weight(&self, tokens: &[Token]) -> f64 {
        tokens.iter().filter(|token| !self.kept.contains(token)).map(|token| self.weight(token)).sum()
    }

    /// The function to blame in a group of the before, as the after calls it.
    pub(super) fn old_site(&self, group: &StackGroup<'_>) -> Option<Token> {
        let token = group.tokens.get(group.site)?;
        Some(self.renamed.get(token).copied().unwrap_or(*token))
    }

    pub(super) fn new_site(group: &StackGroup<'_>) -> Option<Token> {
        group.tokens.get(group.site).copied()
    }
}

//! Patterns of limits, which need not match a stack on each rank but on some.

use std::collections::BTreeSet;

use super::super::{Judge, Thresholds, growth, maxima};
use crate::diff::Diff;
use crate::pattern::Pattern;
use crate::profile::Profile;

/// The limits that are about a stack of some rank.
#[derive(Debug, Clone, Default)]
pub struct Matched {
    /// For each limit on growth.
    pub growth: Vec<bool>,
    /// For each absolute limit.
    pub maximum: Vec<bool>,
    /// The labels of ranks on which the pattern of some limit matches no stack.
    labels: BTreeSet<String>,
}

impl Matched {
    /// No rank has been seen yet.
    #[must_use]
    pub fn new(thresholds: &Thresholds) -> Self {
        let growth = vec![false; thresholds.growth.len()];
        Self { growth, maximum: vec![false; thresholds.maximum.len()], labels: BTreeSet::new() }
    }

    /// Adds the comparison of a rank.
    pub fn add_diff(&mut self, diff: &Diff, thresholds: &Thresholds) {
        for (matched, growth) in self.growth.iter_mut().zip(&thresholds.growth) {
            *matched |= growth.matches(diff);
        }
        if self.growth.contains(&false) {
            self.labels.extend(growth::labels(diff).map(str::to_owned));
        }
        self.add_profile(&diff.profiles.after, thresholds);
    }

    /// Adds the snapshot of a rank.
    pub fn add_profile(&mut self, profile: &Profile, thresholds: &Thresholds) {
        for (matched, maximum) in self.maximum.iter_mut().zip(&thresholds.maximum) {
            *matched |= maximum.matches(profile);
        }
        if self.maximum.contains(&false) {
            self.labels.extend(profile.devices.iter().flat_map(maxima::labels).map(str::to_owned));
        }
    }

    /// The reason of a check whose pattern matches no stack of any rank.
    fn reason(&self, pattern: Option<&Pattern>) -> String {
        let labels = self.labels.iter().map(String::as_str);
        let near = pattern.map(|pattern| pattern.unmatched("stack", labels));
        format!("the pattern matches no stack of any rank{}", near.unwrap_or_default())
    }
}

impl Judge {
    /// A limit whose pattern matches no stack of any rank is inconclusive.
    pub(super) fn unmatched_on_all_ranks(&mut self, matched: &Matched, thresholds: &Thresholds) {
        for (growth, _) in thresholds.growth.iter().zip(&matched.growth).filter(|(_, is_matched)| !**is_matched) {
            if growth.pattern().is_some() {
                self.cannot_tell(growth, &matched.reason(growth.pattern()));
            }
        }
        for (maximum, _) in thresholds.maximum.iter().zip(&matched.maximum).filter(|(_, is_matched)| !**is_matched) {
            self.cannot_tell_maximum(maximum, &matched.reason(maximum.pattern()));
        }
    }
}

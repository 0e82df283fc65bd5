//! Settings that the decisions of the allocator confirm, and settings that stay in doubt.

use super::super::super::Position;
use super::super::super::rounding::{self, Pool, SMALL_SIZE};
use super::{Decision, Rules, Setting, SettingSet, Source};

/// Which settings are confirmed so far, while decisions are gone through in the order in which they were made.
///
/// A decision that the stated settings explain was made by these, or by others that give the same. Until the others are
/// switched to the stated ones they go on to give the same, so a decision rules out for all later ones what would have
/// contradicted it, and nothing more. Where they may be switched back and forth, it rules out nothing.
#[derive(Debug, Default)]
pub(in crate::replay::sizes) struct Confirmed {
    /// Settings that need to be confirmed.
    open: SettingSet,
    expandable: bool,
    /// The roundings that are ruled out.
    roundings: [bool; rounding::ROUNDINGS],
    /// The smallest block that was left whole because `max_split_size_mb` forbade to split it.
    smallest_whole: Option<u64>,
    /// The largest block that was split although it is in the reach of `max_split_size_mb`.
    largest_split: u64,
}

/// The sizes that a block can have.
#[derive(Debug, Clone, Copy)]
pub(in crate::replay::sizes) struct Extent {
    pub(in crate::replay::sizes) least: u64,
    pub(in crate::replay::sizes) most: u64,
}

impl Confirmed {
    /// Before the first event, once everything is learnt about the rules.
    pub(in crate::replay::sizes) fn at_start(rules: &Rules) -> Self {
        let mut confirmed = Self { open: rules.open(), ..Self::default() };
        if rules.contradictions().is_empty() && !rules.may_switch_back() {
            confirmed.roundings = match rules.source {
                // Settings that a file does not state are taken to have held all the time.
                Source::Assumed => rules.roundings_out,
                Source::Certain | Source::Dump => {
                    [rules.confirmed_at_start.has(Setting::Rounding); rounding::ROUNDINGS]
                }
            };
        }
        confirmed.roundings[rounding::UNROUNDED] |= rules.roundings_out[rounding::UNROUNDED];
        confirmed
    }

    /// True if decisions can confirm anything that is in doubt.
    #[inline]
    pub(in crate::replay::sizes) fn can_learn(&self, rules: &Rules) -> bool {
        let is_stated = rules.source != Source::Assumed && !rules.settings.given;
        is_stated && !self.open.is_empty() && !rules.may_switch_back()
    }

    /// Notes a decision whose size is known, and as the rules give it. Only where it [`can_learn`](Self::can_learn).
    pub(in crate::replay::sizes) fn note(&mut self, rules: &Rules, decision: Decision, actual: u64, at: Position) {
        let Decision { requested, room, pool, .. } = decision;
        let is_small = pool == Pool::Small || decision.least <= SMALL_SIZE;
        if is_small && self.is_rounding_known() {
            return;
        }
        let doubts = self.doubts(rules, decision, at);
        if is_later(rules, Setting::Rounding, at) {
            for (kind, is_out) in self.roundings.iter_mut().enumerate().filter(|(_, is_out)| !**is_out) {
                let other = rounding::round_by(requested, kind).map(|least| decision.with_least(least));
                *is_out = other
                    .is_some_and(|other| other.least > room || !rules.outcomes(other, doubts).include(other, actual));
            }
        }
        if is_small {
            return;
        }
        let others = self.others(decision, doubts);
        let largest = others.fold(decision.least, u64::max);
        let is_whole = actual == room && largest < room;
        let rest = room - actual.min(room);
        let shows_expandable =
            if is_whole { !rules.settings.expandable_segments } else { rest > 0 && rest <= SMALL_SIZE };
        self.expandable |= shows_expandable && is_later(rules, Setting::Expandable, at);
        let is_off = !rules.settings.expandable_segments && !doubts.has(Setting::Expandable);
        if !is_later(rules, Setting::MaxSplit, at) {
            return;
        }
        if is_whole && room - largest > SMALL_SIZE {
            self.smallest_whole = Some(self.smallest_whole.map_or(largest, |smallest| smallest.min(largest)));
        } else if actual < room && is_off {
            self.largest_split = self.largest_split.max(actual);
        }
    }

    /// Settings that may not be those by which a decision was made.
    pub(in crate::replay::sizes) fn doubts(&self, rules: &Rules, decision: Decision, at: Position) -> SettingSet {
        let mut doubts = SettingSet::default();
        for setting in self.open.iter().filter(|&setting| !self.is_certain(rules, setting, decision, at)) {
            doubts.insert(setting);
        }
        doubts
    }

    /// True if a decision was made by the stated value of a setting.
    fn is_certain(&self, rules: &Rules, setting: Setting, decision: Decision, at: Position) -> bool {
        if setting == Setting::Expandable && is_shown_by_place(rules, decision, at) {
            return true;
        }
        match rules.source {
            Source::Certain if rules.settings.given => false,
            Source::Dump if rules.may_switch_back() => false,
            Source::Certain | Source::Dump => {
                (setting == Setting::Expandable && is_shown_by_segments(rules, decision, at))
                    || self.is_known(rules, setting, decision)
            }
            Source::Assumed if rules.switches_unstated() => false,
            Source::Assumed => {
                let is_contradicted = rules.contradicted[setting as usize].is_some();
                match setting {
                    Setting::Rounding => {
                        !is_contradicted
                            && self.others(decision, SettingSet::of(&[setting])).all(|other| other == decision.least)
                    }
                    Setting::MaxSplit => !is_contradicted && decision.least <= rules.largest_split,
                    Setting::Expandable => false,
                }
            }
        }
    }

    fn is_rounding_known(&self) -> bool {
        self.roundings == [true; rounding::ROUNDINGS]
    }

    /// True if what was noted tells a setting, as far as it matters to a decision.
    fn is_known(&self, rules: &Rules, setting: Setting, decision: Decision) -> bool {
        match setting {
            Setting::Rounding => self.is_rounding_known(),
            Setting::Expandable => self.expandable,
            Setting::MaxSplit if rules.settings.max_split_size.is_some_and(|limit| decision.least >= limit) => {
                self.smallest_whole.is_some_and(|smallest| decision.least >= smallest)
            }
            Setting::MaxSplit => decision.least <= self.largest_split,
        }
    }

    /// Sizes that a request may have been rounded to besides that of the stated settings.
    fn others(&self, decision: Decision, doubts: SettingSet) -> impl Iterator<Item = u64> {
        let kinds = self.roundings.iter().enumerate();
        let kinds = kinds.filter(move |&(_, &is_out)| doubts.has(Setting::Rounding) && !is_out);
        let others = kinds.filter_map(move |(kind, _)| rounding::round_by(decision.requested, kind));
        others.filter(move |&other| other <= decision.room)
    }

    /// The least and the most that a block can occupy where some settings may have been others, if the rules give
    /// `size`. The free block of one that is older than the history may have been anything up to the room.
    pub(in crate::replay::sizes) fn extent(
        &self,
        rules: &Rules,
        decision: Decision,
        size: u64,
        doubts: SettingSet,
        is_older: bool,
    ) -> Extent {
        let mut extent = Extent { least: size, most: size };
        if doubts.is_empty() && !is_older {
            return extent;
        }
        for least in self.others(decision, doubts).chain([decision.least]) {
            let decision = decision.with_least(least);
            let outcomes = rules.outcomes(decision, doubts);
            let unsplit = if is_older { rules.most_unsplit_in_doubt(decision, doubts) } else { 0 };
            let most = decision.room.min(least.saturating_add(unsplit)).max(least);
            extent.least = extent.least.min(if outcomes.split || is_older { least } else { decision.room });
            extent.most = extent.most.max(if outcomes.whole && !is_older { decision.room } else { most });
        }
        extent
    }
}

/// True if a decision was made while segments were expandable, as the stated settings say: otherwise the allocator
/// takes no free block of an expandable segment.
fn is_shown_by_place(rules: &Rules, decision: Decision, at: Position) -> bool {
    rules.settings.expandable_segments && decision.pool == Pool::Expandable && at != Position::START
}

/// True if a decision was made after a segment that is expandable, or not, as the stated settings say.
fn is_shown_by_segments(rules: &Rules, decision: Decision, at: Position) -> bool {
    let Some(since) = rules.segments_agree_since else { return false };
    // Blocks that are older than the history may be older than the segment as well, unless they lie in one of its kind.
    let is_of_start = since == at
        && if rules.settings.expandable_segments {
            decision.pool == Pool::Expandable
        } else {
            !rules.starts_with_pools
        };
    (since < at || is_of_start) && is_later(rules, Setting::Expandable, at)
}

/// True if a decision was made after the last one that contradicts the stated value of a setting.
fn is_later(rules: &Rules, setting: Setting, at: Position) -> bool {
    rules.contradicted[setting as usize].is_none_or(|latest| latest < at)
}

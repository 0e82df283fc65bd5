//! The settings that the decisions of the allocator confirm.

use super::super::super::Position;
use super::super::super::rounding::{self, LARGE_BUFFER, SMALL_SIZE, SplitRule};
use super::{Decision, KnownSettings, SettingsSource};

/// The settings confirmed so far, while decisions are processed in their order.
///
/// A decision that the stated settings explain was made by these, or by others that give the same. Until the others are
/// switched to the stated ones they go on to give the same, so a decision rules out for all later ones what would have
/// contradicted it, and nothing more. Where they may be switched back and forth, it rules out nothing.
#[derive(Debug, Default)]
pub(in crate::replay::sizes) struct Confirmed {
    /// True if segments are of the stated kind.
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
    pub(in crate::replay::sizes) fn at_start(rules: &KnownSettings) -> Self {
        let mut confirmed = Self::default();
        // Settings that a file does not state are taken to have held all the time.
        if rules.are_assumed() && !rules.switches_unstated() {
            let is_on = rules.settings.expandable_segments;
            confirmed.expandable = if is_on { !rules.are_contradicted() } else { !rules.may_be_expandable };
            confirmed.largest_split = rules.largest_split;
        }
        if !rules.are_contradicted() && !rules.may_switch_back() {
            confirmed.roundings = match rules.source {
                SettingsSource::Assumed => rules.roundings_out,
                SettingsSource::Certain | SettingsSource::Dump => [rules.confirms_rounding; rounding::ROUNDINGS],
            };
        }
        confirmed.roundings[rounding::UNROUNDED] |= rules.roundings_out[rounding::UNROUNDED];
        confirmed
    }

    /// True if decisions can confirm anything that is in doubt.
    #[inline]
    pub(in crate::replay::sizes) fn can_learn(rules: &KnownSettings) -> bool {
        let is_stated = rules.source != SettingsSource::Assumed && !rules.settings.given;
        is_stated && rules.is_open() && !rules.may_switch_back()
    }

    /// Notes a decision whose size is known, and as the rules give it. Only where it [`can_learn`](Self::can_learn).
    pub(in crate::replay::sizes) fn note(
        &mut self,
        rules: &KnownSettings,
        decision: Decision,
        actual: u64,
        at: Position,
    ) {
        let Decision { requested, room, pool, .. } = decision;
        let is_small = pool == SplitRule::Small || decision.least <= SMALL_SIZE;
        let is_rounding_known = self.roundings == [true; rounding::ROUNDINGS];
        if !is_later(rules, at) || (is_small && is_rounding_known) {
            return;
        }
        let is_kind_known = self.is_kind_known(rules, decision, at);
        let in_doubt = !self.is_certain(rules, decision, at);
        for (kind, is_out) in self.roundings.iter_mut().enumerate().filter(|(_, is_out)| !**is_out) {
            let other = rounding::round_by(requested, kind).map(|least| decision.with_least(least));
            *is_out = other
                .is_some_and(|other| other.least > room || !rules.outcomes(other, in_doubt).include(other, actual));
        }
        if is_small {
            return;
        }
        let largest = self.others(rules, decision).fold(decision.least, u64::max);
        let is_whole = actual == room && largest < room;
        let rest = room - actual.min(room);
        let is_on = rules.settings.expandable_segments;
        self.expandable |= if is_whole { !is_on } else { rest > 0 && rest <= SMALL_SIZE };
        if is_whole && room - largest > SMALL_SIZE {
            self.smallest_whole = Some(self.smallest_whole.map_or(largest, |smallest| smallest.min(largest)));
        } else if actual < room && !is_on && is_kind_known {
            self.largest_split = self.largest_split.max(actual);
        }
    }

    /// True if a decision was made while segments were of the stated kind.
    fn is_kind_known(&self, rules: &KnownSettings, decision: Decision, at: Position) -> bool {
        is_shown_by_place(rules, decision, at)
            || (!rules.settings.given && !rules.may_switch_back())
                && (self.expandable || (!rules.are_assumed() && is_shown_by_segments(rules, decision, at)))
    }

    /// True if whether a block was split follows from the stated settings alone.
    fn is_certain(&self, rules: &KnownSettings, decision: Decision, at: Position) -> bool {
        if !rules.is_open() {
            return true;
        }
        let limit = rules.settings.max_split_size;
        let is_limit_known = match limit.filter(|&limit| decision.least >= limit) {
            Some(_) => self.smallest_whole.is_some_and(|smallest| decision.least >= smallest),
            None => decision.least < LARGE_BUFFER || decision.least <= self.largest_split,
        };
        self.is_kind_known(rules, decision, at) && (rules.settings.expandable_segments || is_limit_known)
    }

    /// Sizes that a request may have been rounded to besides that of the stated settings.
    fn others(&self, rules: &KnownSettings, decision: Decision) -> impl Iterator<Item = u64> {
        let is_open = rules.is_open();
        let kinds = self.roundings.iter().enumerate().filter(move |&(_, &is_out)| is_open && !is_out);
        let others = kinds.filter_map(move |(kind, _)| rounding::round_by(decision.requested, kind));
        others.filter(move |&other| other <= decision.room)
    }

    /// The least and the most that a block can occupy, if the rules give `size`. The free block of one that is older than
    /// the history may have been anything up to the room.
    pub(in crate::replay::sizes) fn extent(
        &self,
        rules: &KnownSettings,
        decision: Decision,
        size: u64,
        at: Position,
        is_older: bool,
    ) -> Extent {
        let mut extent = Extent { least: size, most: size };
        if !rules.is_open() && !is_older {
            return extent;
        }
        let in_doubt = !self.is_certain(rules, decision, at);
        for least in self.others(rules, decision).chain([decision.least]) {
            let decision = decision.with_least(least);
            let outcomes = rules.outcomes(decision, in_doubt);
            let unsplit = if is_older { rules.most_unsplit(decision.pool, least, in_doubt) } else { 0 };
            let most = decision.room.min(least.saturating_add(unsplit)).max(least);
            extent.least = extent.least.min(if outcomes.split || is_older { least } else { decision.room });
            extent.most = extent.most.max(if outcomes.whole && !is_older { decision.room } else { most });
        }
        extent
    }
}

/// True if a decision was made while segments were expandable, as the stated settings say: otherwise the allocator
/// takes no free block of an expandable segment.
fn is_shown_by_place(rules: &KnownSettings, decision: Decision, at: Position) -> bool {
    rules.settings.expandable_segments && decision.pool == SplitRule::Expandable && at != Position::START
}

/// True if a decision was made after a segment that is expandable, or not, as the stated settings say.
fn is_shown_by_segments(rules: &KnownSettings, decision: Decision, at: Position) -> bool {
    let Some(since) = rules.segments_agree_since else { return false };
    // Blocks that are older than the history may be older than the segment as well, unless they are in a segment of its
    // kind.
    let is_of_start = since == at
        && if rules.settings.expandable_segments {
            decision.pool == SplitRule::Expandable
        } else {
            !rules.starts_with_pools
        };
    (since < at || is_of_start) && is_later(rules, at)
}

/// True if a decision was made after the last one that contradicts the stated settings.
fn is_later(rules: &KnownSettings, at: Position) -> bool {
    rules.contradicted.is_none_or(|latest| latest < at)
}

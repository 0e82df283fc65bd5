//! Which allocator settings held at which time, as far as the file tells.
//!
//! The size of a block follows from its request and from the settings. A snapshot states the settings at the dump; the
//! program may have had others before (`_set_allocator_settings`), and releases before 2.3 state none. Each setting is
//!
//! * certain, if the program never set any or the user states them;
//! * unconfirmed, if it is stated at the dump, or assumed, and nothing speaks against it. A size that another value would
//!   change carries a bound, until a block of known size could only come from the stated value;
//! * contradicted, up to the last block or segment that only another value can have made.
//!
//! For example, 3 MiB are requested, and the free block that serves them has 3.5 MiB. Ordinary segments leave the rest of
//! 0.5 MiB with the block, expandable ones split it off. If the next block lies right behind the 3 MiB, segments were
//! expandable; if the dump states otherwise, that contradicts it.

mod confirmed;

pub(super) use confirmed::Confirmed;

use super::super::Position;
use super::super::rounding::{self, LARGE_BUFFER, MIN_BLOCK, Pool, SMALL_SIZE};
use crate::snapshot::{Action, AllocatorSettings, Device, Event, Snapshot};

/// A group of settings that decides block sizes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::replay) enum Setting {
    /// `roundup_power2_divisions`.
    Rounding,
    /// `max_split_size_mb`.
    MaxSplit,
    /// `expandable_segments`.
    Expandable,
}

impl Setting {
    pub(in crate::replay) const ALL: [Self; 3] = [Self::Rounding, Self::MaxSplit, Self::Expandable];

    fn bit(self) -> u8 {
        1 << self as u8
    }

    /// The name in `PYTORCH_CUDA_ALLOC_CONF`.
    pub(in crate::replay) fn name(self) -> &'static str {
        match self {
            Self::Rounding => "roundup_power2_divisions",
            Self::MaxSplit => "max_split_size_mb",
            Self::Expandable => "expandable_segments",
        }
    }
}

/// A set of [`Setting`]s.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(in crate::replay) struct SettingSet(u8);

impl SettingSet {
    pub(in crate::replay) fn has(self, setting: Setting) -> bool {
        self.0 & setting.bit() != 0
    }

    fn of(settings: &[Setting]) -> Self {
        let mut set = Self::default();
        settings.iter().for_each(|&setting| set.insert(setting));
        set
    }

    fn insert(&mut self, setting: Setting) {
        self.0 |= setting.bit();
    }

    fn with(self, others: Self) -> Self {
        Self(self.0 | others.0)
    }

    pub(in crate::replay) fn is_empty(self) -> bool {
        self == Self::default()
    }

    pub(in crate::replay) fn iter(self) -> impl Iterator<Item = Setting> {
        Setting::ALL.into_iter().filter(move |&setting| self.has(setting))
    }
}

/// A decision of the allocator: a request, and the free block that it was served from.
#[derive(Debug, Clone, Copy)]
pub(super) struct Decision {
    pub(super) requested: u64,
    /// The request, rounded.
    pub(super) least: u64,
    /// Bytes of the free block.
    pub(super) room: u64,
    pub(super) pool: Pool,
}

impl Decision {
    fn rest(self) -> u64 {
        self.room.saturating_sub(self.least)
    }

    fn with_least(self, least: u64) -> Self {
        Self { least, ..self }
    }
}

/// From where the settings are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    /// They held all the time: none were ever set, or the user states them.
    Certain,
    /// As they were at the dump; they may have been others before.
    Dump,
    /// The file states none, and the defaults are assumed.
    Assumed,
}

/// True for an event about a range of an expandable segment.
fn maps(event: &Event) -> bool {
    matches!(event.action, Action::SegmentMap | Action::SegmentUnmap)
}

/// Knowledge of the settings over the history.
#[derive(Debug)]
pub(in crate::replay) struct Rules {
    pub(super) settings: AllocatorSettings,
    source: Source,
    /// Settings whose stated value may not have held until something confirms it.
    unconfirmed: SettingSet,
    /// True if something other than block sizes suggests that segments may have been expandable.
    hints_at_expandable: bool,
    /// True if segments are expandable at the dump, and may have been ordinary for a while.
    may_have_been_off: bool,
    /// True if the settings were given more than once: the last text does not account for all of those stated.
    is_given_twice: bool,
    /// The last decision that contradicts each setting.
    contradicted: [Option<Position>; 3],
    /// The largest block that was split where `max_split_size_mb` could have forbidden it.
    largest_split: u64,
    /// Settings confirmed by blocks that are older than the history.
    confirmed_at_start: SettingSet,
    /// The roundings that are ruled out, because they give more than a block of known size has.
    roundings_out: [bool; rounding::ROUNDINGS],
    /// The place from which on all segments of the shared pool are of the kind that the settings state.
    segments_agree_since: Option<Position>,
    /// True if there are private pools at the start: a block in one may be older than
    /// [`segments_agree_since`](Self::segments_agree_since), and nothing tells.
    starts_with_pools: bool,
    /// Sizes that no setting explains.
    pub(in crate::replay) unexplained: u64,
}

impl Rules {
    pub(super) fn new(snapshot: &Snapshot, device: &Device) -> Self {
        let mut settings = snapshot.settings.clone();
        let has_expandable = device.segments.iter().any(|segment| segment.is_expandable)
            || (!settings.never_set() && snapshot.events_of(device).iter().any(maps));
        let source = match settings.present {
            true if settings.never_set() || settings.given || !settings.has_text() => Source::Certain,
            true => Source::Dump,
            false => Source::Assumed,
        };
        let mut unconfirmed = SettingSet::default();
        let mut hints_at_expandable = false;
        match source {
            Source::Certain => {}
            Source::Dump => {
                // Segments that are older than the setting, or of pools with an allocator of their own, stay ordinary.
                unconfirmed = SettingSet::of(&Setting::ALL);
                hints_at_expandable = settings.expandable_segments || has_expandable;
            }
            Source::Assumed => {
                settings.expandable_segments = has_expandable;
                unconfirmed.insert(Setting::Rounding);
                unconfirmed.insert(Setting::MaxSplit);
                // Private pools do not show it.
                let mut pools = device.segments.iter().map(|segment| segment.pool_id.unwrap_or(rounding::SHARED_POOL));
                if !has_expandable && !pools.any(|pool| pool == rounding::SHARED_POOL) {
                    unconfirmed.insert(Setting::Expandable);
                    hints_at_expandable = true;
                }
            }
        }
        let mut roundings_out = [false; rounding::ROUNDINGS];
        roundings_out[rounding::UNROUNDED] = source == Source::Certain || settings.may_have_unsplit_pools();
        Self {
            settings,
            source,
            unconfirmed,
            hints_at_expandable,
            may_have_been_off: false,
            is_given_twice: snapshot.settings.are_of_several_texts(),
            contradicted: [None; 3],
            largest_split: 0,
            confirmed_at_start: SettingSet::default(),
            roundings_out,
            segments_agree_since: None,
            starts_with_pools: false,
            unexplained: 0,
        }
    }

    /// The most bytes by which a block may exceed its request where `max_split_size_mb` forbids splitting it.
    pub(super) fn most_rounding(&self) -> u64 {
        self.settings.max_non_split_rounding.unwrap_or(0).max(LARGE_BUFFER)
    }

    /// The size that the rules give.
    pub(super) fn size(&self, decision: Decision) -> u64 {
        let Decision { least, room, pool, .. } = decision;
        let splits = room < least || rounding::should_split(pool, least, room - least, &self.settings);
        if splits { least } else { room }
    }

    /// True if it matters which kind of segment is made.
    pub(super) fn asks_for_segments(&self) -> bool {
        self.settings.expandable_segments || self.source == Source::Dump
    }

    /// Learns that a range of an expandable segment was mapped.
    pub(super) fn learn_from_map(&mut self, now: Position) {
        self.learn_from_segment(true, now);
    }

    /// Learns that an ordinary segment was made for the shared pool.
    pub(super) fn learn_from_ordinary_segment(&mut self, now: Position) {
        self.learn_from_segment(false, now);
    }

    /// Learns that an ordinary segment was made for a pool that is not known. A private pool may have ordinary segments at
    /// any time; in the shared one it would show that segments were not expandable then.
    pub(super) fn suspect_from_ordinary_segment(&mut self) {
        self.may_have_been_off |= self.settings.expandable_segments;
    }

    fn learn_from_segment(&mut self, is_expandable: bool, now: Position) {
        if is_expandable == self.settings.expandable_segments {
            self.segments_agree_since.get_or_insert(now);
        } else {
            self.segments_agree_since = None;
            self.contradict(Setting::Expandable, now);
        }
    }

    /// Learns of a segment that is there before the first event.
    pub(super) fn learn_from_start(&mut self, is_expandable: bool, is_shared: bool) {
        if !is_expandable && !is_shared {
            self.starts_with_pools = true;
        } else if is_expandable != self.settings.expandable_segments && self.source != Source::Certain {
            self.segments_agree_since = None;
            self.contradict(Setting::Expandable, Position::START);
        } else if self.contradicted[Setting::Expandable as usize].is_none() {
            self.segments_agree_since = Some(Position::START);
        }
    }

    /// Learns from a block of known size that it was rounded to no more than that, and, if it was split off a larger
    /// free block (`room`), to just that.
    pub(super) fn learn_rounding(&mut self, requested: u64, actual: u64, room: Option<u64>) {
        if self.source != Source::Assumed {
            return;
        }
        // A free block that is smaller than the rounded request counts as that.
        let is_split = room.is_some_and(|room| actual < room && rounding::round_to_unit(requested) < Some(room));
        if is_split && rounding::round_by(requested, rounding::UNROUNDED) != Some(actual) {
            self.roundings_out[rounding::UNROUNDED] = true;
        }
        for (kind, is_out) in self.roundings_out.iter_mut().enumerate().filter(|(_, is_out)| !**is_out) {
            *is_out = rounding::round_by(requested, kind).is_none_or(|rounded| rounded > actual);
        }
    }

    /// Learns what became of a decision. Returns whether some settings explain it.
    pub(super) fn learn(&mut self, decision: Decision, actual: u64, at: Position) -> bool {
        let Some(explanation) = self.explain(decision, actual) else {
            self.unexplained += 1;
            return false;
        };
        for setting in explanation.iter() {
            self.contradict(setting, at);
        }
        let is_split = decision.pool == Pool::Large && actual == decision.least && decision.rest() > SMALL_SIZE;
        if explanation.is_empty() && is_split {
            self.largest_split = self.largest_split.max(decision.least);
        }
        true
    }

    /// The fewest settings that must have been others to give a size. `None` where none give it.
    fn explain(&self, decision: Decision, actual: u64) -> Option<SettingSet> {
        if let Some(splitting) = self.explain_splitting(decision, actual) {
            return Some(splitting);
        }
        let others = rounding::roundings(decision.requested).filter(|&other| other <= decision.room);
        let explanations = others.filter_map(|other| self.explain_splitting(decision.with_least(other), actual));
        let mut fewest = explanations.min_by_key(|splitting| splitting.iter().count())?;
        fewest.insert(Setting::Rounding);
        Some(fewest)
    }

    /// The settings about splitting that must have been others to give a size. `None` where none give it.
    fn explain_splitting(&self, decision: Decision, actual: u64) -> Option<SettingSet> {
        let expandable = SettingSet::of(&[Setting::Expandable]);
        let max_split = SettingSet::of(&[Setting::MaxSplit]);
        let both = SettingSet::of(&[Setting::Expandable, Setting::MaxSplit]);
        // Where no segment is expandable, that setting explains only what no other does.
        let is_possible = self.hints_at_expandable;
        if self.gives(decision, actual, SettingSet::default()) {
            return Some(SettingSet::default());
        }
        match (self.gives(decision, actual, expandable), self.gives(decision, actual, max_split)) {
            (true, false) => Some(expandable),
            (false, true) => Some(max_split),
            (true, true) => Some(if is_possible { both } else { max_split }),
            (false, false) => self.gives(decision, actual, both).then_some(both),
        }
    }

    /// True if a decision may have had a size where some settings may have been others.
    fn gives(&self, decision: Decision, actual: u64, doubts: SettingSet) -> bool {
        self.outcomes(decision, doubts).include(decision, actual)
    }

    /// True if settings that may have held give a decision its whole free block.
    pub(super) fn may_be_whole(&self, decision: Decision) -> bool {
        let doubts = self.open();
        let others = rounding::roundings(decision.requested).filter(|_| doubts.has(Setting::Rounding));
        let mut all = others.chain([decision.least]).filter(|&least| least <= decision.room);
        all.any(|least| self.outcomes(decision.with_least(least), doubts).whole)
    }

    /// Possible outcomes of a decision where some settings may have been others.
    fn outcomes(&self, decision: Decision, doubts: SettingSet) -> Outcomes {
        let Decision { least, room, pool, .. } = decision;
        let rest = decision.rest();
        if room < least || pool == Pool::Small || least <= SMALL_SIZE {
            let is_split = self.size(decision) == least;
            return Outcomes { split: is_split, whole: !is_split };
        }
        let may_be_on = self.settings.expandable_segments || doubts.has(Setting::Expandable);
        let may_be_off = !self.settings.expandable_segments || doubts.has(Setting::Expandable);
        let is_limited = self.settings.max_split_size.is_some_and(|limit| least >= limit);
        // The limit is at least 20 MiB, and bounds the rest as well: a larger one shows another setting, or a segment
        // that was made for the request.
        let is_limit_open =
            doubts.has(Setting::MaxSplit) && least >= LARGE_BUFFER && (is_limited || rest < self.most_rounding());
        Outcomes {
            split: (may_be_on && rest >= MIN_BLOCK)
                || (may_be_off && rest > SMALL_SIZE && (!is_limited || is_limit_open)),
            whole: rest < MIN_BLOCK || (may_be_off && (rest <= SMALL_SIZE || is_limited || is_limit_open)),
        }
    }

    /// Learns from a block that is older than the history and still there: its free block is not known.
    pub(super) fn learn_from_older(&mut self, decision: Decision, actual: u64) {
        let Decision { least, pool, .. } = decision;
        let Some(rest) = actual.checked_sub(least) else {
            return self.contradict(Setting::Rounding, Position::START);
        };
        let limit = self.settings.max_split_size;
        let is_up_to_max_split = least >= LARGE_BUFFER && rest > SMALL_SIZE && rest < self.most_rounding();
        if is_up_to_max_split && limit.is_none_or(|limit| least < limit) {
            self.contradict(Setting::MaxSplit, Position::START);
            if self.settings.expandable_segments {
                self.contradict(Setting::Expandable, Position::START);
            }
        } else if (MIN_BLOCK..=SMALL_SIZE).contains(&rest) && pool == Pool::Small {
            self.contradict(Setting::Rounding, Position::START);
        } else if (MIN_BLOCK..=SMALL_SIZE).contains(&rest) && self.settings.expandable_segments {
            self.contradict(Setting::Expandable, Position::START);
        } else if rest == 0
            && self.settings.roundup_power2_divisions.iter().all(|&divisions| divisions <= 1)
            && rounding::roundings(decision.requested).any(|other| other != least)
        {
            self.confirmed_at_start.insert(Setting::Rounding);
        }
    }

    fn contradict(&mut self, setting: Setting, at: Position) {
        let latest = &mut self.contradicted[setting as usize];
        *latest = Some(latest.map_or(at, |latest| latest.max(at)));
    }

    /// The most that may be left unsplit behind a block where some settings may have been others.
    fn most_unsplit_in_doubt(&self, decision: Decision, doubts: SettingSet) -> u64 {
        let Decision { least, pool, .. } = decision;
        let limited = self.settings.max_split_size.is_some_and(|limit| least >= limit) || doubts.has(Setting::MaxSplit);
        let is_on = self.settings.expandable_segments && !doubts.has(Setting::Expandable);
        if least <= SMALL_SIZE || pool == Pool::Small || is_on {
            0
        } else if limited && least >= LARGE_BUFFER {
            self.most_rounding()
        } else {
            SMALL_SIZE
        }
    }

    /// Settings that may have had another value than the stated one. A program gives them together, so where one is
    /// contradicted, all may have been others.
    fn open(&self) -> SettingSet {
        let contradicted = self.contradictions();
        let is_switched = !self.settings.given && self.source != Source::Assumed && !contradicted.is_empty();
        if is_switched || self.may_switch_back() || self.switches_unstated() {
            SettingSet::of(&Setting::ALL)
        } else {
            self.unconfirmed.with(contradicted)
        }
    }

    /// Settings that something contradicts.
    pub(in crate::replay) fn contradictions(&self) -> SettingSet {
        let mut found = SettingSet::default();
        for setting in Setting::ALL {
            if self.contradicted[setting as usize].is_some() {
                found.insert(setting);
            }
        }
        found
    }

    /// True if the program may have switched its settings while it was recorded, or gave them more than once. It may then
    /// have switched to others and back between any two decisions, so that one decision tells nothing about another.
    fn may_switch_back(&self) -> bool {
        let is_switched_within = self.contradicted.iter().flatten().any(|&at| at > Position::START);
        let is_switched = is_switched_within || self.may_have_been_off || self.is_given_twice;
        self.source == Source::Dump && !self.settings.given && is_switched
    }

    /// True if the file states no settings, and no single rounding explains all sizes: the program switched its settings,
    /// so that one decision tells nothing about another.
    fn switches_unstated(&self) -> bool {
        let is_contradicted = self.contradicted[Setting::Rounding as usize].is_some();
        self.source == Source::Assumed && is_contradicted && self.roundings_out[1..].iter().all(|is_out| *is_out)
    }

    /// True if the defaults are assumed because the file states no settings.
    pub(in crate::replay) fn are_assumed(&self) -> bool {
        self.source == Source::Assumed
    }
}

/// Possible outcomes of a decision.
#[derive(Debug, Clone, Copy)]
struct Outcomes {
    /// The rest was split off.
    split: bool,
    /// The whole free block was taken.
    whole: bool,
}

impl Outcomes {
    /// True if one of them gives a size.
    fn include(self, decision: Decision, actual: u64) -> bool {
        (self.split && actual == decision.least) || (self.whole && actual == decision.room)
    }
}

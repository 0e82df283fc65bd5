//! Which allocator rules held when, as far as the file tells.
//!
//! A snapshot states the settings at the dump. They may have been others before (`_set_allocator_settings`), and releases
//! before 2.3 state none. So a size that follows from the rules is certain only where the settings are: the final state
//! and the addresses of later blocks confirm many decisions of the allocator, and contradict others.

use super::super::Position;
use super::super::rounding::{self, LARGE_BUFFER, MIN_BLOCK, Pool, SMALL_SIZE};
use crate::snapshot::{Action, AllocatorSettings, Device, Snapshot};

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
pub(in crate::replay) struct SettingSet([bool; 3]);

impl SettingSet {
    pub(in crate::replay) fn has(self, setting: Setting) -> bool {
        self.0[setting as usize]
    }

    fn insert(&mut self, setting: Setting) {
        self.0[setting as usize] = true;
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

    /// Whether `expandable_segments` decides if the rest is split off.
    fn is_up_to_expandable(self) -> bool {
        self.pool != Pool::Small && self.least > SMALL_SIZE && (MIN_BLOCK..=SMALL_SIZE).contains(&self.rest())
    }

    /// Whether `max_split_size_mb` decides if the rest is split off: it is at least 20 MiB, and limits the rest as well.
    /// A larger rest than that shows another setting, or a segment that was made for the request.
    fn is_up_to_max_split(self, rules: &Rules) -> bool {
        let is_limited = rules.settings.max_split_size.is_some_and(|limit| self.least >= limit);
        let is_large = self.pool == Pool::Large && self.least >= LARGE_BUFFER && self.rest() > SMALL_SIZE;
        is_large && (is_limited || self.rest() < rules.most_rounding())
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

/// What is known of the settings over the history.
#[derive(Debug)]
pub(in crate::replay) struct Rules {
    pub(super) settings: AllocatorSettings,
    source: Source,
    /// Settings whose stated value may not have held before something confirms it.
    unconfirmed: SettingSet,
    /// The last decision that was made by another value of each setting.
    contradicted: [Option<Position>; 3],
    /// The largest block that was split where `max_split_size_mb` could have forbidden it.
    largest_split: u64,
    /// Settings that blocks which are older than the history confirm.
    confirmed_at_start: SettingSet,
    /// From when on segments are expandable.
    expandable_since: Option<Position>,
    /// Sizes that no setting explains.
    pub(in crate::replay) unexplained: u64,
}

impl Rules {
    pub(super) fn new(snapshot: &Snapshot, device: &Device) -> Self {
        let mut settings = snapshot.settings.clone();
        let maps = |action| matches!(action, Action::SegmentMap | Action::SegmentUnmap);
        let has_expandable = device.segments.iter().any(|segment| segment.is_expandable)
            || (!settings.never_set() && snapshot.events_of(device).iter().any(|event| maps(event.action)));
        let source = match settings.present {
            true if settings.never_set() || settings.given || !settings.has_text() => Source::Certain,
            true => Source::Dump,
            false => Source::Assumed,
        };
        let mut unconfirmed = SettingSet::default();
        match source {
            Source::Certain => {}
            Source::Dump => {
                unconfirmed.insert(Setting::Rounding);
                unconfirmed.insert(Setting::MaxSplit);
                if settings.expandable_segments || has_expandable {
                    unconfirmed.insert(Setting::Expandable);
                }
            }
            Source::Assumed => {
                settings.expandable_segments = has_expandable;
                unconfirmed.insert(Setting::MaxSplit);
            }
        }
        Self {
            settings,
            source,
            unconfirmed,
            contradicted: [None; 3],
            largest_split: 0,
            confirmed_at_start: SettingSet::default(),
            expandable_since: None,
            unexplained: 0,
        }
    }

    /// Bytes by which a block may exceed its request at most where `max_split_size_mb` forbids to split it.
    pub(super) fn most_rounding(&self) -> u64 {
        self.settings.max_non_split_rounding.unwrap_or(0).max(LARGE_BUFFER)
    }

    /// The size that the rules give.
    pub(super) fn size(&self, decision: Decision) -> u64 {
        let Decision { least, room, pool, .. } = decision;
        let splits = room < least || rounding::should_split(pool, least, room - least, &self.settings);
        if splits { least } else { room }
    }

    /// Learns from an event about a segment.
    pub(super) fn learn_from_segment(&mut self, action: Action, is_shared: bool, now: Position) {
        match action {
            Action::SegmentMap if self.settings.expandable_segments => {
                self.expandable_since.get_or_insert(now);
            }
            Action::SegmentMap => self.contradict(Setting::Expandable, now),
            Action::SegmentAlloc if self.settings.expandable_segments && is_shared => {
                self.expandable_since = None;
                self.contradict(Setting::Expandable, now);
            }
            _ => {}
        }
    }

    /// Learns that segments were expandable, or were not, before the first event.
    pub(super) fn learn_from_start(&mut self, is_expandable: bool) {
        if is_expandable != self.settings.expandable_segments && self.source != Source::Certain {
            self.contradict(Setting::Expandable, Position::START);
        } else if is_expandable && self.contradicted[Setting::Expandable as usize].is_none() {
            self.expandable_since = Some(Position::START);
        }
    }

    /// Learns what became of a decision. Returns whether some settings explain it.
    pub(super) fn learn(&mut self, decision: Decision, actual: u64, at: Position) -> bool {
        let up_to_max_split = decision.is_up_to_max_split(self);
        if actual == self.size(decision) {
            if up_to_max_split && actual == decision.least {
                self.largest_split = self.largest_split.max(decision.least);
            }
            return true;
        }
        let is_whole_or_split = actual == decision.room || actual == decision.least;
        let setting = if is_whole_or_split && decision.is_up_to_expandable() {
            Setting::Expandable
        } else if is_whole_or_split && up_to_max_split {
            Setting::MaxSplit
        } else if self.is_rounded_otherwise(decision, actual) {
            Setting::Rounding
        } else {
            self.unexplained += 1;
            return false;
        };
        self.contradict(setting, at);
        true
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

    /// Whether another rounding gives the size, or leaves a rest that is not split off.
    fn is_rounded_otherwise(&self, decision: Decision, actual: u64) -> bool {
        let others = rounding::roundings(decision.requested);
        let mut others = others.filter(|&other| other != decision.least && other <= decision.room);
        others.any(|other| actual == self.size(Decision { least: other, ..decision }))
    }

    fn contradict(&mut self, setting: Setting, at: Position) {
        let latest = &mut self.contradicted[setting as usize];
        *latest = Some(latest.map_or(at, |latest| latest.max(at)));
    }

    /// The most that may be left unsplit behind a block where some settings may have been others.
    pub(super) fn most_unsplit_in_doubt(&self, decision: Decision, doubts: SettingSet) -> u64 {
        let Decision { least, pool, .. } = decision;
        let limited = self.settings.max_split_size.is_some_and(|limit| least >= limit) || doubts.has(Setting::MaxSplit);
        if least <= SMALL_SIZE {
            0
        } else if limited && pool == Pool::Large && least >= LARGE_BUFFER {
            self.most_rounding()
        } else if !self.settings.expandable_segments || doubts.has(Setting::Expandable) {
            SMALL_SIZE
        } else {
            0
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

    /// Whether the defaults are assumed because the file states no settings.
    pub(in crate::replay) fn are_assumed(&self) -> bool {
        self.source == Source::Assumed
    }
}

/// Which settings are confirmed so far, while decisions are gone through in the order in which they were made.
#[derive(Debug, Default)]
pub(super) struct Confirmed(SettingSet);

impl Confirmed {
    /// Before the first event.
    pub(super) fn at_start(rules: &Rules) -> Self {
        let mut confirmed = Self::default();
        for setting in rules.confirmed_at_start.iter() {
            if rules.contradicted[setting as usize].is_none() {
                confirmed.0.insert(setting);
            }
        }
        confirmed
    }

    /// Notes a decision whose size is known.
    pub(super) fn note(&mut self, rules: &Rules, decision: Decision, at: Position) {
        for setting in Setting::ALL {
            let later = rules.contradicted[setting as usize].is_none_or(|latest| latest < at);
            if later && rules.source == Source::Dump && decides(rules, setting, decision) {
                self.0.insert(setting);
            }
        }
    }

    /// Settings that may not be those by which a decision was made.
    pub(super) fn doubts(&self, rules: &Rules, decision: Decision, at: Position) -> SettingSet {
        let mut doubts = SettingSet::default();
        for setting in Setting::ALL {
            let contradicted = rules.contradicted[setting as usize];
            let open = contradicted.is_some() || rules.unconfirmed.has(setting);
            let since_map = setting == Setting::Expandable
                && rules.settings.expandable_segments
                && rules.expandable_since.is_some_and(|since| since <= at)
                && contradicted.is_none_or(|latest| latest < at);
            let known = match rules.source {
                Source::Certain => false,
                Source::Dump => self.0.has(setting) || since_map,
                Source::Assumed => {
                    contradicted.is_none() && setting == Setting::MaxSplit && decision.least <= rules.largest_split
                }
            };
            if open && !known {
                doubts.insert(setting);
            }
        }
        doubts
    }
}

/// Whether another value of the setting would have given another size.
fn decides(rules: &Rules, setting: Setting, decision: Decision) -> bool {
    match setting {
        Setting::Rounding => {
            let others = rounding::roundings(decision.requested).filter(|&other| other <= decision.room);
            let mut sizes = others.map(|least| rules.size(Decision { least, ..decision }));
            sizes.any(|size| size != rules.size(decision))
        }
        Setting::MaxSplit => decision.is_up_to_max_split(rules),
        Setting::Expandable => decision.is_up_to_expandable(),
    }
}

/// The least and the most that a block can occupy where some settings may have been others, if the rules give `size`.
pub(super) fn extent(rules: &Rules, decision: Decision, size: u64, doubts: SettingSet) -> (u64, u64) {
    let mut extent = (size, size);
    if doubts.is_empty() {
        return extent;
    }
    let others = rounding::roundings(decision.requested).filter(|_| doubts.has(Setting::Rounding));
    for least in others.chain([decision.least]).filter(|&least| least <= decision.room) {
        let decision = Decision { least, ..decision };
        let is_either = (doubts.has(Setting::Expandable) && decision.is_up_to_expandable())
            || (doubts.has(Setting::MaxSplit) && decision.is_up_to_max_split(rules));
        let bytes = rules.size(decision);
        extent.0 = extent.0.min(if is_either { least } else { bytes });
        extent.1 = extent.1.max(if is_either { decision.room } else { bytes });
    }
    extent
}

//! Which allocator settings applied at which time, as far as the file shows.
//!
//! The size of a block follows from its request and from the settings. A snapshot states the settings at the dump; the
//! program may have had others before (`_set_allocator_settings`), and releases before 2.3 state none. The settings are
//!
//! * certain, if the program never set any or the user states them;
//! * unconfirmed, if they are stated at the dump, or assumed, and nothing speaks against them. A size that others would
//!   change carries a bound, until a block of known size could only come from the stated ones;
//! * contradicted, up to the last block or segment that only others can have made.
//!
//! For example, 3 MiB are requested, and the free block that serves them has 3.5 MiB. Ordinary segments leave the rest of
//! 0.5 MiB with the block, expandable ones split it off. If the next block lies right behind the 3 MiB, segments were
//! expandable; if the dump states otherwise, that contradicts it.

mod confirmed;

pub(super) use confirmed::Confirmed;

use ptmem_base::device::DeviceId;
use ptmem_snapshot::snapshot::{Action, AllocatorSettings, Device, Event, Snapshot};

use super::super::Position;
use super::super::rounding::{self, LARGE_BUFFER, MIN_BLOCK, SMALL_SIZE, SplitRule};

/// A decision of the allocator: a request, and the free block that it was served from.
#[derive(Debug, Clone, Copy)]
pub(super) struct Decision {
    pub(super) requested: u64,
    /// The request, rounded.
    pub(super) least: u64,
    /// Bytes of the free block.
    pub(super) room: u64,
    pub(super) pool: SplitRule,
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum SettingsSource {
    /// They held all the time: none were ever set, or the user states them.
    #[default]
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
#[derive(Debug, Default)]
pub(in crate::replay) struct KnownSettings {
    pub(super) settings: AllocatorSettings,
    source: SettingsSource,
    /// True if segments may have been expandable while the stated settings did not hold.
    may_be_expandable: bool,
    /// True if segments are expandable at the dump, and may have been ordinary for a while.
    may_have_been_off: bool,
    /// True if the settings were given more than once: the last text does not account for all of those stated.
    is_given_twice: bool,
    /// The last decision or segment that contradicts the settings.
    contradicted: Option<Position>,
    /// True if a size shows another rounding.
    contradicts_rounding: bool,
    /// The largest block that was split where `max_split_size_mb` could have forbidden it.
    largest_split: u64,
    /// True if a block that is older than the history confirms that sizes are not rounded further.
    confirms_rounding: bool,
    /// The roundings that are ruled out, because they give more than a block of known size has.
    roundings_out: [bool; rounding::ROUNDINGS],
    /// The place from which on all segments of the shared pool are of the kind that the settings state.
    segments_agree_since: Option<Position>,
    /// True if there are private pools at the start: a block in one may be older than
    /// [`segments_agree_since`](Self::segments_agree_since), without a trace in the file.
    starts_with_pools: bool,
    /// True if events state what a block occupies, not what was requested.
    states_blocks: bool,
    /// Sizes that no setting explains.
    pub(in crate::replay) unexplained: u64,
}

impl KnownSettings {
    pub(super) fn new(snapshot: &Snapshot, id: DeviceId, device: &Device) -> Self {
        if !id.is_device() {
            // Events of pinned host memory state the size of the block, and each block is a segment.
            return Self { states_blocks: true, ..Self::default() };
        }
        let mut settings = snapshot.settings.clone();
        let has_expandable = device.segments.iter().any(|segment| segment.is_expandable)
            || (!settings.never_set() && snapshot.events_of(device).iter().any(maps));
        let source = match settings.present {
            true if settings.never_set() || settings.given || settings.text().is_none() => SettingsSource::Certain,
            true => SettingsSource::Dump,
            false => SettingsSource::Assumed,
        };
        let mut may_be_expandable = true;
        if source == SettingsSource::Assumed {
            settings.expandable_segments = has_expandable;
            // Private pools do not show it.
            let mut pools = device.segments.iter().map(|segment| segment.pool_id.unwrap_or(rounding::SHARED_POOL));
            may_be_expandable = has_expandable || !pools.any(|pool| pool == rounding::SHARED_POOL);
        }
        let mut roundings_out = [false; rounding::ROUNDINGS];
        roundings_out[rounding::UNROUNDED] = source == SettingsSource::Certain || settings.may_have_unsplit_pools();
        Self {
            settings,
            source,
            may_be_expandable,
            is_given_twice: snapshot.settings.are_of_several_texts(),
            roundings_out,
            ..Self::default()
        }
    }

    /// The least that a request occupies. `None` past 2^64.
    pub(super) fn least(&self, requested: u64) -> Option<u64> {
        if self.states_blocks { Some(requested) } else { rounding::round_size(requested, &self.settings) }
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
        self.settings.expandable_segments || self.source == SettingsSource::Dump
    }

    /// Learns that an ordinary segment was made for a pool that is not known. A private pool may have ordinary segments at
    /// any time; in the shared one it would show that segments were not expandable then.
    pub(super) fn suspect_from_ordinary_segment(&mut self) {
        self.may_have_been_off |= self.settings.expandable_segments;
    }

    /// Learns that a range of an expandable segment was mapped, or that an ordinary one was made for the shared pool.
    pub(super) fn learn_from_segment(&mut self, is_expandable: bool, now: Position) {
        if is_expandable == self.settings.expandable_segments {
            self.segments_agree_since.get_or_insert(now);
        } else {
            self.segments_agree_since = None;
            self.contradict(now);
        }
    }

    /// Learns of a segment that is there before the first event.
    pub(super) fn learn_from_start(&mut self, is_expandable: bool, is_shared: bool) {
        if !is_expandable && !is_shared {
            self.starts_with_pools = true;
        } else if is_expandable != self.settings.expandable_segments && self.source != SettingsSource::Certain {
            self.segments_agree_since = None;
            self.contradict(Position::START);
        } else if self.contradicted.is_none() {
            self.segments_agree_since = Some(Position::START);
        }
    }

    /// Learns from a block of known size that it was rounded to no more than that, and, if it was split off a larger
    /// free block (`room`), to just that.
    pub(super) fn learn_rounding(&mut self, requested: u64, actual: u64, room: Option<u64>) {
        if self.source != SettingsSource::Assumed {
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

    /// Learns from the outcome of a decision. Returns whether some settings explain it.
    pub(super) fn learn(&mut self, decision: Decision, actual: u64, at: Position) -> bool {
        if self.outcomes(decision, false).include(decision, actual) {
            let is_split =
                decision.pool == SplitRule::Large && actual == decision.least && decision.rest() > SMALL_SIZE;
            self.largest_split = self.largest_split.max(if is_split { actual } else { 0 });
            return true;
        }
        if !self.outcomes(decision, true).include(decision, actual) {
            let others = rounding::roundings(decision.requested).filter(|&other| other <= decision.room);
            let mut others = others.map(|other| decision.with_least(other));
            if !others.any(|other| self.outcomes(other, true).include(other, actual)) {
                self.unexplained += 1;
                return false;
            }
            self.contradicts_rounding = true;
        }
        self.contradict(at);
        true
    }

    /// True if settings that may have held give a decision its whole free block.
    pub(super) fn may_be_whole(&self, decision: Decision) -> bool {
        let is_open = self.is_open();
        let others = rounding::roundings(decision.requested).filter(|_| is_open);
        let mut all = others.chain([decision.least]).filter(|&least| least <= decision.room);
        all.any(|least| self.outcomes(decision.with_least(least), is_open).whole)
    }

    /// Possible outcomes of a decision; `in_doubt`, settings about splitting may have been others.
    fn outcomes(&self, decision: Decision, in_doubt: bool) -> Outcomes {
        let Decision { least, room, pool, .. } = decision;
        let rest = decision.rest();
        if room < least || pool == SplitRule::Small || least <= SMALL_SIZE {
            let is_split = self.size(decision) == least;
            return Outcomes { split: is_split, whole: !is_split };
        }
        let may_be_on = self.settings.expandable_segments || (in_doubt && self.may_be_expandable);
        let may_be_off = !self.settings.expandable_segments || in_doubt;
        let is_limited = self.settings.max_split_size.is_some_and(|limit| least >= limit);
        // The limit is at least 20 MiB, and bounds the rest as well: a larger one shows another setting, or a segment
        // that was made for the request.
        let is_limit_open = in_doubt && least >= LARGE_BUFFER && (is_limited || rest < self.most_rounding());
        Outcomes {
            split: (may_be_on && rest >= MIN_BLOCK)
                || (may_be_off && rest > SMALL_SIZE && (!is_limited || is_limit_open)),
            whole: rest < MIN_BLOCK || (may_be_off && (rest <= SMALL_SIZE || is_limited || is_limit_open)),
        }
    }

    /// Learns from a block that is older than the history and still there: its free block is not known.
    pub(super) fn learn_from_older(&mut self, decision: Decision, actual: u64) {
        let Decision { least, pool, .. } = decision;
        let rest = actual.checked_sub(least);
        let limit = self.settings.max_split_size;
        let is_up_to_max_split =
            least >= LARGE_BUFFER && rest.is_some_and(|rest| rest > SMALL_SIZE && rest < self.most_rounding());
        let is_unsplit = rest.is_some_and(|rest| (MIN_BLOCK..=SMALL_SIZE).contains(&rest));
        if rest.is_none() || (is_unsplit && pool == SplitRule::Small) {
            self.contradicts_rounding = true;
            self.contradict(Position::START);
        } else if is_up_to_max_split && limit.is_none_or(|limit| least < limit)
            || is_unsplit && self.settings.expandable_segments
        {
            self.contradict(Position::START);
        } else if rest == Some(0)
            && self.settings.roundup_power2_divisions.iter().all(|&divisions| divisions <= 1)
            && rounding::roundings(decision.requested).any(|other| other != least)
        {
            self.confirms_rounding = true;
        }
    }

    fn contradict(&mut self, at: Position) {
        self.contradicted = self.contradicted.max(Some(at));
    }

    /// The most that may be left unsplit behind a block; `in_doubt`, settings may have been others.
    pub(super) fn most_unsplit(&self, pool: SplitRule, least: u64, in_doubt: bool) -> u64 {
        let is_limited = self.settings.max_split_size.is_some_and(|limit| least >= limit);
        let is_on = self.settings.expandable_segments && !in_doubt;
        if least <= SMALL_SIZE || pool == SplitRule::Small || is_on {
            // Anything from 512 bytes on is split off, and sizes are multiples of it.
            0
        } else if is_limited || (in_doubt && least >= LARGE_BUFFER) {
            self.most_rounding()
        } else {
            SMALL_SIZE
        }
    }

    /// True if other settings may have held at some time.
    fn is_open(&self) -> bool {
        self.source != SettingsSource::Certain || self.are_contradicted()
    }

    /// True if something contradicts the settings.
    pub(in crate::replay) fn are_contradicted(&self) -> bool {
        self.contradicted.is_some()
    }

    /// True if the program may have changed its settings while it was recorded, or gave them more than once. It may
    /// then have switched back and forth between any two decisions, so one decision is not evidence for another.
    fn may_switch_back(&self) -> bool {
        let is_switched_within = self.contradicted > Some(Position::START);
        let is_switched = is_switched_within || self.may_have_been_off || self.is_given_twice;
        self.source == SettingsSource::Dump && is_switched
    }

    /// True if the file states no settings, and no single rounding explains all sizes: the program changed its
    /// settings, so one decision is not evidence for another.
    fn switches_unstated(&self) -> bool {
        let is_unexplained = self.contradicts_rounding && self.roundings_out[1..].iter().all(|is_out| *is_out);
        self.source == SettingsSource::Assumed && is_unexplained
    }

    /// True if the defaults are assumed because the file states no settings.
    pub(in crate::replay) fn are_assumed(&self) -> bool {
        self.source == SettingsSource::Assumed
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

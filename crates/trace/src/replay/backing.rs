//! Which addresses are backed by memory along the history: backwards from the final state to its start, and from there
//! forwards again.

use ptmem_snapshot::snapshot::{Action, Device, Event, Snapshot, Tables};

use super::Position;
use super::census::Census;
use super::rounding::{SMALL_SEGMENT, SMALL_SIZE, SplitRule};
use super::segment_map::{Home, SegmentMap};

/// The segments at a moment of the history.
#[derive(Debug, Default)]
pub(super) struct Backing {
    pub(super) segments: SegmentMap,
    /// Which requests each segment serves that the history will still add, the last first.
    pub(super) homes: Vec<Home>,
    /// Segments that the history adds and does not take away, and that are not in the final state; and those that it takes away and does
    /// not add, and that are there afterwards.
    pub(super) vanished: u64,
    /// Bytes of all segments at the moment that was wound back to.
    pub(super) reserved: i128,
}

impl Backing {
    /// The segments at a moment.
    pub(super) fn at(snapshot: &Snapshot, device: &Device, census: &Census, to: Position) -> Self {
        let events = snapshot.events_of(device);
        let tables = &snapshot.tables;
        let Self { mut segments, mut homes, mut vanished, mut reserved } = Self::default();
        for segment in &device.segments {
            let pool = match (segment.is_expandable, segment.small_pool) {
                (true, _) => SplitRule::Expandable,
                (false, true) => SplitRule::Small,
                (false, false) => SplitRule::Large,
            };
            let home = Home { small: Some(segment.small_pool), stream: segment.stream, pool_id: segment.pool_id };
            segments.add(segment.address, segment.total_size, pool, home);
            reserved += i128::from(segment.total_size);
        }
        let mut requests = LaterRequests { events, next: None, looked: events.len() };
        let later = census.of_segments.partition_point(|&place| (place as usize) < to.count());
        for &place in census.of_segments[later..].iter().rev() {
            let event = &events[place as usize];
            let is_small = Some(event.size == SMALL_SEGMENT);
            match event.action {
                Action::SegmentAlloc | Action::SegmentMap => {
                    // A range is mapped for the request that follows; the pool of other segments follows from their
                    // size.
                    let next_request = requests.after(place as usize);
                    let small = if event.action == Action::SegmentMap { next_request } else { is_small };
                    let home = segments.home(event.addr, event.size).unwrap_or_default();
                    homes.push(home.or(home_of(event, small, tables)));
                    vanished += u64::from(!segments.remove(event.addr, event.size));
                    reserved -= i128::from(event.size);
                }
                Action::SegmentFree | Action::SegmentUnmap => {
                    // What goes while it is also there afterwards came back in between.
                    vanished += u64::from(segments.home(event.addr, event.size).is_some());
                    // Any part of a mapped range may be unmapped.
                    let small = is_small.filter(|_| event.action == Action::SegmentFree);
                    segments.add(event.addr, event.size, pool_of(event), home_of(event, small, tables));
                    reserved += i128::from(event.size);
                }
                Action::Alloc | Action::FreeRequested | Action::FreeCompleted => {}
                Action::Snapshot | Action::Oom | Action::Other => {}
            }
        }
        Self { segments, homes, vanished, reserved }
    }

    /// Goes over an event, if it is about a segment.
    pub(super) fn follow(&mut self, event: &Event) {
        match event.action {
            Action::SegmentAlloc | Action::SegmentMap => {
                self.segments.add(event.addr, event.size, pool_of(event), self.homes.pop().unwrap_or_default());
            }
            Action::SegmentFree | Action::SegmentUnmap => {
                self.segments.remove(event.addr, event.size);
            }
            Action::Alloc | Action::FreeRequested | Action::FreeCompleted => {}
            Action::Snapshot | Action::Oom | Action::Other => {}
        }
    }
}

/// The requests of a history, looked up at earlier and earlier places.
struct LaterRequests<'e> {
    events: &'e [Event],
    /// Whether the first one behind `looked` is small.
    next: Option<bool>,
    looked: usize,
}

impl LaterRequests<'_> {
    /// Whether the first request behind a place, which is before the last one that was asked for, is small.
    fn after(&mut self, place: usize) -> Option<bool> {
        let mut between = self.events[place..self.looked].iter();
        let request = between.find(|event| matches!(event.action, Action::Alloc | Action::Oom));
        self.next = request.map(|request| request.size <= SMALL_SIZE).or(self.next);
        self.looked = place;
        self.next
    }
}

/// The pool of a segment, from its event.
fn pool_of(event: &Event) -> SplitRule {
    match event.action {
        Action::SegmentMap | Action::SegmentUnmap => SplitRule::Expandable,
        _ if event.size == SMALL_SEGMENT => SplitRule::Small,
        _ => SplitRule::Large,
    }
}

/// The home of the segment that an event adds or takes away.
fn home_of(event: &Event, small: Option<bool>, tables: &Tables) -> Home {
    let tags = tables.tags(event.tags);
    Home { small, stream: tags.stream, pool_id: tags.pool_id }
}

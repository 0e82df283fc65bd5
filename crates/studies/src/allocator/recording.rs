//! Reads a recording in one pass: its requests, and what its segments show of private pools and of the memory of the device.

use ptmem_base::diagnostic::Code;
use ptmem_snapshot::snapshot::{Action, BlockState, Device, Event, Segment, Snapshot};
use ptmem_trace::replay::{self, HistoryKind, Position, Replay, SegmentPart};
use rustc_hash::FxHashMap;

use super::limits::{Limits, is_retry, returns_segment};
use super::pools::{Evidence, Group, PoolId};
use super::space::{SMALL, Space};

/// Granularity of blocks.
const ROUNDING: u64 = 512;

/// Free blocks that are looked at for one request.
const MOST_CANDIDATES: usize = 64;

/// A part of the history, with numbers for blocks and groups of segments.
#[derive(Debug)]
pub(super) enum Step {
    Allocate {
        block: usize,
        size: u64,
        /// `None` outside of all known segments.
        group: Option<usize>,
    },
    Free(usize),
    Fail {
        size: u64,
        group: Group,
    },
    /// Segments of these groups go together, perhaps to make room for the request that follows.
    Return {
        groups: Vec<usize>,
        is_retry: bool,
    },
}

/// Why the requests of a device cannot be repeated.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum Error {
    /// The history has no allocations.
    #[error(
        "no allocations were recorded; call torch.cuda.memory._record_memory_history() before the steps to measure"
    )]
    NoHistory,
    /// Events are missing: what the replay says about it.
    #[error("the recorded requests are not complete: {0}")]
    Incomplete(String),
}

/// Diagnostics of histories without all requests or segments.
const INCOMPLETE: [Code; 5] = [
    Code::AllocationsSkipped,
    Code::FreesSkipped,
    Code::SegmentsSkipped,
    Code::SegmentsUnknown,
    Code::FreesNotRecorded,
];

/// What the replay says about missing events.
#[must_use]
pub fn missing(replay: &Replay) -> Option<&str> {
    let found = replay.diagnostics.iter().find(|found| INCOMPLETE.contains(&found.code));
    found.map(|found| &*found.message)
}

/// The history of a device as requests to its allocator.
#[derive(Debug)]
pub struct Recording {
    /// Reserved bytes before the first event.
    pub reserved_before: u64,
    /// Bytes of the blocks that were in use before it.
    pub held_before: u64,
    /// Most bytes that the allocator could get from the device, as far as failed requests show.
    pub capacity: Option<u64>,
    /// Whether segments that went right before a segment came made room for it.
    pub(super) are_retries: bool,
    /// The segments before the first event.
    pub(super) segments: Vec<Segment>,
    /// The numbers of the blocks in use then, by their addresses.
    pub(super) held: FxHashMap<u64, usize>,
    pub(super) steps: Vec<Step>,
    /// The number of the last block.
    pub(super) blocks: usize,
    /// The groups of segments, each with its pool as stated or inferred.
    pub(super) groups: Vec<Group>,
}

impl Recording {
    /// Reads the history of a device, from a replay with its layout.
    ///
    /// # Errors
    /// If the history lacks requests.
    pub fn new(snapshot: &Snapshot, device: &Device, replay: &Replay) -> Result<Self, Error> {
        if replay.figures.history != HistoryKind::Recorded {
            return Err(Error::NoHistory);
        }
        if let Some(message) = missing(replay) {
            return Err(Error::Incomplete(message.to_owned()));
        }
        let layout = replay.layout.as_ref().ok_or(Error::NoHistory)?;
        let allocations: Vec<_> = replay.addresses.iter().copied().zip(&replay.allocations).collect();
        let mut segments = replay::state_at(snapshot, device, &allocations, Position::START);
        let reserved_before = layout.segments.iter().map(|part| part.bytes).sum();
        let held_before: i128 = segments.iter().map(|segment| segment.sums().active).sum();
        let mut reader = Reader::new(snapshot, reserved_before);
        for part in &layout.segments {
            reader.obtain(part, part.home.stream, part.home.pool_id);
        }
        let held = reader.hold(&segments);
        let group_of: Vec<Option<usize>> = segments.iter().map(|of| reader.space.group_at(of.address)).collect();
        let sizes = replay.allocations.iter().filter_map(|one| Some((one.born.event()?, one.bytes)));
        reader.follow(snapshot.events_of(device), &layout.changes, &sizes.collect());
        let groups = reader.evidence.solved();
        for (segment, group) in segments.iter_mut().zip(group_of) {
            segment.pool_id = group.and_then(|group| groups[group].pool);
        }
        Ok(Self {
            reserved_before,
            held_before: u64::try_from(held_before).unwrap_or(0),
            capacity: reader.limits.capacity(),
            are_retries: reader.limits.are_retries(),
            segments,
            held,
            steps: reader.steps,
            blocks: reader.blocks,
            groups,
        })
    }

    /// A group; the default stream and pool outside of all.
    pub(super) fn group(&self, number: Option<usize>) -> Group {
        number.map_or(Group { stream: 0, pool: None }, |number| self.groups[number])
    }
}

struct Reader<'s> {
    snapshot: &'s Snapshot,
    space: Space,
    evidence: Evidence,
    limits: Limits,
    steps: Vec<Step>,
    blocks: usize,
}

impl<'s> Reader<'s> {
    fn new(snapshot: &'s Snapshot, reserved_before: u64) -> Self {
        Self {
            snapshot,
            space: Space::default(),
            evidence: Evidence::default(),
            limits: Limits::new(reserved_before),
            steps: Vec::new(),
            blocks: 0,
        }
    }

    /// Adds a segment or a part of one.
    fn obtain(&mut self, part: &SegmentPart, stream: Option<i128>, pool: Option<PoolId>) {
        let stream = stream.unwrap_or(0);
        let groups = &mut self.evidence.groups;
        let group = self.space.obtain(part, stream, groups.len());
        if group == groups.len() {
            groups.push(Group { stream, pool: None });
        }
        groups[group].pool = groups[group].pool.or(pool);
    }

    /// Adds the blocks in use before the first event, and gives their numbers by their addresses.
    fn hold(&mut self, segments: &[Segment]) -> FxHashMap<u64, usize> {
        let blocks = segments.iter().flat_map(|segment| &segment.blocks);
        let mut held = FxHashMap::default();
        for block in blocks.filter(|block| block.state != BlockState::Inactive) {
            self.blocks += 1;
            self.space.occupy(block.address, block.size, self.blocks);
            held.insert(block.address, self.blocks);
        }
        held
    }

    /// Follows the events; `changes` are the segments that come and go, and `sizes` those of the blocks by their events.
    fn follow(&mut self, events: &[Event], changes: &[SegmentPart], sizes: &FxHashMap<u32, u64>) {
        let has_frees = events.iter().any(|event| event.action == Action::FreeCompleted);
        let mut changes = changes.iter();
        let mut groups = Vec::new();
        let mut returned = 0_u64;
        // Segments that were collected made no room for a request: the device may have had more.
        let conf = self.snapshot.settings.all.get("PYTORCH_CUDA_ALLOC_CONF");
        let collects = conf.is_some_and(|text| text.contains("garbage_collection_threshold"));
        for (event, at) in events.iter().zip(0..) {
            let [last, next] = [(at as usize).checked_sub(1), Some(at as usize + 1)].map(|at| events.get(at?));
            match event.action {
                Action::Alloc => {
                    let is_fresh =
                        last.is_some_and(|last| matches!(last.action, Action::SegmentAlloc | Action::SegmentMap));
                    let bytes = sizes.get(&at).copied().unwrap_or_else(|| event.size.max(1).next_multiple_of(ROUNDING));
                    self.allocate(event, bytes, is_fresh);
                }
                Action::FreeCompleted => self.free(event.addr),
                Action::FreeRequested if !has_frees => self.free(event.addr),
                Action::SegmentAlloc | Action::SegmentMap => {
                    self.limits.obtain(event.size);
                    let Some(part) = changes.next() else { continue };
                    let tags = self.snapshot.tables.tags(event.tags);
                    self.obtain(part, tags.stream.or(part.home.stream), tags.pool_id.or(part.home.pool_id));
                }
                Action::SegmentFree | Action::SegmentUnmap => {
                    returned = returned.saturating_add(event.size);
                    groups.extend(changes.next().and_then(|part| self.space.give_back(part.address, part.bytes)));
                    if !next.is_some_and(returns_segment) {
                        let made_room_for = next.filter(|next| is_retry(event, next));
                        self.limits.give_back(std::mem::take(&mut returned), made_room_for.filter(|_| !collects));
                        self.give_back(std::mem::take(&mut groups), made_room_for.is_some());
                    }
                }
                Action::Oom => {
                    self.limits.fail(event);
                    let tags = self.snapshot.tables.tags(event.tags);
                    let group = Group { stream: tags.stream.unwrap_or(0), pool: tags.pool_id };
                    self.steps.push(Step::Fail { size: event.size, group });
                }
                Action::FreeRequested | Action::Snapshot | Action::Other(_) => {}
            }
        }
    }

    fn allocate(&mut self, event: &Event, bytes: u64, is_fresh: bool) {
        // Where its free was not recorded, the earlier block is gone.
        self.free(event.addr);
        self.compare(event.addr, bytes, is_fresh);
        self.blocks += 1;
        self.space.occupy(event.addr, bytes, self.blocks);
        let group = self.space.group_at(event.addr);
        if let Some(group) = group.map(|group| &mut self.evidence.groups[group]) {
            group.pool = group.pool.or(self.snapshot.tables.tags(event.tags).pool_id);
        }
        self.steps.push(Step::Allocate { block: self.blocks, size: event.size, group });
    }

    fn free(&mut self, address: u64) {
        self.steps.extend(self.space.vacate(address).map(Step::Free));
    }

    /// Notes the free blocks that a request passed over: those that fit better than the one it got, or any if a segment came for it.
    fn compare(&mut self, address: u64, size: u64, is_fresh: bool) {
        let Some((_, part)) = self.space.part(address) else { return };
        let Some((at, bytes)) = self.space.free_at(address) else { return };
        let settings = &self.snapshot.settings;
        // Large free blocks are kept for requests of their size.
        let has_limit = settings.max_split_size.is_some();
        let is_unclear = (part.is_mapped && !is_fresh) || (has_limit && size > SMALL);
        if part.class.is_small != (size <= SMALL) || is_unclear {
            return;
        }
        let taken = if is_fresh { (u64::MAX, 0) } else { (bytes, at) };
        // Requests may be rounded up further, to less than twice their size.
        let rounds = settings.roundup_power2_divisions.iter().any(|&divisions| divisions > 1);
        let least = if rounds { size.saturating_mul(2) } else { size };
        let passed = self.space.groups_between(part.class, (least, 0), taken).take(MOST_CANDIDATES);
        let others = passed.filter(|&other| other != part.group);
        self.evidence.apart.extend(others.map(|other| (part.group.min(other), part.group.max(other))));
    }

    /// Segments of these groups went together.
    fn give_back(&mut self, groups: Vec<usize>, is_retry: bool) {
        if !is_retry {
            self.evidence.empty(&groups, self.space.unused());
        }
        self.steps.push(Step::Return { groups, is_retry });
    }
}

//! The model: a caching allocator of one stream with private pools, expandable segments, and settings that change while
//! it runs.

use ptmem::snapshot::{self, Snapshot};

use crate::support::pickle::{self, Value};

pub(super) const KIB: u64 = 1 << 10;
pub(super) const MIB: u64 = 1 << 20;
const LARGE_BUFFER: u64 = 20 * MIB;
pub(super) const SHARED: (u64, u64) = (0, 0);

/// `PYTORCH_CUDA_ALLOC_CONF`.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Settings {
    pub(super) max_split_mb: Option<u64>,
    pub(super) divisions: Option<u64>,
    pub(super) expandable: bool,
}

impl Settings {
    pub(super) fn text(self) -> String {
        let parts = [
            self.max_split_mb.map(|mb| format!("max_split_size_mb:{mb}")),
            self.divisions.map(|divisions| format!("roundup_power2_divisions:{divisions}")),
            self.expandable.then(|| "expandable_segments:True".to_owned()),
        ];
        parts.into_iter().flatten().collect::<Vec<_>>().join(",")
    }

    fn max_split(self) -> u64 {
        self.max_split_mb.map_or(u64::MAX, |mb| mb * MIB)
    }

    fn round(self, requested: u64) -> u64 {
        let divisions = self.divisions.unwrap_or(0);
        if divisions > 1 && requested > divisions * 512 && !requested.is_power_of_two() {
            let floor = 1 << requested.ilog2();
            return requested.next_multiple_of(floor / divisions);
        }
        requested.max(1).next_multiple_of(512)
    }

    /// The settings in snapshots of GPUs of Intel.
    fn to_value_of_xpu(self, text: &str) -> Value {
        Value::dict([("PYTORCH_ALLOC_CONF", text.into()), ("expandable_segments", self.expandable.into())])
    }

    fn to_value(self, text: &str) -> Value {
        let divisions = (0..16).map(|power| (1_u64 << power, self.divisions.unwrap_or(0)));
        let divisions = divisions.map(|(size, value)| (Value::from(size.to_string().as_str()), value.into()));
        Value::dict([
            ("PYTORCH_CUDA_ALLOC_CONF", text.into()),
            ("max_split_size", self.max_split_mb.map_or(Value::Int(-1), |mb| (mb * MIB).into())),
            ("expandable_segments", self.expandable.into()),
            ("graph_capture_record_stream_reuse", false.into()),
            ("roundup_power2_divisions", Value::Dict(divisions.collect())),
        ])
    }
}

#[derive(Debug, Clone)]
struct Block {
    addr: u64,
    size: u64,
    requested: u64,
    state: &'static str,
}

pub(super) struct Segment {
    pub(super) addr: u64,
    pub(super) size: u64,
    small: bool,
    pub(super) expandable: bool,
    pub(super) pool: (u64, u64),
    blocks: Vec<Block>,
}

/// Allocated, active, requested, reserved.
pub(super) type Counters = [u64; 4];

/// The caching allocator of one stream.
pub(super) struct Allocator {
    pub(super) settings: Settings,
    /// The text of the settings that were given last.
    pub(super) text: String,
    /// True for releases before 2.9, which do not round a request at all where `roundup_power2_divisions` says 1.
    pub(super) leaves_unrounded: bool,
    /// True for releases whose events name their pool, from 2.12 on.
    pub(super) names_pools: bool,
    /// True for the allocator of GPUs of Intel, whose addresses are high.
    is_of_xpu: bool,
    /// The pool that never splits its segments.
    unsplit_pool: Option<(u64, u64)>,
    pub(super) segments: Vec<Segment>,
    pub(super) counters: Counters,
    pub(super) events: Vec<Value>,
    pub(super) history: Vec<Counters>,
    next_address: u64,
}

impl Allocator {
    pub(super) fn new(settings: Settings, unsplit_pool: Option<(u64, u64)>) -> Self {
        Self {
            settings,
            text: settings.text(),
            leaves_unrounded: false,
            names_pools: true,
            is_of_xpu: false,
            unsplit_pool,
            segments: Vec::new(),
            counters: [0; 4],
            events: Vec::new(),
            history: vec![[0; 4]],
            next_address: 0x7f00_0000_0000,
        }
    }

    /// The allocator of GPUs of Intel under settings given as text, of which it follows one.
    pub(super) fn of_xpu(given: Settings) -> Self {
        let settings = Settings { expandable: given.expandable, ..Settings::default() };
        let next_address = 0xff00_7f00_0000_0000;
        Self { text: given.text(), is_of_xpu: true, names_pools: false, next_address, ..Self::new(settings, None) }
    }

    fn event(&mut self, action: &str, addr: u64, size: u64) {
        let pool = self.segments.iter().find(|s| (s.addr..s.addr + s.size).contains(&addr)).map_or(SHARED, |s| s.pool);
        let event = Value::dict([
            ("action", action.into()),
            ("addr", addr.into()),
            ("size", size.into()),
            ("stream", 0.into()),
            ("pool_id", Value::Tuple(vec![pool.0.into(), pool.1.into()])),
        ]);
        self.events.push(if self.names_pools { event } else { event.without("pool_id") });
        self.history.push(self.counters);
    }

    pub(super) fn malloc(&mut self, requested: u64, pool: (u64, u64)) -> u64 {
        let is_rounded = !self.leaves_unrounded || self.settings.divisions != Some(1);
        let size = if is_rounded { self.settings.round(requested) } else { requested.max(512) };
        let small = size <= MIB;
        let limit = self.settings.max_split();
        let fits = |block: &Block| {
            let is_oversized = size < limit && block.size >= limit;
            let wastes = size >= limit && block.size >= size + LARGE_BUFFER;
            block.state == "inactive" && block.size >= size && !is_oversized && !wastes
        };
        // While segments are not to be expandable, those that are serve nothing.
        let serves = self.segments.iter().filter(|segment| self.settings.expandable || !segment.expandable);
        let own = serves.filter(|segment| segment.small == small && segment.pool == pool);
        let free = own.flat_map(|segment| &segment.blocks).filter(|block| fits(block));
        let addr = free.map(|block| (block.size, block.addr)).min().map(|(_, addr)| addr);
        let addr = addr.unwrap_or_else(|| self.grow(size, small, pool));
        let splits_at = if small || self.settings.expandable { 512 } else { MIB + 1 };
        let never = self.unsplit_pool == Some(pool) || (!small && !self.settings.expandable && size >= limit);
        let segment = self.segments.iter_mut().find(|s| s.blocks.iter().any(|block| block.addr == addr)).unwrap();
        let at = segment.blocks.iter().position(|block| block.addr == addr).unwrap();
        let rest = segment.blocks[at].size - size;
        if rest >= splits_at && !never {
            segment.blocks.insert(at + 1, Block { addr: addr + size, size: rest, requested: 0, state: "inactive" });
            segment.blocks[at].size = size;
        }
        let block = &mut segment.blocks[at];
        (block.requested, block.state) = (requested, "active_allocated");
        let taken = block.size;
        self.counters[0] += taken;
        self.counters[1] += taken;
        self.counters[2] += requested;
        self.event("alloc", addr, requested);
        addr
    }

    /// Gets memory from the driver, and returns where the free block begins.
    fn grow(&mut self, size: u64, small: bool, pool: (u64, u64)) -> u64 {
        if self.settings.expandable && pool == SHARED {
            return self.map(size, small);
        }
        let bytes = match (small, size) {
            (true, _) => 2 * MIB,
            (false, ..10_485_760) => LARGE_BUFFER,
            _ => size.next_multiple_of(2 * MIB),
        };
        let addr = self.next_address;
        self.next_address += bytes;
        let blocks = vec![Block { addr, size: bytes, requested: 0, state: "inactive" }];
        self.segments.push(Segment { addr, size: bytes, small, expandable: false, pool, blocks });
        self.counters[3] += bytes;
        self.event("segment_alloc", addr, bytes);
        addr
    }

    /// Maps more of the expandable segment, whose free end grows.
    fn map(&mut self, size: u64, small: bool) -> u64 {
        let page = if small { 2 * MIB } else { LARGE_BUFFER };
        let at = self.segments.iter().position(|segment| segment.expandable && segment.small == small);
        let at = at.unwrap_or_else(|| {
            let addr = if small { 0x5000_0000_0000 } else { 0x6000_0000_0000 };
            self.segments.push(Segment { addr, size: 0, small, expandable: true, pool: SHARED, blocks: Vec::new() });
            self.segments.len() - 1
        });
        let segment = &mut self.segments[at];
        let end = segment.addr + segment.size;
        let free = segment.blocks.last().filter(|block| block.state == "inactive").map_or(0, |block| block.size);
        let bytes = size.saturating_sub(free).next_multiple_of(page);
        segment.size += bytes;
        let addr = if free > 0 {
            let last = segment.blocks.last_mut().unwrap();
            last.size += bytes;
            last.addr
        } else {
            segment.blocks.push(Block { addr: end, size: bytes, requested: 0, state: "inactive" });
            end
        };
        if bytes > 0 {
            self.counters[3] += bytes;
            self.event("segment_map", end, bytes);
        }
        addr
    }

    fn block(&mut self, addr: u64) -> &mut Block {
        self.segments.iter_mut().flat_map(|segment| &mut segment.blocks).find(|block| block.addr == addr).unwrap()
    }

    pub(super) fn request_free(&mut self, addr: u64) {
        let block = self.block(addr);
        block.state = "active_pending_free";
        let Block { size, requested, .. } = *block;
        self.counters[0] -= size;
        self.event("free_requested", addr, requested);
    }

    pub(super) fn complete_free(&mut self, addr: u64) {
        let block = self.block(addr);
        block.state = "inactive";
        let Block { size, requested, .. } = *block;
        self.counters[1] -= size;
        self.counters[2] -= requested;
        self.event("free_completed", addr, requested);
        for segment in &mut self.segments {
            segment.blocks.dedup_by(|next, block| {
                let both = block.state == "inactive" && next.state == "inactive";
                block.size += if both { next.size } else { 0 };
                both
            });
        }
    }

    /// Gives empty segments back, as garbage collection does as well.
    pub(super) fn release(&mut self) {
        let is_free = |s: &Segment| !s.expandable && s.blocks.len() == 1 && s.blocks[0].state == "inactive";
        while let Some(at) = self.segments.iter().position(is_free) {
            let (addr, size) = (self.segments[at].addr, self.segments[at].size);
            self.counters[3] -= size;
            self.event("segment_free", addr, size);
            self.segments.remove(at);
        }
    }

    /// The file, with the history from event `first` on, with or without the settings.
    pub(super) fn snapshot(&self, first: usize, states_settings: bool) -> Snapshot {
        let segments = self.segments.iter().filter(|segment| segment.size > 0).map(|segment| {
            let blocks = segment.blocks.iter().map(|block| {
                Value::dict([
                    ("address", block.addr.into()),
                    ("size", block.size.into()),
                    ("requested_size", block.requested.into()),
                    ("state", block.state.into()),
                ])
            });
            Value::dict([
                ("device", 0.into()),
                ("address", segment.addr.into()),
                ("total_size", segment.size.into()),
                ("stream", 0.into()),
                ("segment_type", if segment.small { "small" } else { "large" }.into()),
                ("segment_pool_id", Value::Tuple(vec![segment.pool.0.into(), segment.pool.1.into()])),
                ("is_expandable", segment.expandable.into()),
                ("blocks", blocks.collect::<Vec<_>>().into()),
            ])
        });
        let value = Value::dict([
            ("segments", segments.collect::<Vec<_>>().into()),
            ("device_traces", vec![self.events[first..].to_vec().into()].into()),
        ]);
        let settings =
            if self.is_of_xpu { self.settings.to_value_of_xpu(&self.text) } else { self.settings.to_value(&self.text) };
        let settings =
            if self.leaves_unrounded { settings.without("graph_capture_record_stream_reuse") } else { settings };
        let value = if states_settings { value.with("allocator_settings", settings) } else { value };
        snapshot::read(&pickle::write(&value, pickle::Options::default())[..]).unwrap()
    }
}

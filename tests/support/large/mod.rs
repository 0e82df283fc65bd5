//! Writes large, made-up snapshots in the shape of real ones.
//!
//! An allocator that follows PyTorch's rules runs a training loop on every device and gives the events
//! and the final segments, so a replay has to come out even. The pickle is what CPython's own pickler
//! writes for such objects, byte for byte: frames, memo, batches and sharing included. Nothing but the
//! state of the allocator is held, so a file can be larger than memory.

mod allocator;
mod expandable;
mod pickler;
mod program;
mod stacks;

use std::collections::HashMap;
use std::io::{self, Write};

use allocator::{Allocator, Event};
use pickler::Pickler;
use stacks::Stacks;

/// Shape of the snapshot to write.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plan {
    /// Events of all devices together.
    pub(crate) events: u64,
    /// Distinct call stacks.
    pub(crate) stacks: usize,
    /// Mean number of frames in a stack.
    pub(crate) depth: usize,
    /// Devices, each with an equal share of the events.
    pub(crate) devices: u64,
    /// Whether every step keeps some of what it allocates, so that the peak moves to the very end.
    pub(crate) ramp: bool,
    /// Whether nearly every allocation is a new peak.
    pub(crate) peaks: bool,
    /// Number of separate ranges that every step maps and unmaps in expandable segments; 0 for ordinary segments.
    pub(crate) expandable: u64,
}

impl Plan {
    /// The mean depth of a stack in real files is 32 to 68.
    pub(crate) const DEPTH: usize = 48;

    /// `events` events on one device, with stacks as in a real training run.
    pub(crate) fn of_events(events: u64) -> Self {
        // 230 stacks among 20,000 events; a longer run repeats itself more than it brings new code.
        let stacks = usize::try_from((events.saturating_mul(230 * 230) / 20_000).isqrt()).unwrap_or(usize::MAX);
        Self {
            events,
            stacks: stacks.clamp(230, 1 << 16),
            depth: Self::DEPTH,
            devices: 1,
            ramp: false,
            peaks: false,
            expandable: 0,
        }
    }

    /// The same in a size that gives a file of about `bytes` with stacks of `depth` frames.
    pub(crate) fn of_size(bytes: u64, depth: usize) -> Self {
        const SAMPLES: [u64; 2] = [10_000, 30_000];
        let [few, more] = SAMPLES.map(|events| {
            let mut counter = Counter(0);
            // Counting cannot fail.
            let _ = write(&Self { stacks: 230, depth, ..Self::of_events(events) }, &mut counter);
            counter.0
        });
        let events = bytes.saturating_sub(few).saturating_mul(SAMPLES[1] - SAMPLES[0]) / (more - few);
        Self { depth, ..Self::of_events(SAMPLES[0] + events) }
    }
}

struct Counter(u64);

impl Write for Counter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes a snapshot.
///
/// # Errors
/// Those of `output`.
pub(crate) fn write(plan: &Plan, output: impl Write) -> io::Result<()> {
    // The final state comes before the events, so the history runs once for each.
    let devices = (0..plan.devices.max(1))
        .map(|device| {
            let mut events = 0;
            let end = program::run(plan, device, |_| {
                events += 1;
                Ok(())
            })?;
            Ok((end, events))
        })
        .collect::<io::Result<Vec<_>>>()?;

    let mut snapshot = Writer {
        pickler: Pickler::new(output)?,
        stacks: Stacks::new(plan.stacks, plan.depth),
        captured: HashMap::new(),
        latest: None,
    };
    let out = &mut snapshot.pickler;
    out.dict()?;
    out.word("segments")?;
    let count = devices.iter().map(|(end, _)| end.segments.len()).sum();
    let (mut list, _) = out.list(count)?;
    for (device, (end, _)) in devices.iter().enumerate() {
        for (&address, segment) in &end.segments {
            snapshot.pickler.item(&list);
            snapshot.segment(device, address, segment, end)?;
            snapshot.pickler.added(&mut list);
        }
    }

    let out = &mut snapshot.pickler;
    out.word("device_traces")?;
    let (mut traces, _) = out.list(devices.len())?;
    for (device, &(_, events)) in (0..).zip(&devices) {
        snapshot.pickler.item(&traces);
        let (mut list, _) = snapshot.pickler.list(events)?;
        program::run(plan, device, |event| {
            snapshot.pickler.item(&list);
            snapshot.event(event)?;
            snapshot.pickler.added(&mut list);
            Ok(())
        })?;
        snapshot.pickler.added(&mut traces);
    }

    let out = &mut snapshot.pickler;
    out.word("allocator_settings")?;
    settings(plan.expandable > 0, out)?;
    out.word("external_annotations")?;
    annotations(out)?;
    out.set_items();
    snapshot.pickler.finish()
}

struct Writer<W> {
    pickler: Pickler<W>,
    stacks: Stacks,
    /// The memo entries of the lists that blocks and segments share with events.
    captured: HashMap<u64, u32>,
    latest: Option<(u64, u32)>,
}

impl<W: Write> Writer<W> {
    fn segment(
        &mut self,
        device: usize,
        address: u64,
        segment: &allocator::Segment,
        allocator: &Allocator,
    ) -> io::Result<()> {
        let blocks = || allocator.blocks.range(address..address + segment.size);
        let active = || blocks().filter_map(|(_, block)| block.used.map(|used| (block, used)));
        let active_size = active().map(|(block, _)| block.size).sum::<u64>();
        let out = &mut self.pickler;
        out.dict()?;
        out.entry("device", device as u64)?;
        out.entry("address", address)?;
        out.entry("total_size", segment.size)?;
        out.entry("allocated_size", active_size)?;
        out.entry("active_size", active_size)?;
        out.entry("requested_size", active().map(|(_, used)| used.requested).sum())?;
        out.entry("stream", 0)?;
        out.word("segment_type")?;
        out.word(if segment.small { "small" } else { "large" })?;
        out.word("segment_pool_id")?;
        out.int(0)?;
        out.int(0)?;
        out.tuple2()?;
        out.word("is_expandable")?;
        out.bool(allocator.unmapped.is_some())?;
        out.word("blocks")?;
        let (mut list, _) = out.list(blocks().count())?;
        for (&address, block) in blocks() {
            let out = &mut self.pickler;
            out.item(&list);
            out.dict()?;
            out.entry("address", address)?;
            out.entry("size", block.size)?;
            out.entry("requested_size", block.used.map_or(block.stale, |used| used.requested))?;
            out.word("state")?;
            out.word(if block.used.is_some() { "active_allocated" } else { "inactive" })?;
            out.word("frames")?;
            match block.used {
                Some(used) => self.kept_frames(used.capture)?,
                None => out.list(0).map(drop)?,
            }
            self.pickler.set_items();
            self.pickler.added(&mut list);
        }
        self.pickler.word("frames")?;
        match segment.capture {
            Some(capture) => self.kept_frames(capture)?,
            None => self.pickler.list(0).map(drop)?,
        }
        self.pickler.set_items();
        Ok(())
    }

    fn event(&mut self, event: &Event) -> io::Result<()> {
        let out = &mut self.pickler;
        out.dict()?;
        out.word("action")?;
        out.word(event.action)?;
        out.entry("addr", event.addr)?;
        out.entry("size", event.size)?;
        out.entry("stream", 0)?;
        out.entry("time_us", event.time_us)?;
        out.word("compile_context")?;
        // A new object each time, while Python has only one empty string.
        out.str("N/A")?;
        out.word("user_metadata")?;
        out.word("")?;
        out.word("frames")?;
        self.frames(event.capture)?;
        self.pickler.set_items();
        Ok(())
    }

    /// The frames of a traceback that an event in the history refers to as well.
    fn kept_frames(&mut self, capture: allocator::Capture) -> io::Result<()> {
        self.frames(capture)?;
        if let Some((id, memo)) = self.latest {
            self.captured.insert(id, memo);
        }
        Ok(())
    }

    /// The frames of a traceback: one list object for each, wherever it occurs.
    fn frames(&mut self, capture: allocator::Capture) -> io::Result<()> {
        let known = self.latest.filter(|(id, _)| *id == capture.id).map(|(_, memo)| memo);
        if let Some(memo) = known.or_else(|| self.captured.get(&capture.id).copied()) {
            self.latest = Some((capture.id, memo));
            return self.pickler.get(memo);
        }
        let memo = self.stacks.write(capture.stack, &mut self.pickler)?;
        self.latest = Some((capture.id, memo));
        Ok(())
    }
}

fn settings(expandable: bool, out: &mut Pickler<impl Write>) -> io::Result<()> {
    out.dict()?;
    out.word("PYTORCH_CUDA_ALLOC_CONF")?;
    out.word(if expandable { "expandable_segments:True" } else { "" })?;
    out.word("max_split_size")?;
    out.int(-1)?;
    out.word("garbage_collection_threshold")?;
    out.float(0.0)?;
    out.word("expandable_segments")?;
    out.bool(expandable)?;
    out.entry("pinned_num_register_threads", 1)?;
    for key in ["release_lock_on_cudamalloc", "pinned_use_cuda_host_register", "graph_capture_record_stream_reuse"] {
        out.word(key)?;
        out.bool(false)?;
    }
    out.word("roundup_power2_divisions")?;
    out.dict()?;
    for power in 0..16 {
        out.str(&(1_u32 << power).to_string())?;
        out.int(0)?;
    }
    out.set_items();
    out.set_items();
    Ok(())
}

fn annotations(out: &mut Pickler<impl Write>) -> io::Result<()> {
    let (mut list, _) = out.list(2)?;
    for (stage, time) in [("START", 1000), ("END", 2000)] {
        out.item(&list);
        out.dict()?;
        out.word("stage")?;
        out.str(stage)?;
        out.word("name")?;
        out.str("Optimizer.step#AdamW.step")?;
        out.entry("device", 0)?;
        out.entry("time_us", Allocator::FIRST_TIME + time)?;
        out.set_items();
        out.added(&mut list);
    }
    Ok(())
}

//! Random histories: what a small model of the caching allocator counts, the replay must find again; and
//! whatever the events say, the rows of stacks must add up.

use ptmem::device::DeviceId;
use std::collections::BTreeMap;

use crate::support::pickle::{self, Value};
use crate::support::random;
use proptest::prelude::*;
use ptmem::profile::{self, InputKind, Moment, ReadOptions, Source};
use ptmem::replay::{self, HistoryKind, Position, Replay};
use ptmem::snapshot::{self, Snapshot};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// A block of a model segment.
#[derive(Clone)]
struct Block {
    addr: u64,
    size: u64,
    requested: u64,
    state: &'static str,
    stack: u64,
}

struct Segment {
    addr: u64,
    size: u64,
    small: bool,
    blocks: Vec<Block>,
}

/// PyTorch's counters: allocated, active, requested, reserved.
type Counters = [u64; 4];

/// The caching allocator in short: one stream, `cudaMalloc` segments that lie side by side.
#[derive(Default)]
struct Model {
    segments: Vec<Segment>,
    counters: Counters,
    events: Vec<Value>,
    /// The counters after each event, after the state at the start.
    history: Vec<Counters>,
    next_address: u64,
    /// For each failed allocation, its event, and the sizes of the free blocks that it could have been served from.
    failed: Vec<(usize, Vec<u64>)>,
}

impl Model {
    fn new() -> Self {
        Self { next_address: 0x7f00_0000_0000, history: vec![[0; 4]], ..Self::default() }
    }

    fn event(&mut self, action: &str, addr: u64, size: u64, stack: Option<u64>) {
        let time = 1_700_000_000_000_000_u64 + self.events.len() as u64;
        let event = Value::dict([
            ("action", action.into()),
            (if action == "oom" { "device_free" } else { "addr" }, addr.into()),
            ("size", size.into()),
            ("stream", 0.into()),
            ("time_us", time.into()),
        ]);
        self.events.push(match stack {
            Some(stack) => event.with("frames", frames(stack)),
            None => event,
        });
        self.history.push(self.counters);
    }

    fn malloc(&mut self, requested: u64, stack: u64) -> u64 {
        let size = requested.max(1).next_multiple_of(512);
        let small = size <= MIB;
        let fits = |s: &Segment, b: &Block| s.small == small && b.state == "inactive" && b.size >= size;
        let free = self.segments.iter().flat_map(|s| s.blocks.iter().filter(|b| fits(s, b)).map(|b| (b.size, b.addr)));
        let addr = free.min().map(|(_, addr)| addr).unwrap_or_else(|| self.grow(size, small));
        let segment = self.segments.iter_mut().find(|s| (s.addr..s.addr + s.size).contains(&addr)).unwrap();
        let at = segment.blocks.iter().position(|b| b.addr == addr).unwrap();
        let rest = segment.blocks[at].size - size;
        if if small { rest >= 512 } else { rest > MIB } {
            let tail = Block { addr: addr + size, size: rest, requested: 0, state: "inactive", stack: 0 };
            segment.blocks.insert(at + 1, tail);
            segment.blocks[at].size = size;
        }
        let block = &mut segment.blocks[at];
        (block.requested, block.state, block.stack) = (requested, "active_allocated", stack);
        let taken = block.size;
        self.counters[0] += taken;
        self.counters[1] += taken;
        self.counters[2] += requested;
        self.event("alloc", addr, requested, Some(stack));
        addr
    }

    fn grow(&mut self, size: u64, small: bool) -> u64 {
        let bytes = match (small, size) {
            (true, _) => 2 * MIB,
            (false, ..10_485_760) => 20 * MIB,
            _ => size.next_multiple_of(2 * MIB),
        };
        let addr = self.next_address;
        self.next_address += bytes;
        let block = Block { addr, size: bytes, requested: 0, state: "inactive", stack: 0 };
        self.segments.push(Segment { addr, size: bytes, small, blocks: vec![block] });
        self.counters[3] += bytes;
        self.event("segment_alloc", addr, bytes, None);
        addr
    }

    /// An allocation fails.
    fn run_out(&mut self, requested: u64) {
        let size = requested.next_multiple_of(512);
        let blocks = self.segments.iter().filter(|s| s.small == (size <= MIB)).flat_map(|s| &s.blocks);
        let free = blocks.filter(|b| b.state == "inactive").map(|b| b.size).collect();
        self.failed.push((self.events.len(), free));
        self.event("oom", 4096, size, None);
    }

    fn block(&mut self, addr: u64) -> &mut Block {
        self.segments.iter_mut().flat_map(|s| &mut s.blocks).find(|b| b.addr == addr).unwrap()
    }

    fn request_free(&mut self, addr: u64) {
        let block = self.block(addr);
        block.state = "active_pending_free";
        let (size, requested) = (block.size, block.requested);
        self.counters[0] -= size;
        self.event("free_requested", addr, requested, None);
    }

    fn complete_free(&mut self, addr: u64) {
        let block = self.block(addr);
        // The requested size stays behind, as in PyTorch.
        block.state = "inactive";
        let (size, requested) = (block.size, block.requested);
        self.counters[1] -= size;
        self.counters[2] -= requested;
        self.event("free_completed", addr, requested, None);
        for segment in &mut self.segments {
            segment.blocks.dedup_by(|b, a| {
                let both = a.state == "inactive" && b.state == "inactive";
                a.size += if both { b.size } else { 0 };
                both
            });
        }
    }

    /// Gives empty segments back.
    fn empty_cache(&mut self) {
        while let Some(at) = self.segments.iter().position(|s| s.blocks.len() == 1 && s.blocks[0].state == "inactive") {
            let segment = self.segments.remove(at);
            self.counters[3] -= segment.size;
            self.event("segment_free", segment.addr, segment.size, None);
        }
    }

    /// The file, with the history from event `first` on.
    fn snapshot(&self, first: usize) -> Value {
        let segments = self.segments.iter().map(|segment| {
            let sum =
                |keep: fn(&Block) -> bool| -> u64 { segment.blocks.iter().filter(|b| keep(b)).map(|b| b.size).sum() };
            let blocks = segment.blocks.iter().map(|block| {
                let frames = if block.state == "inactive" { Value::List(vec![]) } else { frames(block.stack) };
                Value::dict([
                    ("address", block.addr.into()),
                    ("size", block.size.into()),
                    ("requested_size", block.requested.into()),
                    ("state", block.state.into()),
                    ("frames", frames),
                ])
            });
            Value::dict([
                ("device", 0.into()),
                ("address", segment.addr.into()),
                ("total_size", segment.size.into()),
                ("allocated_size", sum(|b| b.state == "active_allocated").into()),
                ("active_size", sum(|b| b.state != "inactive").into()),
                ("stream", 0.into()),
                ("segment_type", if segment.small { "small" } else { "large" }.into()),
                ("is_expandable", false.into()),
                ("blocks", blocks.collect::<Vec<_>>().into()),
            ])
        });
        Value::dict([
            ("segments", segments.collect::<Vec<_>>().into()),
            ("device_traces", vec![self.events[first..].to_vec().into()].into()),
            // The allocator never had other settings than the defaults.
            ("allocator_settings", Value::dict([("PYTORCH_CUDA_ALLOC_CONF", "".into())])),
        ])
    }
}

fn frames(stack: u64) -> Value {
    let frame = |name: String, line: u64| {
        Value::dict([("name", name.as_str().into()), ("filename", "/repo/train.py".into()), ("line", line.into())])
    };
    vec![frame(format!("leaf_{stack}"), stack), frame("main".to_owned(), 1)].into()
}

fn read(value: &Value) -> Snapshot {
    snapshot::read(&pickle::write(value, pickle::Options::default())[..]).unwrap()
}

fn replay_device_0(snapshot: &Snapshot) -> Replay {
    replay::run(snapshot, DeviceId::FIRST, &snapshot.devices[&DeviceId::FIRST]).unwrap()
}

#[derive(Debug, Clone)]
enum Step {
    Malloc {
        size: u64,
        stack: u64,
    },
    /// Frees one of the blocks in use.
    Free {
        which: usize,
        later: bool,
    },
    /// Completes the frees that are pending.
    Synchronize,
    EmptyCache,
    RunOut {
        size: u64,
    },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let size = prop_oneof![
        4 => 1..4 * KIB,
        2 => 1..MIB,
        3 => MIB..12 * MIB,
        1 => 10 * MIB..40 * MIB,
    ];
    let step = prop_oneof![
        6 => (size, 1..6_u64).prop_map(|(size, stack)| Step::Malloc { size, stack }),
        5 => (any::<usize>(), prop::bool::weighted(0.2)).prop_map(|(which, later)| Step::Free { which, later }),
        1 => Just(Step::Synchronize),
        1 => Just(Step::EmptyCache),
        1 => (1..4 * MIB).prop_map(|size| Step::RunOut { size }),
    ];
    prop::collection::vec(step, 1..120)
}

fn run(steps: &[Step]) -> Model {
    let mut model = Model::new();
    let (mut in_use, mut pending) = (Vec::new(), Vec::new());
    for step in steps {
        match *step {
            Step::Malloc { size, stack } => in_use.push(model.malloc(size, stack)),
            Step::Free { which, later } if !in_use.is_empty() => {
                let addr = in_use.swap_remove(which % in_use.len());
                model.request_free(addr);
                if later { pending.push(addr) } else { model.complete_free(addr) }
            }
            Step::Free { .. } => {}
            Step::Synchronize => pending.drain(..).for_each(|addr| model.complete_free(addr)),
            Step::EmptyCache => model.empty_cache(),
            Step::RunOut { size } => model.run_out(size),
        }
    }
    model
}

/// The figures of failed allocations from event `first` on are within their bounds.
fn compare_failures(model: &Model, first: usize, replay: &Replay) -> Result<(), TestCaseError> {
    let failed: Vec<_> = model.failed.iter().filter(|(event, _)| *event >= first).collect();
    prop_assert_eq!(replay.figures.ooms.len(), failed.len());
    for (i, (oom, (event, free))) in replay.figures.ooms.iter().zip(failed).enumerate() {
        prop_assert_eq!(oom.event as usize, event - first);
        let [allocated, active, _, reserved] = model.history[event + 1];
        prop_assert_eq!(oom.reserved, Some(reserved));
        let Some(error) = oom.max_error else {
            // Frees were recorded and allocations were not, or one event was.
            let is_state = replay.figures.history == HistoryKind::StateOnly;
            prop_assert!(is_state || replay.figures.allocated.peak.is_none());
            continue;
        };
        prop_assert!(first > 0 || error == 0);
        let near = |figure: Option<u64>, truth: u64| figure.unwrap().abs_diff(truth) <= error;
        prop_assert!(near(oom.allocated, allocated) && near(oom.active, active), "{oom:?}");
        prop_assert!(near(oom.fragmentation(), reserved - active), "{oom:?}");
        prop_assert_eq!(oom.pool_free.is_some(), i < 16, "{:?}", oom);
        if oom.pool_free.is_some() {
            let (all, largest) = (free.iter().sum(), free.iter().max().copied().unwrap_or(0));
            prop_assert!(near(oom.pool_free, all) && near(oom.largest_free, largest), "{oom:?} {free:?}");
        }
    }
    Ok(())
}

/// Sums of the allocations that the replay holds alive just after event `i`, or at the start.
fn allocated_after(replay: &Replay, at: Position) -> u64 {
    replay.allocations.iter().filter(|a| a.allocated_at(at)).map(|a| a.bytes).sum()
}

proptest! {
    #![proptest_config(random::config(256))]

    #[test]
    fn a_history_from_the_start_is_replayed_exactly(steps in steps()) {
        let model = run(&steps);
        let snapshot = read(&model.snapshot(0));
        if !snapshot.devices.contains_key(&DeviceId::FIRST) {
            return Ok(());
        }
        let replay = replay_device_0(&snapshot);
        let counters = [replay.figures.allocated, replay.figures.active, replay.figures.requested, replay.figures.reserved];
        for (c, counter) in counters.iter().enumerate() {
            let highest = model.history.iter().map(|counters| counters[c]).max().unwrap();
            let first = model.history.iter().position(|counters| counters[c] == highest).unwrap();
            prop_assert!(counter.exact(), "counter {c}");
            prop_assert_eq!(counter.baseline, Some(0));
            prop_assert_eq!(counter.peak, Some(highest));
            prop_assert_eq!(counter.peak_at.unwrap().event().map_or(0, |event| event as usize + 1), first);
            prop_assert_eq!(counter.end, Some(model.counters[c]));
        }
        prop_assert_eq!(replay.figures.checks.sizes.recovered, replay.figures.checks.sizes.total);
        prop_assert!(replay.figures.checks.end_matches);
        for i in 0..model.events.len() {
            prop_assert_eq!(allocated_after(&replay, Position::after(i)), model.history[i + 1][0]);
        }
        compare_failures(&model, 0, &replay)?;
    }

    #[test]
    fn a_history_that_begins_anywhere_is_within_its_bound(steps in steps(), cut in any::<prop::sample::Index>()) {
        let model = run(&steps);
        let first = cut.index(model.events.len() + 1);
        let snapshot = read(&model.snapshot(first));
        if !snapshot.devices.contains_key(&DeviceId::FIRST) {
            return Ok(());
        }
        let replay = replay_device_0(&snapshot);
        let window = &model.history[first..];
        let counters = [replay.figures.allocated, replay.figures.active, replay.figures.requested, replay.figures.reserved];
        for (c, counter) in counters.iter().enumerate() {
            prop_assert_eq!(counter.end, Some(model.counters[c]));
            let Some((baseline, peak)) = counter.baseline.zip(counter.peak) else {
                // Refused: frees were recorded and allocations were not.
                prop_assert!(replay.figures.allocation_count == 0 || replay.figures.free_count == 0);
                continue;
            };
            let highest = window.iter().map(|counters| counters[c]).max().unwrap();
            let Some((of_baseline, of_peak)) = counter.baseline_error.zip(counter.peak_error) else {
                // One event is no history.
                prop_assert_eq!(replay.figures.history, HistoryKind::StateOnly);
                prop_assert!(model.events.len() - first <= 1);
                continue;
            };
            prop_assert!(baseline.abs_diff(window[0][c]) <= of_baseline, "counter {} baseline {} ± {}", c, baseline, of_baseline);
            prop_assert!(peak.abs_diff(highest) <= of_peak, "counter {} peak {} ± {}, truth {}", c, peak, of_peak, highest);
        }
        prop_assert!(replay.figures.checks.end_matches);
        prop_assert_eq!(replay.figures.checks.sizes.recovered, replay.figures.checks.sizes.total);
        compare_failures(&model, first, &replay)?;
    }

    /// Events in any order, lost events, frees of nothing: the rows still add up to the counter.
    #[test]
    fn rows_add_up_whatever_the_events_say(
        steps in steps(),
        keep in prop::collection::vec(prop::bool::weighted(0.8), 400),
        swaps in prop::collection::vec((any::<usize>(), any::<usize>()), 0..8),
        moment in any::<usize>(),
    ) {
        let model = run(&steps);
        let Value::Dict(mut pairs) = model.snapshot(0) else { panic!() };
        let mut kept: Vec<_> = model.events.iter().zip(keep.iter().cycle()).filter(|(_, keep)| **keep).map(|(e, _)| e.clone()).collect();
        for (a, b) in swaps {
            if !kept.is_empty() {
                let (a, b) = (a % kept.len(), b % kept.len());
                kept.swap(a, b);
            }
        }
        pairs[1].1 = vec![kept.clone().into()].into();
        let value = Value::Dict(pairs);
        let at = if kept.is_empty() { Moment::End } else { Moment::Event(u32::try_from(moment % kept.len()).unwrap()) };
        let options = ReadOptions { at: at.clone(), ..ReadOptions::default() };
        let profile = profile::measure(read(&value), Source { path: String::new(), bytes: 0, kind: InputKind::Snapshot }, options);
        let Ok(profile) = profile else { return Ok(()) };
        for device in &profile.devices {
            let sum = |of: fn(&profile::StackTotal) -> u64| device.stacks.iter().map(of).sum::<u64>();
            prop_assert_eq!(Some(sum(|stack| stack.end.bytes)), device.figures.allocated.end);
            let Some((baseline, peak)) = device.figures.allocated.baseline.zip(device.figures.allocated.peak) else { continue };
            prop_assert_eq!(sum(|stack| stack.baseline.bytes), baseline);
            prop_assert_eq!(sum(|stack| stack.peak.bytes), peak);
            prop_assert_eq!(sum(|stack| stack.oom.bytes), device.figures.ooms.first().map_or(0, |oom| oom.allocated.unwrap()));
            if !matches!(at, Moment::End) {
                prop_assert!(sum(|stack| stack.at.bytes) <= peak);
            }
            let keys: BTreeMap<_, _> = device.stacks.iter().map(|stack| (&stack.key, ())).collect();
            prop_assert_eq!(keys.len(), device.stacks.len(), "every key once");
        }
    }
}

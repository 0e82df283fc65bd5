//! Allocations that the trace leaves out: those of phases that the user ignores, and those by which `torch.compile` and Triton
//! measure which kernels are fast. These make them where no cache has the answer yet, so they are not the program's.

use std::collections::BTreeMap;

use ptmem_base::device::DeviceId;
use ptmem_base::diagnostic::{Code, Diagnostic};
use ptmem_base::pattern::Pattern;
use ptmem_base::text::count;
use ptmem_base::units::Size;
use ptmem_snapshot::snapshot::{Action, Event, Tables};

use super::device::DeviceView;
use super::lifetimes::{Lifetimes, NONE};
use super::{Allocation, Position, WantedResults};
use crate::phase::{folded_name, phases};
use crate::stack::is_benchmark;
use crate::trace::{Measure, Trace};

/// The allocations that are left out.
#[derive(Debug, Default)]
pub(super) struct LeftOutAllocations<'p> {
    /// Their indices, in order.
    all: Vec<u32>,
    /// Those of benchmarks.
    benchmarks: Vec<u32>,
    /// The patterns of phases to ignore.
    ignore: &'p [Pattern],
    /// Those of phases, by the index of the pattern that matches; without patterns that match none.
    of_phases: BTreeMap<usize, Vec<u32>>,
    /// True if phases match, and what they took cannot be left out.
    pub(super) is_impossible: bool,
}

impl<'p> LeftOutAllocations<'p> {
    /// Leaves out those that came and went within the history, or within a phase, unless the history states what was held
    /// meanwhile: where memory ran out, they took part in it.
    pub(super) fn find(view: DeviceView<'_>, lifetimes: &Lifetimes, wanted: WantedResults<'p>) -> Self {
        let events = view.events();
        let ignore = wanted.ignore;
        let own = wanted.benchmarks.is_none().then(|| Benchmarks::of(&view.snapshot.tables));
        let benchmarks = wanted.benchmarks.or(own.as_ref()).filter(|benchmarks| !benchmarks.0.is_empty());
        let ignored = Ignored::of(view, ignore);
        if benchmarks.is_none() && ignored.0.is_empty() {
            return Self::default();
        }
        // Without the frees of the blocks, others begin where they are.
        if !lifetimes.replaced.is_empty() {
            return Self { is_impossible: !ignored.0.is_empty(), ..Self::default() };
        }
        let stated = stated(events);
        let end = Position::of_count(events.len());
        let of_phases = ignored.0.iter().map(|window| (window.pattern, Vec::new())).collect();
        let mut found = Self { ignore, of_phases, ..Self::default() };
        for (index, one) in (0..).zip(&lifetimes.allocations).filter(|(_, one)| one.born != Position::START) {
            let next = stated.partition_point(|&at| at < one.born);
            if one.completed > end || stated.get(next).is_some_and(|&at| at < one.completed) {
                continue;
            }
            if benchmarks.is_some_and(|benchmarks| benchmarks.have(one)) {
                found.benchmarks.push(index);
            } else if let Some(pattern) = ignored.pattern_of(one) {
                found.of_phases.entry(pattern).or_default().push(index);
            } else {
                continue;
            }
            found.all.push(index);
        }
        found
    }

    /// True for an allocation that is left out.
    pub(super) fn has(&self, index: u32) -> bool {
        self.all.binary_search(&index).is_ok()
    }

    /// How many come before an allocation.
    pub(super) fn before(&self, index: u32) -> u32 {
        u32::try_from(self.all.partition_point(|&one| one < index)).unwrap_or(u32::MAX)
    }

    pub(super) fn count(&self) -> u64 {
        self.all.len() as u64
    }

    /// Takes their events for those of no block.
    pub(super) fn leave_out(&self, of_event: &mut [u32]) {
        if !self.all.is_empty() {
            of_event.iter_mut().filter(|index| self.has(**index)).for_each(|index| *index = NONE);
        }
    }

    /// How much higher PyTorch's own counter was at its peak.
    pub(super) fn raise(&self, measure: Measure, allocations: &[Allocation], trace: &Trace) -> u64 {
        if self.all.is_empty() {
            return 0;
        }
        let held = held(&self.all, measure, allocations, trace.symbols.len() + 1);
        let all = trace.values(measure).zip(held).map(|(own, held)| own + held).max();
        let own = trace.values(measure).max();
        all.zip(own).and_then(|(all, own)| u64::try_from(all - own).ok()).unwrap_or(0)
    }

    /// Names them beside the figures, which leave them out.
    pub(super) fn diagnostics(&self, id: DeviceId, allocations: &[Allocation], events: usize) -> Vec<Diagnostic> {
        let took = |indices: &[u32]| took(indices, allocations, events);
        let benchmarks = (!self.benchmarks.is_empty()).then(|| {
            let message = format!(
                "measuring which compiled kernels are fast {}, which allocated, active and requested bytes leave out; reserved \
                 bytes have what it reserved",
                took(&self.benchmarks)
            );
            Diagnostic::new(Code::KernelBenchmarks, id, message)
        });
        let parts = self.of_phases.iter();
        let parts = parts.map(|(pattern, indices)| format!("'{}' {}", self.ignore[*pattern].as_str(), took(indices)));
        let parts = parts.collect::<Vec<_>>().join(", ");
        let ignored = (!parts.is_empty()).then(|| {
            let message = format!(
                "ignored phases: {parts}; allocated, active and requested bytes leave out what was freed within them, reserved \
                 bytes have what they reserved"
            );
            Diagnostic::new(Code::PhasesIgnored, id, message)
        });
        let impossible = self.is_impossible.then(|| {
            Diagnostic::new(Code::PhasesIgnored, id, "frees are missing, so that phases to ignore cannot be left out")
        });
        benchmarks.into_iter().chain(ignored).chain(impossible).collect()
    }
}

/// Where a history states what is held.
fn stated(events: &[Event]) -> Vec<Position> {
    let stated = (0..).zip(events).filter(|(_, event)| matches!(event.action, Action::Oom | Action::Snapshot));
    stated.map(|(event, _)| Position::after(event)).collect()
}

/// The bytes that allocations add to a counter, at every place of the history.
fn held(indices: &[u32], measure: Measure, allocations: &[Allocation], places: usize) -> Vec<i128> {
    let mut held = vec![0; places];
    for one in indices.iter().map(|&index| &allocations[index as usize]) {
        let (bytes, end) = match measure {
            Measure::Allocated => (one.bytes, one.freed),
            Measure::Active => (one.bytes, one.completed),
            Measure::Requested => (one.requested, one.completed),
            Measure::Reserved => (0, one.completed),
        };
        held[one.born.count()] += i128::from(bytes);
        held[end.count()] -= i128::from(bytes);
    }
    held.iter_mut().fold(0, |sum, change| {
        *change += sum;
        *change
    });
    held
}

/// The most bytes of allocations, in words.
fn took(indices: &[u32], allocations: &[Allocation], events: usize) -> String {
    if indices.is_empty() {
        return "took nothing".to_owned();
    }
    let most = held(indices, Measure::Allocated, allocations, events + 1).into_iter().max().unwrap_or(0);
    let most = Size(u64::try_from(most).unwrap_or(0));
    format!("took up to {most} ({})", count(indices.len() as u64, "allocation", "allocations"))
}

/// For each stack, whether it measures a kernel; empty if none does.
#[derive(Debug)]
pub struct Benchmarks(Vec<bool>);

impl Benchmarks {
    /// Looks at all stacks of a snapshot.
    pub fn of(tables: &Tables) -> Self {
        let frames: Vec<bool> = tables.frames().map(|frame| is_benchmark(tables, frame)).collect();
        if !frames.contains(&true) {
            return Self(Vec::new());
        }
        let in_stack = |stack| tables.stack(stack).iter().any(|frame| frames[frame.index()]);
        Self(tables.stacks().map(in_stack).collect())
    }

    fn have(&self, one: &Allocation) -> bool {
        one.stack.is_some_and(|stack| self.0[stack.index()])
    }
}

/// A phase to ignore, in the order in which phases begin.
struct IgnoredPhase {
    from: Position,
    /// The latest end of the phases so far, and the pattern of that phase.
    until: Position,
    pattern: usize,
}

/// The phases to ignore.
struct Ignored(Vec<IgnoredPhase>);

impl Ignored {
    fn of(view: DeviceView<'_>, ignore: &[Pattern]) -> Self {
        let mut windows: Vec<IgnoredPhase> = Vec::new();
        if ignore.is_empty() {
            return Self(windows);
        }
        for phase in phases(view.snapshot, view.device) {
            let name = folded_name(view.snapshot.tables.string(phase.name));
            let Some(pattern) = ignore.iter().position(|pattern| pattern.matches(name)) else { continue };
            let own = IgnoredPhase { from: phase.from, until: phase.to, pattern };
            windows.push(match windows.last() {
                Some(last) if last.until > own.until => {
                    IgnoredPhase { until: last.until, pattern: last.pattern, ..own }
                }
                _ => own,
            });
        }
        Self(windows)
    }

    /// The pattern of a phase in which an allocation came and went.
    fn pattern_of(&self, one: &Allocation) -> Option<usize> {
        let last = self.0.partition_point(|window| window.from < one.born).checked_sub(1)?;
        let window = &self.0[last];
        (one.completed <= window.until).then_some(window.pattern)
    }
}

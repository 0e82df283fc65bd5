//! Allocations by which `torch.compile` and Triton measure which kernels are fast. They make them where no cache has the
//! answer yet, so they are not the program's, and the trace leaves them out.

use ptmem_base::device::DeviceId;
use ptmem_base::diagnostic::{Code, Diagnostic};
use ptmem_base::units::Size;
use ptmem_snapshot::snapshot::{Action, Event, Tables};

use super::lifetimes::{Lifetimes, NONE};
use super::{Allocation, Position};
use crate::stack::is_benchmark;
use crate::trace::{Measure, Trace};

/// The indices of those that are left out, in order.
#[derive(Debug, Default, Clone)]
pub(super) struct Benchmarks(Vec<u32>);

impl Benchmarks {
    /// Leaves out those that came and went within the history, unless it states what was held meanwhile: where memory ran
    /// out, they took part in it.
    pub(super) fn find(tables: &Tables, events: &[Event], lifetimes: &Lifetimes) -> Self {
        let frames: Vec<bool> = tables.frames().map(|frame| is_benchmark(tables, frame)).collect();
        // Without the frees of the blocks, others begin where they are.
        if !frames.contains(&true) || !lifetimes.replaced.is_empty() {
            return Self::default();
        }
        let in_stack = |stack| tables.stack(stack).iter().any(|frame| frames[frame.index()]);
        let measure: Vec<bool> = tables.stacks().map(in_stack).collect();
        let stated: Vec<Position> = (0..)
            .zip(events)
            .filter(|(_, event)| matches!(event.action, Action::Oom | Action::Snapshot))
            .map(|(event, _)| Position::after(event))
            .collect();
        let end = Position::of_count(events.len());
        let indexed = (0..).zip(&lifetimes.allocations).filter(|(_, one)| {
            let is_inside = one.born != Position::START && one.completed <= end;
            let next = stated.partition_point(|&at| at < one.born);
            is_inside
                && one.stack.is_some_and(|stack| measure[stack.index()])
                && stated.get(next).is_none_or(|&at| at >= one.completed)
        });
        Self(indexed.map(|(index, _)| index).collect())
    }

    /// True for an allocation that is left out.
    pub(super) fn has(&self, index: u32) -> bool {
        self.0.binary_search(&index).is_ok()
    }

    /// How many come before an allocation.
    pub(super) fn before(&self, index: u32) -> u32 {
        u32::try_from(self.0.partition_point(|&one| one < index)).unwrap_or(u32::MAX)
    }

    pub(super) fn count(&self) -> u64 {
        self.0.len() as u64
    }

    /// Takes their events for those of no block.
    pub(super) fn leave_out(&self, of_event: &mut [u32]) {
        if !self.0.is_empty() {
            of_event.iter_mut().filter(|index| self.has(**index)).for_each(|index| *index = NONE);
        }
    }

    /// The bytes that they add to a counter, at every place of the history.
    fn held(&self, measure: Measure, allocations: &[Allocation], places: usize) -> Vec<i128> {
        let mut held = vec![0; places];
        for one in self.0.iter().map(|&index| &allocations[index as usize]) {
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

    /// How much higher PyTorch's own counter was at its peak.
    pub(super) fn raise(&self, measure: Measure, allocations: &[Allocation], trace: &Trace) -> u64 {
        if self.0.is_empty() {
            return 0;
        }
        let held = self.held(measure, allocations, trace.symbols.len() + 1);
        let all = trace.values(measure).zip(held).map(|(own, held)| own + held).max();
        let own = trace.values(measure).max();
        all.zip(own).and_then(|(all, own)| u64::try_from(all - own).ok()).unwrap_or(0)
    }

    /// Names them beside the figures, which leave them out.
    pub(super) fn diagnostic(&self, device: DeviceId, allocations: &[Allocation], events: usize) -> Option<Diagnostic> {
        if self.0.is_empty() {
            return None;
        }
        let most = self.held(Measure::Allocated, allocations, events + 1).into_iter().max().unwrap_or(0);
        let most = Size(u64::try_from(most).unwrap_or(0));
        let count = self.0.len();
        let message = format!(
            "measuring which compiled kernels are fast took up to {most} ({count} {}), which allocated, active and requested \
             bytes leave out; reserved bytes have what it reserved",
            if count == 1 { "allocation" } else { "allocations" },
        );
        Some(Diagnostic::new(Code::KernelBenchmarks, device, message))
    }
}

//! The passes of training, as call stacks show them: setup, forward, backward, optimizer; and evaluation.
//!
//! Only allocations have stacks here, so a pass begins just before its first one. It ends where the next pass begins,
//! or where other code allocates; the loss, between both passes, belongs to the forward pass.

use super::evaluation;
use crate::stack::{Pass, SnapshotCode};
use crate::trace::{Bucket, Origin, Position, Trace, Window};

/// A pass of a history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NamedPass {
    /// Its name.
    pub name: Pass,
    /// Just before its first event.
    pub from: Position,
    /// Just after its last event.
    pub to: Position,
}

/// Part of a history in which a pass is seen to run, or code of no pass.
#[derive(Debug, Clone, Copy)]
struct Sighting {
    pass: Option<Pass>,
    from: Position,
    /// Its end, where that is known.
    to: Option<Position>,
}

/// The passes of a history, in the order in which they begin, steps before what they consist of. `optimizers` are the parts
/// that PyTorch names as those of an optimizer, in order: one that updates in place allocates nothing.
pub fn passes(trace: &Trace, code: &SnapshotCode<'_>, optimizers: &[Window]) -> Vec<NamedPass> {
    let passes = seen(trace, code, optimizers);
    let Some(first) = passes.first().copied() else { return passes };
    let mut found = Vec::with_capacity(passes.len());
    if first.from > Position::START && trace.start.iter().all(|start| start.allocated + start.pending == 0) {
        found.push(NamedPass { name: Pass::Setup, from: Position::START, to: first.from });
    }
    let mut rest = &passes[..];
    while let Some(last) = rest.iter().position(|pass| pass.name == Pass::Optimizer) {
        let (passes, later) = rest.split_at(last + 1);
        // What is evaluated ahead of a step is not a part of it.
        let own = passes.iter().position(|pass| pass.name != Pass::Evaluation).unwrap_or(0);
        found.extend(&passes[..own]);
        found.push(NamedPass { name: Pass::Step, from: passes[own].from, to: passes[last].to });
        found.extend(&passes[own..]);
        rest = later;
    }
    found.extend(rest);
    found
}

/// The pass of each class of allocations.
pub(super) fn pass_of_classes(trace: &Trace, code: &SnapshotCode<'_>) -> Vec<Option<Pass>> {
    // Stacks that allocate blocks of many sizes have many classes.
    let mut of_stack: Vec<Option<Option<Pass>>> = vec![None; code.tables().stacks().len()];
    let stacks = trace.classes.iter().map(|class| class.origin.stack());
    let passes = stacks.map(|stack| *of_stack[stack?.index()].get_or_insert_with(|| code.pass(stack?)));
    let mut passes: Vec<Option<Pass>> = passes.collect();
    // Where C++ was not recorded, the threads of autograd have no frames.
    if passes.contains(&Some(Pass::Forward)) && !passes.contains(&Some(Pass::Backward)) {
        for (pass, class) in passes.iter_mut().zip(&trace.classes) {
            if class.origin == Origin::Bucket(Bucket::NoFrames) {
                *pass = Some(Pass::Backward);
            }
        }
    }
    passes
}

/// The passes that are seen, in order.
fn seen(trace: &Trace, code: &SnapshotCode<'_>, optimizers: &[Window]) -> Vec<NamedPass> {
    let mut of_class = pass_of_classes(trace, code);
    evaluation::mark(trace, code, &mut of_class);
    // By symbol: of moves that hand out a block, the pass of its class.
    let of_move = trace.moves.iter().map(|one| one.begins().map(|block| of_class[block.class as usize]));
    let of_move: Vec<Option<Option<Pass>>> = of_move.collect();
    let mut seen = SeenPasses::default();
    let mut optimizers = optimizers.iter().peekable();
    for (index, &symbol) in trace.symbols.iter().enumerate() {
        let Some(pass) = of_move[symbol as usize] else { continue };
        let place = Position::of_count(index);
        while let Some(window) = optimizers.next_if(|window| window.to <= place) {
            seen.end_optimizer(*window);
        }
        let window = optimizers.peek().filter(|window| window.from <= place);
        let from = window.filter(|window| pass == Some(Pass::Optimizer) && !window.is_seen(seen.last));
        seen.add(Sighting { pass, from: from.map_or(place, |window| window.from), to: None });
    }
    for window in optimizers {
        seen.end_optimizer(*window);
    }
    seen.passes(trace.end())
}

impl Window {
    /// The end of a pass. A pass that allocates nothing is only known from its beginning. A pass nested in another
    /// optimizer ends before that one, which does not end the outer pass.
    fn end_of_optimizer(self, last: Option<Sighting>) -> Option<Sighting> {
        let from = if self.is_seen(last) { self.to } else { self.from };
        let is_within = last.is_some_and(|last| last.from > self.to);
        (!is_within).then_some(Sighting { pass: Some(Pass::Optimizer), from, to: Some(self.to) })
    }

    /// True if the latest sighting is inside this window.
    fn is_seen(self, last: Option<Sighting>) -> bool {
        last.is_some_and(|last| last.from >= self.from)
    }
}

/// The passes seen so far, the parts of each combined.
#[derive(Default)]
struct SeenPasses {
    passes: Vec<NamedPass>,
    /// Where the last of them ends, once that is known.
    until: Option<Position>,
    /// The latest sighting.
    last: Option<Sighting>,
}

impl SeenPasses {
    #[inline]
    fn add(&mut self, sighting: Sighting) {
        self.last = Some(sighting);
        match (sighting.pass, self.passes.last()) {
            (Some(name), Some(last)) if last.name == name => self.until = sighting.to,
            (Some(name), _) => self.begin(name, sighting),
            (None, _) => self.until = self.until.or(Some(sighting.from)),
        }
    }

    fn begin(&mut self, name: Pass, sighting: Sighting) {
        if let Some(last) = self.passes.last_mut() {
            let is_loss = (last.name, name) == (Pass::Forward, Pass::Backward);
            last.to = self.until.filter(|_| !is_loss).unwrap_or(sighting.from);
        }
        self.until = sighting.to;
        self.passes.push(NamedPass { name, from: sighting.from, to: Position::NEVER });
    }

    fn end_optimizer(&mut self, window: Window) {
        if let Some(end) = window.end_of_optimizer(self.last) {
            self.add(end);
        }
    }

    /// All of them, in a history that ends at `end`.
    fn passes(mut self, end: Position) -> Vec<NamedPass> {
        if let Some(last) = self.passes.last_mut() {
            last.to = self.until.unwrap_or(end);
        }
        self.passes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_optimizer_within_another_ends_nothing() {
        let [outer, inner] =
            [(1, 9), (2, 4)].map(|(from, to)| Window { from: Position::of_count(from), to: Position::of_count(to) });
        let ends = outer.end_of_optimizer(None).unwrap();
        assert_eq!((ends.from, ends.to), (outer.from, Some(outer.to)));
        let seen = Sighting { from: outer.to, ..ends };
        assert!(inner.end_of_optimizer(Some(seen)).is_none());
        assert!(outer.end_of_optimizer(Some(seen)).is_some());
    }
}

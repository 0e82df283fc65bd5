//! Evaluation: modules run, and no backward pass follows from it. Annotations need not say so.
//!
//! Calls of modules are distinguished by their callers: the frames around the outermost module. Callers train if a backward pass
//! directly follows a call, or frees what a call made. Those that every backward pass follows, or every one of those that follow
//! the same caller, or that call after one that trains, are a part of each step, such as a teacher, a target network, or a
//! generator whose graph is kept for the second of two backward passes. The others evaluate. Where the same lines train and
//! evaluate, nothing distinguishes the two.

use std::collections::BTreeSet;

use ptmem_base::interner::Interner;
use ptmem_snapshot::snapshot::{FrameId, StackId};
use rustc_hash::FxHashMap;

use crate::stack::{Pass, SnapshotCode};
use crate::trace::{Class, Trace};

/// Marks the classes of forward passes from which no backward pass follows.
pub(super) fn mark(trace: &Trace, code: &SnapshotCode<'_>, passes: &mut [Option<Pass>]) {
    if !passes.contains(&Some(Pass::Backward)) {
        return;
    }
    let mut callers = Callers::new(&trace.classes, code, passes);
    callers.find_saved(trace, passes);
    callers.find_parts_of_steps(trace, passes);
    for (pass, caller) in passes.iter_mut().zip(&callers.of_class) {
        if caller.is_some_and(|caller| !callers.all[caller].trains) {
            *pass = Some(Pass::Evaluation);
        }
    }
}

/// The caller of modules.
#[derive(Debug, Clone, Default)]
struct Caller {
    trains: bool,
    /// The number of rounds in which it calls, by the caller that the backward pass follows.
    rounds: FxHashMap<Option<usize>, usize>,
}

/// The callers of the classes of forward passes.
struct Callers {
    of_class: Vec<Option<usize>>,
    all: Vec<Caller>,
}

impl Callers {
    fn new(classes: &[Class], code: &SnapshotCode<'_>, passes: &[Option<Pass>]) -> Self {
        let mut frames: Interner<Vec<FrameId>> = Interner::default();
        // Stacks that allocate blocks of many sizes have many classes.
        let mut of_stack: FxHashMap<StackId, usize> = FxHashMap::default();
        let of_class = classes.iter().zip(passes).map(|(class, pass)| {
            let stack = class.origin.stack().filter(|_| *pass == Some(Pass::Forward))?;
            let caller = of_stack.entry(stack);
            Some(*caller.or_insert_with(|| frames.number(&code.callers_of_modules(stack)) as usize))
        });
        let of_class: Vec<Option<usize>> = of_class.collect();
        Self { of_class, all: vec![Caller::default(); frames.into_items().len()] }
    }

    /// Finds the callers whose calls a backward pass follows, or frees something of.
    fn find_saved(&mut self, trace: &Trace, passes: &[Option<Pass>]) {
        let mut last = None;
        let mut is_backward = false;
        for one in trace.symbols.iter().map(|&symbol| &trace.moves[symbol as usize]) {
            if let Some(caller) = one.frees().filter(|_| is_backward).and_then(|class| self.of_class[class as usize]) {
                self.all[caller].trains = true;
            }
            let Some(class) = one.begins().map(|block| block.class as usize) else { continue };
            is_backward = passes[class] == Some(Pass::Backward);
            match passes[class] {
                Some(Pass::Forward) => last = self.of_class[class],
                Some(Pass::Backward) => {
                    last.take().into_iter().for_each(|caller: usize| self.all[caller].trains = true);
                }
                Some(_) => last = None,
                None => {}
            }
        }
    }

    /// Finds the callers that are a part of each step. A round reaches from one backward pass to the next; what follows the last
    /// one is none.
    fn find_parts_of_steps(&mut self, trace: &Trace, passes: &[Option<Pass>]) {
        let mut rounds: FxHashMap<Option<usize>, usize> = FxHashMap::default();
        let mut calling: BTreeSet<usize> = BTreeSet::new();
        let mut last = None;
        let mut is_backward = false;
        let mut has_trained = false;
        for block in trace.symbols.iter().filter_map(|&symbol| trace.moves[symbol as usize].begins()) {
            let class = block.class as usize;
            let begins_backward = passes[class] == Some(Pass::Backward) && !is_backward;
            is_backward = passes[class] == Some(Pass::Backward) || is_backward && passes[class].is_none();
            has_trained &= !is_backward;
            if begins_backward {
                *rounds.entry(last).or_default() += 1;
                for caller in std::mem::take(&mut calling) {
                    *self.all[caller].rounds.entry(last).or_default() += 1;
                }
            }
            if passes[class].is_some() {
                last = self.of_class[class];
            }
            let Some(caller) = self.of_class[class] else { continue };
            self.all[caller].trains |= has_trained;
            has_trained |= self.all[caller].trains;
            calling.insert(caller);
        }
        let all: usize = rounds.values().sum();
        for caller in &mut self.all {
            // A single round of its kind shows no rule.
            let is_in_all = caller.rounds.iter().any(|(kind, number)| *number > 1 && rounds[kind] == *number);
            caller.trains |= is_in_all || caller.rounds.values().sum::<usize>() == all;
        }
    }
}

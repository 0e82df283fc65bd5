//! Evaluation: modules run, and no backward pass follows from it. Annotations need not say so.
//!
//! Calls of modules are distinguished by their callers: the frames around the outermost module. Callers train if a backward pass
//! directly follows a call, or frees what a call made. Callers that every backward pass follows, or that call after one that
//! trains, are a part of each step, such as a teacher or a target network. In a program with several kinds of backward passes,
//! such as a GAN, it is enough that all of one kind follow a caller, and that this is a line of the function that trains, or hands
//! something on: a generator whose graph is kept for the second backward pass. The others evaluate. Where the same lines train and
//! evaluate, nothing distinguishes the two.

use std::collections::BTreeMap;

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
    if !callers.find_saved(trace, passes) {
        callers.find_parts_of_steps(trace, passes);
    }
    for (pass, caller) in passes.iter_mut().zip(&callers.of_class) {
        if caller.is_some_and(|caller| !callers.all[caller].trains) {
            *pass = Some(Pass::Evaluation);
        }
    }
}

/// The caller of modules.
#[derive(Debug, Clone, Default)]
struct Caller<'c> {
    /// The file and the name of the function.
    function: Option<(&'c str, &'c str)>,
    trains: bool,
    /// The rounds in which it calls, by the caller that the backward pass follows.
    rounds: FxHashMap<Option<usize>, CallerRounds>,
}

/// Rounds in which a caller calls.
#[derive(Debug, Clone, Copy, Default)]
struct CallerRounds {
    all: usize,
    /// Those at whose end a block is there that the caller made in them.
    handing_on: usize,
}

/// The callers of the classes of forward passes.
struct Callers<'c> {
    of_class: Vec<Option<usize>>,
    all: Vec<Caller<'c>>,
}

impl<'c> Callers<'c> {
    fn new(classes: &[Class], code: &'c SnapshotCode<'_>, passes: &[Option<Pass>]) -> Self {
        let mut frames: Interner<Vec<FrameId>> = Interner::default();
        // Stacks that allocate blocks of many sizes have many classes.
        let mut of_stack: FxHashMap<StackId, usize> = FxHashMap::default();
        let of_class = classes.iter().zip(passes).map(|(class, pass)| {
            let stack = class.origin.stack().filter(|_| *pass == Some(Pass::Forward))?;
            let caller = of_stack.entry(stack);
            Some(*caller.or_insert_with(|| frames.number(&code.callers_of_modules(stack)) as usize))
        });
        let of_class: Vec<Option<usize>> = of_class.collect();
        let all = frames.into_items().into_iter().map(|frames| {
            let function = frames.first().map(|&frame| (code.file(frame), code.function(frame)));
            Caller { function, ..Caller::default() }
        });
        Self { of_class, all: all.collect() }
    }

    /// Finds the callers whose calls a backward pass follows, or frees something of. Returns true if these are all.
    fn find_saved(&mut self, trace: &Trace, passes: &[Option<Pass>]) -> bool {
        let mut others = self.all.len();
        let mut last = None;
        let mut is_backward = false;
        for one in trace.symbols.iter().map(|&symbol| &trace.moves[symbol as usize]) {
            if others == 0 {
                break;
            }
            if is_backward {
                others -= self.train(one.frees().and_then(|class| self.of_class[class as usize]));
            }
            let Some(class) = one.begins().map(|block| block.class as usize) else { continue };
            is_backward = passes[class] == Some(Pass::Backward);
            match passes[class] {
                Some(Pass::Forward) => last = self.of_class[class],
                Some(Pass::Backward) => others -= self.train(last.take()),
                Some(_) => last = None,
                None => {}
            }
        }
        others == 0
    }

    /// Takes a caller as one that trains. Returns how many are so only now.
    fn train(&mut self, caller: Option<usize>) -> usize {
        caller.map_or(0, |caller| usize::from(!std::mem::replace(&mut self.all[caller].trains, true)))
    }

    /// Finds the callers that are a part of each step. A round reaches from one backward pass to the next; what follows the last
    /// one is none.
    fn find_parts_of_steps(&mut self, trace: &Trace, passes: &[Option<Pass>]) {
        let mut rounds: FxHashMap<Option<usize>, usize> = FxHashMap::default();
        let mut round = RoundOfCalls::default();
        let mut blocks = trace.count_at_start();
        let mut ended = trace.ended.iter();
        let mut last = None;
        let mut is_backward = false;
        let mut has_trained = false;
        for one in trace.symbols.iter().map(|&symbol| trace.moves[symbol as usize]) {
            let block = one.ends().and_then(|_| ended.next());
            if let Some(caller) = one.frees().and_then(|class| self.of_class[class as usize]) {
                round.end(caller, block.copied());
            }
            let Some(class) = one.begins().map(|block| block.class as usize) else { continue };
            let begins_backward = passes[class] == Some(Pass::Backward) && !is_backward;
            is_backward = passes[class] == Some(Pass::Backward) || is_backward && passes[class].is_none();
            has_trained &= !is_backward;
            if begins_backward {
                *rounds.entry(last).or_default() += 1;
                for (caller, left) in std::mem::replace(&mut round, RoundOfCalls::new(blocks)).callers {
                    let of_caller = self.all[caller].rounds.entry(last).or_default();
                    of_caller.all += 1;
                    of_caller.handing_on += usize::from(left > 0);
                }
            }
            blocks += 1;
            if passes[class].is_some() {
                last = self.of_class[class];
            }
            let Some(caller) = self.of_class[class] else { continue };
            self.all[caller].trains |= has_trained;
            has_trained |= self.all[caller].trains;
            *round.callers.entry(caller).or_default() += 1;
        }
        self.mark_parts_of_steps(&rounds);
    }

    /// Marks the callers that are a part of each of these rounds, or of each of one kind.
    fn mark_parts_of_steps(&mut self, rounds: &FxHashMap<Option<usize>, usize>) {
        let functions: Vec<_> = self.all.iter().map(|caller| caller.function).collect();
        let all: usize = rounds.values().sum();
        for caller in &mut self.all {
            // A single round of its kind shows no rule.
            let mut kinds = caller.rounds.iter().filter(|(kind, of)| of.all > 1 && rounds[kind] == of.all);
            let is_in_kind = kinds.any(|(kind, of)| {
                of.handing_on == of.all || kind.is_some_and(|trained| functions[trained] == caller.function)
            });
            caller.trains |= is_in_kind || caller.rounds.values().map(|of| of.all).sum::<usize>() == all;
        }
    }
}

/// The calls since a backward pass began.
#[derive(Debug, Default)]
struct RoundOfCalls {
    /// The first block of the round, by its number in the trace.
    first: usize,
    /// The callers, with the blocks that they made in the round and that are there.
    callers: BTreeMap<usize, usize>,
}

impl RoundOfCalls {
    fn new(first: usize) -> Self {
        Self { first, callers: BTreeMap::new() }
    }

    /// Takes note of the end of a block of a caller.
    fn end(&mut self, caller: usize, block: Option<u32>) {
        if block.is_some_and(|block| block as usize >= self.first)
            && let Some(left) = self.callers.get_mut(&caller)
        {
            *left = left.saturating_sub(1);
        }
    }
}

//! The allocations of both sides in order, in numbers that both share: those of the groups of stacks that are the same.

use std::collections::HashMap;

use rustc_hash::FxHashMap;

use super::{LEAST_ALLOCATIONS, LEAST_STACKS, Run};
use crate::interner::Interner;
use crate::profile::Bucket;
use crate::sides::{Side, Sides};
use crate::stack::Paired;
use crate::trace::{Origin, Position};

/// The least share of the allocations of the shorter history whose sizes the other one knows too, in percent, if sizes
/// are to tell.
const LEAST_SHARED: usize = 50;

/// The allocations of a side.
#[derive(Debug, Default)]
pub(super) struct Sequence {
    /// Their numbers.
    pub(super) symbols: Vec<u32>,
    /// The place just after each.
    pub(super) born: Vec<Position>,
}

/// The allocations of both sides, and how they are known.
pub(super) struct Common {
    pub(super) sequences: Sides<Sequence>,
    /// True if the stacks are few, and the sizes differ.
    pub(super) is_unlike: bool,
}

/// Numbers the allocations of both sides. Where few stacks make all of them, as where a recording has no frames, their
/// order tells nothing, and allocations of other sizes have other numbers. `paired` are the groups of both that are the
/// same ones.
pub(super) fn common(runs: &Sides<Run<'_>>, paired: &Paired) -> Common {
    let mut symbols = Interner::default();
    let mut by_size = Interner::default();
    let mut sequences = Sides::<Sequence>::default();
    let mut sized = Sides::<Vec<u32>>::default();
    for side in Side::BOTH {
        let run = runs.of(side);
        let names = names(runs, paired, side);
        let of_class = of_classes(run, &names, &mut symbols);
        let sequence = sequences.of_mut(side);
        let trace = &run.device.trace;
        for (at, class) in trace.begun().take_while(|(at, _)| *at < trace.dump()) {
            let symbol = of_class[class as usize];
            sequence.symbols.push(symbol);
            sequence.born.push(at);
            let bytes = trace.classes[class as usize].requested;
            sized.of_mut(side).push(by_size.number(&(symbol, bytes)));
        }
    }
    let stacks = sequences.each().map(|(_, sequence)| counts(&sequence.symbols).len());
    let longer = sized.before.len().max(sized.after.len());
    let has_few = longer >= LEAST_ALLOCATIONS && stacks.into_iter().any(|stacks| stacks < LEAST_STACKS);
    let is_unlike = has_few && !are_alike(&sized);
    if has_few && !is_unlike {
        let Sides { before, after } = sized;
        sequences.before.symbols = before;
        sequences.after.symbols = after;
    }
    Common { sequences, is_unlike }
}

/// The groups of a side that go by the name of another one, with that name.
fn names<'r>(runs: &Sides<Run<'r>>, paired: &Paired, side: Side) -> HashMap<&'r str, &'r str> {
    let Sides { before, after } = runs;
    let mut of_after: HashMap<&str, &str> =
        paired.pairs.iter().map(|&(old, new)| (name(after, new), name(before, old))).collect();
    let mut of_before = HashMap::new();
    for &(old, new) in &paired.parts {
        let first = *of_after.entry(name(after, new)).or_insert(name(before, old));
        of_before.insert(name(before, old), first);
    }
    match side {
        Side::Before => of_before,
        Side::After => of_after,
    }
}

fn name<'r>(run: &Run<'r>, group: usize) -> &'r str {
    &run.totals[group].key.0
}

/// The symbol of every class.
fn of_classes(run: &Run<'_>, names: &HashMap<&str, &str>, symbols: &mut Interner<String>) -> Vec<u32> {
    let mut known = FxHashMap::default();
    let mut of_classes = Vec::with_capacity(run.device.trace.classes.len());
    for class in &run.device.trace.classes {
        let symbol = known.entry(class.origin).or_insert_with(|| {
            let key = match class.origin {
                Origin::Stack(stack) => run.grouper.key(stack).0,
                Origin::Bucket(_) => Bucket::NoFrames.label().to_owned(),
            };
            symbols.number(*names.get(&*key).unwrap_or(&&*key))
        });
        of_classes.push(*symbol);
    }
    of_classes
}

/// How often each symbol occurs.
pub(super) fn counts(symbols: &[u32]) -> FxHashMap<u32, usize> {
    let mut counts = FxHashMap::default();
    symbols.iter().for_each(|symbol| *counts.entry(*symbol).or_default() += 1);
    counts
}

/// True if the same numbers occur on both sides often enough to tell which allocations correspond.
fn are_alike(symbols: &Sides<Vec<u32>>) -> bool {
    let Sides { before, after } = symbols;
    let (shorter, longer) = if before.len() <= after.len() { (before, after) } else { (after, before) };
    let known = counts(longer);
    let shared = shorter.iter().filter(|symbol| known.contains_key(symbol)).count();
    shared * 100 >= shorter.len() * LEAST_SHARED
}

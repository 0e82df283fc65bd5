//! The allocations of both sides in order, in numbers that both share: those of the groups of stacks that are the same.

use ptmem_base::interner::Interner;
use ptmem_base::sides::Sides;
use ptmem_trace::profile::{DeviceProfile, StackTotal, groups_of_origins};
use ptmem_trace::stack::Paired;
use ptmem_trace::trace::Position;
use rustc_hash::FxHashMap;

use super::steps::{FoldedSteps, LEAST_STACKS};

/// Fewer allocations than these are too few to find missing parts. Needed for `corners/pinned`.
pub(super) const LEAST_ALLOCATIONS: usize = 20;

/// One side of an alignment.
#[derive(Debug, Clone, Copy)]
pub struct AlignedSide<'r> {
    /// The device.
    pub device: &'r DeviceProfile,
    /// Its groups by [`ptmem_trace::stack::GroupBy::Stack`].
    pub totals: &'r [StackTotal],
}

impl AlignedSide<'_> {
    /// The place just after each recorded allocation, and its class.
    fn allocations(&self) -> Vec<(Position, u32)> {
        let trace = &self.device.trace;
        let mut begun = trace.begun();
        begun.truncate(begun.partition_point(|&(at, _)| at < trace.dump()));
        begun
    }
}

/// The allocations of a side.
#[derive(Debug)]
pub(super) struct Sequence<'r> {
    pub(super) device: &'r DeviceProfile,
    /// The place just after each.
    pub(super) born: Vec<Position>,
    /// The steps that nearly all of them are.
    pub(super) steps: Option<FoldedSteps>,
    /// The numbers of those that are aligned.
    pub(super) symbols: Vec<u32>,
}

/// Numbers the allocations of both sides. If few stacks make all of them, as in a recording without frames, their order
/// is not evidence, and allocations of different sizes get different numbers. `paired` are the groups that both sides
/// have.
pub(super) fn common<'r>(runs: &Sides<AlignedSide<'r>>, paired: &Paired) -> Sides<Sequence<'r>> {
    let by_stack = of_classes(runs, paired);
    let allocations = runs.map_at_once(AlignedSide::allocations);
    let mut symbols = symbols(&allocations, &by_stack);
    let longer = symbols.before.len().max(symbols.after.len());
    if longer >= LEAST_ALLOCATIONS && symbols.each().into_iter().any(|(_, symbols)| are_few(symbols)) {
        let mut sizes = Interner::default();
        let by_size = runs.zip(by_stack).map(|(run, of_class)| {
            let classes = run.device.trace.classes.iter().zip(of_class);
            classes.map(|(class, &symbol)| sizes.number(&(symbol, class.requested))).collect()
        });
        symbols = self::symbols(&allocations, &by_size);
    }
    let steps = folded(&symbols);
    runs.zip(allocations).zip(symbols.zip(steps)).map_at_once(|((run, allocations), (symbols, steps))| Sequence {
        device: run.device,
        born: allocations.iter().map(|&(born, _)| born).collect(),
        steps: *steps,
        symbols: steps.map_or_else(|| symbols.clone(), |steps| steps.reduced(symbols)),
    })
}

/// The steps of both sides. If only one side consists of steps, the same steps count on the other side, too: a short recording is
/// mostly setup, and its steps must be aligned in the same way.
pub(super) fn folded(symbols: &Sides<Vec<u32>>) -> Sides<Option<FoldedSteps>> {
    let found = symbols.map_at_once(|symbols| FoldedSteps::repeated(symbols));
    let repeated = symbols.map(Vec::as_slice).zip(found);
    let mut steps = repeated.map(|(symbols, found)| found.filter(|steps| steps.are_nearly_all_of(symbols)));
    let Some(side) = steps.missing() else { return steps };
    if let Some(known) = *steps.of(side.other()) {
        let (own, found) = *repeated.of(side);
        *steps.of_mut(side) = found.filter(|steps| steps.are_same(own, &known, symbols.of(side.other())));
    }
    steps
}

/// True for fewer distinct symbols than evidence takes.
fn are_few(symbols: &[u32]) -> bool {
    let mut seen: Vec<u32> = Vec::new();
    symbols.iter().all(|symbol| {
        if !seen.contains(symbol) {
            seen.push(*symbol);
        }
        seen.len() < LEAST_STACKS
    })
}

/// The number of the group that each class belongs to. Groups that are the same ones have that of the before.
fn of_classes(runs: &Sides<AlignedSide<'_>>, paired: &Paired) -> Sides<Vec<u32>> {
    let mut next = 0_u32..;
    let mut numbers = runs.map(|run| next.by_ref().take(run.totals.len()).collect::<Vec<u32>>());
    let of_after = numbers.after.first().copied().unwrap_or(0);
    for &(old, new) in &paired.pairs {
        numbers.after[new] = numbers.before[old];
    }
    for &(old, new) in paired.parts.iter().chain(&paired.callers) {
        if numbers.after[new] >= of_after {
            numbers.after[new] = numbers.before[old];
        }
        numbers.before[old] = numbers.after[new];
    }
    for node in &paired.nodes {
        let number = next.start;
        next.start += 1;
        node.before.iter().for_each(|&group| numbers.before[group] = number);
        node.after.iter().for_each(|&group| numbers.after[group] = number);
    }
    runs.zip(numbers).map(|(run, numbers)| {
        let groups = groups_of_origins(run.totals);
        let classes = run.device.trace.classes.iter();
        classes.map(|class| groups.get(&class.origin).map_or(0, |&group| numbers[group])).collect()
    })
}

/// The numbers of all allocations, by those of their classes.
fn symbols(allocations: &Sides<Vec<(Position, u32)>>, of_classes: &Sides<Vec<u32>>) -> Sides<Vec<u32>> {
    let sides = allocations.map(|allocations| allocations).zip(of_classes.map(|of_class| of_class));
    sides.map(|(allocations, of_class)| allocations.iter().map(|&(_, class)| of_class[class as usize]).collect())
}

/// How often each symbol occurs.
pub(super) fn counts(symbols: &[u32]) -> FxHashMap<u32, usize> {
    let mut counts = FxHashMap::default();
    symbols.iter().for_each(|symbol| *counts.entry(*symbol).or_default() += 1);
    counts
}

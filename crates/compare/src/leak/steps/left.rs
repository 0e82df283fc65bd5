//! The memory that steps leave behind, by stack.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ops::{Add, AddAssign, Range};

use ptmem_snapshot::snapshot::{FrameId, StackId, StringId};
use ptmem_trace::profile::{Held, Identity, identity};
use ptmem_trace::replay::{Origin, Position};
use ptmem_trace::stack::{CppDigest, Key, SnapshotCode};
use ptmem_trace::trace::Class;
use rustc_hash::FxHashMap;

use super::{DeviceSteps, FEWEST, rounded};
use crate::leak::leaking::{Course, proportion};
use crate::leak::{Leak, LeakMetric, LeakOptions};

/// The identity of blocks: their stack, and the tag that they are grouped by.
type Attribution = (Origin, Option<CppDigest>, Option<StringId>);

/// Blocks that are held. Of equal requests, one may get a larger block: a rest that is too small to be another one.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Kept {
    pub(super) held: Held,
    requested: u64,
}

impl Kept {
    fn of(class: &Class) -> Self {
        Self { held: Held::of(class, 1), requested: class.request() }
    }
}

impl Add for Kept {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { held: self.held + other.held, requested: self.requested.saturating_add(other.requested) }
    }
}

impl AddAssign for Kept {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

/// Blocks of one identity that steps allocate.
struct StepBlocks {
    /// The class of one of them.
    class: Class,
    /// The longest, in steps, that one lives that is freed.
    lifetime: usize,
    /// Those that are held where the last step begins. What the program holds while it runs, it may give up when it ends, where
    /// the last step ends too.
    left: Vec<LeftBlock>,
    /// Those that only reference cycles hold.
    collected: Vec<LeftBlock>,
}

/// A block that is held where the last step begins. A history may have more than a million.
#[derive(Clone, Copy)]
struct LeftBlock {
    /// The step that allocated it.
    step: u32,
    class: u32,
}

impl DeviceSteps<'_> {
    fn attribution(&self, class: &Class) -> Attribution {
        (class.origin, class.cpp, class.tags.of(self.grouper.by()))
    }

    /// The blocks that steps allocate.
    fn step_blocks(&self) -> FxHashMap<Attribution, StepBlocks> {
        let &Self { steps, judged, .. } = self;
        let mut blocks: FxHashMap<Attribution, StepBlocks> = FxHashMap::default();
        let dump = self.device.trace.dump();
        let collected = self.device.collected.as_deref().unwrap_or_default();
        let Some(end) = steps.steps.get(judged.last).map(|last| last.from) else { return blocks };
        for life in self.lives.iter().filter(|life| life.born != Position::START && life.born < dump) {
            let Some(step) = steps.at(life.born) else { continue };
            let class = self.device.trace.classes[life.class as usize];
            let of = blocks.entry(self.attribution(&class));
            let of = of.or_insert_with(|| StepBlocks { class, lifetime: 0, left: Vec::new(), collected: Vec::new() });
            let until = if life.born > end { dump } else { end };
            let is_collected = collected.binary_search(&life.born).is_ok();
            if until < life.freed {
                let left = if is_collected { &mut of.collected } else { &mut of.left };
                left.push(LeftBlock { step: u32::try_from(step).unwrap_or(u32::MAX), class: life.class });
            } else if let Some(freed) = steps.at(life.freed).filter(|_| !is_collected) {
                of.lifetime = of.lifetime.max(freed.saturating_sub(step));
            }
        }
        blocks
    }

    /// The memory that the steps leave behind, by the group of its stacks, and apart from that what cycles hold.
    pub(super) fn left_behind(&self) -> BTreeMap<(LeakMetric, Key), LeftMemory<'_>> {
        let replaced = Replaced::new(self);
        let mut groups = BTreeMap::new();
        for (attribution, blocks) in self.step_blocks() {
            for (metric, left) in [(LeakMetric::Allocated, &blocks.left), (LeakMetric::Cycles, &blocks.collected)] {
                self.add_left(&mut groups, metric, attribution, &blocks, left, &replaced);
            }
        }
        groups
    }

    /// Adds what one stack left behind.
    fn add_left<'l>(
        &'l self,
        groups: &mut BTreeMap<(LeakMetric, Key), LeftMemory<'l>>,
        metric: LeakMetric,
        attribution: Attribution,
        blocks: &StepBlocks,
        by_step: &[LeftBlock],
        replaced: &Replaced,
    ) {
        let &Self { grouper, judged, options, .. } = self;
        let &StepBlocks { class, lifetime, .. } = blocks;
        let origin = class.origin;
        if by_step.is_empty() || origin.stack().is_some_and(|stack| is_state_of_optimizer(grouper.code(), stack)) {
            return;
        }
        let identity = identity(&class, grouper);
        let classes = &self.device.trace.classes;
        let left =
            groups.entry((metric, identity.key.clone())).or_insert_with(|| LeftMemory::new(metric, identity, self));
        left.end += sum(by_step, classes).held;
        // Those of the last steps may still be freed as the others were.
        let until = judged.until(lifetime);
        let [from, to] = [judged.from, until].map(|end| by_step.partition_point(|block| (block.step as usize) < end));
        let evidence = &by_step[from..to.max(from)];
        let kept = sum(evidence, classes);
        if evidence.is_empty() || replaced.replaces(attribution, kept, until.saturating_sub(judged.from), options) {
            return;
        }
        left.lifetime = left.lifetime.max(lifetime);
        *left.stacks.entry(origin).or_default() += kept.held;
        left.evidence.extend(evidence);
    }
}

/// The memory that one group of stacks left behind.
pub(super) struct LeftMemory<'l> {
    pub(super) metric: LeakMetric,
    pub(super) identity: Identity,
    pub(super) of: &'l DeviceSteps<'l>,
    /// By exact stack.
    stacks: FxHashMap<Origin, Held>,
    /// The blocks that can show a leak.
    evidence: Vec<LeftBlock>,
    /// The longest, in steps, that blocks of these stacks live by design.
    pub(super) lifetime: usize,
    end: Held,
}

fn sum(blocks: &[LeftBlock], classes: &[Class]) -> Kept {
    blocks.iter().fold(Kept::default(), |sum, block| sum + Kept::of(&classes[block.class as usize]))
}

/// The frames of a stack in words, those of Python first. The numbers of stacks depend on the order in which a file has them.
fn contents<'t>(code: &SnapshotCode<'t>, stack: StackId) -> [Vec<(&'t str, i128, &'t str)>; 2] {
    let tables = code.tables();
    let python: Vec<FrameId> = code.python(stack).collect();
    [&*python, tables.stack(stack)].map(|frames| {
        let frames = frames.iter().map(|&frame| tables.frame(frame));
        frames.map(|frame| (tables.string(frame.filename), frame.line, tables.string(frame.name))).collect()
    })
}

/// The bytes that steps and those before them left behind.
fn course(steps: &[(usize, Kept)], judged: Range<usize>) -> Course {
    let mut sum: u64 = 0;
    let sums = steps.iter().map(|(step, kept)| {
        sum = sum.saturating_add(kept.held.bytes);
        (step - judged.start, sum)
    });
    Course::new(judged.len(), sums)
}

/// The number N, if the same amount stays after every N steps, such as a model after each run of three batches.
fn period(steps: &[(usize, Kept)], judged: Range<usize>) -> Option<usize> {
    let [first, second, .., last] = steps else { return None };
    let period = second.0 - first.0;
    let amount = |kept: Kept| (kept.requested, kept.held.blocks);
    let is_even =
        steps.windows(2).all(|pair| pair[1].0 - pair[0].0 == period && amount(pair[1].1) == amount(pair[0].1));
    let covers = first.0 < judged.start + period && last.0 + period >= judged.end;
    (steps.len() >= FEWEST && is_even && covers).then_some(period)
}

/// True if an optimizer makes its state there, once for each parameter, however many steps that takes.
fn is_state_of_optimizer(code: &SnapshotCode<'_>, stack: StackId) -> bool {
    code.python(stack).any(|frame| code.function(frame) == "_init_group" && code.file(frame).contains("torch/optim/"))
}

/// Blocks from before the judged steps that are freed in them, by their size and the step that frees them. Where each step
/// frees as many of them as it leaves behind of the same size, a window is full that was filled before: nothing grows.
/// Blocks that are older than the history may be of any stack.
struct Replaced {
    by_size: FxHashMap<(Option<Attribution>, u64), BTreeMap<usize, usize>>,
}

impl Replaced {
    fn new(device: &DeviceSteps<'_>) -> Self {
        let &DeviceSteps { steps, judged, .. } = device;
        let mut by_size: FxHashMap<_, BTreeMap<usize, usize>> = FxHashMap::default();
        let begin = steps.steps.get(judged.from).map_or(Position::START, |first| first.from);
        for old in device.lives.iter().filter(|life| life.born <= begin && life.born < life.freed) {
            let step = steps.at(old.freed).filter(|step| (judged.from..=judged.last).contains(step));
            if let Some(step) = step.filter(|_| old.freed < device.device.trace.dump()) {
                let class = &device.device.trace.classes[old.class as usize];
                let of = (old.born != Position::START).then(|| device.attribution(class));
                *by_size.entry((of, class.request())).or_default().entry(step).or_default() += 1;
            }
        }
        Self { by_size }
    }

    /// True if such blocks make up for those that a stack left behind.
    fn replaces(&self, of: Attribution, left: Kept, judged: usize, options: &LeakOptions) -> bool {
        // The requests of the blocks that one stack leaves behind are nearly always equal.
        let blocks = left.held.blocks.max(1);
        let size = left.requested / blocks;
        let freed = [None, Some(of)].into_iter().filter_map(|of| self.by_size.get(&(of, size)));
        let mut freed = freed.filter(|freed| options.is_steady(freed.len(), judged));
        let count = usize::try_from(blocks).unwrap_or(usize::MAX);
        size.saturating_mul(blocks) == left.requested
            && freed.any(|freed| options.is_steady(freed.values().sum(), count))
    }
}

impl<'l> LeftMemory<'l> {
    fn new(metric: LeakMetric, identity: Identity, of: &'l DeviceSteps<'l>) -> Self {
        Self {
            metric,
            identity,
            of,
            stacks: FxHashMap::default(),
            evidence: Vec::new(),
            lifetime: 0,
            end: Held::default(),
        }
    }

    /// The memory by step. Not kept: the steps of all groups together may be more than a million.
    pub(super) fn steps(&self) -> BTreeMap<usize, Kept> {
        let mut steps: BTreeMap<usize, Kept> = BTreeMap::new();
        for block in &self.evidence {
            *steps.entry(block.step as usize).or_default() +=
                Kept::of(&self.of.device.trace.classes[block.class as usize]);
        }
        steps
    }

    /// Its stacks, the one that left most first, which names it; of equal ones the first by its frames.
    fn stacks(&self) -> Vec<StackId> {
        let code = self.of.grouper.code();
        let known = self.stacks.iter().filter_map(|(origin, &held)| Some((held, origin.stack()?)));
        let mut stacks: Vec<(Held, StackId)> = known.collect();
        stacks.sort_by_cached_key(|&(held, stack)| (Reverse(held), contents(code, stack)));
        stacks.into_iter().map(|(_, stack)| stack).collect()
    }

    /// The label of the stack that names it.
    pub(super) fn label(&self) -> String {
        let grouper = self.of.grouper;
        let first = self.stacks().first().copied().filter(|_| !grouper.by().is_tag());
        first.map_or_else(|| self.identity.label.clone(), |stack| grouper.label(stack))
    }

    /// True if the blocks live for some steps by design, which leaves too few steps to judge them.
    pub(super) fn is_too_short(&self) -> bool {
        let left = self.of.judged.until(self.lifetime).saturating_sub(self.of.judged.from);
        self.lifetime > 0 && left < FEWEST && self.steps().len() >= left.max(1)
    }

    /// The number of steps that left blocks behind, if these hold enough together.
    pub(super) fn count(&self) -> Option<usize> {
        let steps = self.steps();
        let bytes = steps.values().fold(0, |sum: u64, kept| sum.saturating_add(kept.held.bytes));
        (bytes >= self.of.options.min_growth.unwrap_or(1)).then_some(steps.len())
    }

    /// The leak that this is, if it is one.
    pub(super) fn leak(self) -> Option<Leak> {
        let &DeviceSteps { grouper, judged, options, .. } = self.of;
        let until = judged.until(self.lifetime);
        let count = until.checked_sub(judged.from).filter(|&count| count >= FEWEST)?;
        let mut steps: Vec<(usize, Kept)> = self.steps().into_iter().collect();
        steps.truncate(steps.partition_point(|&(step, _)| step < until));
        let held = steps.iter().fold(Held::default(), |sum, (_, kept)| sum + kept.held);
        // Growth that has stopped is not a leak.
        let goes_on = steps.last().is_some_and(|(step, _)| step + 2 >= until);
        let is_steady = goes_on && options.is_steady(steps.len(), count);
        // The steps before the first period and after the last one may be any part of another.
        let whole = period(&steps, judged.from..until).map(|period| steps.len() * period);
        let span = whole.or(is_steady.then_some(count))?;
        if held.bytes < options.min_growth.unwrap_or(1) {
            return None;
        }
        let leak = Leak {
            metric: self.metric,
            label: self.label(),
            key: self.identity.key.0.clone(),
            bucket: self.identity.bucket,
            bytes: i128::from(held.bytes),
            blocks: i128::from(held.blocks),
            bytes_per_step: rounded(i128::from(held.bytes), span),
            grew: steps.len(),
            judged: count,
            span,
            end: self.end,
            rounds: proportion(steps.iter().map(|(step, kept)| (*step, i128::from(kept.held.blocks)))),
            course: course(&steps, judged.from..until),
            ..Leak::default()
        };
        Some(leak.of_stacks(grouper, &self.stacks()))
    }
}

#[cfg(test)]
mod tests {
    use ptmem_trace::trace::Bucket;

    use super::*;

    /// A block of a request of 8 bytes.
    fn kept(bytes: u64) -> Kept {
        Kept { held: Held { bytes, blocks: 1 }, requested: 8 }
    }

    #[test]
    fn equal_requests_are_the_same_amount_whatever_blocks_they_get() {
        let steps = [(1, kept(8)), (4, kept(9)), (7, kept(8))];
        assert_eq!(period(&steps, 0..10), Some(3));
        assert_eq!(period(&[steps[0], steps[1], (7, Kept { requested: 9, ..kept(9) })], 0..10), None);
    }

    #[test]
    fn freed_blocks_of_equal_requests_replace_others() {
        let of: Attribution = (Origin::Bucket(Bucket::Others), None, None);
        let freed = (0..9).map(|step| (step, 1)).collect();
        let replaced = Replaced { by_size: [((Some(of), 8), freed)].into_iter().collect() };
        let left = kept(8) + kept(9) + kept(8);
        assert!(replaced.replaces(of, left, 9, &LeakOptions::default()));
        assert!(!replaced.replaces(of, Kept { requested: 25, ..left }, 9, &LeakOptions::default()));
    }
}

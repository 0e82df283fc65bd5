//! A leak: memory of a stack, or reserved memory that nothing uses.

use std::cmp::Reverse;
use std::hash::{DefaultHasher, Hash, Hasher};

use ptmem_base::units::approximate;
use ptmem_snapshot::snapshot::StackId;
use ptmem_trace::profile::{Bucket, Held};
use ptmem_trace::stack::{GroupBy, Grouper, Label, More};

use super::options::share;

/// The memory that a leak holds; each has a limit of its own.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Default,
    serde::Serialize,
    strum::EnumIter,
    strum::EnumString,
    strum::IntoStaticStr,
)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum LeakMetric {
    /// Allocated bytes.
    #[default]
    Allocated,
    /// Reserved bytes that are not active.
    Fragmentation,
    /// Allocated bytes that only reference cycles hold.
    Cycles,
}

impl LeakMetric {
    /// The heading of the table of those that grow.
    pub fn title(self) -> &'static str {
        match self {
            Self::Allocated => "what leaks",
            Self::Fragmentation => "reserved memory that nothing uses",
            Self::Cycles => "held by reference cycles until Python's garbage collector runs",
        }
    }
}

/// A stack that leaks.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Leak {
    /// The memory that it holds.
    pub metric: LeakMetric,
    /// Its name.
    pub label: String,
    /// Its key in comparisons.
    pub key: String,
    /// Set where the stack is not known.
    pub bucket: Option<Bucket>,
    /// The stack that leaks most of those that are compared as one.
    pub stack: Option<StackId>,
    /// The names of the others of those, without those of the same name, as many as people read. Of stacks that grow only
    /// together: those that grew most.
    pub also: Vec<String>,
    /// How many lines or operators it sums beside the one that it is named after.
    pub more: More,
    /// Bytes that it gained in the steps that count.
    pub bytes: i128,
    /// Blocks that it gained in the steps that count.
    pub blocks: i128,
    /// Bytes that it gains per snapshot or step.
    pub bytes_per_step: i128,
    /// The snapshot after which it began to grow; `None` where it grew from the beginning.
    pub since: Option<String>,
    /// The number of steps that count in which it grew.
    pub grew: usize,
    /// Number of steps that count.
    pub judged: usize,
    /// Number of steps in which it gained that much: those that count, or whole periods of what comes every N steps.
    pub(super) span: usize,
    /// Bytes and blocks that it holds at the end.
    pub end: Held,
    /// A digest of the proportion in which it gained blocks in the steps that count; `None` if it gained none.
    pub rounds: Option<u64>,
    /// Bytes at the end of each snapshot that counts; of steps, those that they and the ones before left behind.
    pub course: Course,
}

/// Bytes at each of some moments, by the moments at which they change: a leak may grow in few of many steps.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Course {
    moments: usize,
    /// The moment, and the bytes from there on.
    changes: Vec<(usize, u64)>,
}

impl Course {
    /// Bytes from some moments on, in order, of this many moments.
    pub(super) fn new(moments: usize, bytes: impl IntoIterator<Item = (usize, u64)>) -> Self {
        let mut changes: Vec<(usize, u64)> = Vec::new();
        for (at, bytes) in bytes {
            if changes.last().map_or(0, |(_, last)| *last) != bytes {
                changes.push((at, bytes));
            }
        }
        changes.shrink_to_fit();
        Self { moments, changes }
    }

    /// The number of moments.
    pub(super) fn moments(&self) -> usize {
        self.moments
    }

    /// The bytes at each moment.
    pub fn values(&self) -> Vec<u64> {
        let mut values = vec![0; self.moments];
        for (change, &(at, bytes)) in self.changes.iter().enumerate() {
            let until = self.changes.get(change + 1).map_or(self.moments, |(next, _)| *next);
            values[at..until].fill(bytes);
        }
        values
    }

    /// By how much the bytes change, and when.
    pub(super) fn rises(&self) -> impl Iterator<Item = (usize, i128)> {
        let before = [0].into_iter().chain(self.changes.iter().map(|(_, bytes)| *bytes));
        self.changes.iter().zip(before).map(|(&(at, bytes), before)| (at, i128::from(bytes) - i128::from(before)))
    }
}

impl Leak {
    /// The share of the steps that count in which it grew, from 0 to 1.
    pub fn share(&self) -> f64 {
        share(self.grew, self.judged)
    }

    /// Blocks that it gains per snapshot or step, with one decimal where they are not whole.
    pub fn blocks_per_step(&self) -> String {
        let blocks = approximate(self.blocks) / approximate(self.span.max(1) as u64);
        if blocks.fract() == 0.0 { format!("{blocks}") } else { format!("{blocks:.1}") }
    }
}

/// A digest of numbers with their places, divided by their greatest common divisor; `None` if all are 0, which are left out.
pub(super) fn proportion(numbers: impl Iterator<Item = (usize, i128)> + Clone) -> Option<u64> {
    let numbers = numbers.filter(|(_, number)| *number != 0);
    let divisor = numbers.clone().fold(0, |divisor, (_, number)| greatest_common_divisor(divisor, i128::abs(number)));
    let mut digest = DefaultHasher::new();
    numbers.for_each(|(at, number)| (at, number.checked_div(divisor)).hash(&mut digest));
    (divisor > 0).then(|| digest.finish())
}

fn greatest_common_divisor(a: i128, b: i128) -> i128 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

/// Puts the fastest first, and equal ones in an order that is always the same.
pub(super) fn sort(leaks: &mut [Leak]) {
    leaks.sort_by_cached_key(|leak| (Reverse(leak.bytes_per_step), leak.label.clone(), leak.key.clone()));
}

/// Names of one leak that are listed beside the first.
pub(super) const MOST_NAMES: usize = 4;

/// The label of reserved memory that nothing uses.
pub(super) const FRAGMENTATION: &str = "<fragmentation>";

impl Leak {
    /// The same leak with the stacks that leak as one, the largest first. Those of a tag go by its name.
    pub(super) fn of_stacks(self, grouper: &Grouper<'_>, stacks: &[StackId]) -> Self {
        let named = if grouper.by().is_tag() { &[] } else { stacks };
        let mut labels: Vec<String> = Vec::new();
        for label in named.iter().map(|&stack| grouper.label(stack)) {
            if labels.len() <= MOST_NAMES && !labels.contains(&label) {
                labels.push(label);
            }
        }
        let by_stack = named.iter().filter(|_| grouper.by() == GroupBy::Stack);
        let parts: Vec<Label> = by_stack.map(|&stack| grouper.code().label_parts(stack)).collect();
        let also = labels.split_off(labels.len().min(1));
        Self { stack: stacks.first().copied(), also, more: More::of(parts.iter()), ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_course_is_kept_by_its_changes() {
        let course = Course::new(6, [(1, 8), (2, 8), (4, 5)]);
        assert_eq!(course.values(), [0, 8, 8, 8, 5, 5]);
        assert_eq!(course.rises().collect::<Vec<_>>(), [(1, 8), (4, -3)]);
        assert_eq!(course.changes.len(), 2);
    }

    #[test]
    fn the_same_proportion_at_the_same_places_is_one_digest() {
        let digest = |numbers: &[i128]| proportion(numbers.iter().copied().enumerate());
        assert_eq!(digest(&[0, 2, 0, 4]), digest(&[0, 1, 0, 2]));
        assert_ne!(digest(&[0, 2, 0, 4]), digest(&[2, 0, 0, 4]));
        assert_eq!(digest(&[0, 0]), None);
    }
}

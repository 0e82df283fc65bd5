//! Values in device memory: those that the host copied there or filled it with, and those that it computed for an operator.
//!
//! Device memory has real pages behind its addresses, mapped where a value is first held, so that PyTorch's operators for
//! the host can run on it. `--compute` limits how much is held. Kernels do nothing: what an operator's kernel would have
//! written is absent unless the hook wrote it, and a value in a block whose address another kernel has is doubtful.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::settings::settings;
use crate::sys::lock::Mutex;
use crate::sys::memory;

/// Unit in which pages are mapped.
const MAPPED: u64 = 64 << 20;
/// Freed values of this size or more give their pages back to the host.
const GIVEN_BACK: u64 = 1 << 20;
/// Values up to this size may exceed the limit by a quarter: weights of a model can reach it, and programs decide by indices and
/// counts.
const SMALL_VALUE: u64 = 64 << 10;

/// Value of a run of bytes.
#[derive(Clone)]
enum RunValue {
    /// In the memory at its addresses.
    Held,
    /// These bytes, over and over, from this offset.
    Repeated(Arc<[u8]>, usize),
    /// Not kept.
    Dropped,
}

/// Certainty of a value. What follows from several values is as certain as the least certain of them.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum ValueTrust {
    /// It is known.
    #[default]
    Known,
    /// A kernel or another rank may have changed it.
    Doubtful,
    /// It follows from an assumption: an index, or a number that nothing has set.
    Supposed,
    /// It follows from a mask of which only the share of true elements is assumed.
    Share,
    /// Something unknown was written to it.
    Absent,
}

impl ValueTrust {
    /// The certainty of a number.
    pub(crate) fn of(number: u8) -> Self {
        let all = [Self::Known, Self::Doubtful, Self::Supposed, Self::Share];
        all.get(usize::from(number)).copied().unwrap_or(Self::Absent)
    }
}

/// A run of bytes.
#[derive(Clone)]
struct ByteRun {
    size: u64,
    value: RunValue,
    trust: ValueTrust,
}

/// Runs that were written, by first address. They do not overlap.
#[derive(Default)]
struct WrittenRuns {
    runs: BTreeMap<u64, ByteRun>,
    /// Bytes that are held.
    held: u64,
    /// First addresses of the units that are mapped.
    mapped: BTreeSet<u64>,
}

static VALUES: Mutex<WrittenRuns> = Mutex::new(WrittenRuns { runs: BTreeMap::new(), held: 0, mapped: BTreeSet::new() });

/// Parts of the read values, in bytes.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) struct KnownParts {
    pub(crate) unset: u64,
    pub(crate) dropped: u64,
    pub(crate) doubtful: u64,
}

impl ByteRun {
    /// The part of the run that begins `bytes` after its start and has this size.
    fn part(&self, bytes: u64, size: u64) -> Self {
        let value = match &self.value {
            RunValue::Repeated(all, offset) => {
                RunValue::Repeated(Arc::clone(all), (offset + (bytes % all.len() as u64) as usize) % all.len())
            }
            RunValue::Held => RunValue::Held,
            RunValue::Dropped => RunValue::Dropped,
        };
        Self { size, value, trust: self.trust }
    }

    fn held(&self) -> u64 {
        if matches!(self.value, RunValue::Held) { self.size } else { 0 }
    }

    /// The certainty as an operand: values that were not kept are absent, a mask of a share needs none.
    fn certainty(&self) -> ValueTrust {
        match self.value {
            RunValue::Dropped if self.trust != ValueTrust::Share => ValueTrust::Absent,
            RunValue::Held | RunValue::Repeated(..) | RunValue::Dropped => self.trust,
        }
    }
}

impl WrittenRuns {
    fn insert(&mut self, at: u64, run: ByteRun) {
        self.held += run.held();
        self.runs.insert(at, run);
    }

    fn remove(&mut self, at: u64) -> Option<ByteRun> {
        let run = self.runs.remove(&at)?;
        self.held -= run.held();
        Some(run)
    }

    /// Replaces the values of a range.
    fn set(&mut self, at: u64, size: u64, value: RunValue, trust: ValueTrust) {
        self.clear(at, size);
        if size > 0 {
            self.insert(at, ByteRun { size, value, trust });
        }
    }

    /// Has a range hold values, which the caller writes there; false where that is beyond the limit.
    fn hold(&mut self, at: u64, size: u64, trust: ValueTrust) -> bool {
        self.clear(at, size);
        let holds = self.fits(size) && self.map(at, size);
        let (value, trust) = if holds { (RunValue::Held, trust) } else { (RunValue::Dropped, ValueTrust::Absent) };
        self.set(at, size, value, trust);
        holds
    }

    fn fits(&self, size: u64) -> bool {
        let limit = settings().compute;
        let most = if size <= SMALL_VALUE { limit.saturating_add(limit / 4) } else { limit };
        self.held.checked_add(size).is_some_and(|held| held <= most)
    }

    /// Maps memory behind a range; false where the host has none.
    fn map(&mut self, at: u64, size: u64) -> bool {
        let first = at / MAPPED;
        let last = at.saturating_add(size.max(1) - 1) / MAPPED;
        (first..=last)
            .map(|unit| unit * MAPPED)
            .all(|unit| self.mapped.contains(&unit) || (memory::map(unit, MAPPED as usize) && self.mapped.insert(unit)))
    }

    /// First addresses of the runs that share a byte with a range.
    fn overlapping(&self, at: u64, size: u64) -> Vec<u64> {
        let end = at.saturating_add(size);
        let before = self.runs.range(..at).next_back();
        let reaches_in = before.filter(|(start, run)| *start + run.size > at).map(|(&start, _)| start);
        reaches_in.into_iter().chain(self.runs.range(at..end).map(|(&start, _)| start)).collect()
    }

    /// Discards the values of a range.
    fn clear(&mut self, at: u64, size: u64) {
        let end = at.saturating_add(size);
        for start in self.overlapping(at, size) {
            let Some(run) = self.remove(start) else { continue };
            if start < at {
                self.insert(start, run.part(0, at - start));
            }
            if start + run.size > end {
                self.insert(end, run.part(end - start, start + run.size - end));
            }
        }
    }

    /// Runs within a range, cut to it, with their addresses.
    fn within(&self, at: u64, size: u64) -> Vec<(u64, ByteRun)> {
        let end = at.saturating_add(size);
        let mut parts = Vec::new();
        for start in self.overlapping(at, size) {
            let Some(run) = self.runs.get(&start) else { continue };
            let from = start.max(at);
            let to = (start + run.size).min(end);
            parts.push((from, run.part(from - start, to - from)));
        }
        parts
    }

    /// Parts of a range that nothing has written.
    fn gaps(&self, at: u64, size: u64) -> Vec<(u64, u64)> {
        let end = at.saturating_add(size);
        let ends = self.within(at, size).into_iter().map(|(start, run)| (start, start + run.size));
        let mut from = at;
        let mut found = Vec::new();
        for (start, next) in ends.chain([(end, end)]) {
            if start > from {
                found.push((from, start - from));
            }
            from = next;
        }
        found
    }

    /// Writes repeated bytes to the memory of a range; false where that is beyond the limit.
    fn hold_repeated(&mut self, at: u64, size: u64) -> bool {
        self.within(at, size).into_iter().all(|(start, run)| match &run.value {
            RunValue::Held | RunValue::Dropped => true,
            RunValue::Repeated(bytes, offset) => {
                let holds = self.hold(start, run.size, run.trust);
                if holds {
                    memory::repeat(start, bytes, *offset, run.size as usize);
                } else {
                    self.set(start, run.size, run.value.clone(), run.trust);
                }
                holds
            }
        })
    }
}

/// Keeps the values that the host copied to a device.
pub(crate) fn set(at: u64, from_host: u64, size: u64) {
    let mut values = VALUES.lock();
    if values.hold(at, size, ValueTrust::Known) {
        memory::copy(at, from_host, size as usize);
    } else {
        values.set(at, size, RunValue::Dropped, ValueTrust::Known);
    }
}

/// Has a range hold values of one certainty, which the caller writes there; false where that is beyond the limit.
pub(crate) fn hold(at: u64, size: u64, trust: ValueTrust) -> bool {
    VALUES.lock().hold(at, size, trust)
}

/// The same for some elements of a range: the others keep their values, at most as certain, and those never written count
/// as written.
pub(crate) fn cover(at: u64, size: u64, trust: ValueTrust) -> bool {
    let mut values = VALUES.lock();
    let holds = values.hold_repeated(at, size);
    for (gap, size) in values.gaps(at, size) {
        values.hold(gap, size, trust);
    }
    lower(&mut values, at, size, trust);
    holds
}

/// Notes that values of a range were not kept.
pub(crate) fn drop_values(at: u64, size: u64, trust: ValueTrust) {
    VALUES.lock().set(at, size, RunValue::Dropped, trust);
}

/// Keeps that a range was filled with a few bytes, over and over.
pub(crate) fn repeat(at: u64, bytes: &[u8], size: u64, trust: ValueTrust) {
    VALUES.lock().set(at, size, RunValue::Repeated(Arc::from(bytes), 0), trust);
}

/// The element of this size that a range was filled with, and its certainty, if it was filled with one.
pub(crate) fn uniform(at: u64, size: u64, element: u64) -> Option<(Vec<u8>, ValueTrust)> {
    let parts = VALUES.lock().within(at, size);
    let [(_, ByteRun { size: whole, value: RunValue::Repeated(bytes, offset), trust })] = parts.as_slice() else {
        return None;
    };
    let cycle = bytes.iter().cycle().skip(*offset).take(element as usize);
    (*whole == size && element.is_multiple_of(bytes.len() as u64)).then(|| (cycle.copied().collect(), *trust))
}

/// Discards a range that was freed or reused.
pub(crate) fn forget(at: u64, size: u64) {
    let mut values = VALUES.lock();
    let held = values.within(at, size).into_iter().filter(|(_, run)| run.held() >= GIVEN_BACK);
    held.for_each(|(start, run)| memory::give_back(start, run.size as usize));
    values.clear(at, size);
}

/// Notes that a kernel may have changed a range, or written it.
pub(crate) fn doubt(at: u64, size: u64) {
    let mut values = VALUES.lock();
    lower(&mut values, at, size, ValueTrust::Doubtful);
    if size < u64::MAX {
        values
            .gaps(at, size)
            .into_iter()
            .for_each(|(gap, size)| values.set(gap, size, RunValue::Dropped, ValueTrust::Absent));
    }
}

fn lower(values: &mut WrittenRuns, at: u64, size: u64, trust: ValueTrust) {
    for start in values.overlapping(at, size) {
        if let Some(run) = values.runs.get_mut(&start) {
            run.trust = run.trust.max(trust);
        }
    }
}

/// Copies the values of a range to another on a device.
pub(crate) fn copy(to: u64, from: u64, size: u64) {
    let mut values = VALUES.lock();
    let parts = values.within(from, size);
    values.clear(to, size);
    for (start, run) in parts {
        let at = to + (start - from);
        match run.value {
            RunValue::Held if values.hold(at, run.size, run.trust) => memory::copy(at, start, run.size as usize),
            RunValue::Held => {}
            RunValue::Repeated(..) | RunValue::Dropped => values.insert(at, run),
        }
    }
}

/// Writes the values of a range to the host.
pub(crate) fn read(to_host: u64, from: u64, size: u64) -> KnownParts {
    let parts = VALUES.lock().within(from, size);
    let mut known = KnownParts { unset: size, ..KnownParts::default() };
    let whole = parts
        .first()
        .is_some_and(|(start, run)| *start == from && run.size == size && !matches!(run.value, RunValue::Dropped));
    if !whole {
        memory::fill(to_host, settings().fill, size as usize);
    }
    for (start, run) in parts {
        match run.trust {
            ValueTrust::Known => known.unset -= run.size,
            ValueTrust::Doubtful => {
                known.unset -= run.size;
                known.doubtful += run.size;
            }
            ValueTrust::Supposed | ValueTrust::Share | ValueTrust::Absent => {}
        }
        let at = to_host + (start - from);
        match run.value {
            RunValue::Held => memory::copy(at, start, run.size as usize),
            RunValue::Repeated(bytes, offset) => memory::repeat(at, &bytes, offset, run.size as usize),
            RunValue::Dropped if run.trust < ValueTrust::Supposed => known.dropped += run.size,
            RunValue::Dropped => {}
        }
    }
    known
}

/// Makes the memory of a range readable: values are there, and all else is `--fill`. False where that is beyond the limit, which
/// small values that are repeated do not count towards: a mask must not read as the fill.
pub(crate) fn view(at: u64, size: u64) -> bool {
    let mut values = VALUES.lock();
    if !values.map(at, size) {
        return false;
    }
    if !values.hold_repeated(at, size) {
        if size > GIVEN_BACK {
            return false;
        }
        for (start, run) in values.within(at, size) {
            if let RunValue::Repeated(bytes, offset) = &run.value {
                memory::repeat(start, bytes, *offset, run.size as usize);
            }
        }
    }
    let dropped = values.within(at, size).into_iter().filter(|(_, run)| matches!(run.value, RunValue::Dropped));
    let unread = dropped.map(|(start, run)| (start, run.size)).chain(values.gaps(at, size));
    unread.for_each(|(start, size)| memory::fill(start, settings().fill, size as usize));
    true
}

/// Certainty of the values of a range. `None` if a part of it is unset.
pub(crate) fn trust_if_set(from: u64, size: u64) -> Option<ValueTrust> {
    let runs = VALUES.lock().within(from, size);
    let set: u64 = runs.iter().map(|(_, run)| run.size).sum();
    let trust = runs.iter().map(|(_, run)| run.certainty()).max().unwrap_or_default();
    (set == size && trust != ValueTrust::Absent).then_some(trust)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_back(from: u64, size: usize) -> (Vec<u8>, KnownParts) {
        let mut bytes = alloc::vec![0xEE; size];
        let known = read(bytes.as_mut_ptr() as u64, from, size as u64);
        (bytes, known)
    }

    #[test]
    fn small_copies_are_read_back_and_the_rest_reads_as_the_fill() {
        let base = 0x1111_0000_0000;
        let sent = [1_u8, 2, 3, 4, 5, 6];
        set(base + 2, sent.as_ptr() as u64, 6);
        let (bytes, known) = read_back(base, 10);
        assert_eq!(bytes, [0, 0, 1, 2, 3, 4, 5, 6, 0, 0]);
        assert_eq!(known, KnownParts { unset: 4, ..KnownParts::default() });
        forget(base + 4, 2);
        repeat(base + 9, &[7], 3, ValueTrust::Known);
        assert_eq!(read_back(base, 10).0, [0, 0, 1, 2, 0, 0, 5, 6, 0, 7]);
        copy(base + 100, base + 3, 4);
        let (bytes, known) = read_back(base + 100, 4);
        assert_eq!(bytes, [2, 0, 0, 5]);
        assert_eq!(known.unset, 2);
    }

    #[test]
    fn a_value_that_a_kernel_may_have_changed_is_kept_but_doubtful_and_so_are_its_copies() {
        let base = 0x1113_0000_0000;
        repeat(base, &[7], 8, ValueTrust::Known);
        doubt(base + 2, 1);
        copy(base + 100, base + 4, 4);
        let (bytes, known) = read_back(base + 100, 4);
        assert_eq!(bytes, [7; 4]);
        assert_eq!(known, KnownParts { doubtful: 4, ..KnownParts::default() });
        repeat(base + 100, &[8], 4, ValueTrust::Known);
        assert_eq!(trust_if_set(base + 100, 4), Some(ValueTrust::Known));
        assert_eq!(trust_if_set(base + 100, 5), None, "the last byte was never set");
    }

    #[test]
    fn repeated_bytes_keep_their_places_where_a_range_is_cut() {
        let base = 0x1114_2000_0000;
        let large = 1 << 40;
        repeat(base, &[1, 2, 3], large, ValueTrust::Supposed);
        assert_eq!(read_back(base + 4, 5).0, [2, 3, 1, 2, 3]);
        assert_eq!(uniform(base, large, 6), Some((alloc::vec![1, 2, 3, 1, 2, 3], ValueTrust::Supposed)));
        assert_eq!(uniform(base, large, 4), None, "the fifth byte is not the first");
        forget(base + 10, 1);
        assert_eq!(read_back(base + 9, 4).0, [1, 0, 3, 1]);
        assert_eq!(uniform(base + 11, 7, 3), Some((alloc::vec![3, 1, 2], ValueTrust::Supposed)));
        assert_eq!(uniform(base, large, 3), None, "a byte of it is not set");
        copy(base + large + 1, base + 11, 4);
        assert_eq!(read_back(base + large + 1, 4).0, [3, 1, 2, 3]);
    }

    #[test]
    fn values_are_in_the_memory_at_their_addresses() {
        let base = 0x1110_0000_0000;
        repeat(base, &[1, 2], 6, ValueTrust::Known);
        assert!(view(base, 8));
        assert_eq!(memory::bytes(base, 8), [1, 2, 1, 2, 1, 2, 0, 0]);
        assert!(hold(base + 6, 1, ValueTrust::Supposed));
        memory::fill(base + 6, 9, 1);
        assert_eq!(read_back(base, 8).0, [1, 2, 1, 2, 1, 2, 9, 0]);
        assert_eq!(
            [trust_if_set(base, 6), trust_if_set(base, 7)],
            [Some(ValueTrust::Known), Some(ValueTrust::Supposed)]
        );
    }

    #[test]
    fn elements_that_cover_a_range_make_it_as_uncertain_as_they_are_and_what_was_absent_stays_so() {
        let base = 0x1110_8000_0000;
        repeat(base, &[1], 4, ValueTrust::Known);
        assert!(cover(base, 8, ValueTrust::Supposed));
        assert_eq!(trust_if_set(base, 8), Some(ValueTrust::Supposed));
        drop_values(base + 2, 1, ValueTrust::Absent);
        assert!(cover(base, 8, ValueTrust::Known));
        assert_eq!(trust_if_set(base, 8), None);
        doubt(base, 16);
        assert!(cover(base, 16, ValueTrust::Known));
        assert_eq!(trust_if_set(base + 8, 8), None, "a kernel may have written it");
    }

    #[test]
    fn a_copy_beyond_the_limit_is_noted_but_not_kept() {
        let base = 0x1112_0000_0000;
        let size = settings().compute + 1;
        set(base, 0, size);
        let (bytes, known) = read_back(base, 4);
        assert_eq!(bytes, [0; 4]);
        assert_eq!(known, KnownParts { dropped: 4, ..KnownParts::default() });
        drop_values(base, size, ValueTrust::Share);
        assert_eq!(trust_if_set(base, size), Some(ValueTrust::Share), "the share is known without them");
    }
}

//! Values in device memory that are known: small copies from the host, fills, and what a few kernels compute of them.
//!
//! Most kernels do nothing, so memory that was not set otherwise has no value and reads as the byte of `--fill`. A
//! value in a block of memory whose address such a kernel has is kept, but doubtful: the kernel may have changed it. A
//! value computed from an unset value is unset too, but kept, so that positions advance from their initial reading.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::settings::settings;
use crate::sys::lock::Mutex;
use crate::sys::memory;

/// Largest copy from the host that is kept.
pub(crate) const LARGEST_KEPT: u64 = 1 << 20;
/// Most bytes that are kept in all; later copies are noted, but not kept.
const MOST_KEPT: u64 = 1 << 30;

/// Value of a run of bytes.
#[derive(Clone)]
enum Value {
    /// These bytes, over and over, from this offset.
    Bytes(Arc<[u8]>, usize),
    /// Set by the host, but not kept.
    Dropped,
}

/// Certainty of a value. What follows from several values is as certain as the least certain of them.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Trust {
    /// It is known.
    #[default]
    Known,
    /// A kernel or another rank may have changed it.
    Doubtful,
    /// It was computed from a value that nothing has set.
    Unset,
}

/// A run of bytes.
#[derive(Clone)]
struct Run {
    size: u64,
    value: Value,
    trust: Trust,
}

/// Runs of known values, by first address. They do not overlap.
#[derive(Default)]
struct Values {
    runs: BTreeMap<u64, Run>,
    kept: u64,
}

static VALUES: Mutex<Values> = Mutex::new(Values { runs: BTreeMap::new(), kept: 0 });

/// Parts of the read values, in bytes.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) struct Known {
    pub(crate) unset: u64,
    pub(crate) dropped: u64,
    pub(crate) doubtful: u64,
}

impl Run {
    /// The part of the run that begins `bytes` after its start and has this size.
    fn part(&self, bytes: u64, size: u64) -> Self {
        let value = match &self.value {
            Value::Bytes(all, offset) => Value::Bytes(Arc::clone(all), (offset + bytes as usize) % all.len()),
            other => other.clone(),
        };
        Self { size, value, trust: self.trust }
    }

    fn kept(&self) -> u64 {
        if let Value::Bytes(all, _) = &self.value { self.size.min(all.len() as u64) } else { 0 }
    }
}

impl Values {
    fn insert(&mut self, at: u64, run: Run) {
        self.kept += run.kept();
        self.runs.insert(at, run);
    }

    fn remove(&mut self, at: u64) -> Option<Run> {
        let run = self.runs.remove(&at)?;
        self.kept -= run.kept();
        Some(run)
    }

    /// Replaces the known values of a range.
    fn set(&mut self, at: u64, size: u64, value: Value, trust: Trust) {
        self.forget(at, size);
        if size > 0 {
            self.insert(at, Run { size, value, trust });
        }
    }

    /// The value that these bytes are kept as.
    fn keep(&self, bytes: &[u8]) -> Value {
        let size = bytes.len() as u64;
        if size <= LARGEST_KEPT && self.kept + size <= MOST_KEPT {
            Value::Bytes(Arc::from(bytes), 0)
        } else {
            Value::Dropped
        }
    }

    /// First addresses of the runs that share a byte with a range.
    fn overlapping(&self, at: u64, size: u64) -> Vec<u64> {
        let end = at.saturating_add(size);
        let before = self.runs.range(..at).next_back();
        let reaches_in = before.filter(|(start, run)| *start + run.size > at).map(|(&start, _)| start);
        reaches_in.into_iter().chain(self.runs.range(at..end).map(|(&start, _)| start)).collect()
    }

    fn forget(&mut self, at: u64, size: u64) {
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

    /// Runs within a range, cut to it, with their offsets from its start.
    fn within(&self, at: u64, size: u64) -> Vec<(u64, Run)> {
        let end = at.saturating_add(size);
        let mut parts = Vec::new();
        for start in self.overlapping(at, size) {
            let Some(run) = self.runs.get(&start) else { continue };
            let from = start.max(at);
            let to = (start + run.size).min(end);
            parts.push((from - at, run.part(from - start, to - from)));
        }
        parts
    }
}

/// Keeps the values that the host copied to a device, if they are small.
pub(crate) fn set(at: u64, from_host: u64, size: u64) {
    let mut values = VALUES.lock();
    values.forget(at, size); // Makes room first.
    let kept = if size <= LARGEST_KEPT { memory::bytes(from_host, size as usize) } else { &[] };
    let value = if size <= LARGEST_KEPT { values.keep(kept) } else { Value::Dropped };
    values.set(at, size, value, Trust::Known);
}

/// Keeps the values computed for an operator.
pub(crate) fn set_computed(at: u64, bytes: &[u8], trust: Trust) {
    let mut values = VALUES.lock();
    let size = bytes.len() as u64;
    values.forget(at, size);
    let value = values.keep(bytes);
    values.set(at, size, value, trust);
}

/// Keeps that a range was filled with a few bytes, over and over.
pub(crate) fn repeat(at: u64, bytes: &[u8], size: u64, trust: Trust) {
    VALUES.lock().set(at, size, Value::Bytes(Arc::from(bytes), 0), trust);
}

/// The first `period` bytes of a range, and their certainty, if the rest of the range repeats them.
pub(crate) fn period(at: u64, size: u64, period: u64) -> Option<(Vec<u8>, Trust)> {
    let parts = VALUES.lock().within(at, size);
    let [(0, Run { size: whole, value: Value::Bytes(all, offset), trust })] = parts.as_slice() else { return None };
    let repeats = size <= period || period.is_multiple_of(all.len() as u64);
    let cycle = all.iter().cycle().skip(*offset).take(period.min(size) as usize);
    (*whole == size && repeats).then(|| (cycle.copied().collect(), *trust))
}

/// Discards a range that was freed or reused.
pub(crate) fn forget(at: u64, size: u64) {
    VALUES.lock().forget(at, size);
}

/// Notes that a kernel may have changed a range.
pub(crate) fn doubt(at: u64, size: u64) {
    let mut values = VALUES.lock();
    for start in values.overlapping(at, size) {
        if let Some(run) = values.runs.get_mut(&start) {
            run.trust = run.trust.max(Trust::Doubtful);
        }
    }
}

/// Copies the known values of a range to another on a device.
pub(crate) fn copy(to: u64, from: u64, size: u64) {
    let mut values = VALUES.lock();
    let parts = values.within(from, size);
    values.forget(to, size);
    for (offset, run) in parts {
        values.insert(to + offset, run);
    }
}

/// Writes the values of a range to the host.
pub(crate) fn read(to_host: u64, from: u64, size: u64) -> Known {
    let parts = VALUES.lock().within(from, size);
    let mut known = Known { unset: size, ..Known::default() };
    let whole = parts
        .first()
        .is_some_and(|(offset, run)| *offset == 0 && run.size == size && !matches!(run.value, Value::Dropped));
    if !whole {
        memory::fill(to_host, settings().fill, size as usize);
    }
    for (offset, run) in parts {
        match run.trust {
            Trust::Known => known.unset -= run.size,
            Trust::Doubtful => {
                known.unset -= run.size;
                known.doubtful += run.size;
            }
            Trust::Unset => {}
        }
        match run.value {
            Value::Bytes(bytes, start) => memory::repeat(to_host + offset, &bytes, start, run.size as usize),
            Value::Dropped => known.dropped += run.size,
        }
    }
    known
}

/// Runs of a range that are set, as offset, size and certainty.
pub(crate) fn trusts(from: u64, size: u64) -> Vec<(u64, u64, Trust)> {
    let parts = VALUES.lock().within(from, size);
    let set = parts.into_iter().filter(|(_, run)| !matches!(run.value, Value::Dropped));
    set.map(|(offset, run)| (offset, run.size, run.trust)).collect()
}

/// Certainty of the values of a range. `None` if a part of it is unset.
pub(crate) fn trust_if_set(from: u64, size: u64) -> Option<Trust> {
    let runs = trusts(from, size);
    let set: u64 = runs.iter().map(|(_, size, _)| size).sum();
    (set == size).then(|| runs.into_iter().map(|(_, _, trust)| trust).max().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_back(from: u64, size: usize) -> (Vec<u8>, Known) {
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
        assert_eq!(known, Known { unset: 4, ..Known::default() });
        forget(base + 4, 2);
        repeat(base + 9, &[7], 3, Trust::Known);
        assert_eq!(read_back(base, 10).0, [0, 0, 1, 2, 0, 0, 5, 6, 0, 7]);
        copy(base + 100, base + 3, 4);
        let (bytes, known) = read_back(base + 100, 4);
        assert_eq!(bytes, [2, 0, 0, 5]);
        assert_eq!(known.unset, 2);
    }

    #[test]
    fn a_value_that_a_kernel_may_have_changed_is_kept_but_doubtful_and_so_are_its_copies() {
        let base = 0x1113_0000_0000;
        repeat(base, &[7], 8, Trust::Known);
        doubt(base + 2, 1);
        copy(base + 100, base + 4, 4);
        let (bytes, known) = read_back(base + 100, 4);
        assert_eq!(bytes, [7; 4]);
        assert_eq!(known, Known { doubtful: 4, ..Known::default() });
        repeat(base + 100, &[8], 4, Trust::Known);
        assert_eq!(trust_if_set(base + 100, 4), Some(Trust::Known));
        assert_eq!(trust_if_set(base + 100, 5), None, "the last byte was never set");
    }

    #[test]
    fn repeated_bytes_keep_their_places_where_a_range_is_cut() {
        let base = 0x1114_2000_0000;
        let large = 1 << 40;
        repeat(base, &[1, 2, 3], large, Trust::Unset);
        assert_eq!(read_back(base + 4, 5).0, [2, 3, 1, 2, 3]);
        assert_eq!(period(base, large, 6), Some((alloc::vec![1, 2, 3, 1, 2, 3], Trust::Unset)));
        assert_eq!(period(base, large, 4), None, "the fifth byte is not the first");
        forget(base + 10, 1);
        assert_eq!(read_back(base + 9, 4).0, [1, 0, 3, 1]);
        assert_eq!(period(base + 11, 7, 3), Some((alloc::vec![3, 1, 2], Trust::Unset)));
        assert_eq!(period(base, large, 3), None, "a byte of it is not set");
        copy(base + large + 1, base + 11, 4);
        assert_eq!(read_back(base + large + 1, 4).0, [3, 1, 2, 3]);
    }

    #[test]
    fn a_large_copy_is_noted_but_not_kept() {
        let base = 0x1112_0000_0000;
        let size = LARGEST_KEPT + 1;
        let sent = alloc::vec![9_u8; size as usize];
        set(base, sent.as_ptr() as u64, size);
        let (bytes, known) = read_back(base, 4);
        assert_eq!(bytes, [0; 4]);
        assert_eq!(known, Known { dropped: 4, ..Known::default() });
    }
}

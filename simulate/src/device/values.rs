//! Values in device memory that are known: small copies from the host, and fills.
//!
//! Kernels do nothing, so memory that no copy or fill has set has no value. It reads as the byte of `--fill`.

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
    /// These bytes, from this offset on.
    Bytes(Arc<[u8]>, usize),
    /// The same byte everywhere.
    Fill(u8),
    /// Set by the host, but not kept.
    Dropped,
}

/// Runs of known values, by first address. They do not overlap.
#[derive(Default)]
struct Values {
    runs: BTreeMap<u64, (u64, Value)>,
    kept: u64,
}

static VALUES: Mutex<Values> = Mutex::new(Values { runs: BTreeMap::new(), kept: 0 });

/// Parts of what was read, in bytes.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) struct Known {
    pub(crate) unset: u64,
    pub(crate) dropped: u64,
}

impl Value {
    fn at_offset(&self, bytes: u64) -> Self {
        match self {
            Self::Bytes(all, offset) => Self::Bytes(Arc::clone(all), offset + bytes as usize),
            other => other.clone(),
        }
    }

    fn kept(&self, size: u64) -> u64 {
        if matches!(self, Self::Bytes(..)) { size } else { 0 }
    }
}

impl Values {
    fn insert(&mut self, at: u64, size: u64, value: Value) {
        self.kept += value.kept(size);
        self.runs.insert(at, (size, value));
    }

    fn remove(&mut self, at: u64) -> Option<(u64, Value)> {
        let (size, value) = self.runs.remove(&at)?;
        self.kept -= value.kept(size);
        Some((size, value))
    }

    /// First addresses of the runs that share a byte with a range.
    fn overlapping(&self, at: u64, size: u64) -> Vec<u64> {
        let end = at.saturating_add(size);
        let before = self.runs.range(..at).next_back();
        let reaches_in = before.filter(|(start, (length, _))| *start + length > at).map(|(&start, _)| start);
        reaches_in.into_iter().chain(self.runs.range(at..end).map(|(&start, _)| start)).collect()
    }

    fn forget(&mut self, at: u64, size: u64) {
        let end = at.saturating_add(size);
        for start in self.overlapping(at, size) {
            let Some((length, value)) = self.remove(start) else { continue };
            if start < at {
                self.insert(start, at - start, value.clone());
            }
            if start + length > end {
                self.insert(end, start + length - end, value.at_offset(end - start));
            }
        }
    }

    /// Runs within a range, cut to it: offset from its start, size and value.
    fn within(&self, at: u64, size: u64) -> Vec<(u64, u64, Value)> {
        let end = at.saturating_add(size);
        let mut parts = Vec::new();
        for start in self.overlapping(at, size) {
            let Some((length, value)) = self.runs.get(&start) else { continue };
            let from = start.max(at);
            let to = (start + length).min(end);
            parts.push((from - at, to - from, value.at_offset(from - start)));
        }
        parts
    }
}

/// Keeps what the host copied to a device, if it is small.
pub(crate) fn set(at: u64, from_host: u64, size: u64) {
    let mut values = VALUES.lock();
    values.forget(at, size);
    let value = if size <= LARGEST_KEPT && values.kept + size <= MOST_KEPT {
        Value::Bytes(Arc::from(memory::bytes(from_host, size as usize)), 0)
    } else {
        Value::Dropped
    };
    values.insert(at, size, value);
}

/// Keeps that a range was filled with a byte.
pub(crate) fn fill(at: u64, byte: u8, size: u64) {
    if size > 0 {
        let mut values = VALUES.lock();
        values.forget(at, size);
        values.insert(at, size, Value::Fill(byte));
    }
}

/// Forgets a range: it was freed, or handed out anew.
pub(crate) fn forget(at: u64, size: u64) {
    VALUES.lock().forget(at, size);
}

/// Copies what is known of a range to another on a device.
pub(crate) fn copy(to: u64, from: u64, size: u64) {
    let mut values = VALUES.lock();
    let parts = values.within(from, size);
    values.forget(to, size);
    for (offset, length, value) in parts {
        values.insert(to + offset, length, value);
    }
}

/// Writes the values of a range to the host.
pub(crate) fn read(to_host: u64, from: u64, size: u64) -> Known {
    let parts = VALUES.lock().within(from, size);
    let mut known = Known { unset: size, dropped: 0 };
    let whole = parts
        .first()
        .is_some_and(|(offset, length, value)| *offset == 0 && *length == size && !matches!(value, Value::Dropped));
    if !whole {
        memory::fill(to_host, settings().fill, size as usize);
    }
    for (offset, length, value) in parts {
        known.unset -= length;
        match value {
            Value::Bytes(bytes, start) => {
                memory::copy(to_host + offset, bytes[start..].as_ptr() as u64, length as usize);
            }
            Value::Fill(byte) => memory::fill(to_host + offset, byte, length as usize),
            Value::Dropped => known.dropped += length,
        }
    }
    known
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
        assert_eq!(known, Known { unset: 4, dropped: 0 });
        forget(base + 4, 2);
        fill(base + 9, 7, 3);
        assert_eq!(read_back(base, 10).0, [0, 0, 1, 2, 0, 0, 5, 6, 0, 7]);
        copy(base + 100, base + 3, 4);
        let (bytes, known) = read_back(base + 100, 4);
        assert_eq!(bytes, [2, 0, 0, 5]);
        assert_eq!(known.unset, 2);
    }

    #[test]
    fn a_large_copy_is_noted_but_not_kept() {
        let base = 0x1112_0000_0000;
        let size = LARGEST_KEPT + 1;
        let sent = alloc::vec![9_u8; size as usize];
        set(base, sent.as_ptr() as u64, size);
        let (bytes, known) = read_back(base, 4);
        assert_eq!(bytes, [0; 4]);
        assert_eq!(known, Known { unset: 0, dropped: 4 });
    }
}

//! Remembers runs of memo references by their bytes.
//!
//! Three quarters of the opcodes of a snapshot are memo references inside `frames` lists, and equal
//! stacks are equal runs of bytes. A run that was seen before need not be decoded again.

use super::opcode as op;

/// The latest runs, each with the visitor's handle, in the place that a hash of its bytes gives.
///
/// Every answer is compared with the input in full, so a
/// clever choice of bytes can only make it miss.
pub(super) struct Runs<T> {
    /// A run with its APPENDS; empty before the first is inserted.
    slots: Vec<Option<(Box<[u8]>, T)>>,
    /// Bytes of all runs.
    bytes: usize,
    /// True once a memo entry was overwritten, which no pickler does: then nothing is remembered.
    is_outdated: bool,
}

/// The beginning of some bytes.
pub(super) enum Scan {
    /// This many bytes of memo references, then APPENDS.
    Run(usize),
    /// Something else.
    Other,
    /// Memo references up to the end of the buffer.
    Unfinished,
}

/// A run that is known, at the beginning of some bytes.
pub(super) struct KnownRun<T> {
    /// The visitor's handle to it.
    pub(super) value: T,
    /// Its length with its APPENDS.
    pub(super) length: usize,
}

/// Longer runs are rare and cost more to keep than to decode.
const LONGEST: usize = 8 * 1024;
/// Bound on the memory of the runs.
const MOST_BYTES: usize = 16 << 20;
const SLOTS: usize = 1 << 16;

impl<T: Copy> Runs<T> {
    pub(super) fn new() -> Self {
        Self { slots: Vec::new(), bytes: 0, is_outdated: false }
    }

    /// A memo entry was written; where it was `overwritten`, the same references now mean something else.
    #[inline]
    pub(super) fn outdate_if(&mut self, overwritten: bool) {
        if overwritten {
            *self = Self { is_outdated: true, ..Self::new() };
        }
    }

    /// The run at the beginning of `input`, where it is known.
    #[inline]
    pub(super) fn at_start_of(&self, input: &[u8]) -> Option<KnownRun<T>> {
        let Scan::Run(length) = scan(input) else { return None };
        let run = &input[..=length];
        let (known, value) = self.slots.get(slot(run))?.as_ref()?;
        (**known == *run).then_some(KnownRun { value: *value, length: run.len() })
    }

    /// `run` with its APPENDS.
    pub(super) fn insert(&mut self, run: &[u8], value: T) {
        if run.len() > LONGEST || self.is_outdated {
            return;
        }
        if self.bytes + run.len() > MOST_BYTES {
            *self = Self::new();
        }
        if self.slots.is_empty() {
            self.slots.resize_with(SLOTS, || None);
        }
        self.bytes += run.len();
        let replaced = self.slots[slot(run)].replace((run.into(), value));
        self.bytes -= replaced.map_or(0, |(run, _)| run.len());
    }
}

/// The memo index of the reference at the beginning of `run`, and the rest of the run.
#[inline]
pub(super) fn split_reference(run: &[u8]) -> Option<(u32, &[u8])> {
    match run {
        [op::BINGET, index, rest @ ..] => Some((u32::from(*index), rest)),
        [op::LONG_BINGET, a, b, c, d, rest @ ..] => Some((u32::from_le_bytes([*a, *b, *c, *d]), rest)),
        _ => None,
    }
}

/// Looks for a run at the beginning of `bytes`.
#[inline]
pub(super) fn scan(bytes: &[u8]) -> Scan {
    let mut at = 0;
    loop {
        match bytes.get(at) {
            Some(&op::LONG_BINGET) => at += 5,
            Some(&op::BINGET) => at += 2,
            Some(&op::APPENDS) if at > 0 => return Scan::Run(at),
            Some(_) => return Scan::Other,
            None => return Scan::Unfinished,
        }
    }
}

/// The place of a run, by a multiplicative hash over words of eight bytes.
#[inline]
fn slot(run: &[u8]) -> usize {
    const K: u64 = 0x9e37_79b9_7f4a_7c15;
    let (words, rest) = run.as_chunks::<8>();
    let words = words.iter().map(|word| u64::from_le_bytes(*word)).chain(rest.iter().map(|&byte| u64::from(byte)));
    let hash = words.fold(run.len() as u64, |hash, word| (hash ^ word).wrapping_mul(K).rotate_left(29));
    usize::try_from((hash ^ hash >> 32) % SLOTS as u64).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found<T: Copy>(runs: &Runs<T>, run: &[u8]) -> Option<T> {
        let behind = [run, b"more"].concat();
        let found = runs.at_start_of(&behind)?;
        assert_eq!(found.length, run.len());
        Some(found.value)
    }

    fn run(i: u32) -> Vec<u8> {
        [b"j".as_slice(), &i.to_le_bytes(), b"e"].concat()
    }

    #[test]
    fn finds_what_was_inserted_and_nothing_else() {
        let mut runs = Runs::new();
        assert_eq!(found(&runs, b"h\0e"), None);
        for i in 0..100_000 {
            runs.insert(&run(i), i);
            assert_eq!(found(&runs, &run(i)), Some(i));
        }
        let kept = (0..100_000).filter(|&i| found(&runs, &run(i)) == Some(i)).count();
        assert!(kept > SLOTS / 2, "most places are in use: {kept}");
        assert_eq!(found(&runs, b"h\0h\x01e"), None);
        runs.outdate_if(true);
        runs.insert(&run(1), 1);
        assert_eq!(found(&runs, &run(1)), None, "references may mean something else from here on");
    }

    #[test]
    fn stays_within_its_bound() {
        let mut runs = Runs::new();
        for i in 0..10_000_u32 {
            let mut long = vec![b'h'; LONGEST - 6];
            long.extend(run(i));
            runs.insert(&long, i);
            assert!(runs.bytes <= MOST_BYTES);
        }
        let long = [vec![b'h'; LONGEST], run(0)].concat();
        runs.insert(&long, 0);
        assert_eq!(found(&runs, &long), None);
    }
}

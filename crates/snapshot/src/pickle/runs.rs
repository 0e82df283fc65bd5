//! Remembers runs of memo references by their bytes.
//!
//! Three quarters of the opcodes of a snapshot are memo references inside `frames` lists, and equal
//! stacks are equal runs of bytes. A run that was seen before need not be decoded again.

use ptmem_base::interner::Interner;

use super::opcode as op;

/// The runs seen so far, each with the visitor's handle.
///
/// A program does the same in every step, so the run that followed one the last time is tried first: a comparison of
/// bytes, which finds the end of the run too. Every answer is compared with the input in full.
pub(super) struct KnownRuns<T> {
    /// Each with its APPENDS.
    bytes: Interner<Box<[u8]>>,
    known: Vec<SeenRun<T>>,
    /// The run that came last.
    latest: usize,
    /// Bytes of all runs.
    size: usize,
}

struct SeenRun<T> {
    value: T,
    /// The run that came next the last time.
    next: usize,
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
/// Bounds on the memory of the runs.
const MOST_BYTES: usize = 16 << 20;
const MOST_RUNS: usize = 1 << 17;

impl<T: Copy> KnownRuns<T> {
    pub(super) fn new() -> Self {
        Self { bytes: Interner::default(), known: Vec::new(), latest: 0, size: 0 }
    }

    /// The run at the beginning of `input`, where it is known.
    #[inline]
    pub(super) fn at_start_of(&mut self, input: &[u8]) -> Option<KnownRun<T>> {
        let expected = self.known.get(self.latest)?.next;
        let run = &**self.bytes.items().get_index(expected)?;
        if !input.starts_with(run) {
            return self.look_up(input);
        }
        self.latest = expected;
        Some(KnownRun { value: self.known[expected].value, length: run.len() })
    }

    fn look_up(&mut self, input: &[u8]) -> Option<KnownRun<T>> {
        let Scan::Run(length) = scan(input) else { return None };
        let found = self.bytes.position(&input[..=length])?;
        self.came(found);
        Some(KnownRun { value: self.known[found].value, length: length + 1 })
    }

    fn came(&mut self, index: usize) {
        if let Some(before) = self.known.get_mut(self.latest) {
            before.next = index;
        }
        self.latest = index;
    }

    /// `run` with its APPENDS.
    pub(super) fn insert(&mut self, run: &[u8], value: T) {
        if run.len() > LONGEST {
            return;
        }
        if self.size + run.len() > MOST_BYTES || self.known.len() >= MOST_RUNS {
            *self = Self::new();
        }
        let index = self.bytes.intern(run, |run| Box::from(run));
        if index < self.known.len() {
            // The visitor has forgotten the earlier handle.
            self.known[index].value = value;
        } else {
            self.size += run.len();
            self.known.push(SeenRun { value, next: index });
        }
        self.came(index);
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

#[cfg(test)]
mod tests {
    use super::*;

    fn found<T: Copy>(runs: &mut KnownRuns<T>, run: &[u8]) -> Option<T> {
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
        let mut runs = KnownRuns::new();
        assert_eq!(found(&mut runs, b"h\0e"), None);
        for i in 0..100_000 {
            runs.insert(&run(i), i);
            assert_eq!(found(&mut runs, &run(i)), Some(i));
        }
        assert!((0..100_000).all(|i| found(&mut runs, &run(i)) == Some(i)));
        assert_eq!(found(&mut runs, b"h\0h\x01e"), None);
        // The same bytes again, once the visitor has forgotten what they were.
        runs.insert(&run(7), 8);
        assert_eq!(found(&mut runs, &run(7)), Some(8));
        assert_eq!(runs.size, 100_000 * run(0).len());
    }

    #[test]
    fn the_run_that_came_next_is_held_against_the_input() {
        let mut runs = KnownRuns::new();
        for i in 0..8 {
            runs.insert(&run(i), i);
        }
        for round in 0..10 {
            for i in 0..8 {
                // The last one is another in every other round.
                let next = if i == 7 { round % 2 } else { i };
                assert_eq!(found(&mut runs, &run(next)), Some(next));
                assert!(runs.at_start_of(&run(next)[..5]).is_none(), "cut off");
            }
        }
    }

    #[test]
    fn stays_within_its_bound() {
        let mut runs = KnownRuns::new();
        for i in 0..10_000_u32 {
            let mut long = vec![b'h'; LONGEST - 6];
            long.extend(run(i));
            runs.insert(&long, i);
            assert!(runs.size <= MOST_BYTES);
        }
        let long = [vec![b'h'; LONGEST], run(0)].concat();
        runs.insert(&long, 0);
        assert_eq!(found(&mut runs, &long), None);
    }
}

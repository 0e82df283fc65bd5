//! Remembers runs of memo references by their bytes.
//!
//! Three quarters of the opcodes of a snapshot are memo references inside `frames` lists, and equal
//! stacks are equal runs of bytes. A run that was seen before need not be decoded again, and as a
//! program does the same in every step, the next run is mostly the one that followed the last time:
//! then it need not even be looked for.

use super::opcode as op;

/// The runs seen so far, each with the visitor's handle.
///
/// Valid only while no memo entry is overwritten. Every answer is compared with the input in full, so a
/// clever choice of bytes can only make it miss.
pub(super) struct Runs<T> {
    /// All runs, each with its APPENDS, one after the other.
    bytes: Vec<u8>,
    known: Vec<Known<T>>,
    /// A hash table of positions in `known`, one more than each; 0 is free.
    slots: Vec<u32>,
    /// After a dozen runs, and, where these never came before, after a few.
    guesses: [Guess; 2],
}

/// Which run came after the latest ones the last time.
struct Guess {
    /// By a digest of the latest ones.
    followers: Vec<u32>,
    latest: u32,
    /// By how many bits the digest is shifted at each, so that older input is forgotten.
    forgets: u32,
}

struct Known<T> {
    start: u32,
    end: u32,
    hash: u32,
    value: T,
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
const MOST_RUNS: usize = 1 << 17;
const FEWEST_SLOTS: usize = 1 << 10;
/// The number of slots in which a run may be stored.
const WAYS: usize = 4;
const FOLLOWERS: u32 = 1 << 14;

impl<T: Copy> Runs<T> {
    pub(super) fn new() -> Self {
        let guesses = [1, 4].map(|forgets| Guess { followers: Vec::new(), latest: 0, forgets });
        Self { bytes: Vec::new(), known: Vec::new(), slots: Vec::new(), guesses }
    }

    /// A memo entry was written; where it was `overwritten`, the same references now mean something else.
    #[inline]
    pub(super) fn outdate_if(&mut self, overwritten: bool) {
        if overwritten {
            self.clear();
        }
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.known.clear();
        self.slots.clear();
    }

    /// The run at the beginning of `input`, where it is known.
    #[inline]
    pub(super) fn at_start_of(&mut self, input: &[u8]) -> Option<KnownRun<T>> {
        let [long, short] = &self.guesses;
        let long = long.follower();
        let short = short.follower();
        self.starts_with(input, long).or_else(|| self.starts_with(input, short)).or_else(|| self.look_for(input))
    }

    #[inline]
    fn starts_with(&mut self, input: &[u8], index: u32) -> Option<KnownRun<T>> {
        let known = self.known.get(index as usize)?;
        let run = self.run(known);
        if !input.starts_with(run) {
            return None;
        }
        let found = KnownRun { value: known.value, length: run.len() };
        self.came(index);
        Some(found)
    }

    fn look_for(&mut self, input: &[u8]) -> Option<KnownRun<T>> {
        let Scan::Run(length) = scan(input) else {
            return None;
        };
        let run = &input[..=length];
        let hash = hash(run);
        let slot = *self.slots.get(self.group(hash))?.iter().find(|&&slot| self.holds(slot, hash, run))?;
        self.came(slot - 1);
        Some(KnownRun { value: self.known[slot as usize - 1].value, length: run.len() })
    }

    /// True if a slot holds this run, whose hash is `hash`.
    fn holds(&self, slot: u32, hash: u32, run: &[u8]) -> bool {
        self.entry(slot).is_some_and(|known| known.hash == hash && self.run(known) == run)
    }

    fn run(&self, known: &Known<T>) -> &[u8] {
        &self.bytes[known.start as usize..known.end as usize]
    }

    fn entry(&self, slot: u32) -> Option<&Known<T>> {
        self.known.get(slot.checked_sub(1)? as usize)
    }

    #[inline]
    fn came(&mut self, index: u32) {
        self.guesses.iter_mut().for_each(|guess| guess.came(index));
    }

    /// `run` with its APPENDS.
    pub(super) fn insert(&mut self, run: &[u8], value: T) {
        if run.len() > LONGEST {
            return;
        }
        if self.bytes.len() + run.len() > MOST_BYTES || self.known.len() >= MOST_RUNS {
            self.clear();
        }
        if self.known.len() * 2 >= self.slots.len() {
            self.grow();
        }
        let start = place(self.bytes.len());
        self.bytes.extend_from_slice(run);
        self.known.push(Known { start, end: place(self.bytes.len()), hash: hash(run), value });
        self.put(place(self.known.len()));
    }

    fn put(&mut self, slot: u32) {
        let Some(known) = self.entry(slot) else { return };
        let group = self.group(known.hash);
        let group = &mut self.slots[group];
        // One of a full group gives way.
        let way = group.iter().position(|&slot| slot == 0).unwrap_or(slot as usize % WAYS);
        group[way] = slot;
    }

    fn grow(&mut self) {
        let larger = (self.slots.len() * 4).max(FEWEST_SLOTS);
        self.slots.clear();
        self.slots.resize(larger, 0);
        self.guesses.iter_mut().for_each(|guess| guess.followers.resize(FOLLOWERS as usize, u32::MAX));
        for slot in 1..=u32::try_from(self.known.len()).unwrap_or(u32::MAX) {
            self.put(slot);
        }
    }

    /// The slots in which a run with this hash may be stored.
    fn group(&self, hash: u32) -> std::ops::Range<usize> {
        // The number of slots is a power of two.
        let first = hash as usize & self.slots.len().wrapping_sub(1) & !(WAYS - 1);
        first..first + WAYS
    }
}

impl Guess {
    #[inline]
    fn follower(&self) -> u32 {
        self.followers.get(self.latest as usize).copied().unwrap_or(u32::MAX)
    }

    #[inline]
    fn came(&mut self, index: u32) {
        if let Some(follower) = self.followers.get_mut(self.latest as usize) {
            *follower = index;
        }
        self.latest = (self.latest << self.forgets ^ index.wrapping_mul(0x9e37_79b9) >> 18) % FOLLOWERS;
    }
}

/// A place behind that many bytes or runs, which [`MOST_BYTES`] and [`MOST_RUNS`] keep within 32 bits.
fn place(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
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

/// A multiplicative hash over words of eight bytes.
#[inline]
fn hash(run: &[u8]) -> u32 {
    const K: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut hash = run.len() as u64;
    let (words, rest) = run.as_chunks::<8>();
    for word in words {
        hash = (hash ^ u64::from_le_bytes(*word)).wrapping_mul(K).rotate_left(29);
    }
    for &byte in rest {
        hash = (hash ^ u64::from(byte)).wrapping_mul(K).rotate_left(29);
    }
    let [a, b, c, d, e, f, g, h] = hash.to_le_bytes();
    u32::from_le_bytes([a, b, c, d]) ^ u32::from_le_bytes([e, f, g, h])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found<T: Copy>(runs: &mut Runs<T>, run: &[u8]) -> Option<T> {
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
        assert_eq!(found(&mut runs, b"h\0e"), None);
        for i in 0..100_000 {
            runs.insert(&run(i), i);
            assert_eq!(found(&mut runs, &run(i)), Some(i));
        }
        let kept = (0..100_000).filter(|&i| found(&mut runs, &run(i)) == Some(i)).count();
        assert!(kept > 50_000, "the table grows with what it is given: {kept}");
        assert_eq!(found(&mut runs, b"h\0h\x01e"), None);
        runs.clear();
        assert_eq!(found(&mut runs, &run(99_999)), None);
    }

    #[test]
    fn a_guess_is_held_against_the_input() {
        let mut runs = Runs::new();
        for i in 0..8 {
            runs.insert(&run(i), i);
        }
        for round in 0..10 {
            for i in 0..8 {
                // The last one is another in every other round.
                let next = if i == 7 { round % 2 } else { i };
                assert_eq!(found(&mut runs, &run(next)), Some(next));
                assert_eq!(runs.at_start_of(&run(next)[..5]).map(|found| found.value), None, "cut off");
            }
        }
    }

    #[test]
    fn stays_within_its_bound() {
        let mut runs = Runs::new();
        for i in 0..10_000_u32 {
            let mut long = vec![b'h'; LONGEST - 6];
            long.extend(run(i));
            runs.insert(&long, i);
            assert!(runs.bytes.len() <= MOST_BYTES);
        }
        let long = [vec![b'h'; LONGEST], run(0)].concat();
        runs.insert(&long, 0);
        assert_eq!(found(&mut runs, &long), None);
    }
}

//! Remembers runs of memo references by their bytes.
//!
//! Three quarters of the opcodes of a snapshot are memo references inside `frames` lists, and equal
//! stacks are equal runs of bytes. A run that was seen before need not be decoded again.

/// A cache from the bytes of a run to what the visitor remembered of it.
///
/// Four places for each, compared in full, so a clever choice of bytes can only make it miss. Valid
/// only while no memo entry is overwritten.
pub(super) struct Runs<T> {
    /// Groups of [`WAYS`] slots, filled from the first.
    slots: Vec<Option<Known<T>>>,
    used: usize,
    bytes: usize,
    /// Which slot of a full group gives way.
    turn: usize,
}

struct Known<T> {
    hash: u64,
    run: Box<[u8]>,
    value: T,
}

/// Longer runs are rare and cost more to keep than to decode.
const LONGEST: usize = 8 * 1024;
const WAYS: usize = 4;
const FEWEST_SLOTS: usize = 1 << 10;
const MOST_SLOTS: usize = 1 << 17;
/// Bound on what the cache may hold.
const MOST_BYTES: usize = 16 << 20;

impl<T: Copy> Runs<T> {
    pub(super) fn new() -> Self {
        Self { slots: Vec::new(), used: 0, bytes: 0, turn: 0 }
    }

    pub(super) fn clear(&mut self) {
        self.slots.clear();
        self.used = 0;
        self.bytes = 0;
    }

    #[inline]
    pub(super) fn get(&self, run: &[u8]) -> Option<T> {
        if self.slots.is_empty() {
            return None;
        }
        let hash = hash(run);
        let first = group(hash, self.slots.len());
        let group = self.slots[first..first + WAYS].iter();
        let known = group.map_while(Option::as_ref).find(|known| known.hash == hash && *known.run == *run);
        known.map(|known| known.value)
    }

    pub(super) fn insert(&mut self, run: &[u8], value: T) {
        if run.len() > LONGEST {
            return;
        }
        if self.bytes + run.len() > MOST_BYTES {
            self.clear();
        }
        if self.slots.is_empty() {
            self.slots.resize_with(FEWEST_SLOTS, || None);
        } else if self.used * 2 > self.slots.len() && self.slots.len() < MOST_SLOTS {
            self.grow();
        }
        self.put(Known { hash: hash(run), run: run.into(), value });
    }

    fn put(&mut self, known: Known<T>) {
        let first = group(known.hash, self.slots.len());
        let group = &mut self.slots[first..first + WAYS];
        let same = |slot: &Option<Known<T>>| slot.as_ref().is_none_or(|old| old.run == known.run);
        let way = group.iter().position(same).unwrap_or_else(|| {
            self.turn = (self.turn + 1) % WAYS;
            self.turn
        });
        self.bytes += known.run.len();
        match group[way].replace(known) {
            Some(old) => self.bytes -= old.run.len(),
            None => self.used += 1,
        }
    }

    fn grow(&mut self) {
        let larger = self.slots.len() * 4;
        let old = std::mem::take(&mut self.slots);
        self.clear();
        self.slots.resize_with(larger, || None);
        for known in old.into_iter().flatten() {
            self.put(known);
        }
    }
}

/// A multiplicative hash over words of eight bytes.
#[inline]
fn hash(run: &[u8]) -> u64 {
    const K: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut hash = run.len() as u64;
    let (words, rest) = run.as_chunks::<8>();
    for word in words {
        hash = (hash ^ u64::from_le_bytes(*word)).wrapping_mul(K).rotate_left(29);
    }
    for &byte in rest {
        hash = (hash ^ u64::from(byte)).wrapping_mul(K).rotate_left(29);
    }
    hash
}

/// The first slot of the group of a run with this hash.
#[inline]
fn group(hash: u64, slots: usize) -> usize {
    // The number of slots is a power of two of at most 32 bits.
    let index = (hash ^ (hash >> 32)) & (slots as u64 - 1) & !(WAYS as u64 - 1);
    usize::try_from(index).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_what_was_inserted_and_nothing_else() {
        let mut runs = Runs::new();
        assert_eq!(runs.get(b"h\0"), None);
        let run = |i: u32| [b"j".as_slice(), &i.to_le_bytes()].concat();
        for i in 0..100_000 {
            runs.insert(&run(i), i);
            assert_eq!(runs.get(&run(i)), Some(i));
        }
        let kept = (0..100_000).filter(|&i| runs.get(&run(i)) == Some(i)).count();
        assert!(kept > 50_000, "the cache grows with what it is given: {kept}");
        assert_eq!(runs.get(b"h\0h\x01"), None);
        runs.clear();
        assert_eq!(runs.get(&run(99_999)), None);
    }

    #[test]
    fn stays_within_its_bound() {
        let mut runs = Runs::new();
        for i in 0..10_000_u32 {
            let mut run = vec![b'h'; LONGEST - 4];
            run.extend(i.to_le_bytes());
            runs.insert(&run, i);
            assert!(runs.bytes <= MOST_BYTES);
        }
        runs.insert(&vec![b'h'; LONGEST + 1], 0);
        assert_eq!(runs.get(&vec![b'h'; LONGEST + 1]), None);
    }
}

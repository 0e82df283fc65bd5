//! Detects immediate repetitions (tandem repeats), including nested ones, in one pass and linear time.

use ptmem_base::interner::Interner;
use rustc_hash::FxHashMap;

use super::{FoldItem, FoldRound, Folded, index};

/// The most places that are tried as the start of a repetition, per item.
const MOST_CANDIDATES: usize = 8;

/// The base of the rolling hash; any large odd number does.
const BASE: u64 = 0x9E37_79B9_7F4A_7C15;

/// Folds the loops of a sequence. `None` where more than `most` items would be left.
pub(super) fn fold(symbols: &[u32], most: usize) -> Option<Folded> {
    let mut folder = SequenceFolder { hashes: vec![0], powers: vec![1], ..SequenceFolder::default() };
    // Most loops are of one symbol: they need no search.
    for run in symbols.chunk_by(|a, b| a == b) {
        folder.append(FoldItem { unit: FoldRound::Symbol(run[0]), count: run.len() as u64 });
        while folder.next_round() || folder.second_round() {}
        if folder.out.len() + folder.in_bodies > most {
            return None;
        }
    }
    let mut sequences = folder.bodies.into_items();
    sequences.push(folder.out);
    Some(Folded { sequences })
}

/// The sequence folded so far.
#[derive(Debug, Default)]
struct SequenceFolder {
    out: Vec<FoldItem>,
    /// For each item the latest equal one before it.
    earlier: Vec<Option<u32>>,
    /// The last of equal items.
    last: FxHashMap<FoldItem, u32>,
    /// A hash of the items before each place.
    hashes: Vec<u64>,
    powers: Vec<u64>,
    /// The places of loops by the length that the sequence has when one more round of them is complete.
    due: FxHashMap<usize, Vec<u32>>,
    bodies: Interner<Vec<FoldItem>>,
    /// A hash of each body.
    body_hashes: Vec<u64>,
    /// Number of their items.
    in_bodies: usize,
}

impl SequenceFolder {
    fn append(&mut self, item: FoldItem) {
        let at = self.out.len();
        self.hashes.push(chained(self.hashes[at], item));
        if self.powers.len() < self.hashes.len() {
            self.powers.push(self.powers[at].wrapping_mul(BASE));
        }
        self.earlier.push(self.last.insert(item, index(at)));
        self.out.push(item);
        if let Some(body) = item.body() {
            self.due.entry(at + 1 + self.bodies.items()[body].len()).or_default().push(index(at));
        }
    }

    /// Takes items off the end.
    fn cut(&mut self, left: usize) {
        for item in self.out.drain(left..).rev() {
            self.hashes.pop();
            match self.earlier.pop().flatten() {
                Some(earlier) => self.last.insert(item, earlier),
                None => self.last.remove(&item),
            };
            if let Some(body) = item.body() {
                let due = self.earlier.len() + 1 + self.bodies.items()[body].len();
                self.due.get_mut(&due).and_then(Vec::pop);
            }
        }
    }

    /// A hash of the items from `from` to `to`.
    fn hash(&self, from: usize, to: usize) -> u64 {
        self.hashes[to].wrapping_sub(self.hashes[from].wrapping_mul(self.powers[to - from]))
    }

    /// Folds one more round of a loop that is there already. Returns true if the end of the sequence is one.
    fn next_round(&mut self) -> bool {
        let Some((at, more)) = self.complete_loop() else { return false };
        self.cut(at);
        self.append(more);
        true
    }

    /// The loop of which another round is complete, with that round.
    fn complete_loop(&self) -> Option<(usize, FoldItem)> {
        let end = self.out.len();
        self.due.get(&end)?.iter().rev().find_map(|&at| {
            let item = self.out[at as usize];
            let more = FoldItem { count: item.count.checked_add(1)?, ..item };
            let from = at as usize + 1;
            let body = item.body()?;
            let is_round =
                self.hash(from, end) == self.body_hashes[body] && self.out[from..end] == self.bodies.items()[body];
            is_round.then_some((at as usize, more))
        })
    }

    /// Folds the first repetition of what comes before it. Returns true if the end of the sequence is one.
    fn second_round(&mut self) -> bool {
        let end = self.out.len();
        let mut earlier = self.earlier.last().copied().flatten();
        for _ in 0..MOST_CANDIDATES {
            let Some(at) = earlier else { return false };
            let length = end - 1 - at as usize;
            let Some(start) = end.checked_sub(2 * length) else { return false };
            let middle = end - length;
            let is_same =
                self.hash(start, middle) == self.hash(middle, end) && self.out[start..middle] == self.out[middle..end];
            if is_same {
                let items = self.out[middle..].to_vec();
                self.cut(start);
                let folded = match items[..] {
                    [one] => FoldItem { count: one.count * 2, ..one },
                    _ => FoldItem { unit: FoldRound::Body(self.body(&items)), count: 2 },
                };
                self.append(folded);
                return true;
            }
            earlier = self.earlier[at as usize];
        }
        false
    }

    fn body(&mut self, items: &[FoldItem]) -> u32 {
        let body = self.bodies.intern(items, <[FoldItem]>::to_vec);
        if body == self.body_hashes.len() {
            self.body_hashes.push(items.iter().fold(0, |hash, &item| chained(hash, item)));
            self.in_bodies += items.len();
        }
        index(body)
    }
}

/// A hash of items, with one more.
fn chained(hash: u64, item: FoldItem) -> u64 {
    let unit = match item.unit {
        FoldRound::Symbol(symbol) => u64::from(symbol) << 1,
        FoldRound::Body(body) => u64::from(body) << 1 | 1,
    };
    let mixed = unit.wrapping_mul(0xD6E8_FEB8_6659_FD93) ^ item.count.wrapping_mul(BASE);
    hash.wrapping_mul(BASE).wrapping_add((mixed ^ mixed >> 29).wrapping_mul(0xBF58_476D_1CE4_E5B9))
}

//! Loops: what is repeated right after itself, loops of loops included. One pass, in time that grows as the sequence.

mod places;

use rustc_hash::FxHashMap;

use super::{Folded, Item, index};
use places::{Due, Last};

/// The most places that are tried as the start of a repetition, per item.
const MOST_CANDIDATES: usize = 8;

/// The base of the rolling hash; any large odd number does.
const BASE: u64 = 0x9E37_79B9_7F4A_7C15;

/// Folds the loops of a sequence. `None` where more than `most` items would be left.
pub(super) fn fold(symbols: &[u32], most: usize) -> Option<Folded> {
    let mut folder = Folder::default();
    // Most loops are of one symbol: they need no search.
    for run in symbols.chunk_by(|a, b| a == b) {
        let item = match run {
            [one] => Item::One(*one),
            _ => Item::Loop { body: folder.body(&[Item::One(run[0])]), count: run.len() as u64 },
        };
        folder.append(item);
        while folder.fold_once() {}
        if folder.size > most {
            return None;
        }
    }
    Some(Folded { items: folder.out, bodies: folder.bodies })
}

/// The sequence folded so far.
#[derive(Debug, Default)]
struct Folder {
    out: Vec<Item>,
    /// For each item the latest equal one before it.
    earlier: Vec<Option<u32>>,
    last: Last,
    /// A hash of all items up to each.
    hashes: Vec<u64>,
    powers: Vec<u64>,
    due: Due,
    bodies: Vec<Vec<Item>>,
    /// A hash of each body.
    body_hashes: Vec<u64>,
    known: FxHashMap<Vec<Item>, u32>,
    /// Items, those of bodies included.
    size: usize,
}

impl Folder {
    fn append(&mut self, item: Item) {
        let at = index(self.out.len());
        let before = self.hashes.last().copied().unwrap_or(0);
        self.hashes.push(before.wrapping_mul(BASE).wrapping_add(digest(item)));
        while self.powers.len() <= self.hashes.len() {
            let power = self.powers.last().map_or(1, |power: &u64| power.wrapping_mul(BASE));
            self.powers.push(power);
        }
        self.earlier.push(self.last.set(item, Some(at)));
        self.out.push(item);
        self.size += 1;
        if let Item::Loop { body, .. } = item {
            self.due.push(self.out.len() + self.bodies[body as usize].len(), at);
        }
    }

    /// Takes items off the end.
    fn cut(&mut self, left: usize) {
        while self.out.len() > left {
            let (Some(item), Some(earlier)) = (self.out.pop(), self.earlier.pop()) else { return };
            self.hashes.pop();
            self.size -= 1;
            self.last.set(item, earlier);
            if let Item::Loop { body, .. } = item {
                self.due.pop(self.out.len() + 1 + self.bodies[body as usize].len());
            }
        }
    }

    /// A hash of the items from `from` to `to`.
    fn hash(&self, from: usize, to: usize) -> u64 {
        self.hash_until(to).wrapping_sub(self.hash_until(from).wrapping_mul(self.powers[to - from]))
    }

    /// A hash of the items before a place.
    fn hash_until(&self, at: usize) -> u64 {
        at.checked_sub(1).map_or(0, |last| self.hashes[last])
    }

    /// Folds the end of the sequence if that is one more round of a loop. Returns true if it is.
    fn fold_once(&mut self) -> bool {
        self.next_round() || self.second_round()
    }

    /// One more round of a loop that is there already.
    fn next_round(&mut self) -> bool {
        let Some((at, more)) = self.complete_loop() else { return false };
        self.cut(at);
        self.append(more);
        true
    }

    /// The loop of which another round is complete, with that round.
    fn complete_loop(&self) -> Option<(usize, Item)> {
        let end = self.out.len();
        self.due.at(end).find_map(|at| match self.out[at] {
            Item::Loop { body, count } if self.is_body(body, at + 1, end) => {
                Some((at, Item::Loop { body, count: count.checked_add(1)? }))
            }
            Item::Loop { .. } | Item::One(_) => None,
        })
    }

    /// True if the items from `from` to `to` are those of a body.
    fn is_body(&self, body: u32, from: usize, to: usize) -> bool {
        let body = body as usize;
        self.hash(from, to) == self.body_hashes[body] && self.out[from..to] == self.bodies[body]
    }

    /// The first repetition of what comes before it.
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
                    [Item::Loop { body, count }] => Item::Loop { body, count: count * 2 },
                    _ => Item::Loop { body: self.body(&items), count: 2 },
                };
                self.append(folded);
                return true;
            }
            earlier = self.earlier[at as usize];
        }
        false
    }

    fn body(&mut self, items: &[Item]) -> u32 {
        if let Some(&body) = self.known.get(items) {
            return body;
        }
        let body = index(self.bodies.len());
        self.body_hashes
            .push(items.iter().fold(0, |hash: u64, item| hash.wrapping_mul(BASE).wrapping_add(digest(*item))));
        self.bodies.push(items.to_vec());
        self.known.insert(items.to_vec(), body);
        self.size += items.len();
        body
    }
}

fn digest(item: Item) -> u64 {
    match item {
        Item::One(symbol) => mixed(1, symbol, 0),
        Item::Loop { body, count } => mixed(2, body, count),
    }
}

fn mixed(kind: u64, value: u32, count: u64) -> u64 {
    let mixed = (u64::from(value) << 2 | kind).wrapping_mul(0xD6E8_FEB8_6659_FD93) ^ count.wrapping_mul(BASE);
    (mixed ^ mixed >> 29).wrapping_mul(0xBF58_476D_1CE4_E5B9)
}

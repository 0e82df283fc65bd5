//! Remembers how dictionaries were written of which there are many that differ in a few values, as events do.
//!
//! The bytes between these values are the same each time, and mean the same, because equal strings and tuples are equal
//! values and nothing in the memo is overwritten. So they need only be compared.

use std::collections::BTreeMap;

use super::opcode as op;
use super::runs::{Scan, scan};
use super::{AlikeDictionaries, Visitor};

/// The dictionaries that were remembered.
pub(super) struct Shapes<V: Visitor>(Vec<Shape<V>>);

/// How a dictionary was written.
pub(super) struct Shape<V: Visitor> {
    /// Its keys and values in turn.
    pub(super) items: Vec<V::Value>,
    /// The last one ends in SETITEMS.
    pub(super) parts: Vec<Stretch<V::Kept>>,
    pub(super) handle: V::Shape,
    bytes: Box<[u8]>,
    starts: Vec<ItemStart>,
    /// The items that are written in other bytes in some dictionaries, in order, and whether they are equal all the same.
    written_anew: BTreeMap<usize, bool>,
}

/// The bytes up to an item that is decoded, or to the end.
pub(super) struct Stretch<K> {
    pub(super) bytes: Box<[u8]>,
    /// The values that they add to the memo.
    pub(super) memoized: Box<[K]>,
    /// The index of their first item.
    pub(super) first: usize,
    /// The item behind them.
    pub(super) next: Option<Decoded>,
}

/// An item that is decoded.
#[derive(Clone, Copy)]
pub(super) struct Decoded {
    pub(super) index: usize,
    /// True if it is the same value each time, such as a reference to another equal text.
    pub(super) is_equal: bool,
}

/// A dictionary as it was read.
pub(super) struct Written<'w, V: Visitor> {
    /// From behind its MARK up to its SETITEMS.
    pub(super) bytes: &'w [u8],
    pub(super) items: &'w [V::Value],
    /// The values that were added to the memo meanwhile.
    pub(super) memoized: &'w [V::Kept],
}

/// A snapshot has one for each action on each stream. To look for one of more would take longer than to read it.
const MOST_SHAPES: usize = 16;

impl<V: Visitor> Shapes<V> {
    pub(super) fn new() -> Self {
        Self(Vec::new())
    }

    pub(super) fn is_full(&self) -> bool {
        self.0.len() >= MOST_SHAPES
    }

    /// The first shape of which `bytes` begin as the bytes before its first varying value.
    #[inline]
    pub(super) fn find(&self, bytes: &[u8]) -> Option<&Shape<V>> {
        self.0.iter().find(|shape| begins_with(bytes, &shape.parts[0].bytes))
    }

    /// Remembers a dictionary that was not recognized.
    pub(super) fn learn(&mut self, alike: AlikeDictionaries<V::Shape>, written: &Written<'_, V>) {
        let Some(starts) =
            starts(written.bytes, &alike.varying).filter(|starts| starts.len() == written.items.len() + 1)
        else {
            return;
        };
        let written_anew = alike.varying.into_iter().map(|index| (index, false)).collect();
        let mut new = Shape {
            items: written.items.to_vec(),
            parts: Vec::new(),
            handle: alike.shape,
            bytes: written.bytes.into(),
            starts,
            written_anew,
        };
        let earlier = self.0.iter().position(|shape| shape.is_like(&new));
        if let Some(index) = earlier {
            let earlier = self.0.swap_remove(index);
            // Where one of them has the text itself, it is the first that does, and the others refer to it.
            let differing = (0..new.items.len()).filter(|&index| {
                let bytes = [earlier.bytes_of(index), new.bytes_of(index)];
                bytes[0] != bytes[1] && bytes.map(is_reference) == [true; 2]
            });
            let differing: Vec<usize> = differing.chain(earlier.written_anew.keys().copied()).collect();
            for index in differing {
                new.written_anew.entry(index).or_insert(true);
            }
        }
        if let Some(parts) = new.parts(written.memoized) {
            self.0.push(Shape { parts, ..new });
        }
    }
}

impl<V: Visitor> Shape<V> {
    /// True if both have the same items, but for those that vary.
    fn is_like(&self, new: &Self) -> bool {
        let mut pairs = self.items.iter().zip(&new.items).enumerate();
        self.items.len() == new.items.len()
            && pairs.all(|(index, (one, other))| new.written_anew.contains_key(&index) || one == other)
    }

    /// Puts the first `count` items behind those below `start`, where only the varying ones are so far.
    #[cold]
    pub(super) fn spell_out(&self, items: &mut Vec<V::Value>, start: usize, count: usize) {
        let varying = items.split_off(start);
        items.extend_from_slice(&self.items[..count]);
        let places = self.written_anew.iter().filter(|&(_, &is_equal)| !is_equal);
        for ((&place, _), value) in places.zip(varying) {
            items[start + place] = value;
        }
    }

    fn bytes_of(&self, item: usize) -> &[u8] {
        &self.bytes[self.starts[item].at..self.starts[item + 1].at]
    }

    /// The bytes between the items that are decoded. `memoized` are the values that all of them added to the memo.
    fn parts(&self, memoized: &[V::Kept]) -> Option<Vec<Stretch<V::Kept>>> {
        let end = ItemStart { at: self.bytes.len(), memoized: memoized.len() };
        let mut parts = Vec::new();
        let mut first = 0;
        let decoded = self.written_anew.iter().map(|(&index, &is_equal)| Decoded { index, is_equal });
        for next in decoded.map(Some).chain([None]) {
            let from = self.starts[first];
            let to = next.map_or(end, |next| self.starts[next.index]);
            parts.push(Stretch {
                bytes: self.bytes.get(from.at..to.at)?.into(),
                memoized: memoized.get(from.memoized..to.memoized)?.into(),
                first,
                next,
            });
            first = next.map_or(first, |next| next.index + 1);
        }
        Some(parts)
    }
}

/// As `starts_with`, for the short bytes between values that vary: to call `memcmp` takes longer than to compare them.
#[inline]
pub(super) fn begins_with(bytes: &[u8], start: &[u8]) -> bool {
    let Some(bytes) = bytes.get(..start.len()) else { return false };
    match (bytes.last_chunk::<8>(), start.last_chunk::<8>()) {
        // The last eight may overlap those before.
        (Some(end), Some(expected)) => {
            let words = bytes.as_chunks::<8>().0.iter().zip(start.as_chunks::<8>().0);
            words.into_iter().all(|(word, expected)| word == expected) && end == expected
        }
        _ => bytes.iter().zip(start).all(|(byte, expected)| byte == expected),
    }
}

fn is_reference(bytes: &[u8]) -> bool {
    matches!(bytes, [op::BINGET | op::LONG_BINGET, ..])
}

/// The start of an item.
#[derive(Clone, Copy)]
struct ItemStart {
    at: usize,
    /// The number of values that were added to the memo before it.
    memoized: usize,
}

/// Where the items of a dictionary start, and its SETITEMS, if it is written in opcodes that this knows.
fn starts(bytes: &[u8], varying: &[usize]) -> Option<Vec<ItemStart>> {
    let mut starts: Vec<ItemStart> = Vec::new();
    let mut here = ItemStart { at: 0, memoized: 0 };
    loop {
        let rest = bytes.get(here.at..)?;
        let length = match *rest {
            [op::MEMOIZE, ..] => {
                here.memoized += 1;
                here.at += 1;
                continue;
            }
            [op::SETITEMS] => {
                starts.push(here);
                return Some(starts);
            }
            // The first two items of three values become one.
            [op::TUPLE2, ..] => {
                starts.pop()?;
                here.at += 1;
                continue;
            }
            [op::BINGET | op::BININT1, ..] => 2,
            [op::BININT2, ..] => 3,
            [op::LONG_BINGET | op::BININT, ..] => 5,
            [op::NONE | op::NEWTRUE | op::NEWFALSE, ..] => 1,
            [op::LONG1 | op::SHORT_BINUNICODE, length, ..] => 2 + usize::from(length),
            // A list is another one each time.
            [op::EMPTY_LIST, op::MEMOIZE, op::MARK, ref run @ ..] if varying.contains(&starts.len()) => {
                let Scan::Run(length) = scan(run) else { return None };
                starts.push(here);
                here.memoized += 1;
                here.at += 4 + length;
                continue;
            }
            _ => return None,
        };
        starts.push(here);
        here.at += length;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_any_length_are_compared_to_the_last_one() {
        for length in 0..40 {
            let start = vec![7; length];
            assert!(begins_with(&[&start[..], b"more"].concat(), &start));
            assert!(length == 0 || !begins_with(&start[1..], &start), "{length}");
            for place in 0..length {
                let mut other = start.clone();
                other[place] ^= 1;
                assert!(!begins_with(&other, &start), "{place} of {length}");
            }
        }
    }
}

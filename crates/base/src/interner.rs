//! Stores equal values once and numbers them.

use std::hash::{BuildHasher, Hash};

use foldhash::quality::RandomState;
use hashbrown::HashTable;

/// Values of one type, each kept once.
///
/// The table holds positions rather than copies. Its hashes are seeded, because the values come from the input.
#[derive(Debug)]
pub struct Interner<T> {
    items: Vec<T>,
    positions: HashTable<u32>,
    hasher: RandomState,
}

impl<T> Default for Interner<T> {
    fn default() -> Self {
        Self { items: Vec::new(), positions: HashTable::new(), hasher: RandomState::default() }
    }
}

impl<T> Interner<T> {
    /// All values, by position.
    #[inline]
    pub fn items(&self) -> &[T] {
        &self.items
    }

    /// The position of `item`; a new item is stored as `own` makes it.
    pub fn intern<Q>(&mut self, item: &Q, own: impl FnOnce(&Q) -> T) -> usize
    where
        T: std::borrow::Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let Self { items, positions, hasher } = self;
        let hash = hasher.hash_one(item);
        if let Some(&at) = positions.find(hash, |&at| items[at as usize].borrow() == item) {
            return at as usize;
        }
        let at = items.len();
        items.push(own(item));
        let position = u32::try_from(at).unwrap_or(u32::MAX);
        positions.insert_unique(hash, position, |&at| hasher.hash_one(items[at as usize].borrow()));
        at
    }

    /// The number of `item`, which is stored as it is where it is new.
    pub fn number<Q>(&mut self, item: &Q) -> u32
    where
        T: std::borrow::Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = T> + ?Sized,
    {
        u32::try_from(self.intern(item, Q::to_owned)).unwrap_or(u32::MAX)
    }

    /// All values, by position.
    pub fn into_items(self) -> Vec<T> {
        self.items
    }
}

//! Stores equal values once and numbers them.

use std::borrow::Borrow;
use std::hash::Hash;

use foldhash::quality::RandomState;
use indexmap::IndexSet;
use indexmap::set::Slice;

/// Values of one type, each kept once. Its hashes are seeded, because the values come from the input.
#[derive(Debug)]
pub struct Interner<T>(IndexSet<T, RandomState>);

impl<T> Default for Interner<T> {
    fn default() -> Self {
        Self(IndexSet::default())
    }
}

impl<T: Hash + Eq> Interner<T> {
    /// All values, by position.
    #[inline]
    pub fn items(&self) -> &Slice<T> {
        self.0.as_slice()
    }

    /// The position of `item`, if it is stored.
    pub fn position<Q>(&self, item: &Q) -> Option<usize>
    where
        T: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.0.get_index_of(item)
    }

    /// The position of `item`; a new item is stored as `own` makes it.
    pub fn intern<Q>(&mut self, item: &Q, own: impl FnOnce(&Q) -> T) -> usize
    where
        T: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.position(item).unwrap_or_else(|| self.0.insert_full(own(item)).0)
    }

    /// The number of `item`, which is stored where it is new.
    pub fn insert(&mut self, item: T) -> u32 {
        u32::try_from(self.0.insert_full(item).0).unwrap_or(u32::MAX)
    }

    /// The number of `item`, which is copied where it is new.
    pub fn number<Q>(&mut self, item: &Q) -> u32
    where
        T: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = T> + ?Sized,
    {
        u32::try_from(self.intern(item, Q::to_owned)).unwrap_or(u32::MAX)
    }

    /// All values, by position.
    pub fn into_items(self) -> Vec<T> {
        self.0.into_iter().collect()
    }
}

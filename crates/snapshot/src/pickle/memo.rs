//! The values that later opcodes may refer to.

use std::collections::HashMap;

/// Values by number. Numbers are nearly always given in order, so they are positions in a vector; one
/// out of order goes to a map, because a number in the file must not decide how much is allocated.
pub(super) struct Memo<T> {
    dense: Vec<T>,
    /// Numbers that no position in `dense` has.
    sparse: HashMap<u32, T>,
    /// See [`Memo::is_overwritten`].
    is_overwritten: bool,
}

impl<T: Copy> Memo<T> {
    pub(super) fn new() -> Self {
        Self { dense: Vec::new(), sparse: HashMap::new(), is_overwritten: false }
    }

    /// MEMOIZE: the number is the count of values so far.
    #[inline]
    pub(super) fn push(&mut self, value: T) {
        if self.sparse.is_empty() {
            self.dense.push(value);
        } else {
            // Past this many entries the visitor has refused to go on.
            self.put(u32::try_from(self.len()).unwrap_or(u32::MAX), value);
        }
    }

    #[inline]
    pub(super) fn extend(&mut self, values: &[T]) {
        values.iter().for_each(|&value| self.push(value));
    }

    /// The values from the one with this number on, where numbers were given in order.
    pub(super) fn since(&self, number: usize) -> Option<&[T]> {
        self.dense.get(number..).filter(|_| self.sparse.is_empty())
    }

    /// True once a value was replaced, which no pickler does: then equal references may mean different values.
    #[inline]
    pub(super) fn is_overwritten(&self) -> bool {
        self.is_overwritten
    }

    pub(super) fn len(&self) -> usize {
        self.dense.len() + self.sparse.len()
    }

    #[inline]
    pub(super) fn get(&self, index: u32) -> Option<T> {
        match self.dense.get(index as usize) {
            Some(&value) => Some(value),
            None => self.sparse.get(&index).copied(),
        }
    }

    pub(super) fn put(&mut self, index: u32, value: T) {
        let position = index as usize;
        if let Some(slot) = self.dense.get_mut(position) {
            *slot = value;
            self.is_overwritten = true;
        } else if position == self.dense.len() && !self.sparse.contains_key(&index) {
            self.dense.push(value);
        } else {
            self.is_overwritten |= self.sparse.insert(index, value).is_some();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memo_allocates_only_for_what_is_put() {
        let mut memo = Memo::new();
        memo.put(u32::MAX, 'z');
        memo.push('a');
        assert_eq!(memo.get(u32::MAX), Some('z'));
        assert_eq!(memo.get(1), Some('a'), "MEMOIZE counts every entry");
        assert_eq!(memo.get(0), None);
        memo.put(0, 'b');
        assert!(!memo.is_overwritten());
        memo.put(0, 'c');
        assert!(memo.is_overwritten());
        assert_eq!(memo.get(0), Some('c'));
        assert!(memo.dense.capacity() < 64 && memo.sparse.len() < 4);
    }
}

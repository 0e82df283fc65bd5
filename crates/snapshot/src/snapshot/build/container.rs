//! The state of dictionaries and lists so far, in four bytes each: a snapshot has a dictionary for each event, and
//! nearly as many lists.

use super::super::StackId;
use super::super::field::RecordKind;

/// A dictionary so far.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Dict {
    Empty,
    /// A dictionary of no known kind (yet): an index.
    Pairs(u32),
    /// An index among those of its kind.
    Record(RecordKind, u32),
    /// A frame of a stack: must no longer change.
    UsedFrame(u32),
}

/// A list so far.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum PartialList {
    Empty,
    /// Frames that came at once and that nothing refers to yet.
    Stack(StackId),
    /// Frames that something refers to: must no longer change.
    Used(StackId),
    /// An index.
    Items(u32),
    /// The same, known not to be a stack.
    NoStack(u32),
}

/// A [`Dict`] or a [`PartialList`]: its kind in the upper three bits, its index below.
#[derive(Clone, Copy)]
pub(super) struct Packed(u32);

const INDEX_BITS: u32 = 29;

/// The kind of [`Dict::UsedFrame`]: the last of three bits, after those of records.
const USED_FRAME: u32 = 7;

/// The most objects of a kind, which a short handle can name too. The last few numbers are left for objects that
/// one operation may add.
pub(super) const MOST: u32 = (1 << 28) - 16;

/// The index of an object among those of its kind: there are never more than [`MOST`].
#[inline]
pub(super) fn index(position: usize) -> u32 {
    u32::try_from(position).unwrap_or(MOST)
}

impl Packed {
    pub(super) const EMPTY: Self = Self(0);

    const fn new(kind: u32, index: u32) -> Self {
        debug_assert!(index >> INDEX_BITS == 0, "the builder keeps to MOST");
        Self(kind << INDEX_BITS | index)
    }

    const fn kind(self) -> u32 {
        self.0 >> INDEX_BITS
    }

    const fn index(self) -> u32 {
        self.0 & ((1 << INDEX_BITS) - 1)
    }

    #[inline]
    pub(super) const fn dict(self) -> Dict {
        let at = self.index();
        match self.kind() {
            0 => Dict::Empty,
            1 => Dict::Pairs(at),
            USED_FRAME => Dict::UsedFrame(at),
            kind => Dict::Record(RecordKind::ALL[kind as usize - 2], at),
        }
    }

    #[inline]
    pub(super) fn list(self) -> PartialList {
        let at = self.index();
        match self.kind() {
            0 => PartialList::Empty,
            1 => PartialList::Stack(StackId::from_index(at as usize)),
            2 => PartialList::Used(StackId::from_index(at as usize)),
            3 => PartialList::Items(at),
            _ => PartialList::NoStack(at),
        }
    }
}

impl From<Dict> for Packed {
    #[inline]
    fn from(dict: Dict) -> Self {
        match dict {
            Dict::Empty => Self::EMPTY,
            Dict::Pairs(at) => Self::new(1, at),
            Dict::Record(kind, at) => Self::new(2 + kind as u32, at),
            Dict::UsedFrame(at) => Self::new(USED_FRAME, at),
        }
    }
}

impl From<PartialList> for Packed {
    #[inline]
    #[allow(clippy::cast_possible_truncation, reason = "ids are made from 32 bits")]
    fn from(list: PartialList) -> Self {
        match list {
            PartialList::Empty => Self::EMPTY,
            PartialList::Stack(stack) => Self::new(1, stack.index() as u32),
            PartialList::Used(stack) => Self::new(2, stack.index() as u32),
            PartialList::Items(at) => Self::new(3, at),
            PartialList::NoStack(at) => Self::new(4, at),
        }
    }
}

/// The required keys that an event has, with well-formed values.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Present {
    pub(super) action: bool,
    pub(super) addr: bool,
    pub(super) size: bool,
}

impl Present {
    pub(super) const ALL: Self = Self { action: true, addr: true, size: true };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_packed_survives() {
        let id = StackId::from_index(17);
        for list in [
            PartialList::Empty,
            PartialList::Stack(id),
            PartialList::Used(id),
            PartialList::Items(0),
            PartialList::NoStack(MOST),
        ] {
            assert_eq!(Packed::from(list).list(), list);
        }
        let records = RecordKind::ALL.map(|kind| Dict::Record(kind, MOST));
        for dict in records.into_iter().chain([Dict::Empty, Dict::Pairs(3), Dict::UsedFrame(4)]) {
            assert_eq!(Packed::from(dict).dict(), dict);
        }
    }
}

//! A value of a pickle in eight bytes.

/// A handle to a value: a tag in the low four bits, its payload above.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct ValueHandle(u64);

/// The meaning of a [`ValueHandle`].
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum ValueKind {
    /// None, a byte string, a set: nothing that a snapshot needs.
    Opaque,
    Bool(bool),
    Int(i64),
    /// An integer of more than 60 bits: an index.
    Wide(u32),
    /// An index.
    Float(u32),
    Str(u32),
    List(u32),
    Dict(u32),
    Tuple(u32),
    /// A frame in a list that was a stack before it grew.
    Frame(u32),
    /// The index of one that a [`Short`] has no room for. No value of a pickle.
    Long(u32),
}

const TAG_BITS: u32 = 4;

impl ValueHandle {
    pub(super) const OPAQUE: Self = Self(0);
    /// No value of any pickle.
    pub(super) const ABSENT: Self = Self(0xf);

    pub(super) const fn new(kind: ValueKind) -> Self {
        match kind {
            ValueKind::Opaque => Self::OPAQUE,
            ValueKind::Bool(value) => Self::tagged(1, value as u64),
            // The caller keeps to 60 bits.
            ValueKind::Int(value) => Self::tagged(2, value.cast_unsigned()),
            ValueKind::Wide(index) => Self::tagged(3, index as u64),
            ValueKind::Float(index) => Self::tagged(4, index as u64),
            ValueKind::Str(index) => Self::tagged(5, index as u64),
            ValueKind::List(index) => Self::tagged(6, index as u64),
            ValueKind::Dict(index) => Self::tagged(7, index as u64),
            ValueKind::Tuple(index) => Self::tagged(8, index as u64),
            ValueKind::Frame(index) => Self::tagged(9, index as u64),
            ValueKind::Long(index) => Self::tagged(10, index as u64),
        }
    }

    const fn tagged(tag: u64, payload: u64) -> Self {
        Self(payload << TAG_BITS | tag)
    }

    /// An integer, where it fits the handle.
    #[inline]
    pub(super) const fn small_int(value: i64) -> Option<Self> {
        let handle = Self::new(ValueKind::Int(value));
        if handle.0.cast_signed() >> TAG_BITS == value { Some(handle) } else { None }
    }

    #[inline]
    #[allow(clippy::cast_possible_truncation, reason = "the payload was made from 32 bits")]
    pub(super) const fn kind(self) -> ValueKind {
        let payload = self.0 >> TAG_BITS;
        let index = payload as u32;
        match self.0 & 0xf {
            1 => ValueKind::Bool(payload != 0),
            2 => ValueKind::Int(self.0.cast_signed() >> TAG_BITS),
            3 => ValueKind::Wide(index),
            4 => ValueKind::Float(index),
            5 => ValueKind::Str(index),
            6 => ValueKind::List(index),
            7 => ValueKind::Dict(index),
            8 => ValueKind::Tuple(index),
            9 => ValueKind::Frame(index),
            10 => ValueKind::Long(index),
            _ => ValueKind::Opaque,
        }
    }
}

/// A value in four bytes, which is enough for nearly every value in the memo of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Short(u32);

impl Short {
    pub(super) const OPAQUE: Self = Self(0);

    /// The value, unless it is an integer or an index that needs more bits.
    #[inline]
    pub(super) fn of(value: ValueHandle) -> Option<Self> {
        u32::try_from(value.0).ok().map(Self)
    }
}

impl From<Short> for ValueHandle {
    #[inline]
    fn from(short: Short) -> Self {
        Self(u64::from(short.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_survive() {
        for kind in [
            ValueKind::Opaque,
            ValueKind::Bool(true),
            ValueKind::Int(-1),
            ValueKind::Int((1 << 59) - 1),
            ValueKind::Int(-(1 << 59)),
            ValueKind::Str(u32::MAX),
            ValueKind::Frame(7),
        ] {
            assert_eq!(ValueHandle::new(kind).kind(), kind);
        }
        for kind in [
            ValueKind::Opaque,
            ValueKind::Bool(true),
            ValueKind::Int(7),
            ValueKind::Str((1 << 28) - 1),
            ValueKind::Long(3),
        ] {
            let short = Short::of(ValueHandle::new(kind)).unwrap();
            assert_eq!(ValueHandle::from(short).kind(), kind);
        }
        for kind in [ValueKind::Int(-1), ValueKind::Int(1 << 28), ValueKind::Dict(1 << 28)] {
            assert_eq!(Short::of(ValueHandle::new(kind)), None);
        }
        assert!(ValueHandle::small_int(1 << 59).is_none());
        assert!(ValueHandle::small_int(i64::MIN).is_none());
        assert!(ValueHandle::small_int(-(1 << 59)).is_some());
    }
}

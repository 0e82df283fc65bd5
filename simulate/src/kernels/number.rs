//! Numbers as kernels have them.

use alloc::vec::Vec;

use crate::little_endian;

/// Type of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Type {
    Bool,
    Signed(usize),
    Unsigned(usize),
    /// Single or double precision: these are only compared.
    Float(usize),
}

/// A number.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub(super) enum Number {
    Whole(i64),
    Real(f64),
}

impl Type {
    /// The type that a letter of a mangled name stands for, and the rest of the name.
    pub(super) fn named(name: &str) -> Option<(Self, &str)> {
        let named = match name.as_bytes().first()? {
            b'b' => Self::Bool,
            b'a' => Self::Signed(1),
            b's' => Self::Signed(2),
            b'i' => Self::Signed(4),
            b'l' => Self::Signed(8),
            b'h' => Self::Unsigned(1),
            b't' => Self::Unsigned(2),
            b'j' => Self::Unsigned(4),
            b'm' => Self::Unsigned(8),
            b'f' => Self::Float(4),
            b'd' => Self::Float(8),
            _ => return None,
        };
        Some((named, &name[1..]))
    }

    /// Bytes that a number takes, which are also its alignment.
    pub(super) fn size(self) -> usize {
        match self {
            Self::Bool => 1,
            Self::Signed(size) | Self::Unsigned(size) | Self::Float(size) => size,
        }
    }

    /// True for whole numbers that [`Number::Whole`] holds: not all of the largest unsigned ones do.
    pub(super) fn is_whole(self) -> bool {
        !matches!(self, Self::Float(_) | Self::Unsigned(8))
    }

    /// The number at a place.
    pub(super) fn read(self, bytes: &[u8], at: usize) -> Option<Number> {
        let bytes = bytes.get(at..at.checked_add(self.size())?)?;
        let raw = little_endian::number(bytes);
        Some(match self {
            Self::Bool => Number::Whole((raw != 0).into()),
            Self::Unsigned(_) => Number::Whole(raw as i64),
            Self::Signed(size) => {
                let unused = 64 - 8 * size as u32;
                Number::Whole((raw << unused) as i64 >> unused)
            }
            Self::Float(4) => Number::Real(f32::from_bits(raw as u32).into()),
            Self::Float(_) => Number::Real(f64::from_bits(raw)),
        })
    }

    /// A number as this type has it. None where that is not defined.
    pub(super) fn convert(self, number: Number) -> Option<Number> {
        Some(match (self, number) {
            (Self::Bool, number) => Number::Whole((!number.is_zero()).into()),
            (Self::Float(4), Number::Whole(number)) => Number::Real((number as f32).into()),
            (Self::Float(_), Number::Whole(number)) => Number::Real(number as f64),
            (Self::Float(4), Number::Real(number)) => Number::Real((number as f32).into()),
            (Self::Float(_), Number::Real(_)) => number,
            (_, Number::Whole(_)) => self.read(&self.bytes(number)?, 0)?,
            (_, Number::Real(real)) => {
                let whole = Number::Whole(real as i64);
                let holds = -9e18 < real && real < 9e18 && self.is_whole();
                return (holds && self.convert(whole)? == whole).then_some(whole);
            }
        })
    }

    /// Bytes of a number, cut to the type as a computer does it. None where whole numbers and others would be
    /// converted.
    pub(super) fn bytes(self, number: Number) -> Option<Vec<u8>> {
        let bytes = match (self, number) {
            (Self::Bool, Number::Whole(number)) => alloc::vec![(number != 0).into()],
            (Self::Signed(size) | Self::Unsigned(size), Number::Whole(number)) => number.to_le_bytes()[..size].into(),
            (Self::Float(4), Number::Real(number)) => (number as f32).to_le_bytes().into(),
            (Self::Float(8), Number::Real(number)) => number.to_le_bytes().into(),
            _ => return None,
        };
        Some(bytes)
    }

    /// The type with this number in PyTorch.
    pub(super) fn of_scalar_type(number: u8) -> Option<Self> {
        Some(match number {
            0 => Self::Unsigned(1),
            1 => Self::Signed(1),
            2 => Self::Signed(2),
            3 => Self::Signed(4),
            4 => Self::Signed(8),
            6 => Self::Float(4),
            7 => Self::Float(8),
            11 => Self::Bool,
            _ => return None,
        })
    }
}

impl Number {
    pub(super) fn is_zero(self) -> bool {
        self == Self::Whole(0) || self == Self::Real(0.0)
    }

    /// None for others than whole numbers.
    pub(super) fn whole(self) -> Option<i64> {
        match self {
            Self::Whole(number) => Some(number),
            Self::Real(_) => None,
        }
    }

    /// `self + factor * other`, of whole numbers.
    pub(super) fn plus(self, factor: Self, other: Self) -> Option<Self> {
        let product = factor.whole()?.wrapping_mul(other.whole()?);
        Some(Self::Whole(self.whole()?.wrapping_add(product)))
    }
}

/// Size of the elements that a name goes on with, and the rest of the name: those of a known type, or those of which only
/// the size counts, whose type begins with `opaque`.
pub(super) fn element<'n>(name: &'n str, opaque: &str) -> Option<(usize, &'n str)> {
    if let Some(size) = name.strip_prefix(opaque) {
        let (size, rest) = size.split_once("EEE")?;
        return Some((size.parse().ok()?, rest));
    }
    let (element, rest) = Type::named(name)?;
    Some((element.size(), rest))
}

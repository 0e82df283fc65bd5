//! Operators of two numbers that are computed.

use super::number::{Number, Type};

/// Operator that PyTorch applies to two elements, or to an element and a number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Operator {
    Multiply,
    /// `==`, or `!=`.
    Equal,
    And,
    Or,
    ExclusiveOr,
    /// Neither is zero.
    Both,
    /// One is not zero.
    Either,
    /// One is zero, and one is not.
    OneOf,
    Largest,
    Smallest,
    /// The quotient, rounded down.
    QuotientDown,
    /// The quotient, rounded to zero.
    Quotient,
    /// What [`Operator::QuotientDown`] leaves.
    Remainder,
}

/// Beginnings of the operators' mangled names, some of which come after the name of a file.
const NAMES: [(&str, &str, Operator); 13] = [
    ("NS0_15binary_internal", "10MulFunctorI", Operator::Multiply),
    ("NS0_", "16CompareEqFunctorI", Operator::Equal),
    ("NS0_", "17BitwiseAndFunctorI", Operator::And),
    ("NS0_", "16BitwiseOrFunctorI", Operator::Or),
    ("NS0_", "17BitwiseXorFunctorI", Operator::ExclusiveOr),
    ("Z", "23logical_and_kernel_cudaE", Operator::Both),
    ("Z", "22logical_or_kernel_cudaE", Operator::Either),
    ("Z", "23logical_xor_kernel_cudaE", Operator::OneOf),
    ("Z", "19maximum_kernel_cudaE", Operator::Largest),
    ("Z", "19minimum_kernel_cudaE", Operator::Smallest),
    ("Z", "21div_floor_kernel_cudaE", Operator::QuotientDown),
    ("Z", "21div_trunc_kernel_cudaE", Operator::Quotient),
    ("Z", "21remainder_kernel_cudaE", Operator::Remainder),
];

impl Operator {
    /// The operator at the start of a name.
    pub(super) fn named(name: &str) -> Option<Self> {
        let found = NAMES.iter().find(|(start, part, _)| name.starts_with(start) && name.contains(part))?;
        Some(found.2)
    }

    /// Bytes that the operator takes in a function.
    pub(super) fn size(self) -> usize {
        if self == Self::Equal { 4 } else { 1 }
    }

    /// Type of the result, if it is computed for operands of a type.
    pub(super) fn result(self, operand: Type) -> Option<Type> {
        match self {
            Self::Equal | Self::Both | Self::Either | Self::OneOf => Some(Type::Bool),
            Self::QuotientDown | Self::Quotient | Self::Remainder => {
                (operand.is_whole() && operand != Type::Bool).then_some(operand)
            }
            _ => operand.is_whole().then_some(operand),
        }
    }

    /// The result, for an operator whose first byte tells what it is where there are several.
    pub(super) fn apply(self, first_byte: u8, x: Number, y: Number) -> Option<Number> {
        let condition = match self {
            Self::Equal if first_byte > 1 => return None,
            Self::Equal => Some((x == y) == (first_byte == 0)),
            Self::Both => Some(!x.is_zero() && !y.is_zero()),
            Self::Either => Some(!x.is_zero() || !y.is_zero()),
            Self::OneOf => Some(x.is_zero() != y.is_zero()),
            _ => None,
        };
        let whole = match condition {
            Some(condition) => condition.into(),
            None => self.of_whole(x.whole()?, y.whole()?)?,
        };
        Some(Number::Whole(whole))
    }

    /// The result for whole numbers. None where they have none.
    fn of_whole(self, x: i64, y: i64) -> Option<i64> {
        Some(match self {
            Self::Multiply => x.wrapping_mul(y),
            Self::And => x & y,
            Self::Or => x | y,
            Self::ExclusiveOr => x ^ y,
            Self::Largest => x.max(y),
            Self::Smallest => x.min(y),
            Self::Quotient => x.checked_div(y)?,
            Self::QuotientDown => x.checked_div(y)? - i64::from(rounds_up(x, y)?),
            Self::Remainder => x.checked_rem(y)? + if rounds_up(x, y)? { y } else { 0 },
            Self::Equal | Self::Both | Self::Either | Self::OneOf => return None,
        })
    }
}

/// True if a quotient that is rounded to zero is above the true one.
fn rounds_up(x: i64, y: i64) -> Option<bool> {
    let rest = x.checked_rem(y)?;
    Some(rest != 0 && (rest < 0) != (y < 0))
}

//! Functions of single elements that are computed.

use super::number::{Number, Type};

/// Function of PyTorch's that a kernel applies to each element.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Function {
    kind: Kind,
    pub(super) operand: Type,
    pub(super) result: Type,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    /// A number.
    Fill,
    /// The operand itself, perhaps as another type.
    Copy,
    /// `x + alpha * number`.
    AddNumber,
    /// `number + alpha * x`.
    AddToNumber,
    /// `x + alpha * y`.
    Add,
    /// `number * x`.
    MultiplyNumber,
    /// `x == y`, or `!=`.
    Equal,
    /// `number == x`, or `!=`.
    EqualNumber,
    /// `>=`, `>`, `<=` or `<` of two operands.
    Compare,
    /// The same of an operand and a number.
    CompareNumber,
    /// `x * y`.
    Multiply,
    /// `not x`, of conditions.
    Not,
    /// Whether `x` is zero.
    IsZero,
    /// `x & y`, `x | y`.
    And,
    Or,
}

/// Beginnings of the functions' mangled names. `?` stands for the letter of a type, the same each time, and `*` for any
/// text.
const NAMES: [(&str, Kind); 16] = [
    ("NS0_11FillFunctorI?E", Kind::Fill),
    ("NS0_21CUDAFunctorOnSelf_addI?E", Kind::AddNumber),
    ("NS0_22CUDAFunctorOnOther_addI?E", Kind::AddToNumber),
    ("NS0_15CUDAFunctor_addI?E", Kind::Add),
    ("NS0_13AUnaryFunctorI???NS0_15binary_internal10MulFunctorI?EE", Kind::MultiplyNumber),
    ("NS0_13BinaryFunctorI???NS0_15binary_internal10MulFunctorI?EE", Kind::Multiply),
    ("NS0_13BinaryFunctorI???NS0_17BitwiseAndFunctorI?EE", Kind::And),
    ("NS0_13BinaryFunctorI???NS0_16BitwiseOrFunctorI?EE", Kind::Or),
    ("NS0_13BinaryFunctorI??bNS0_*16CompareEqFunctorI?EE", Kind::Equal),
    ("NS0_13AUnaryFunctorI??bNS0_*16CompareEqFunctorI?EE", Kind::EqualNumber),
    ("NS0_*14CompareFunctorI?E", Kind::Compare),
    ("ZNS0_21compare_scalar_kernelI?EEv", Kind::CompareNumber),
    ("ZZZNS0_23direct_copy_kernel_cudaERNS_18TensorIteratorBaseEENKUlvE*_clEvEUl?E_", Kind::Copy),
    ("ZNS0_23bitwise_not_kernel_cudaERNS_18TensorIteratorBaseEEUl?E_", Kind::Not),
    ("ZZZNS0_23logical_not_kernel_cudaERNS_18TensorIteratorBaseEENKUlvE*_clEvEUl?E_", Kind::IsZero),
    ("ZNS0_27converting_copy_kernel_cudaI?", Kind::Copy),
];
/// Bytes at the end of a closure: the compiler keeps an address there that nothing reads.
pub(super) const UNUSED_ADDRESS: usize = 8;
/// The last of the names, whose second type is that of the result.
const CONVERTING: &str = "ZNS0_27converting_copy_kernel_cudaI";

impl Function {
    /// The function at the start of a name.
    pub(super) fn named(name: &str) -> Option<Self> {
        let (kind, operand) = NAMES.iter().find_map(|(pattern, kind)| Some((*kind, type_in(pattern, name)?)))?;
        let result = match name.strip_prefix(CONVERTING) {
            Some(types) => Type::named(Type::named(types)?.1)?.0,
            None => kind.result(operand)?,
        };
        Some(Self { kind, operand, result })
    }

    /// Number of operands.
    pub(super) fn operands(self) -> usize {
        match self.kind {
            Kind::Fill => 0,
            Kind::Add | Kind::Multiply | Kind::And | Kind::Or | Kind::Equal | Kind::Compare => 2,
            _ => 1,
        }
    }

    /// Bytes of the function's own numbers in the arguments of a launch.
    pub(super) fn size(self) -> usize {
        let number = self.operand.size();
        match self.kind {
            Kind::Fill | Kind::Add => number,
            Kind::Copy | Kind::Multiply | Kind::And | Kind::Or | Kind::Not | Kind::IsZero => 1,
            Kind::AddNumber | Kind::AddToNumber | Kind::MultiplyNumber => 2 * number,
            Kind::Equal | Kind::Compare => 4,
            Kind::EqualNumber => 2 * number.max(4),
            Kind::CompareNumber => 2 * number.max(4) + UNUSED_ADDRESS,
        }
    }

    /// True if the function moves a position on by a number, or to another type: it does so also with one that is not
    /// known.
    pub(super) fn moves(self) -> bool {
        matches!(self.kind, Kind::AddNumber | Kind::Copy)
    }

    /// The byte with which the function fills its result, if it does that.
    pub(super) fn filling_byte(self, own: &[u8]) -> Option<u8> {
        let (&first, rest) = own.split_first()?;
        (self.kind == Kind::Fill && rest.iter().all(|&byte| byte == first)).then_some(first)
    }

    /// One of the function's own numbers.
    fn own_number(self, own: &[u8], at: usize) -> Option<Number> {
        self.operand.read(own, at)
    }

    /// The result for one element of each operand.
    pub(super) fn apply(self, own: &[u8], operands: &[Number]) -> Option<Number> {
        let number = self.operand.size();
        let operator = own.first().copied();
        Some(match (self.kind, operands) {
            (Kind::Fill, []) => self.own_number(own, 0)?,
            (Kind::Copy, [x]) => *x,
            (Kind::AddNumber, [x]) => x.plus(self.own_number(own, number)?, self.own_number(own, 0)?)?,
            (Kind::AddToNumber, [x]) => self.own_number(own, 0)?.plus(self.own_number(own, number)?, *x)?,
            (Kind::Add, [x, y]) => x.plus(self.own_number(own, 0)?, *y)?,
            (Kind::MultiplyNumber, [x]) => Number::Whole(0).plus(self.own_number(own, number)?, *x)?,
            (Kind::Equal, [x, y]) => equal(operator?, *x, *y)?,
            (Kind::EqualNumber, [x]) => equal(operator?, *x, self.own_number(own, number.max(4))?)?,
            (Kind::Compare, [x, y]) => compare(operator?, *x, *y)?,
            (Kind::CompareNumber, [x]) => compare(operator?, *x, self.own_number(own, number.max(4))?)?,
            (Kind::Multiply, [x, y]) => Number::Whole(0).plus(*x, *y)?,
            (Kind::And, [x, y]) => Number::Whole(x.whole()? & y.whole()?),
            (Kind::Or, [x, y]) => Number::Whole(x.whole()? | y.whole()?),
            (Kind::IsZero, [x]) => Number::Whole(x.is_zero().into()),
            (Kind::Not, [x]) => Number::Whole((x.whole()? == 0).into()),
            _ => return None,
        })
    }
}

impl Kind {
    /// Type of the result, if it is computed for operands of a type.
    fn result(self, operand: Type) -> Option<Type> {
        match self {
            Self::Equal | Self::EqualNumber | Self::Compare | Self::CompareNumber | Self::IsZero => Some(Type::Bool),
            Self::And | Self::Or => operand.is_whole().then_some(operand),
            Self::Fill | Self::Copy => Some(operand),
            Self::Not => (operand == Type::Bool).then_some(operand),
            _ => (operand.is_whole() && operand != Type::Bool).then_some(operand),
        }
    }
}

fn equal(operator: u8, x: Number, y: Number) -> Option<Number> {
    match operator {
        0 => Some(Number::Whole((x == y).into())),
        1 => Some(Number::Whole((x != y).into())),
        _ => None,
    }
}

fn compare(operator: u8, x: Number, y: Number) -> Option<Number> {
    let holds = match operator {
        0 => x >= y,
        1 => x > y,
        2 => x <= y,
        3 => x < y,
        _ => return None,
    };
    Some(Number::Whole(holds.into()))
}

/// The type in a name that begins as a pattern says.
fn type_in(pattern: &str, name: &str) -> Option<Type> {
    let mut found = None;
    let mut rest = name;
    let mut pattern = pattern;
    loop {
        let literal = pattern.find(['?', '*']).unwrap_or(pattern.len());
        rest = rest.strip_prefix(&pattern[..literal])?;
        let Some(wildcard) = pattern[literal..].chars().next() else { return found };
        pattern = &pattern[literal + 1..];
        if wildcard == '?' {
            let (named, after) = Type::named(rest)?;
            if found.is_some_and(|found| found != named) {
                return None;
            }
            found = Some(named);
            rest = after;
        } else {
            let next = pattern.find(['?', '*']).unwrap_or(pattern.len());
            rest = &rest[rest.find(&pattern[..next])?..];
        }
    }
}

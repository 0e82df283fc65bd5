//! Functions of single elements that are computed.

use super::arguments::word;
use super::number::{Number, Type};
use super::operator::Operator;
use super::pattern::type_in;

/// Function of PyTorch's that a kernel applies to each element.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Function {
    kind: Kind,
    operand: Type,
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
    /// An operator of two operands.
    Binary(Operator),
    /// The same of a number and an operand.
    NumberFirst(Operator),
    /// The same of an operand and a number.
    NumberSecond(Operator),
    /// `>=`, `>`, `<=` or `<` of two operands.
    Compare,
    /// The same of an operand and a number.
    CompareNumber,
    /// `~x`, which is `not x` of conditions.
    Not,
    /// Whether `x` is zero.
    IsZero,
    /// `-x`.
    Negative,
    /// The distance of `x` from zero.
    Absolute,
    /// `x` within two limits, or within one of them.
    Clamp,
    /// `condition ? x : y`.
    Where,
    /// `condition ? number : x`: the condition is the second operand.
    FillWhere,
}

/// Beginnings of the functions' mangled names. `?` stands for the letter of a type, the same each time, and `*` for any
/// text.
const NAMES: [(&str, Kind); 16] = [
    ("NS0_11FillFunctorI?E", Kind::Fill),
    ("NS0_21CUDAFunctorOnSelf_addI?E", Kind::AddNumber),
    ("NS0_22CUDAFunctorOnOther_addI?E", Kind::AddToNumber),
    ("NS0_15CUDAFunctor_addI?E", Kind::Add),
    ("NS0_*14CompareFunctorI?E", Kind::Compare),
    ("ZNS0_21compare_scalar_kernelI?EEv", Kind::CompareNumber),
    ("ZZZNS0_23direct_copy_kernel_cudaERNS_18TensorIteratorBaseEENKUlvE*_clEvEUl?E_", Kind::Copy),
    ("ZNS0_23bitwise_not_kernel_cudaERNS_18TensorIteratorBaseEEUl?E_", Kind::Not),
    ("ZZZNS0_23bitwise_not_kernel_cudaERNS_18TensorIteratorBaseEENKUlvE*_clEvEUl?E_", Kind::Not),
    ("ZZZNS0_23logical_not_kernel_cudaERNS_18TensorIteratorBaseEENKUlvE*_clEvEUl?E_", Kind::IsZero),
    ("ZZZNS0_15neg_kernel_cudaERNS_18TensorIteratorBaseEENKUlvE*_clEvEUl?E_", Kind::Negative),
    ("NS0_10AbsFunctorI?E", Kind::Absolute),
    ("ZZZNS0_*19launch_clamp_scalarERNS_18TensorIteratorBaseE*_clEvEUl?E_", Kind::Clamp),
    ("ZZZNS0_*17where_kernel_implERNS_14TensorIteratorE*_clEvEUlb??E_", Kind::Where),
    ("ZZZNS0_*18masked_fill_kernelERNS_14TensorIteratorE*_clEvEUl?bE_", Kind::FillWhere),
    ("ZNS0_27converting_copy_kernel_cudaI?", Kind::Copy),
];
/// Kind of function that applies an operator.
type OfOperator = fn(Operator) -> Kind;

/// Beginnings of the names of functions that apply an operator: types of the operands and of the result follow.
const OPERATIONS: [(&str, OfOperator); 3] = [
    ("NS0_13BinaryFunctorI", Kind::Binary),
    ("NS0_13AUnaryFunctorI", Kind::NumberFirst),
    ("NS0_13BUnaryFunctorI", Kind::NumberSecond),
];
/// Bytes at the end of a closure: the compiler keeps an address there that nothing reads.
pub(super) const UNUSED_ADDRESS: usize = 8;
/// The last of the names, whose second type is that of the result.
const CONVERTING: &str = "ZNS0_27converting_copy_kernel_cudaI";

impl Function {
    /// The function at the start of a name.
    pub(super) fn named(name: &str) -> Option<Self> {
        if let Some(operation) = Self::operation(name) {
            return Some(operation);
        }
        let (kind, operand) = NAMES.iter().find_map(|(pattern, kind)| Some((*kind, type_in(pattern, name)?)))?;
        let result = match name.strip_prefix(CONVERTING) {
            Some(types) => Type::named(Type::named(types)?.1)?.0,
            None => kind.result(operand)?,
        };
        Some(Self { kind, operand, result })
    }

    /// The function that applies an operator.
    fn operation(name: &str) -> Option<Self> {
        let (kind, types) = OPERATIONS.iter().find_map(|(prefix, kind)| Some((kind, name.strip_prefix(prefix)?)))?;
        let (operand, rest) = Type::named(types)?;
        let (second, rest) = Type::named(rest)?;
        let (result, operator) = Type::named(rest)?;
        let kind = kind(Operator::named(operator)?);
        (second == operand && kind.result(operand) == Some(result)).then_some(Self { kind, operand, result })
    }

    /// Number of operands.
    pub(super) fn operands(self) -> usize {
        match self.kind {
            Kind::Fill => 0,
            Kind::Add | Kind::Binary(_) | Kind::Compare | Kind::FillWhere => 2,
            Kind::Where => 3,
            _ => 1,
        }
    }

    /// Type of an operand.
    pub(super) fn operand(self, index: usize) -> Type {
        match (self.kind, index) {
            (Kind::Where, 0) | (Kind::FillWhere, 1) => Type::Bool,
            _ => self.operand,
        }
    }

    /// Bytes of the function's own numbers in the arguments of a launch.
    pub(super) fn size(self) -> usize {
        let number = self.operand.size();
        match self.kind {
            Kind::Fill | Kind::Add => number,
            Kind::Copy | Kind::Not | Kind::IsZero | Kind::Negative | Kind::Absolute => 1,
            Kind::AddNumber | Kind::AddToNumber => 2 * number,
            Kind::Compare => 4,
            Kind::CompareNumber => 2 * number.max(4) + UNUSED_ADDRESS,
            Kind::Binary(operator) => operator.size(),
            Kind::NumberFirst(operator) | Kind::NumberSecond(operator) => 2 * number.max(operator.size()),
            Kind::Clamp => (number.max(4) + 2 * number).next_multiple_of(8) + UNUSED_ADDRESS,
            Kind::Where => UNUSED_ADDRESS,
            Kind::FillWhere => 8 + UNUSED_ADDRESS,
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
            (Kind::Compare, [x, y]) => compare(operator?, *x, *y)?,
            (Kind::CompareNumber, [x]) => compare(operator?, *x, self.own_number(own, number.max(4))?)?,
            (Kind::Binary(binary), [x, y]) => binary.apply(operator?, *x, *y)?,
            (Kind::NumberFirst(binary), [x]) => {
                binary.apply(operator?, self.own_number(own, number.max(binary.size()))?, *x)?
            }
            (Kind::NumberSecond(binary), [x]) => {
                binary.apply(operator?, *x, self.own_number(own, number.max(binary.size()))?)?
            }
            (Kind::IsZero, [x]) => Number::Whole(x.is_zero().into()),
            (Kind::Not, [x]) if self.operand == Type::Bool => Number::Whole((x.whole()? == 0).into()),
            (Kind::Not, [x]) => Number::Whole(!x.whole()?),
            (Kind::Negative, [x]) => Number::Whole(x.whole()?.wrapping_neg()),
            (Kind::Absolute, [x]) => Number::Whole(x.whole()?.wrapping_abs()),
            (Kind::Clamp, [x]) => self.clamp(own, x.whole()?)?,
            (Kind::Where, [condition, x, y]) => *if condition.is_zero() { y } else { x },
            (Kind::FillWhere, [x, condition]) if condition.is_zero() => *x,
            (Kind::FillWhere, [..]) => self.own_number(own, 0)?,
            _ => return None,
        })
    }

    /// A number within limits. The first word says which there are: a lower one, an upper one, or both.
    fn clamp(self, own: &[u8], x: i64) -> Option<Number> {
        let first = self.operand.size().max(4);
        let limit = self.own_number(own, first)?.whole()?;
        let upper = self.own_number(own, first + self.operand.size())?.whole()?;
        Some(Number::Whole(match word(own, 0)? {
            0 => x.max(limit),
            1 => x.min(limit),
            2 => x.max(limit).min(upper),
            _ => return None,
        }))
    }
}

impl Kind {
    /// Type of the result, if it is computed for operands of a type.
    fn result(self, operand: Type) -> Option<Type> {
        match self {
            Self::Compare | Self::CompareNumber => (operand != Type::Unsigned(8)).then_some(Type::Bool),
            Self::IsZero => Some(Type::Bool),
            Self::Binary(operator) | Self::NumberFirst(operator) | Self::NumberSecond(operator) => {
                operator.result(operand)
            }
            Self::Fill | Self::Copy | Self::Where | Self::FillWhere => Some(operand),
            Self::Not => operand.is_whole().then_some(operand),
            _ => (operand.is_whole() && operand != Type::Bool).then_some(operand),
        }
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

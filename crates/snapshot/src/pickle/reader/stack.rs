//! Operations on the stack, the marks and the memo.

use super::StepResult;
use super::values::Values;
use crate::pickle::shapes::Shapes;
use crate::pickle::{ErrorKind, Visitor};

/// The values that opcodes have pushed.
pub(super) struct Stack<'v, V: Visitor> {
    pub(super) items: Vec<V::Value>,
    /// The heights of the stack at its MARKs.
    pub(super) marks: Vec<usize>,
    pub(super) shapes: Shapes<V>,
    pub(super) values: Values<'v, V>,
}

impl<'v, V: Visitor> Stack<'v, V> {
    pub(super) fn new(visitor: &'v mut V) -> Self {
        Self { items: Vec::new(), marks: Vec::new(), shapes: Shapes::new(), values: Values::new(visitor) }
    }

    /// The number of values that are held, marks included.
    pub(super) fn held(&self) -> usize {
        self.items.len() + self.marks.len() + self.values.memo.len()
    }

    #[inline]
    pub(super) fn top(&self, opcode: &'static str) -> StepResult<V::Value, V> {
        self.items.last().copied().ok_or(ErrorKind::too_few(opcode))
    }

    #[inline]
    pub(super) fn get(&mut self, index: u32) -> StepResult<(), V> {
        let value = self.values.get(index).ok_or(ErrorKind::NoMemo(index))?;
        self.items.push(value);
        Ok(())
    }

    pub(super) fn put(&mut self, opcode: &'static str, index: u32) -> StepResult<(), V> {
        let value = self.top(opcode)?;
        let kept = self.values.visitor.keep(value);
        self.values.memo.put(index, kept);
        Ok(())
    }

    #[inline]
    pub(super) fn pop_mark(&mut self, opcode: &'static str) -> StepResult<usize, V> {
        let no_mark = ErrorKind::Damaged { opcode, problem: "finds no MARK on the stack" };
        let start = self.marks.pop().ok_or(no_mark)?;
        if start > self.items.len() { Err(ErrorKind::too_few(opcode)) } else { Ok(start) }
    }

    /// The container below the items that start at `start`.
    #[inline]
    fn container(&self, opcode: &'static str, start: usize) -> StepResult<V::Value, V> {
        let below = start.checked_sub(1).ok_or(ErrorKind::too_few(opcode))?;
        self.items.get(below).copied().ok_or(ErrorKind::too_few(opcode))
    }

    pub(super) fn extend(&mut self, opcode: &'static str, start: usize) -> StepResult<(), V> {
        let list = self.container(opcode, start)?;
        self.values.visitor.extend(list, &self.items[start..]).map_err(|e| objection(opcode, e))?;
        self.items.truncate(start);
        Ok(())
    }

    pub(super) fn update(&mut self, opcode: &'static str, start: usize) -> StepResult<(), V> {
        let dict = self.container(opcode, start)?;
        let items = &self.items[start..];
        if !items.len().is_multiple_of(2) {
            return Err(ErrorKind::Damaged { opcode, problem: "finds a key without a value" });
        }
        self.values.visitor.update(dict, items).map_err(|e| objection(opcode, e))?;
        self.items.truncate(start);
        Ok(())
    }

    pub(super) fn add(&mut self, opcode: &'static str, start: usize) -> StepResult<(), V> {
        let set = self.container(opcode, start)?;
        self.values.visitor.add(set, &self.items[start..]).map_err(|e| objection(opcode, e))?;
        self.items.truncate(start);
        Ok(())
    }

    pub(super) fn tuple(&mut self, start: usize) -> StepResult<(), V> {
        let value = self.values.visitor.tuple(&self.items[start..]).map_err(ErrorKind::Visitor)?;
        self.items.truncate(start);
        self.items.push(value);
        Ok(())
    }
}

/// The error of an operation that the visitor refused.
pub(super) fn objection<E: std::error::Error + 'static>(opcode: &'static str, error: Option<E>) -> ErrorKind<E> {
    let wrong_type = ErrorKind::Damaged { opcode, problem: "is applied to a value of another type" };
    error.map_or(wrong_type, ErrorKind::Visitor)
}

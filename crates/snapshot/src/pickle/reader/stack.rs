//! Operations on the stack, the marks and the memo.

use std::io::Read;

use super::{Machine, Step};
use crate::pickle::{ErrorKind, Visitor};

impl<R: Read, V: Visitor> Machine<'_, R, V> {
    #[inline]
    pub(super) fn top(&self, opcode: &'static str) -> Step<V::Value, V> {
        self.stack.last().copied().ok_or(ErrorKind::too_few(opcode))
    }

    #[inline]
    pub(super) fn get(&mut self, index: u32) -> Step<(), V> {
        let value = self.visitor.kept(self.memo.get(index).ok_or(ErrorKind::NoMemo(index))?);
        self.stack.push(value);
        Ok(())
    }

    pub(super) fn put(&mut self, opcode: &'static str, index: u32) -> Step<(), V> {
        let value = self.top(opcode)?;
        self.runs.outdate_if(self.memo.put(index, self.visitor.keep(value)));
        Ok(())
    }

    #[inline]
    pub(super) fn pop_mark(&mut self, opcode: &'static str) -> Step<usize, V> {
        let no_mark = ErrorKind::Damaged { opcode, problem: "finds no MARK on the stack" };
        let start = self.marks.pop().ok_or(no_mark)?;
        if start > self.stack.len() { Err(ErrorKind::too_few(opcode)) } else { Ok(start) }
    }

    /// The container below the items that start at `start`.
    #[inline]
    fn container(&self, opcode: &'static str, start: usize) -> Step<V::Value, V> {
        let below = start.checked_sub(1).ok_or(ErrorKind::too_few(opcode))?;
        self.stack.get(below).copied().ok_or(ErrorKind::too_few(opcode))
    }

    pub(super) fn extend(&mut self, opcode: &'static str, start: usize) -> Step<(), V> {
        let list = self.container(opcode, start)?;
        self.visitor.extend(list, &self.stack[start..]).map_err(|e| objection(opcode, e))?;
        self.stack.truncate(start);
        Ok(())
    }

    pub(super) fn update(&mut self, opcode: &'static str, start: usize) -> Step<(), V> {
        let dict = self.container(opcode, start)?;
        let items = &self.stack[start..];
        if !items.len().is_multiple_of(2) {
            return Err(ErrorKind::Damaged { opcode, problem: "finds a key without a value" });
        }
        self.visitor.update(dict, items).map_err(|e| objection(opcode, e))?;
        self.stack.truncate(start);
        Ok(())
    }

    pub(super) fn add(&mut self, opcode: &'static str, start: usize) -> Step<(), V> {
        let set = self.container(opcode, start)?;
        self.visitor.add(set, &self.stack[start..]).map_err(|e| objection(opcode, e))?;
        self.stack.truncate(start);
        Ok(())
    }

    pub(super) fn tuple(&mut self, start: usize) -> Step<(), V> {
        let value = self.visitor.tuple(&self.stack[start..]).map_err(ErrorKind::Visitor)?;
        self.stack.truncate(start);
        self.stack.push(value);
        Ok(())
    }
}

/// The error of an operation that the visitor refused.
pub(super) fn objection<E: std::error::Error + 'static>(opcode: &'static str, error: Option<E>) -> ErrorKind<E> {
    let wrong_type = ErrorKind::Damaged { opcode, problem: "is applied to a value of another type" };
    error.map_or(wrong_type, ErrorKind::Visitor)
}

//! The machine: opcodes, stack and memo.

mod arguments;
mod common;
mod references;
mod stack;
mod values;

use std::io::Read;

use self::stack::Stack;
use self::values::WINDOW;
use super::buffer::Buffer;
use super::opcode::{self as op, name};
use super::{ErrorKind, PickleError, Visitor};

/// Reads one pickle up to its STOP and returns the value that it leaves. Bytes after STOP are ignored.
///
/// Memory is bounded by the stack, the memo and what the visitor keeps, each of them at most
/// proportional to what was read; a declared length or memo index allocates nothing.
///
/// # Errors
/// With the opcode that could not be carried out, and its byte.
pub fn read<V: Visitor>(source: impl Read, visitor: &mut V) -> Result<V::Value, PickleError<V::Error>> {
    let mut machine = Machine::new(source, visitor);
    machine.run().map_err(|kind| PickleError { offset: machine.at, kind })
}

/// Values that the stack and the memo of any pickle may hold, marks included; one more for every four bytes that were read.
/// Python appends to lists in batches of 1,000, so a snapshot has few values on the stack, and a memoized value takes more bytes.
const MOST_HELD: u64 = 1 << 22;

struct Machine<'v, R, V: Visitor> {
    input: Buffer<R>,
    stack: Stack<'v, V>,
    /// Offset of the opcode in hand.
    at: u64,
}

type StepResult<T, V> = Result<T, ErrorKind<<V as Visitor>::Error>>;

impl<'v, R: Read, V: Visitor> Machine<'v, R, V> {
    fn new(source: R, visitor: &'v mut V) -> Self {
        Self { input: Buffer::new(source), stack: Stack::new(visitor), at: 0 }
    }

    fn run(&mut self) -> StepResult<V::Value, V> {
        loop {
            self.input.ensure(WINDOW)?;
            let read = self.stack.common(self.input.buffered());
            self.input.consume(read);
            self.at = self.input.offset();
            if self.stack.held() as u64 > MOST_HELD + self.at / 4 {
                let problem = "holds more values at once than a snapshot of its size";
                return Err(ErrorKind::Damaged { opcode: "the pickle", problem });
            }
            let [opcode] = self.take::<1>("the stream, before STOP")?;
            if opcode == op::STOP {
                return self.stack.items.pop().ok_or(ErrorKind::too_few("STOP"));
            }
            self.any(opcode)?;
        }
    }

    /// Carries out one opcode.
    #[cold]
    fn any(&mut self, opcode: u8) -> StepResult<(), V> {
        let Some(name) = name(opcode) else {
            return Err(ErrorKind::Unknown { byte: opcode });
        };
        match opcode {
            op::PROTO => match self.take(name)? {
                [2..=5] => {}
                [protocol] => return Err(ErrorKind::Protocol(protocol)),
            },
            // Advisory: the length of a part that can be read at once.
            op::FRAME => {
                self.take::<8>(name)?;
            }
            op::BINGET => {
                let [index] = self.take(name)?;
                self.stack.get(u32::from(index))?;
            }
            op::LONG_BINGET => {
                let index = u32::from_le_bytes(self.take(name)?);
                self.stack.get(index)?;
            }
            op::MEMOIZE => {
                let value = self.stack.top(name)?;
                self.stack.values.memoize(value);
            }
            op::MARK => {
                if !self.run_of_references()? {
                    self.stack.marks.push(self.stack.items.len());
                }
            }
            op::BININT1 => {
                let [value] = self.take(name)?;
                self.stack.items.push(self.stack.values.visitor.int(i64::from(value)));
            }
            op::BININT2 => {
                let value = u16::from_le_bytes(self.take(name)?);
                self.stack.items.push(self.stack.values.visitor.int(i64::from(value)));
            }
            op::BININT => {
                let value = i32::from_le_bytes(self.take(name)?);
                self.stack.items.push(self.stack.values.visitor.int(i64::from(value)));
            }
            op::LONG1 => {
                let [length] = self.take(name)?;
                self.long(name, u64::from(length))?;
            }
            op::SHORT_BINUNICODE => self.prefixed::<1>(name, V::str)?,
            op::EMPTY_DICT => self.stack.items.push(self.stack.values.visitor.dict()),
            op::EMPTY_LIST => self.stack.items.push(self.stack.values.visitor.list()),
            op::SETITEMS => {
                let start = self.stack.pop_mark(name)?;
                self.stack.update(name, start)?;
            }
            op::APPENDS => {
                let start = self.stack.pop_mark(name)?;
                self.stack.extend(name, start)?;
            }
            op::APPEND => {
                let start = self.stack.items.len().checked_sub(1).ok_or(ErrorKind::too_few(name))?;
                self.stack.extend(name, start)?;
            }
            op::NONE => self.stack.items.push(self.stack.values.visitor.none()),
            op::NEWTRUE | op::NEWFALSE => self.stack.items.push(self.stack.values.visitor.bool(opcode == op::NEWTRUE)),
            op::BINFLOAT => {
                let value = f64::from_be_bytes(self.take(name)?);
                self.stack.items.push(self.stack.values.visitor.float(value));
            }
            op::LONG4 => {
                let length = i32::from_le_bytes(self.take(name)?);
                let length = u64::try_from(length)
                    .map_err(|_| ErrorKind::Damaged { opcode: name, problem: "has a length below zero" })?;
                self.long(name, length)?;
            }
            op::BINUNICODE => self.prefixed::<4>(name, V::str)?,
            op::BINUNICODE8 => self.prefixed::<8>(name, V::str)?,
            op::BINBYTES => self.prefixed::<4>(name, V::bytes)?,
            op::BINBYTES8 => self.prefixed::<8>(name, V::bytes)?,
            op::SHORT_BINBYTES => self.prefixed::<1>(name, V::bytes)?,
            op::BINPUT => {
                let [index] = self.take(name)?;
                self.stack.put(name, u32::from(index))?;
            }
            op::LONG_BINPUT => {
                let index = u32::from_le_bytes(self.take(name)?);
                self.stack.put(name, index)?;
            }
            op::EMPTY_TUPLE => self.stack.tuple(self.stack.items.len())?,
            op::TUPLE1 | op::TUPLE2 | op::TUPLE3 => {
                let count = usize::from(opcode - op::TUPLE1) + 1;
                let floor = self.stack.marks.last().copied().unwrap_or(0);
                let start = self.stack.items.len().checked_sub(count).filter(|&start| start >= floor);
                self.stack.tuple(start.ok_or(ErrorKind::too_few(name))?)?;
            }
            op::TUPLE => {
                let start = self.stack.pop_mark(name)?;
                self.stack.tuple(start)?;
            }
            op::SETITEM => {
                let start = self.stack.items.len().checked_sub(2).ok_or(ErrorKind::too_few(name))?;
                self.stack.update(name, start)?;
            }
            op::EMPTY_SET => self.stack.items.push(self.stack.values.visitor.set()),
            op::ADDITEMS => {
                let start = self.stack.pop_mark(name)?;
                self.stack.add(name, start)?;
            }
            op::FROZENSET => {
                let start = self.stack.pop_mark(name)?;
                let set = self.stack.values.visitor.set();
                self.stack.items.insert(start, set);
                self.stack.add(name, start + 1)?;
            }
            op::POP => {
                // On a MARK, POP takes the MARK.
                if self.stack.marks.last() == Some(&self.stack.items.len()) {
                    self.stack.marks.pop();
                } else {
                    self.stack.items.pop().ok_or(ErrorKind::too_few(name))?;
                }
            }
            // Written by protocols 0 and 1 or by Python 2 alone, or of no use to plain data.
            op::INT
            | op::LONG
            | op::FLOAT
            | op::STRING
            | op::BINSTRING
            | op::SHORT_BINSTRING
            | op::UNICODE
            | op::GET
            | op::PUT
            | op::LIST
            | op::DICT
            | op::POP_MARK
            | op::DUP
            | op::BYTEARRAY8
            | op::READONLY_BUFFER => return Err(ErrorKind::Unsupported { opcode: name }),
            // The other opcodes can import, build or call: GLOBAL, STACK_GLOBAL, REDUCE, BUILD, INST, OBJ,
            // NEWOBJ, NEWOBJ_EX, PERSID, BINPERSID, EXT1, EXT2, EXT4, and NEXT_BUFFER, which takes
            // data from outside the file.
            _ => return Err(ErrorKind::Forbidden { opcode: name }),
        }
        Ok(())
    }
}

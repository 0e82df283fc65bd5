//! The machine: opcodes, stack and memo.

mod arguments;
mod references;
mod stack;

use std::io::Read;

use super::buffer::Buffer;
use super::memo::Memo;
use super::opcode::{self as op, name};
use super::runs::Runs;
use super::{Error, ErrorKind, Visitor};

/// Reads one pickle up to its STOP and returns the value that it leaves. Bytes after STOP are ignored.
///
/// Memory is bounded by the stack, the memo and what the visitor keeps, each of them at most
/// proportional to what was read; a declared length or memo index allocates nothing.
///
/// # Errors
/// With the opcode that could not be carried out, and its byte.
pub fn read<V: Visitor>(source: impl Read, visitor: &mut V) -> Result<V::Value, Error<V::Error>> {
    let mut machine = Machine::new(source, visitor);
    machine.run().map_err(|kind| Error { offset: machine.at, kind })
}

/// The longest of the opcodes in [`Machine::common`] with its argument, the text of strings aside.
const WINDOW: usize = 10;

/// Values that the stack and the memo of any pickle may hold, marks included; one more for every four bytes that were read.
/// Python appends to lists in batches of 1,000, so a snapshot has few values on the stack, and a memoized value takes more bytes.
const MOST_HELD: u64 = 1 << 22;

struct Machine<'v, R, V: Visitor> {
    input: Buffer<R>,
    visitor: &'v mut V,
    stack: Vec<V::Value>,
    marks: Vec<usize>,
    memo: Memo<V::Kept>,
    runs: Runs<V::Run>,
    /// Offset of the opcode in hand.
    at: u64,
}

type Step<T, V> = Result<T, ErrorKind<<V as Visitor>::Error>>;

impl<'v, R: Read, V: Visitor> Machine<'v, R, V> {
    fn new(source: R, visitor: &'v mut V) -> Self {
        Self {
            input: Buffer::new(source),
            visitor,
            stack: Vec::new(),
            marks: Vec::new(),
            memo: Memo::new(),
            runs: Runs::new(),
            at: 0,
        }
    }

    fn run(&mut self) -> Step<V::Value, V> {
        loop {
            self.input.ensure(WINDOW)?;
            self.common();
            self.at = self.input.offset();
            let held = self.stack.len() + self.marks.len() + self.memo.len();
            if held as u64 > MOST_HELD + self.at / 4 {
                let problem = "holds more values at once than a snapshot of its size";
                return Err(ErrorKind::Damaged { opcode: "the pickle", problem });
            }
            let [opcode] = self.take::<1>("the stream, before STOP")?;
            if opcode == op::STOP {
                return self.stack.pop().ok_or(ErrorKind::too_few("STOP"));
            }
            self.any(opcode)?;
        }
    }

    /// Fast path: executes the common opcodes of snapshots within the buffer, with one bounds check each. Stops before
    /// any other opcode and before any error: [`Machine::any`] handles both.
    fn common(&mut self) {
        let bytes = self.input.buffered();
        let mut at = 0;
        while let Some(&[opcode, a, b, c, d, e, f, g, h, i, ..]) =
            bytes.get(at..).and_then(<[u8]>::first_chunk::<WINDOW>)
        {
            at += match opcode {
                op::BINGET => {
                    let Some(kept) = self.memo.get(u32::from(a)) else { break };
                    self.stack.push(self.visitor.kept(kept));
                    2
                }
                op::LONG_BINGET => {
                    let Some(kept) = self.memo.get(u32::from_le_bytes([a, b, c, d])) else { break };
                    self.stack.push(self.visitor.kept(kept));
                    5
                }
                op::MEMOIZE => {
                    let Some(&value) = self.stack.last() else { break };
                    self.runs.outdate_if(self.memo.push(self.visitor.keep(value)));
                    1
                }
                op::BININT1 => {
                    self.stack.push(self.visitor.int(i64::from(a)));
                    2
                }
                op::BININT2 => {
                    self.stack.push(self.visitor.int(i64::from(u16::from_le_bytes([a, b]))));
                    3
                }
                op::BININT => {
                    self.stack.push(self.visitor.int(i64::from(i32::from_le_bytes([a, b, c, d]))));
                    5
                }
                op::LONG1 if (1..=8).contains(&a) => {
                    // The bytes behind the number are shifted out, and its sign takes their place.
                    let above = 64 - 8 * u32::from(a);
                    let value = i64::from_le_bytes([b, c, d, e, f, g, h, i]) << above >> above;
                    self.stack.push(self.visitor.int(value));
                    2 + usize::from(a)
                }
                op::SHORT_BINUNICODE => {
                    let length = usize::from(a);
                    let Some(text) = bytes.get(at + 2..at + 2 + length) else { break };
                    self.stack.push(self.visitor.str(text));
                    2 + length
                }
                op::EMPTY_DICT => {
                    let dict = self.visitor.dict();
                    self.stack.push(dict);
                    // A dictionary with items begins like this.
                    if [a, b] == [op::MEMOIZE, op::MARK] {
                        self.runs.outdate_if(self.memo.push(self.visitor.keep(dict)));
                        self.marks.push(self.stack.len());
                        3
                    } else {
                        1
                    }
                }
                op::EMPTY_LIST => {
                    let list = self.visitor.list();
                    self.stack.push(list);
                    // A list with items begins like this.
                    if [a, b] == [op::MEMOIZE, op::MARK] {
                        // First, because it may outdate the run that follows.
                        self.runs.outdate_if(self.memo.push(self.visitor.keep(list)));
                        match self.runs.at_start_of(&bytes[at + 3..]) {
                            Some(run) if self.visitor.recall(list, run.value) => 3 + run.length,
                            _ => 2,
                        }
                    } else {
                        1
                    }
                }
                // A list that begins with a reference may be a run.
                op::MARK if !matches!(a, op::BINGET | op::LONG_BINGET) => {
                    self.marks.push(self.stack.len());
                    1
                }
                op::SETITEMS | op::APPENDS => {
                    let Some(&start) = self.marks.last() else { break };
                    let Some((below, items)) = self.stack.split_at_checked(start) else { break };
                    let Some(&container) = below.last() else { break };
                    let done = match opcode {
                        op::APPENDS => self.visitor.extend(container, items),
                        _ if items.len().is_multiple_of(2) => self.visitor.update(container, items),
                        _ => break,
                    };
                    if done.is_err() {
                        break;
                    }
                    self.marks.pop();
                    self.stack.truncate(start);
                    1
                }
                _ => break,
            };
        }
        self.input.consume(at);
    }

    /// Carries out one opcode.
    #[cold]
    fn any(&mut self, opcode: u8) -> Step<(), V> {
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
                self.get(u32::from(index))?;
            }
            op::LONG_BINGET => {
                let index = u32::from_le_bytes(self.take(name)?);
                self.get(index)?;
            }
            op::MEMOIZE => {
                let value = self.top(name)?;
                self.runs.outdate_if(self.memo.push(self.visitor.keep(value)));
            }
            op::MARK => {
                if !self.run_of_references()? {
                    self.marks.push(self.stack.len());
                }
            }
            op::BININT1 => {
                let [value] = self.take(name)?;
                self.stack.push(self.visitor.int(i64::from(value)));
            }
            op::BININT2 => {
                let value = u16::from_le_bytes(self.take(name)?);
                self.stack.push(self.visitor.int(i64::from(value)));
            }
            op::BININT => {
                let value = i32::from_le_bytes(self.take(name)?);
                self.stack.push(self.visitor.int(i64::from(value)));
            }
            op::LONG1 => {
                let [length] = self.take(name)?;
                self.long(name, u64::from(length))?;
            }
            op::SHORT_BINUNICODE => self.prefixed::<1>(name, V::str)?,
            op::EMPTY_DICT => self.stack.push(self.visitor.dict()),
            op::EMPTY_LIST => self.stack.push(self.visitor.list()),
            op::SETITEMS => {
                let start = self.pop_mark(name)?;
                self.update(name, start)?;
            }
            op::APPENDS => {
                let start = self.pop_mark(name)?;
                self.extend(name, start)?;
            }
            op::APPEND => {
                let start = self.stack.len().checked_sub(1).ok_or(ErrorKind::too_few(name))?;
                self.extend(name, start)?;
            }
            op::NONE => self.stack.push(self.visitor.none()),
            op::NEWTRUE | op::NEWFALSE => self.stack.push(self.visitor.bool(opcode == op::NEWTRUE)),
            op::BINFLOAT => {
                let value = f64::from_be_bytes(self.take(name)?);
                self.stack.push(self.visitor.float(value));
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
                self.put(name, u32::from(index))?;
            }
            op::LONG_BINPUT => {
                let index = u32::from_le_bytes(self.take(name)?);
                self.put(name, index)?;
            }
            op::EMPTY_TUPLE => self.tuple(self.stack.len())?,
            op::TUPLE1 | op::TUPLE2 | op::TUPLE3 => {
                let count = usize::from(opcode - op::TUPLE1) + 1;
                let floor = self.marks.last().copied().unwrap_or(0);
                let start = self.stack.len().checked_sub(count).filter(|&start| start >= floor);
                self.tuple(start.ok_or(ErrorKind::too_few(name))?)?;
            }
            op::TUPLE => {
                let start = self.pop_mark(name)?;
                self.tuple(start)?;
            }
            op::SETITEM => {
                let start = self.stack.len().checked_sub(2).ok_or(ErrorKind::too_few(name))?;
                self.update(name, start)?;
            }
            op::EMPTY_SET => self.stack.push(self.visitor.set()),
            op::ADDITEMS => {
                let start = self.pop_mark(name)?;
                self.add(name, start)?;
            }
            op::FROZENSET => {
                let start = self.pop_mark(name)?;
                let set = self.visitor.set();
                self.stack.insert(start, set);
                self.add(name, start + 1)?;
            }
            op::POP => {
                // On a MARK, POP takes the MARK.
                if self.marks.last() == Some(&self.stack.len()) {
                    self.marks.pop();
                } else {
                    self.stack.pop().ok_or(ErrorKind::too_few(name))?;
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

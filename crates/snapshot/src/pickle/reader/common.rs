//! The fast path: the common opcodes of snapshots, within the bytes that are in the buffer.

use super::stack::Stack;
use super::values::{ScannedValue, WINDOW};
use crate::pickle::Visitor;
use crate::pickle::opcode as op;
use crate::pickle::shapes::{Decoded, Written, begins_with};

/// Where a dictionary with items begins.
struct OpenedDictionary {
    /// The first byte behind its MARK.
    at: usize,
    /// The values on the stack then, and in the memo.
    height: usize,
    memoized: usize,
}

impl<V: Visitor> Stack<'_, V> {
    /// Carries out the common opcodes at the beginning of `bytes`, and returns the number of bytes that it took. Stops before any other
    /// opcode and before any error: [`super::Machine::any`] handles both.
    pub(super) fn common(&mut self, bytes: &[u8]) -> usize {
        let mut at = 0;
        let mut latest = None;
        while let Some(&[opcode, a, b, ..]) = bytes.get(at..).and_then(<[u8]>::first_chunk::<WINDOW>) {
            at += match opcode {
                op::MEMOIZE => {
                    let Some(&value) = self.items.last() else { break };
                    self.values.memoize(value);
                    1
                }
                // A dictionary with items begins like this.
                op::EMPTY_DICT if [a, b] == [op::MEMOIZE, op::MARK] => {
                    let dict = self.values.visitor.dict();
                    self.items.push(dict);
                    self.values.memoize(dict);
                    self.marks.push(self.items.len());
                    latest = Some(OpenedDictionary {
                        at: at + 3,
                        height: self.items.len(),
                        memoized: self.values.memo.len(),
                    });
                    3 + self.like_known(dict, &bytes[at + 3..])
                }
                op::EMPTY_DICT => {
                    self.items.push(self.values.visitor.dict());
                    1
                }
                op::EMPTY_LIST if [a, b] != [op::MEMOIZE, op::MARK] => {
                    self.items.push(self.values.visitor.list());
                    1
                }
                // A list that begins with a reference may be a run.
                op::MARK if !matches!(a, op::BINGET | op::LONG_BINGET) => {
                    self.marks.push(self.items.len());
                    1
                }
                op::SETITEMS | op::APPENDS => {
                    let Some(&start) = self.marks.last() else { break };
                    let Some((below, items)) = self.items.split_at_checked(start) else { break };
                    let Some(&container) = below.last() else { break };
                    let done = match opcode {
                        op::APPENDS => self.values.visitor.extend(container, items),
                        _ if items.len().is_multiple_of(2) => self.values.visitor.update(container, items),
                        _ => break,
                    };
                    if done.is_err() {
                        break;
                    }
                    if let Some(opened) = latest.take_if(|opened: &mut OpenedDictionary| opened.height == start) {
                        self.learn(container, &opened, &bytes[opened.at..=at]);
                    }
                    self.marks.pop();
                    self.items.truncate(start);
                    1
                }
                op::TUPLE2 => {
                    let floor = self.marks.last().copied().unwrap_or(0);
                    let Some(start) = self.items.len().checked_sub(2).filter(|&start| start >= floor) else { break };
                    let Ok(value) = self.values.visitor.tuple(&self.items[start..]) else { break };
                    self.items.truncate(start);
                    self.items.push(value);
                    1
                }
                _ => {
                    let Some(ScannedValue { value, length }) = self.values.at_start_of(&bytes[at..]) else { break };
                    self.items.push(value);
                    length
                }
            };
        }
        at
    }

    /// Remembers how a dictionary was written.
    fn learn(&mut self, dict: V::Value, opened: &OpenedDictionary, bytes: &[u8]) {
        let items = &self.items[opened.height..];
        if !self.shapes.is_full()
            && !self.values.memo.is_overwritten()
            && let Some(alike) = self.values.visitor.shape(dict, items)
            && let Some(memoized) = self.values.memo.since(opened.memoized)
        {
            self.shapes.learn(alike, &Written { bytes, items, memoized });
        }
    }

    /// Reads a dictionary, which began just now, as far as it is like one that came before: the bytes between those that
    /// vary are compared, and their values taken as they were. Returns the number of bytes.
    #[inline]
    fn like_known(&mut self, dict: V::Value, bytes: &[u8]) -> usize {
        let Some(shape) = self.shapes.find(bytes).filter(|_| !self.values.memo.is_overwritten()) else { return 0 };
        let start = self.items.len();
        let mut at = 0;
        for part in &shape.parts {
            if !begins_with(&bytes[at..], &part.bytes) {
                shape.spell_out(&mut self.items, start, part.first);
                return at;
            }
            at += part.bytes.len();
            self.values.memo.extend(&part.memoized);
            let Some(Decoded { index, is_equal }) = part.next else { break };
            let Some(ScannedValue { value, length }) = self.values.at_start_of(&bytes[at..]) else {
                shape.spell_out(&mut self.items, start, index);
                return at;
            };
            at += length;
            if !is_equal {
                self.items.push(value);
            } else if value != shape.items[index] {
                shape.spell_out(&mut self.items, start, index);
                self.items.push(value);
                return at;
            }
        }
        if !self.values.visitor.update_alike(dict, &shape.handle, &self.items[start..]) {
            shape.spell_out(&mut self.items, start, shape.items.len());
            // The SETITEMS remains.
            return at - 1;
        }
        self.marks.pop();
        self.items.truncate(start);
        at
    }
}

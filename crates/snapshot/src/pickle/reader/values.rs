//! The values that opcodes stand for, and the memo.

use crate::pickle::Visitor;
use crate::pickle::memo::Memo;
use crate::pickle::opcode as op;
use crate::pickle::runs::KnownRuns;

/// The longest opcode that [`Values::at_start_of`] reads with its argument, the text of strings aside.
pub(super) const WINDOW: usize = 10;

/// Makes values, and remembers them.
pub(super) struct Values<'v, V: Visitor> {
    pub(super) visitor: &'v mut V,
    pub(super) memo: Memo<V::Kept>,
    pub(super) runs: KnownRuns<V::Run>,
}

/// A value at the beginning of some bytes.
pub(super) struct ScannedValue<T> {
    pub(super) value: T,
    /// The number of bytes, with MEMOIZE behind strings and lists.
    pub(super) length: usize,
}

impl<'v, V: Visitor> Values<'v, V> {
    pub(super) fn new(visitor: &'v mut V) -> Self {
        Self { visitor, memo: Memo::new(), runs: KnownRuns::new() }
    }

    #[inline]
    pub(super) fn memoize(&mut self, value: V::Value) {
        let kept = self.visitor.keep(value);
        self.memo.push(kept);
    }

    #[inline]
    pub(super) fn get(&self, index: u32) -> Option<V::Value> {
        self.memo.get(index).map(|kept| self.visitor.kept(kept))
    }

    /// The value at the beginning of `bytes`, where it is of a common kind and all there.
    #[inline(always)]
    pub(super) fn at_start_of(&mut self, bytes: &[u8]) -> Option<ScannedValue<V::Value>> {
        let &[opcode, a, b, c, d, e, f, g, h, i] = bytes.first_chunk::<WINDOW>()?;
        let found = match opcode {
            op::BINGET => ScannedValue { value: self.get(u32::from(a))?, length: 2 },
            op::LONG_BINGET => ScannedValue { value: self.get(u32::from_le_bytes([a, b, c, d]))?, length: 5 },
            op::BININT1 => ScannedValue { value: self.visitor.int(i64::from(a)), length: 2 },
            op::BININT2 => ScannedValue { value: self.visitor.int(i64::from(u16::from_le_bytes([a, b]))), length: 3 },
            op::BININT => {
                ScannedValue { value: self.visitor.int(i64::from(i32::from_le_bytes([a, b, c, d]))), length: 5 }
            }
            op::LONG1 if (1..=8).contains(&a) => {
                // The bytes behind the number are shifted out, and its sign takes their place.
                let above = 64 - 8 * u32::from(a);
                let value = i64::from_le_bytes([b, c, d, e, f, g, h, i]) << above >> above;
                ScannedValue { value: self.visitor.int(value), length: 2 + usize::from(a) }
            }
            op::SHORT_BINUNICODE => {
                let length = 2 + usize::from(a);
                let value = self.visitor.str(bytes.get(2..length)?);
                if bytes.get(length) == Some(&op::MEMOIZE) {
                    self.memoize(value);
                    ScannedValue { value, length: length + 1 }
                } else {
                    ScannedValue { value, length }
                }
            }
            // A list with items begins like this.
            op::EMPTY_LIST if [a, b] == [op::MEMOIZE, op::MARK] => {
                let value = self.visitor.list();
                self.memoize(value);
                ScannedValue { value, length: self.known_run(value, &bytes[3..]).map_or(2, |length| 3 + length) }
            }
            _ => return None,
        };
        Some(found)
    }

    /// Fills a new list with the run of references at the beginning of `bytes`, where that came before. Returns its length.
    #[inline]
    pub(super) fn known_run(&mut self, list: V::Value, bytes: &[u8]) -> Option<usize> {
        if self.memo.is_overwritten() {
            return None;
        }
        let run = self.runs.at_start_of(bytes)?;
        self.visitor.recall(list, run.value).then_some(run.length)
    }

    /// Remembers what `run` was to `list`.
    pub(super) fn learn_run(&mut self, list: V::Value, run: &[u8]) {
        if !self.memo.is_overwritten()
            && let Some(value) = self.visitor.remember(list)
        {
            self.runs.insert(run, value);
        }
    }
}

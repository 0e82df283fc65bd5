//! Arguments of opcodes: fixed numbers of bytes, integers, strings, and the text of protocol 0.

use std::io::Read;

use super::{Machine, Step};
use crate::pickle::literal::{decimal, memo_index, quoted, raw_unicode_escape};
use crate::pickle::opcode as op;
use crate::pickle::wide::WideInteger;
use crate::pickle::{ErrorKind, Integer, Visitor};

impl<R, V> Machine<'_, R, V>
where
    R: Read,
    V: Visitor,
    V::Error: std::error::Error + 'static,
{
    #[inline]
    pub(super) fn take<const N: usize>(&mut self, opcode: &'static str) -> Step<[u8; N], V> {
        self.input.take::<N>()?.ok_or(ErrorKind::Truncated { opcode })
    }

    /// An integer of `length` bytes, the lowest first.
    pub(super) fn long(&mut self, opcode: &'static str, length: u64) -> Step<(), V> {
        if let Ok(length @ ..=8) = usize::try_from(length) {
            if !self.input.ensure(length)? {
                return Err(ErrorKind::Truncated { opcode });
            }
            let bytes = &self.input.buffered()[..length];
            let fill = if bytes.last().is_some_and(|&b| b >= 0x80) { 0xff } else { 0 };
            let mut wide = [fill; 8];
            wide[..length].copy_from_slice(bytes);
            self.input.consume(length);
            self.push_int(i64::from_le_bytes(wide));
            return Ok(());
        }
        let mut integer = WideInteger::default();
        if !self.input.pieces(length, |piece| integer.extend(piece))? {
            return Err(ErrorKind::Truncated { opcode });
        }
        let value = self.visitor.wide_int(integer.value());
        self.stack.push(value);
        Ok(())
    }

    #[inline]
    fn string(
        &mut self,
        opcode: &'static str,
        length: u64,
        make: impl FnOnce(&mut V, &[u8]) -> V::Value,
    ) -> Step<(), V> {
        let value = match usize::try_from(length) {
            Ok(length) if length <= 4096 => {
                if !self.input.ensure(length)? {
                    return Err(ErrorKind::Truncated { opcode });
                }
                let value = make(self.visitor, &self.input.buffered()[..length]);
                self.input.consume(length);
                value
            }
            _ => {
                self.scratch.clear();
                let scratch = &mut self.scratch;
                if !self.input.pieces(length, |piece| scratch.extend_from_slice(piece))? {
                    return Err(ErrorKind::Truncated { opcode });
                }
                let value = make(self.visitor, &self.scratch);
                self.scratch = Vec::new();
                value
            }
        };
        self.stack.push(value);
        Ok(())
    }

    /// A string behind its length in `N` bytes.
    pub(super) fn prefixed<const N: usize>(
        &mut self,
        opcode: &'static str,
        make: impl FnOnce(&mut V, &[u8]) -> V::Value,
    ) -> Step<(), V> {
        let mut length = [0; 8];
        length[..N].copy_from_slice(&self.take::<N>(opcode)?);
        self.string(opcode, u64::from_le_bytes(length), make)
    }

    /// The opcodes of protocol 0, whose argument is a line of text.
    pub(super) fn text_form(&mut self, opcode: u8, name: &'static str) -> Step<(), V> {
        let mut line = std::mem::take(&mut self.scratch);
        line.clear();
        if !self.input.line(|piece| line.extend_from_slice(piece))? {
            return Err(ErrorKind::Truncated { opcode: name });
        }
        let text = line.trim_ascii();
        match opcode {
            op::INT if text == b"00" => self.push_bool(false),
            op::INT if text == b"01" => self.push_bool(true),
            op::INT | op::LONG => {
                let digits = text.strip_suffix(b"L").unwrap_or(text);
                let value = match decimal(digits).ok_or(ErrorKind::Literal { opcode: name })? {
                    Integer::Fits(value) => match i64::try_from(value) {
                        Ok(small) => self.visitor.int(small),
                        Err(_) => self.visitor.wide_int(Integer::Fits(value)),
                    },
                    Integer::Beyond => self.visitor.wide_int(Integer::Beyond),
                };
                self.stack.push(value);
            }
            op::FLOAT => {
                let value = std::str::from_utf8(text)
                    .ok()
                    .and_then(|t| t.parse().ok())
                    .ok_or(ErrorKind::Literal { opcode: name })?;
                let value = self.visitor.float(value);
                self.stack.push(value);
            }
            op::STRING => {
                let bytes = quoted(text).ok_or(ErrorKind::Literal { opcode: name })?;
                let value = self.visitor.str(&bytes);
                self.stack.push(value);
            }
            op::UNICODE => {
                let bytes = raw_unicode_escape(&line).ok_or(ErrorKind::Literal { opcode: name })?;
                let value = self.visitor.str(&bytes);
                self.stack.push(value);
            }
            op::GET | op::PUT => {
                let index = memo_index(text).ok_or(ErrorKind::Literal { opcode: name })?;
                if opcode == op::GET { self.get(index)? } else { self.put(name, index)? }
            }
            _ => return Err(ErrorKind::Unsupported { opcode: name }),
        }
        self.scratch = line;
        Ok(())
    }
}

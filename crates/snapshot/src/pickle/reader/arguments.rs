//! Arguments of opcodes: fixed numbers of bytes, integers, and strings.

use std::io::Read;

use super::{Machine, StepResult};
use crate::pickle::{ErrorKind, Visitor};

impl<R: Read, V: Visitor> Machine<'_, R, V> {
    #[inline]
    pub(super) fn take<const N: usize>(&mut self, opcode: &'static str) -> StepResult<[u8; N], V> {
        self.input.take::<N>()?.ok_or(ErrorKind::Truncated { opcode })
    }

    /// An integer of `length` bytes, the lowest first.
    pub(super) fn long(&mut self, opcode: &'static str, length: u64) -> StepResult<(), V> {
        let value = match usize::try_from(length) {
            Ok(length @ ..=16) => {
                if !self.input.ensure(length)? {
                    return Err(ErrorKind::Truncated { opcode });
                }
                let bytes = &self.input.buffered()[..length];
                let fill = if bytes.last().is_some_and(|&b| b >= 0x80) { 0xff } else { 0 };
                let mut wide = [fill; 16];
                wide[..length].copy_from_slice(bytes);
                self.input.consume(length);
                Some(i128::from_le_bytes(wide))
            }
            _ if self.input.pieces(length, |_| ())? => None,
            _ => return Err(ErrorKind::Truncated { opcode }),
        };
        let value = match value.map(i64::try_from) {
            Some(Ok(small)) => self.stack.values.visitor.int(small),
            _ => self.stack.values.visitor.wide_int(value),
        };
        self.stack.items.push(value);
        Ok(())
    }

    /// A string behind its length in `N` bytes.
    pub(super) fn prefixed<const N: usize>(
        &mut self,
        opcode: &'static str,
        make: impl FnOnce(&mut V, &[u8]) -> V::Value,
    ) -> StepResult<(), V> {
        let mut length = [0; 8];
        length[..N].copy_from_slice(&self.take::<N>(opcode)?);
        let length = u64::from_le_bytes(length);
        let value = match usize::try_from(length) {
            Ok(length) if length <= 4096 => {
                if !self.input.ensure(length)? {
                    return Err(ErrorKind::Truncated { opcode });
                }
                let value = make(self.stack.values.visitor, &self.input.buffered()[..length]);
                self.input.consume(length);
                value
            }
            _ => {
                let mut scratch = Vec::new();
                if !self.input.pieces(length, |piece| scratch.extend_from_slice(piece))? {
                    return Err(ErrorKind::Truncated { opcode });
                }
                make(self.stack.values.visitor, &scratch)
            }
        };
        self.stack.items.push(value);
        Ok(())
    }
}

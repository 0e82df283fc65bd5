//! Lists of memo references, of which most of a snapshot consists.

use std::io::Read;

use super::stack::{Stack, objection};
use super::{Machine, StepResult};
use crate::pickle::runs::{Scan, scan, split_reference};
use crate::pickle::{ErrorKind, Visitor};

impl<R: Read, V: Visitor> Machine<'_, R, V> {
    /// After a MARK: if what follows is memo references up to an APPENDS and nothing else, carries all
    /// of it out, the MARK included, and returns true. Else changes nothing.
    #[inline]
    pub(super) fn run_of_references(&mut self) -> StepResult<bool, V> {
        let Some(&list) = self.stack.items.last() else {
            return Ok(false);
        };
        let length = loop {
            match scan(self.input.buffered()) {
                Scan::Run(length) => break length,
                Scan::Other => return Ok(false),
                // A run may lie across the end of the buffer.
                Scan::Unfinished => {
                    if !self.input.fill_up()? {
                        return Ok(false);
                    }
                }
            }
        };
        let Stack { items, values, .. } = &mut self.stack;
        let run = &self.input.buffered()[..=length];
        if let Some(length) = values.known_run(list, run) {
            self.input.consume(length);
            return Ok(true);
        }
        let start = items.len();
        let mut rest = run;
        while let Some((index, tail)) = split_reference(rest) {
            let Some(value) = values.get(index) else {
                // The reference is at fault, not the MARK before it.
                self.at += 1 + (run.len() - rest.len()) as u64;
                return Err(ErrorKind::NoMemo(index));
            };
            items.push(value);
            rest = tail;
        }
        if let Err(error) = values.visitor.extend(list, &items[start..]) {
            // So is the APPENDS behind the references.
            self.at += 1 + length as u64;
            return Err(objection("APPENDS", error));
        }
        items.truncate(start);
        values.learn_run(list, run);
        self.input.consume(length + 1);
        Ok(true)
    }
}

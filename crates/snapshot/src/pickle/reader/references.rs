//! Lists of memo references, of which most of a snapshot consists.

use std::io::Read;

use super::stack::objection;
use super::{Machine, Step};
use crate::pickle::runs::{Scan, scan, split_reference};
use crate::pickle::{ErrorKind, Visitor};

impl<R: Read, V: Visitor> Machine<'_, R, V> {
    /// After a MARK: if what follows is memo references up to an APPENDS and nothing else, carries all
    /// of it out, the MARK included, and returns true. Else changes nothing.
    #[inline]
    pub(super) fn run_of_references(&mut self) -> Step<bool, V> {
        let Some(&list) = self.stack.last() else {
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
        if let Some(run) = self.runs.at_start_of(self.input.buffered())
            && self.visitor.recall(list, run.value)
        {
            self.input.consume(run.length);
            return Ok(true);
        }
        let run = &self.input.buffered()[..=length];
        let start = self.stack.len();
        let mut rest = run;
        while let Some((index, tail)) = split_reference(rest) {
            let Some(kept) = self.memo.get(index) else {
                // The reference is at fault, not the MARK before it.
                self.at += 1 + (run.len() - rest.len()) as u64;
                return Err(ErrorKind::NoMemo(index));
            };
            self.stack.push(self.visitor.kept(kept));
            rest = tail;
        }
        if let Err(error) = self.visitor.extend(list, &self.stack[start..]) {
            // So is the APPENDS behind the references.
            self.at += 1 + length as u64;
            return Err(objection("APPENDS", error));
        }
        self.stack.truncate(start);
        if let Some(known) = self.visitor.remember(list) {
            self.runs.insert(run, known);
        }
        self.input.consume(length + 1);
        Ok(true)
    }
}

//! The trace in the file: its classes, its moves each once, and what happened as a folded sequence of them.

use ptmem_base::device::DeviceId;
use ptmem_base::interner::Interner;
use ptmem_snapshot::snapshot::{StackId, Tables};

use super::SavedError;
use super::format::{RareParts, SavedClass, SavedStack, SavedText, SavedTrace};
use crate::trace::fold::Folded;
use crate::trace::{Class, ClassTags, Move, Origin, StartBlocks, Trace};

/// The moves of a history.
pub(super) fn saved(trace: &Trace) -> SavedTrace {
    let mut ranks = trace.ranks().into_iter();
    let mut moves: Interner<(Move, u32)> = Interner::default();
    let mut symbols = Vec::with_capacity(trace.symbols.len() + trace.implied.len());
    for one in trace.all_moves() {
        let rank = one.ends().and_then(|_| ranks.next()).unwrap_or(0);
        symbols.push(moves.number(&(one, rank)));
    }
    SavedTrace {
        reserved: Some(trace.reserved).filter(is_number_of_json).unwrap_or_default(),
        implied: trace.implied.len() as u64,
        moves: moves.into_items(),
        sequences: Folded::new(&symbols, usize::MAX).filter(|folded| folded.size() > 0).unwrap_or_default(),
    }
}

/// True for a number that JSON keeps exactly. No known baseline is beyond: sums that leave 64 bits are errors.
fn is_number_of_json(number: &i128) -> bool {
    (i128::from(i64::MIN)..=i128::from(u64::MAX)).contains(number)
}

impl SavedClass {
    /// A class of the stack of this number.
    pub(super) fn new(class: &Class, stack: u32, start: StartBlocks, tags: ClassTags<SavedText>) -> Self {
        let Class { bytes, requested, spread, maybe_pending, .. } = *class;
        Self(stack, bytes, requested, RareParts { spread, maybe_pending, start, tags })
    }

    /// The class, given the stacks of the file and what they became, and its texts; `None` if one is not there.
    pub(super) fn class(
        &self,
        saved: &[SavedStack],
        stacks: &[StackId],
        texts: &[String],
        tables: &mut Tables,
    ) -> Option<Class> {
        let &Self(number, bytes, requested, RareParts { spread, maybe_pending, ref tags, .. }) = self;
        let stack = saved.get(number as usize)?;
        let origin = stack.bucket.map_or(Origin::Stack(stacks[number as usize]), Origin::Bucket);
        let mut are_known = true;
        let tags = tags.map(|tag| {
            let text = tag.of(texts);
            are_known &= text.is_some();
            tables.intern_string(text.unwrap_or_default())
        });
        are_known.then_some(Class { origin, bytes, requested, spread, maybe_pending, tags, cpp: stack.cpp })
    }
}

/// The number of events and of blocks at the beginning that a device has.
pub(super) fn moves_of(events: u64, implied: u64, start: &[StartBlocks]) -> u64 {
    let blocks = start.iter().map(|start| u64::from(start.allocated) + u64::from(start.pending));
    blocks.fold(events.saturating_add(implied), u64::saturating_add)
}

impl SavedTrace {
    /// The trace of a device with these classes and this number of events; the error says what is wrong with it.
    pub(super) fn trace(
        &self,
        classes: Vec<Class>,
        start: Vec<StartBlocks>,
        events: u64,
    ) -> Result<Trace, &'static str> {
        if self.sequences.length(self.moves.len()) != events.checked_add(self.implied) {
            return Err("has not one move for each event");
        }
        let mut blocks = self.moves.iter().flat_map(|(one, _)| one.begins().into_iter().chain(one.ends()));
        if !blocks.all(|block| (block.class as usize) < classes.len()) {
            return Err("has a block of no class");
        }
        let mut moves = Interner::default();
        let symbols_of: Vec<u32> = self.moves.iter().map(|(one, _)| moves.number(one)).collect();
        // As many as the length that was compared, which has room.
        let mut symbols = Vec::with_capacity(usize::try_from(events.saturating_add(self.implied)).unwrap_or(0));
        let mut ranks = Vec::new();
        for word in self.sequences.unfolded() {
            let (one, rank) = self.moves[word as usize];
            symbols.push(symbols_of[word as usize]);
            ranks.extend(one.ends().map(|_| rank));
        }
        let implied = symbols.split_off(usize::try_from(events).unwrap_or(usize::MAX));
        let moves = moves.into_items();
        let mut trace = Trace { classes, moves, symbols, implied, start, reserved: self.reserved, ended: Vec::new() };
        trace.ended = trace.ended_by_rank(&ranks).ok_or("frees a block that is not there")?;
        Ok(trace)
    }
}

/// The error of a trace with this fault.
pub(super) fn wrong(device: DeviceId, fault: &str) -> SavedError {
    SavedError::Damaged(format!("the trace of {device} {fault}"))
}

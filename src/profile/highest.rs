//! The most that each stack held at any moment, wherever the peak of the device lies.

use std::collections::HashMap;
use std::hash::Hash;

use super::exact::Whose;
use crate::replay::{Position, Replay};
use crate::snapshot::{StackId, StringId};

/// The most bytes that a stack held, and when it held them first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Highest {
    /// Allocated bytes.
    pub bytes: u64,
    /// The moment.
    pub at: Position,
}

/// Allocations that go by the same stack and tags.
#[derive(Debug, Clone, Copy)]
pub(super) struct Part {
    pub(super) whose: Whose,
    pub(super) metadata: Option<StringId>,
    pub(super) compile_context: Option<StringId>,
}

/// Every change of what the parts hold, in order.
#[derive(Debug, Default)]
pub(super) struct Moves {
    pub(super) parts: Vec<Part>,
    moves: Vec<Move>,
}

#[derive(Debug, Clone, Copy)]
struct Move {
    at: Position,
    part: u32,
    /// Allocated bytes, or freed ones below 0.
    bytes: i64,
}

impl Moves {
    /// The moves of the allocations of a device, of which `part_of` gives the parts.
    pub(super) fn new(replay: &Replay, parts: Vec<Part>, part_of: &[u32]) -> Self {
        const NONE: u32 = u32::MAX;
        // The allocations that each position frees, as lists.
        let mut first = vec![NONE; replay.dump.count() + 1];
        let mut next = vec![NONE; replay.allocations.len()];
        let (mut older, mut moves) = (Vec::new(), Vec::new());
        let mut order = Vec::with_capacity(replay.allocations.len());
        for (index, allocation) in (0_u32..).zip(&replay.allocations) {
            if allocation.freed <= allocation.born {
                continue;
            }
            if let Some(head) = first.get_mut(allocation.freed.count()) {
                next[index as usize] = std::mem::replace(head, index);
            }
            if allocation.born == Position::START { older.push(index) } else { order.push(index) }
        }
        moves.reserve_exact(2 * (older.len() + order.len()));
        let signed = |bytes: u64| i64::try_from(bytes).unwrap_or(i64::MAX);
        let begin = |index: u32| {
            let allocation = &replay.allocations[index as usize];
            Move { at: allocation.born, part: part_of[index as usize], bytes: signed(allocation.bytes) }
        };
        moves.extend(older.into_iter().map(begin));
        let mut begun = order.into_iter().peekable();
        for (position, &head) in first.iter().enumerate() {
            let mut freed = head;
            while let Some(allocation) = replay.allocations.get(freed as usize) {
                let bytes = -signed(allocation.bytes);
                moves.push(Move { at: Position::of_count(position), part: part_of[freed as usize], bytes });
                freed = next[freed as usize];
            }
            while let Some(index) = begun.next_if(|&index| replay.allocations[index as usize].born.count() <= position)
            {
                moves.push(begin(index));
            }
        }
        Self { parts, moves }
    }

    /// Gives stacks and strings their numbers in other tables.
    pub(super) fn renumber(&mut self, mut copy: impl FnMut(Option<StackId>, [Option<StringId>; 2]) -> Renumbered) {
        for part in &mut self.parts {
            let stack = match part.whose {
                Whose::Stack(stack) => Some(stack),
                Whose::Bucket(_) => None,
            };
            let (stack, [metadata, compile_context]) = copy(stack, [part.metadata, part.compile_context]);
            part.whose = stack.map_or(part.whose, Whose::Stack);
            (part.metadata, part.compile_context) = (metadata, compile_context);
        }
    }

    /// The highest of every group of parts.
    pub(super) fn highest<K: Eq + Hash>(&self, group: impl Fn(&Part) -> K) -> HashMap<K, Highest> {
        let mut groups: HashMap<K, usize> = HashMap::new();
        let group_of: Vec<usize> = self
            .parts
            .iter()
            .map(|part| {
                let next = groups.len();
                *groups.entry(group(part)).or_insert(next)
            })
            .collect();
        let mut held = vec![0_i64; groups.len()];
        let mut most = vec![Highest { bytes: 0, at: Position::START }; groups.len()];
        for &Move { at, part, bytes } in &self.moves {
            let group = group_of[part as usize];
            held[group] = held[group].saturating_add(bytes);
            let now = u64::try_from(held[group]).unwrap_or(0);
            if now > most[group].bytes {
                most[group] = Highest { bytes: now, at };
            }
        }
        groups.into_iter().map(|(key, group)| (key, most[group])).collect()
    }
}

/// A stack and the tags of its allocation.
pub(super) type Renumbered = (Option<StackId>, [Option<StringId>; 2]);

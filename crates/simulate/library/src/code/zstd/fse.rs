//! Tables of finite state entropy: each state stands for a symbol and says how the next state is read.

use alloc::vec;
use alloc::vec::Vec;

use super::bits::{Backward, Forward};

#[derive(Clone, Copy, Default)]
struct FseEntry {
    symbol: u8,
    bits: u8,
    base: u16,
}

#[derive(Clone)]
pub(super) struct FseTable {
    log: u32,
    entries: Vec<FseEntry>,
}

/// Symbols with their shares of the states, as a stream describes them, and the bytes that the description takes.
pub(super) struct FseDescription {
    pub(super) table: FseTable,
    pub(super) bytes: usize,
}

impl FseTable {
    /// The table that has one symbol, which takes no bits.
    pub(super) fn single(symbol: u8) -> Self {
        Self { log: 0, entries: vec![FseEntry { symbol, bits: 0, base: 0 }] }
    }

    /// Spreads symbols over the states of a table of `1 << log`: each as often as its share says, one of share -1 once
    /// at the end.
    pub(super) fn from_shares(shares: &[i16], log: u32) -> Option<Self> {
        let size = 1_usize << log;
        let mut entries = vec![FseEntry::default(); size];
        let mut next: Vec<u32> = shares.iter().map(|&share| u32::from(share.unsigned_abs())).collect();
        let mut end = size;
        for (symbol, _) in shares.iter().enumerate().filter(|(_, share)| **share == -1) {
            end = end.checked_sub(1)?;
            entries[end].symbol = symbol as u8;
        }
        let step = (size >> 1) + (size >> 3) + 3;
        let mut position = 0;
        for (symbol, &share) in shares.iter().enumerate() {
            for _ in 0..share.max(0) {
                entries[position].symbol = symbol as u8;
                position = (position + step) % size;
                while position >= end {
                    position = (position + step) % size;
                }
            }
        }
        for entry in &mut entries {
            let state = next.get_mut(usize::from(entry.symbol)).filter(|state| **state > 0)?;
            let bits = log.checked_sub(state.ilog2())?;
            entry.bits = bits as u8;
            entry.base = ((*state << bits) - size as u32) as u16;
            *state += 1;
        }
        Some(Self { log, entries })
    }

    /// Reads a description of at most `most_symbols` symbols in at most `1 << most_log` states.
    pub(super) fn read(bytes: &[u8], most_symbols: usize, most_log: u32) -> Option<FseDescription> {
        let mut stream = Forward::new(bytes);
        let log = stream.take(4)? + 5;
        if log > most_log {
            return None;
        }
        let mut left = 1_i32 << log;
        let mut shares = Vec::new();
        while left > 0 && shares.len() < most_symbols {
            let share = read_share(&mut stream, left)?;
            left -= i32::from(share.abs());
            shares.push(share);
            if share == 0 {
                read_zeros(&mut stream, &mut shares)?;
            }
        }
        let complete = left == 0 && shares.len() <= most_symbols;
        let table = if complete { Self::from_shares(&shares, log)? } else { return None };
        Some(FseDescription { table, bytes: stream.bytes_read() })
    }

    /// The first state of a stream.
    pub(super) fn start(&self, stream: &mut Backward<'_>) -> usize {
        stream.take(self.log) as usize
    }

    pub(super) fn symbol(&self, state: usize) -> u8 {
        self.entries[state].symbol
    }

    /// The state after another.
    pub(super) fn next(&self, state: usize, stream: &mut Backward<'_>) -> usize {
        let entry = self.entries[state];
        usize::from(entry.base) + stream.take(entry.bits.into()) as usize
    }
}

/// Reads the share of one symbol, of the states that are left: small values take a bit less.
fn read_share(stream: &mut Forward<'_>, left: i32) -> Option<i16> {
    let most = left as u32 + 1;
    let bits = most.ilog2() + 1;
    let mask = (1 << (bits - 1)) - 1;
    let threshold = (1 << bits) - 1 - most;
    let mut value = stream.take(bits)?;
    if value & mask < threshold {
        stream.back_one();
        value &= mask;
    } else if value > mask {
        value -= threshold;
    }
    i16::try_from(i64::from(value) - 1).ok()
}

/// Reads how many further symbols have no share.
fn read_zeros(stream: &mut Forward<'_>, shares: &mut Vec<i16>) -> Option<()> {
    loop {
        let zeros = stream.take(2)?;
        shares.extend((0..zeros).map(|_| 0));
        if zeros < 3 {
            return Some(());
        }
    }
}

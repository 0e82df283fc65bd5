//! Literals in Huffman's code.

use alloc::vec;
use alloc::vec::Vec;

use super::bits::Backward;
use super::fse;

#[derive(Clone, Copy, Default)]
struct HuffmanEntry {
    symbol: u8,
    bits: u8,
}

/// Symbols by the next bits of a stream.
pub(super) struct HuffmanTable {
    log: u32,
    entries: Vec<HuffmanEntry>,
}

/// Longest code.
const MOST_BITS: u32 = 11;
/// Most states of the table in which weights are written, as a power of two.
const WEIGHT_LOG: u32 = 6;

/// A table with the bytes that its description takes.
pub(super) struct HuffmanDescription {
    pub(super) table: HuffmanTable,
    pub(super) bytes: usize,
}

impl HuffmanTable {
    pub(super) fn read(bytes: &[u8]) -> Option<HuffmanDescription> {
        let (&header, rest) = bytes.split_first()?;
        let header = usize::from(header);
        if header < 128 {
            let weights = read_weights(rest.get(..header)?)?;
            return Some(HuffmanDescription { table: Self::from_weights(weights)?, bytes: 1 + header });
        }
        // Two weights a byte, the first in the higher half.
        let count = header - 127;
        let halves = rest.get(..count.div_ceil(2))?.iter().flat_map(|byte| [byte >> 4, byte & 15]);
        Some(HuffmanDescription {
            table: Self::from_weights(halves.take(count).collect())?,
            bytes: 1 + count.div_ceil(2),
        })
    }

    /// Makes the table of the weights of all symbols but the last, whose weight fills what is left.
    fn from_weights(mut weights: Vec<u8>) -> Option<Self> {
        let sum: u32 = weights.iter().filter(|&&weight| weight > 0).map(|&weight| 1 << (weight - 1).min(31)).sum();
        let log = sum.checked_ilog2()? + 1;
        let rest = (1 << log) - sum;
        if log > MOST_BITS || !rest.is_power_of_two() {
            return None;
        }
        weights.push(rest.ilog2() as u8 + 1);
        let mut entries = vec![HuffmanEntry::default(); 1 << log];
        let mut at = 0;
        for weight in 1..=log as u8 + 1 {
            for (symbol, _) in weights.iter().enumerate().filter(|(_, own)| **own == weight) {
                let end = at + (1_usize << (weight - 1));
                let bits = log as u8 + 1 - weight;
                entries.get_mut(at..end)?.fill(HuffmanEntry { symbol: u8::try_from(symbol).ok()?, bits });
                at = end;
            }
        }
        Some(Self { log, entries })
    }

    /// Appends `count` symbols of a stream.
    pub(super) fn decode(&self, bytes: &[u8], count: usize, to: &mut Vec<u8>) -> Option<()> {
        let mut stream = Backward::new(bytes)?;
        let mask = self.entries.len() - 1;
        let mut state = stream.take(self.log) as usize;
        for _ in 0..count {
            let entry = self.entries[state];
            to.push(entry.symbol);
            state = (state << entry.bits | stream.take(entry.bits.into()) as usize) & mask;
        }
        // The last state was read ahead. A damaged stream often ends elsewhere.
        stream.is_used_up(self.log).then_some(())
    }
}

/// Reads weights that two states of one table take turns to write.
fn read_weights(bytes: &[u8]) -> Option<Vec<u8>> {
    let fse::FseDescription { table, bytes: length } = fse::FseTable::read(bytes, 16, WEIGHT_LOG)?;
    let mut stream = Backward::new(bytes.get(length..)?)?;
    let mut current = table.start(&mut stream);
    let mut other = table.start(&mut stream);
    let mut weights = Vec::new();
    while weights.len() < 255 {
        weights.push(table.symbol(current));
        let next = table.next(current, &mut stream);
        if stream.is_overdrawn() {
            weights.push(table.symbol(other));
            return Some(weights);
        }
        current = core::mem::replace(&mut other, next);
    }
    None
}

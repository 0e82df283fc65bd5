//! Sequences: how many literals to append, and what to repeat after them.

use alloc::vec::Vec;

use super::LARGEST_BLOCK;
use super::bits::Backward;
use super::fse::FseTable;
use super::reader::BitReader;

const LITERAL_SHARES: [i16; 36] =
    [4, 3, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2, 2, 3, 2, 1, 1, 1, 1, 1, -1, -1, -1, -1];
const OFFSET_SHARES: [i16; 29] =
    [1, 1, 1, 1, 1, 1, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, -1, -1, -1, -1, -1];
const MATCH_SHARES: [i16; 53] = [
    1, 4, 3, 2, 2, 2, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
    1, 1, 1, 1, 1, 1, 1, 1, -1, -1, -1, -1, -1, -1, -1,
];

/// Lengths of literals: for each code of at least 16, the base value and the number of extra bits.
const LITERAL_CODES: [(u32, u32); 20] = [
    (16, 1),
    (18, 1),
    (20, 1),
    (22, 1),
    (24, 2),
    (28, 2),
    (32, 3),
    (40, 3),
    (48, 4),
    (64, 6),
    (128, 7),
    (256, 8),
    (512, 9),
    (1024, 10),
    (2048, 11),
    (4096, 12),
    (8192, 13),
    (16_384, 14),
    (32_768, 15),
    (65_536, 16),
];
/// The same for matches, for codes of at least 32.
const MATCH_CODES: [(u32, u32); 21] = [
    (35, 1),
    (37, 1),
    (39, 1),
    (41, 1),
    (43, 2),
    (47, 2),
    (51, 3),
    (59, 3),
    (67, 4),
    (83, 4),
    (99, 5),
    (131, 7),
    (259, 8),
    (515, 9),
    (1027, 10),
    (2051, 11),
    (4099, 12),
    (8195, 13),
    (16_387, 14),
    (32_771, 15),
    (65_539, 16),
];

/// Tables of the three numbers of a sequence, which a block can take over from the one before.
#[derive(Default)]
pub(super) struct SequenceTables {
    literals: Option<FseTable>,
    offsets: Option<FseTable>,
    matches: Option<FseTable>,
}

/// Offsets that were used last.
pub(super) struct Recent([usize; 3]);

impl Default for Recent {
    fn default() -> Self {
        Self([1, 4, 8])
    }
}

impl Recent {
    /// The offset that a number stands for: 1 to 3 are recent ones, moved by one where no literals come before.
    fn resolve(&mut self, number: usize, literals: usize) -> Option<usize> {
        let [first, second, third] = self.0;
        let recent = number + usize::from(literals == 0);
        let offset = match (number, recent) {
            (4.., _) => number - 3,
            (_, 1) => return Some(first),
            (_, 2) => second,
            (_, 3) => third,
            _ => first.checked_sub(1).filter(|&offset| offset > 0)?,
        };
        let keeps_third = number < 4 && recent == 2;
        self.0 = if keeps_third { [offset, first, third] } else { [offset, first, second] };
        Some(offset)
    }
}

/// One kind of numbers: the symbols and states it can have, and its usual shares.
struct NumberKind {
    symbols: usize,
    most_log: u32,
    shares: &'static [i16],
    log: u32,
}

const LITERALS: NumberKind = NumberKind { symbols: 36, most_log: 9, shares: &LITERAL_SHARES, log: 6 };
const OFFSETS: NumberKind = NumberKind { symbols: 32, most_log: 8, shares: &OFFSET_SHARES, log: 5 };
const MATCHES: NumberKind = NumberKind { symbols: 53, most_log: 9, shares: &MATCH_SHARES, log: 6 };

/// Makes the table that a mode asks for: the usual one, that of a single symbol, one that is described here, or the
/// last.
fn choose(mode: u8, kind: &NumberKind, reader: &mut BitReader<'_>, table: &mut Option<FseTable>) -> Option<()> {
    match mode & 3 {
        0 => *table = Some(FseTable::from_shares(kind.shares, kind.log)?),
        1 => {
            let symbol = reader.byte()?;
            *table = (usize::from(symbol) < kind.symbols).then(|| FseTable::single(symbol));
        }
        2 => {
            let description = FseTable::read(reader.rest(), kind.symbols, kind.most_log)?;
            reader.take(description.bytes)?;
            *table = Some(description.table);
        }
        _ => {}
    }
    table.is_some().then_some(())
}

fn read_count(reader: &mut BitReader<'_>) -> Option<usize> {
    let first = usize::from(reader.byte()?);
    Some(match first {
        ..=127 => first,
        128..=254 => (first - 128) * 256 + usize::from(reader.byte()?),
        _ => reader.number(2)? + 0x7F00,
    })
}

/// Length that a code stands for: codes below the first of the table stand for themselves and an addition.
fn length(code: u8, codes: &[(u32, u32)], first: usize, added: usize, stream: &mut Backward<'_>) -> Option<usize> {
    let Some(index) = usize::from(code).checked_sub(first) else { return Some(usize::from(code) + added) };
    let (least, bits) = *codes.get(index)?;
    Some(least as usize + stream.take(bits) as usize)
}

/// Runs the sequences of a block: appends its literals, with repetitions between them.
pub(super) fn run(
    bytes: &[u8],
    literals: &[u8],
    tables: &mut SequenceTables,
    recent: &mut Recent,
    output: &mut Vec<u8>,
) -> Option<()> {
    let mut reader = BitReader::new(bytes);
    let count = read_count(&mut reader)?;
    if count == 0 {
        output.extend_from_slice(literals);
        return Some(());
    }
    let modes = reader.byte()?;
    choose(modes >> 6, &LITERALS, &mut reader, &mut tables.literals)?;
    choose(modes >> 4, &OFFSETS, &mut reader, &mut tables.offsets)?;
    choose(modes >> 2, &MATCHES, &mut reader, &mut tables.matches)?;
    let SequenceTables { literals: Some(of_literals), offsets: Some(of_offsets), matches: Some(of_matches) } = tables
    else {
        return None;
    };
    let mut stream = Backward::new(reader.rest())?;
    let mut literal_state = of_literals.start(&mut stream);
    let mut offset_state = of_offsets.start(&mut stream);
    let mut match_state = of_matches.start(&mut stream);
    let mut unused = literals;
    let most = output.len() + LARGEST_BLOCK;
    for index in 0..count {
        let offset_code = of_offsets.symbol(offset_state);
        let number = (1_usize << offset_code) + stream.take(offset_code.into()) as usize;
        let repeated = length(of_matches.symbol(match_state), &MATCH_CODES, 32, 3, &mut stream)?;
        let appended = length(of_literals.symbol(literal_state), &LITERAL_CODES, 16, 0, &mut stream)?;
        if index + 1 < count {
            literal_state = of_literals.next(literal_state, &mut stream);
            match_state = of_matches.next(match_state, &mut stream);
            offset_state = of_offsets.next(offset_state, &mut stream);
        }
        let (now, later) = unused.split_at_checked(appended)?;
        output.extend_from_slice(now);
        unused = later;
        crate::code::repeat::repeat(output, recent.resolve(number, appended)?, repeated)?;
        // Sequences can take no bits at all: without this, one block gives gigabytes.
        if output.len() > most {
            return None;
        }
    }
    output.extend_from_slice(unused);
    stream.is_used_up(0).then_some(())
}

//! A reader of Zstandard (RFC 8878), in which NVIDIA's compiler packs device code since CUDA 12.8.

mod bits;
mod fse;
mod huffman;
mod reader;
mod sequences;

use alloc::vec::Vec;

use reader::BitReader;
use sequences::{Recent, SequenceTables};

const MAGIC: usize = 0xFD2F_B528;
/// Most bytes that one block gives.
const LARGEST_BLOCK: usize = 1 << 17;

/// Decompresses one frame of at most `size` bytes. `None` if it is invalid.
pub(crate) fn unpack(bytes: &[u8], size: usize) -> Option<Vec<u8>> {
    let mut reader = BitReader::new(bytes);
    read_frame_header(&mut reader)?;
    let mut frame = CarriedState::default();
    let mut output = Vec::new();
    loop {
        let header = reader.number(3)?;
        let length = header >> 3;
        match header >> 1 & 3 {
            0 => output.extend_from_slice(reader.take(length)?),
            1 if length <= LARGEST_BLOCK => output.resize(output.len() + length, reader.byte()?),
            2 => frame.unpack_block(reader.take(length)?, &mut output)?,
            _ => return None,
        }
        if output.len() > size {
            return None;
        }
        if header & 1 == 1 {
            return Some(output);
        }
    }
}

/// Passes the header of a frame: its sizes are known to the caller.
fn read_frame_header(reader: &mut BitReader<'_>) -> Option<()> {
    if reader.number(4)? != MAGIC {
        return None;
    }
    let flags = reader.byte()?;
    let single = flags >> 5 & 1 == 1;
    let of_window = usize::from(!single);
    let of_dictionary = [0, 1, 2, 4][usize::from(flags & 3)];
    let of_content = [usize::from(single), 2, 4, 8][usize::from(flags >> 6)];
    reader.take(of_window + of_dictionary + of_content).map(|_| ())
}

/// State that a block can take over from the one before.
#[derive(Default)]
struct CarriedState {
    huffman: Option<huffman::HuffmanTable>,
    tables: SequenceTables,
    recent: Recent,
}

/// Header of the literals of a block: how they are packed, and in how many bytes and streams.
struct Literals {
    kind: u8,
    size: usize,
    packed: usize,
    streams: usize,
}

impl Literals {
    fn read(reader: &mut BitReader<'_>) -> Option<Self> {
        let first = *reader.rest().first()?;
        let kind = first & 3;
        let format = first >> 2 & 3;
        if kind < 2 {
            let (bytes, shift) = [(1, 3), (2, 4), (1, 3), (3, 4)][usize::from(format)];
            let size = reader.number(bytes)? >> shift;
            return Some(Self { kind, size, packed: if kind == 0 { size } else { 1 }, streams: 1 });
        }
        let (bytes, bits) = [(3, 10), (3, 10), (4, 14), (5, 18)][usize::from(format)];
        let header = reader.number(bytes)? >> 4;
        let mask = (1 << bits) - 1;
        let streams = if format == 0 { 1 } else { 4 };
        Some(Self { kind, size: header & mask, packed: header >> bits & mask, streams })
    }
}

impl CarriedState {
    fn unpack_block(&mut self, block: &[u8], output: &mut Vec<u8>) -> Option<()> {
        let mut reader = BitReader::new(block);
        let header = Literals::read(&mut reader)?;
        let packed = reader.take(header.packed)?;
        let literals = match header.kind {
            0 => packed.to_vec(),
            1 if header.size <= LARGEST_BLOCK => alloc::vec![*packed.first()?; header.size],
            2 | 3 => self.unpack_literals(&header, packed)?,
            _ => return None,
        };
        sequences::run(reader.rest(), &literals, &mut self.tables, &mut self.recent, output)
    }

    /// Unpacks literals in Huffman's code: with a table of their own (kind 2) or the last (kind 3).
    fn unpack_literals(&mut self, header: &Literals, mut packed: &[u8]) -> Option<Vec<u8>> {
        if header.kind == 2 {
            let description = huffman::HuffmanTable::read(packed)?;
            packed = packed.get(description.bytes..)?;
            self.huffman = Some(description.table);
        }
        let table = self.huffman.as_ref()?;
        let mut literals = Vec::new();
        if header.streams == 1 {
            table.decode(packed, header.size, &mut literals)?;
            return Some(literals);
        }
        let mut reader = BitReader::new(packed);
        let lengths = [reader.number(2)?, reader.number(2)?, reader.number(2)?];
        let of_each = header.size.div_ceil(4);
        for length in lengths {
            table.decode(reader.take(length)?, of_each, &mut literals)?;
        }
        table.decode(reader.rest(), header.size.checked_sub(3 * of_each)?, &mut literals)?;
        Some(literals)
    }
}

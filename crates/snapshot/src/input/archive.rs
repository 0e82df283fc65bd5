//! The archives of `torch.save`, read as a stream: also those that come through a pipe.
//!
//! PyTorch writes the sizes and the checksum of a member behind its bytes (flag bit 3) and in the central directory at
//! the end of the file, and leaves them zero in the header in front. So the end of such a member is found from its
//! bytes.

use std::io::{self, BufRead, Read};
use std::ops::Range;

use crc32fast::Hasher;
use flate2::bufread::DeflateDecoder;

use super::bad;

/// Signature of the header in front of a member.
const LOCAL_HEADER: u32 = u32::from_le_bytes(*b"PK\x03\x04");
/// Signature of the checksum and sizes behind a member.
const DESCRIPTOR: [u8; 4] = *b"PK\x07\x08";
/// Bytes of a descriptor with sizes of 64 bits; with sizes of 32 bits it has 8 fewer.
const LONGEST_DESCRIPTOR: usize = 24;
/// Flag bit 0: the member is encrypted.
const ENCRYPTED: u16 = 1;
/// Flag bit 3: checksum and sizes stand behind the member.
const SIZES_BEHIND: u16 = 1 << 3;
/// The size of a member in a header that has sizes of 64 bits elsewhere.
const SIZE_ELSEWHERE: u32 = u32::MAX;
/// Identifier of the extra field with sizes of 64 bits.
const ZIP64_FIELD: u16 = 1;

/// Hands the member `data.pkl` to `read`, and reads the archive to its end.
///
/// # Errors
/// Errors of `read`; and if the archive is damaged or has no such member.
pub(super) fn read_pickle<T, E: From<io::Error>>(
    input: &mut dyn Read,
    read: &mut dyn FnMut(&mut dyn Read) -> Result<T, E>,
) -> Result<T, E> {
    let mut input = Window::new(input);
    while let Some(header) = Header::read(&mut input)? {
        let mut member = Member::new(&header, &mut input)?;
        if !header.is_pickle() {
            io::copy(&mut member, &mut io::sink())?;
            member.finish()?;
            continue;
        }
        let result = read(&mut member)?;
        // A pickle ends itself; whatever follows it still counts for the checksum.
        io::copy(&mut member, &mut io::sink())?;
        member.finish()?;
        io::copy(&mut input, &mut io::sink())?;
        return Ok(result);
    }
    Err(bad("the ZIP archive holds no data.pkl; expected what torch.save() writes, or a pickle from \
         torch.cuda.memory._dump_snapshot()")
    .into())
}

fn damaged(problem: &str) -> io::Error {
    bad(&format!("the ZIP archive is damaged: {problem}"))
}

/// Fills `buffer`, or says that the archive is cut off.
fn read_exact(input: &mut impl Read, buffer: &mut [u8]) -> io::Result<()> {
    input.read_exact(buffer).map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => bad("the ZIP data ends too early"),
        _ => error,
    })
}

/// The header in front of a member.
struct Header {
    flags: u16,
    method: u16,
    checksum: u32,
    packed_size: u64,
    size: u64,
    name: Vec<u8>,
}

impl Header {
    /// The next header; `None` where the central directory begins.
    fn read(input: &mut impl Read) -> io::Result<Option<Self>> {
        let mut signature = [0; 4];
        read_exact(input, &mut signature)?;
        if u32::from_le_bytes(signature) != LOCAL_HEADER {
            // The central directory, or the end record of an archive without members.
            let is_directory = matches!(&signature, b"PK\x01\x02" | b"PK\x05\x06" | b"PK\x06\x06" | b"PK\x06\x08");
            return if is_directory { Ok(None) } else { Err(damaged("no member begins where the one before it ends")) };
        }
        let mut fixed = [0; 26];
        read_exact(input, &mut fixed)?;
        let mut name = vec![0; usize::from(short(&fixed, 22))];
        read_exact(input, &mut name)?;
        let mut extra = vec![0; usize::from(short(&fixed, 24))];
        read_exact(input, &mut extra)?;
        let sizes = [long(&fixed, 18), long(&fixed, 14)];
        let [size, packed_size] = sizes_of_64_bits(sizes, &extra)?;
        Ok(Some(Self {
            flags: short(&fixed, 2),
            method: short(&fixed, 4),
            checksum: long(&fixed, 10),
            packed_size,
            size,
            name,
        }))
    }

    /// True if this is the member that `torch.save` puts the object in. Its folder is called after the file.
    fn is_pickle(&self) -> bool {
        self.name == b"data.pkl" || self.name.ends_with(b"/data.pkl")
    }
}

fn short(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn long(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn double(bytes: &[u8], at: usize) -> u64 {
    u64::from(long(bytes, at)) | u64::from(long(bytes, at + 4)) << 32
}

/// The unpacked and the packed size of a member, which stand in `extra` where they need more than 32 bits.
fn sizes_of_64_bits(sizes: [u32; 2], extra: &[u8]) -> io::Result<[u64; 2]> {
    if !sizes.contains(&SIZE_ELSEWHERE) {
        return Ok(sizes.map(u64::from));
    }
    let mut fields = extra;
    while fields.len() >= 4 {
        let end = 4 + usize::from(short(fields, 2));
        let Some(field) = fields.get(4..end) else { break };
        if short(fields, 0) == ZIP64_FIELD && field.len() >= 16 {
            return Ok([double(field, 0), double(field, 8)]);
        }
        fields = &fields[end..];
    }
    Err(damaged("a member has no sizes"))
}

/// The bytes of a member, unpacked.
enum Member<'a, R> {
    /// Stored, of a known size.
    Sized { bytes: io::Take<&'a mut Window<R>>, sum: Hasher, expected: u32 },
    /// Stored, up to its descriptor.
    Open(OpenMember<'a, R>),
    /// Compressed; the data says where it ends.
    Deflated { bytes: DeflateDecoder<&'a mut Window<R>>, sum: Hasher, expected: Option<u32> },
}

impl<'a, R: Read> Member<'a, R> {
    fn new(header: &Header, input: &'a mut Window<R>) -> io::Result<Self> {
        if header.flags & ENCRYPTED != 0 {
            return Err(bad("the ZIP archive is encrypted; unpack it first"));
        }
        let sizes_behind = header.flags & SIZES_BEHIND != 0;
        match header.method {
            0 if sizes_behind => Ok(Self::Open(OpenMember { input, sum: Hasher::new(), size: 0, ended: false })),
            0 if header.packed_size == header.size => {
                Ok(Self::Sized { bytes: input.take(header.size), sum: Hasher::new(), expected: header.checksum })
            }
            0 => Err(damaged("a member has two sizes")),
            8 => Ok(Self::Deflated {
                bytes: DeflateDecoder::new(input),
                sum: Hasher::new(),
                expected: (!sizes_behind).then_some(header.checksum),
            }),
            method => Err(bad(&format!(
                "the ZIP archive is compressed by method {method}; expected what torch.save() writes (stored) or deflate"
            ))),
        }
    }

    /// Checks what stands behind the member, once all of it is read.
    fn finish(self) -> io::Result<()> {
        match self {
            Self::Open(_) => Ok(()),
            Self::Sized { bytes, .. } if bytes.limit() > 0 => Err(bad("the ZIP data ends too early")),
            Self::Sized { sum, expected, .. } | Self::Deflated { sum, expected: Some(expected), .. } => {
                if sum.finalize() == expected { Ok(()) } else { Err(wrong_checksum()) }
            }
            Self::Deflated { bytes, sum, expected: None } => {
                let sizes = [bytes.total_out(), bytes.total_in()];
                skip_descriptor(bytes.into_inner(), sum.finalize(), sizes)
            }
        }
    }
}

fn wrong_checksum() -> io::Error {
    damaged("the checksum of a member is another one")
}

impl<R: Read> Read for Member<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Open(member) => member.read(buffer),
            Self::Sized { bytes, sum, .. } => {
                let read = bytes.read(buffer)?;
                sum.update(&buffer[..read]);
                Ok(read)
            }
            Self::Deflated { bytes, sum, .. } => {
                let read = bytes.read(buffer).map_err(|error| match error.kind() {
                    io::ErrorKind::UnexpectedEof => bad("the ZIP data ends too early"),
                    _ => damaged(&error.to_string()),
                })?;
                sum.update(&buffer[..read]);
                Ok(read)
            }
        }
    }
}

/// Reads the descriptor behind a deflated member, with its signature or without, with sizes of 32 bits or of 64.
fn skip_descriptor(input: &mut impl Read, sum: u32, sizes: [u64; 2]) -> io::Result<()> {
    let mut first = [0; 4];
    read_exact(input, &mut first)?;
    if first == DESCRIPTOR {
        read_exact(input, &mut first)?;
    }
    if u32::from_le_bytes(first) != sum {
        return Err(wrong_checksum());
    }
    let [size, packed_size] = sizes;
    let mut stated = [0; 8];
    read_exact(input, &mut stated)?;
    if [long(&stated, 0), long(&stated, 4)].map(u64::from) == [packed_size, size] {
        return Ok(());
    }
    let mut rest = [0; 8];
    read_exact(input, &mut rest)?;
    if [double(&stated, 0), double(&rest, 0)] == [packed_size, size] {
        Ok(())
    } else {
        Err(damaged("a member has two sizes"))
    }
}

/// The bytes of a stored member whose size stands behind it. It ends at the first descriptor that has its checksum and
/// its size.
struct OpenMember<'a, R> {
    input: &'a mut Window<R>,
    sum: Hasher,
    size: u64,
    ended: bool,
}

impl<R: Read> OpenMember<'_, R> {
    /// The length of the descriptor at the start of `ahead`, if it is the one of this member.
    fn descriptor(&self, ahead: &[u8]) -> Option<usize> {
        let sum = self.sum.clone().finalize();
        if ahead.len() < 16 || long(ahead, 4) != sum {
            return None;
        }
        if [8, 12].iter().all(|&at| u64::from(long(ahead, at)) == self.size) {
            return Some(16);
        }
        let has_long_sizes =
            ahead.len() >= LONGEST_DESCRIPTOR && [8, 16].iter().all(|&at| double(ahead, at) == self.size);
        has_long_sizes.then_some(LONGEST_DESCRIPTOR)
    }
}

impl<R: Read> Read for OpenMember<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.ended || buffer.is_empty() {
            return Ok(0);
        }
        let mut ahead = self.input.peek(LONGEST_DESCRIPTOR)?;
        if ahead.len() < DESCRIPTOR.len() {
            return Err(bad("the ZIP data ends too early"));
        }
        // No further than is handed out.
        ahead = &ahead[..ahead.len().min(buffer.len() + DESCRIPTOR.len())];
        let until_signature = ahead.windows(DESCRIPTOR.len()).position(|bytes| bytes == DESCRIPTOR);
        // The last bytes may be the start of a signature.
        let certain = until_signature.unwrap_or(ahead.len() - (DESCRIPTOR.len() - 1));
        let count = match certain {
            0 => {
                let ahead = self.input.peek(LONGEST_DESCRIPTOR)?.to_vec();
                if let Some(length) = self.descriptor(&ahead) {
                    self.input.consume(length);
                    self.ended = true;
                    return Ok(0);
                }
                1
            }
            certain => certain.min(buffer.len()),
        };
        buffer[..count].copy_from_slice(&self.input.peek(count)?[..count]);
        self.input.consume(count);
        self.sum.update(&buffer[..count]);
        self.size += count as u64;
        Ok(count)
    }
}

/// A buffered stream that shows as many bytes ahead as are asked for.
struct Window<R> {
    input: R,
    buffer: Vec<u8>,
    /// The bytes of `buffer` that are still ahead.
    ahead: Range<usize>,
}

/// Bytes that are read at once.
const WINDOW: usize = 64 << 10;

impl<R: Read> Window<R> {
    fn new(input: R) -> Self {
        Self { input, buffer: vec![0; WINDOW], ahead: 0..0 }
    }

    /// The bytes ahead: at least `count` of them, and fewer only where the input ends. `count` is far below [`WINDOW`].
    fn peek(&mut self, count: usize) -> io::Result<&[u8]> {
        while self.ahead.len() < count {
            if self.ahead.end == WINDOW {
                self.buffer.copy_within(self.ahead.clone(), 0);
                self.ahead = 0..self.ahead.len();
            }
            match self.input.read(&mut self.buffer[self.ahead.end..]) {
                Ok(0) => break,
                Ok(read) => self.ahead.end += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(&self.buffer[self.ahead.clone()])
    }
}

impl<R: Read> BufRead for Window<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.peek(1)
    }

    fn consume(&mut self, count: usize) {
        self.ahead.start = (self.ahead.start + count).min(self.ahead.end);
    }
}

impl<R: Read> Read for Window<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let ahead = self.fill_buf()?;
        let count = ahead.len().min(buffer.len());
        buffer[..count].copy_from_slice(&ahead[..count]);
        self.consume(count);
        Ok(count)
    }
}

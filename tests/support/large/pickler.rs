//! Writes a pickle of protocol 4 as CPython's pickler does.

use std::collections::HashMap;
use std::io::{self, Write};

/// `FRAME_SIZE_TARGET` in `_pickle.c`.
const FRAME: usize = 64 * 1024;
/// `BATCHSIZE` in `_pickle.c`.
const BATCH: usize = 1000;

pub(super) struct Pickler<W> {
    output: W,
    frame: Vec<u8>,
    memo: u32,
    words: HashMap<&'static str, u32>,
}

/// A list whose items are being written.
pub(super) struct List {
    length: usize,
    written: usize,
}

impl<W: Write> Pickler<W> {
    pub(super) fn new(mut output: W) -> io::Result<Self> {
        output.write_all(b"\x80\x04")?;
        Ok(Self { output, frame: Vec::with_capacity(2 * FRAME), memo: 0, words: HashMap::new() })
    }

    /// STOP.
    pub(super) fn finish(mut self) -> io::Result<()> {
        self.put(b".");
        self.close_frame()?;
        self.output.flush()
    }

    fn put(&mut self, bytes: &[u8]) {
        self.frame.extend_from_slice(bytes);
    }

    fn close_frame(&mut self) -> io::Result<()> {
        self.output.write_all(b"\x95")?;
        self.output.write_all(&(self.frame.len() as u64).to_le_bytes())?;
        self.output.write_all(&self.frame)?;
        self.frame.clear();
        Ok(())
    }

    /// A frame ends only before an object.
    fn object(&mut self) -> io::Result<()> {
        if self.frame.len() >= FRAME { self.close_frame() } else { Ok(()) }
    }

    fn memoize(&mut self) -> io::Result<u32> {
        self.put(b"\x94");
        let entry = self.memo;
        self.memo = entry.checked_add(1).ok_or_else(|| io::Error::other("the pickle has more than 2^32 objects"))?;
        Ok(entry)
    }

    /// BINGET or LONG_BINGET.
    pub(super) fn get(&mut self, entry: u32) -> io::Result<()> {
        self.object()?;
        match u8::try_from(entry) {
            Ok(entry) => self.put(&[b'h', entry]),
            Err(_) => {
                self.put(b"j");
                self.put(&entry.to_le_bytes());
            }
        }
        Ok(())
    }

    /// A string of its own.
    pub(super) fn str(&mut self, text: &str) -> io::Result<u32> {
        self.object()?;
        match u8::try_from(text.len()) {
            Ok(length) => self.put(&[0x8c, length]),
            Err(_) => {
                let length = u32::try_from(text.len()).map_err(io::Error::other)?;
                self.put(b"X");
                self.put(&length.to_le_bytes());
            }
        }
        self.put(text.as_bytes());
        self.memoize()
    }

    /// A string that is one object wherever it occurs.
    pub(super) fn word(&mut self, text: &'static str) -> io::Result<()> {
        match self.words.get(text) {
            Some(&entry) => self.get(entry),
            None => {
                let entry = self.str(text)?;
                self.words.insert(text, entry);
                Ok(())
            }
        }
    }

    /// BININT1, BININT2, BININT or LONG1.
    pub(super) fn int(&mut self, value: i64) -> io::Result<()> {
        self.object()?;
        if let Ok(byte) = u8::try_from(value) {
            self.put(&[b'K', byte]);
        } else if let Ok(word) = u16::try_from(value) {
            self.put(b"M");
            self.put(&word.to_le_bytes());
        } else if let Ok(word) = i32::try_from(value) {
            self.put(b"J");
            self.put(&word.to_le_bytes());
        } else {
            let bytes = value.to_le_bytes();
            // As few bytes as keep the sign.
            let bits = 65 - value.unsigned_abs().leading_zeros();
            let (length, used) = (1_u8..).zip(1..).find(|(_, used)| used * 8 >= bits as usize).unwrap_or((8, 8));
            self.put(&[0x8a, length]);
            self.put(&bytes[..used]);
        }
        Ok(())
    }

    pub(super) fn float(&mut self, value: f64) -> io::Result<()> {
        self.object()?;
        self.put(b"G");
        self.put(&value.to_be_bytes());
        Ok(())
    }

    pub(super) fn bool(&mut self, value: bool) -> io::Result<()> {
        self.object()?;
        self.put(if value { b"\x88" } else { b"\x89" });
        Ok(())
    }

    /// Makes a tuple of the latest two values, which are no containers.
    pub(super) fn tuple2(&mut self) -> io::Result<()> {
        self.put(b"\x86");
        self.memoize().map(drop)
    }

    /// A dictionary of more than one entry: its MARK, its entries and [`Pickler::set_items`] follow.
    pub(super) fn dict(&mut self) -> io::Result<u32> {
        self.object()?;
        self.put(b"}");
        let entry = self.memoize()?;
        self.put(b"(");
        Ok(entry)
    }

    pub(super) fn set_items(&mut self) {
        self.put(b"u");
    }

    /// A key and a number.
    pub(super) fn entry(&mut self, key: &'static str, value: u64) -> io::Result<()> {
        self.word(key)?;
        self.int(i64::try_from(value).map_err(io::Error::other)?)
    }

    /// A list: this many items follow, each between [`Pickler::item`] and [`Pickler::added`].
    pub(super) fn list(&mut self, length: usize) -> io::Result<(List, u32)> {
        self.object()?;
        self.put(b"]");
        Ok((List { length, written: 0 }, self.memoize()?))
    }

    pub(super) fn item(&mut self, list: &List) {
        if list.length > 1 && list.written.is_multiple_of(BATCH) {
            self.put(b"(");
        }
    }

    pub(super) fn added(&mut self, list: &mut List) {
        list.written += 1;
        if list.length == 1 {
            self.put(b"a");
        } else if list.written.is_multiple_of(BATCH) || list.written == list.length {
            self.put(b"e");
        }
    }
}

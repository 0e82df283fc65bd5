//! A stream that gives its bytes a few at a time, as pipes and decoders may.

use std::io::{self, Read};

pub struct Trickle<'d> {
    bytes: &'d [u8],
    turn: usize,
}

impl<'d> Trickle<'d> {
    pub fn new(bytes: &'d [u8]) -> Self {
        Self { bytes, turn: 0 }
    }
}

impl Read for Trickle<'_> {
    /// One to seven bytes.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.turn += 1;
        let most = buffer.len().min(1 + self.turn * 5 % 7);
        self.bytes.read(&mut buffer[..most])
    }
}

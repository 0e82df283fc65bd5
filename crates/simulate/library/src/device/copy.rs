//! Copies and fills, wherever their ends lie.

use super::addresses::is_device;
use super::values::ValueTrust;
use super::{thread, values};
use crate::ledger::{self, CountedFact};
use crate::sys::memory;

/// Copies between host and devices in any direction.
pub(crate) fn copy(to: u64, from: u64, size: u64) {
    if size == 0 {
        return;
    }
    match (is_device(to), is_device(from)) {
        (true, true) => values::copy(to, from, size),
        (true, false) => values::set(to, from, size),
        (false, true) => read(to, from, size),
        (false, false) => memory::copy(to, from, size as usize),
    }
}

/// Most bytes of counts that an operator reads: `nonzero` counts more than 2^31 elements in parts.
const MOST_COUNTED: u64 = 1024;

/// Writes a number of these bytes, or numbers of four bytes that add up to it.
fn answer_with(answer: u64, to: u64, size: u64) {
    if size == 8 {
        return memory::copy(to, answer.to_le_bytes().as_ptr() as u64, 8);
    }
    let mut rest = answer;
    for at in (0..size).step_by(4) {
        let part = rest.min(i32::MAX as u64);
        rest -= part;
        memory::copy(to + at, (part as u32).to_le_bytes().as_ptr() as u64, 4);
    }
}

fn read(to: u64, from: u64, size: u64) {
    let known = values::read(to, from, size);
    if let Some(answer) = thread(|state| state.answer.get())
        && known.unset == size
        && size.is_multiple_of(4)
        && size <= MOST_COUNTED
    {
        answer_with(answer, to, size);
        return; // The hook counts what follows from values that are not known.
    }
    ledger::count(CountedFact::Reads);
    if known.unset > 0 {
        ledger::count(CountedFact::UnsetReads);
    } else if known.dropped > 0 {
        ledger::count(CountedFact::LargeReads);
    } else if known.doubtful > 0 {
        ledger::count(CountedFact::DoubtfulReads);
    }
}

/// Copies rows of `width` bytes that lie apart by a pitch at each end.
pub(crate) fn copy_rows(to: u64, to_pitch: u64, from: u64, from_pitch: u64, width: u64, height: u64) {
    for row in 0..height {
        copy(to + row * to_pitch, from + row * from_pitch, width);
    }
}

/// Fills host or device memory with a word.
pub(crate) fn fill_words(at: u64, word: u32, count: u64) {
    repeat(at, &word.to_le_bytes(), count.saturating_mul(4));
}

/// Fills host or device memory with a byte.
pub(crate) fn fill(at: u64, byte: u8, size: u64) {
    repeat(at, &[byte], size);
}

fn repeat(at: u64, bytes: &[u8], size: u64) {
    if is_device(at) {
        values::repeat(at, bytes, size, ValueTrust::Known);
    } else {
        memory::repeat(at, bytes, 0, size as usize);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::addresses::end_of_device;

    #[test]
    fn words_replace_what_was_there() {
        let device = end_of_device(6);
        let mut host = [0_u32; 6];
        for at in [device, host.as_mut_ptr() as u64] {
            fill(at, 7, 24);
            fill_words(at + 4, 0x0102_0304, 3);
            let mut read = [0_u32; 6];
            copy(read.as_mut_ptr() as u64, at, 24);
            let seven = 0x0707_0707;
            assert_eq!(read, [seven, 0x0102_0304, 0x0102_0304, 0x0102_0304, seven, seven]);
        }
    }
}

//! Copies and fills, wherever their ends lie.

use super::addresses::is_device;
use super::values;
use crate::checks;
use crate::ledger::{self, Fact};
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

fn read(to: u64, from: u64, size: u64) {
    let known = values::read(to, from, size);
    if size == 1 && known.unset == 1 && checks::computed_last() {
        memory::fill(to, 1, 1);
    }
    ledger::count(Fact::Reads);
    if known.unset > 0 {
        ledger::count(Fact::UnsetReads);
    } else if known.dropped > 0 {
        ledger::count(Fact::LargeReads);
    } else if known.doubtful > 0 {
        ledger::count(Fact::DoubtfulReads);
    }
}

/// Copies rows of `width` bytes that lie apart by a pitch at each end.
pub(crate) fn copy_rows(to: u64, to_pitch: u64, from: u64, from_pitch: u64, width: u64, height: u64) {
    for row in 0..height {
        copy(to + row * to_pitch, from + row * from_pitch, width);
    }
}

/// Fills host or device memory with a byte.
pub(crate) fn fill(at: u64, byte: u8, size: u64) {
    if is_device(at) {
        values::fill(at, byte, size);
    } else if size > 0 {
        memory::fill(at, byte, size as usize);
    }
}

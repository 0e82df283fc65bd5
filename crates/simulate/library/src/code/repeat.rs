//! The copies of earlier bytes in compressed data.

use alloc::vec::Vec;

/// Appends bytes that start `distance` before the end, including bytes that this call appends.
pub(in crate::code) fn repeat(output: &mut Vec<u8>, distance: usize, count: usize) -> Option<()> {
    let start = output.len().checked_sub(distance).filter(|_| distance > 0)?;
    let mut left = count;
    while left > 0 {
        // All bytes from the start on repeat with this distance: more of them come with each round.
        let length = left.min(output.len() - start);
        output.extend_from_within(start..start + length);
        left -= length;
    }
    Some(())
}

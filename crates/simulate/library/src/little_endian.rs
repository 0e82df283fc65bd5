//! Numbers as files and arguments have them: the lowest byte first.

/// The number that bytes stand for, at most 8.
pub(crate) fn number(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte))
}

/// The number of some bytes at a place. None beyond the end.
pub(crate) fn number_at<const SIZE: usize>(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..at.checked_add(SIZE)?).map(number)
}

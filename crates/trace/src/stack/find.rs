//! Searches in short texts that mostly do not hold what is searched for.
//!
//! `str::find` prepares for every text that it is called on, which takes longer than to look at the text of a frame;
//! `str::contains` does not.

/// Where `part` begins in `text` for the first time.
pub(super) fn find(text: &str, part: &str) -> Option<usize> {
    if text.contains(part) { text.find(part) } else { None }
}

/// Where `part` begins in `text` for the last time.
pub(super) fn rfind(text: &str, part: &str) -> Option<usize> {
    if text.contains(part) { text.rfind(part) } else { None }
}

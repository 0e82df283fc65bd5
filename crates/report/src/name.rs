//! Names from a recording, as pages show them.

use ptmem_base::text::{cut, printable};

/// The longest name that is shown, in bytes.
const LONGEST: usize = 512;

/// A name without control characters, and cut to a readable length.
pub(super) fn name(text: &str) -> String {
    let text = printable(text);
    let short = cut(&text, LONGEST);
    if short.len() < text.len() { format!("{short}…") } else { text }
}

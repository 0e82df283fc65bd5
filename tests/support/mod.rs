//! Helpers that tests share.

/// A text is the one beside it: `assert_reads!(line => str!["1: FAIL …"])`. There `[..]` stands for anything in a line, a line
/// `...` for any lines, and a slash for a backslash, too.
/// Line ends at its end do not count. `SNAPSHOTS=overwrite cargo test` rewrites the texts. The arrow keeps long ones on their line.
#[allow(unused_macros)]
macro_rules! assert_reads {
    ($actual:expr => $expected:expr) => {
        snapbox::assert_data_eq!(AsRef::<str>::as_ref(&$actual).trim_end(), $expected)
    };
}

pub mod cut;
pub mod edit;
pub mod fixtures;
pub mod history;
pub mod html;
pub mod json_schema;
pub mod made;
pub mod pickle;
pub mod program;
pub mod random;
pub mod readers;
pub mod tool;

/// A saved profile that was edited, with the digest of what it now says.
#[allow(dead_code, unreachable_pub, clippy::unwrap_used, missing_docs)]
pub fn signed(text: &str) -> String {
    use sha1::{Digest, Sha1};
    const DIGEST: &str = "  \"sha1\": \"";
    let body = &text[..text.rfind(DIGEST).unwrap()];
    let digest: String = Sha1::digest(body).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{body}{DIGEST}{digest}\"\n}}\n")
}

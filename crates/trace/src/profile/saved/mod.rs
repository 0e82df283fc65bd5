//! A profile as a file: deterministic text, with a line for each stack, class, move and frame.
//!
//! Part of the contract `ptmem.profile/3`. C++ frames that say nothing about the operation are left out; of all of them a
//! digest is kept, which `--group-by frames` compares.

mod error;
mod format;
mod layout;
mod phases;
mod read;
mod trace;
mod write;

pub use ptmem_snapshot::input::PROFILE_SCHEMA as SCHEMA;
use sha1::{Digest, Sha1};

pub use error::SavedError;
pub(super) use read::read;
pub use write::{bytes_of, text_of};

/// The beginning of the last line but one.
const DIGEST: &str = "  \"sha1\": \"";

/// A digest of the text, whatever its line ends: version control may change those.
fn digest(text: &str) -> String {
    let mut hash = Sha1::new();
    text.split('\r').for_each(|part| hash.update(part));
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

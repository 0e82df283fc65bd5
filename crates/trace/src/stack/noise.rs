//! C++ functions that say nothing about who allocates.

use super::operator::{bare_name, without_namespace};

/// Parts of their names.
const INSIDE: &str = include_str!("names/noise_inside.txt");

/// Beginnings of the names of functions of the interpreter, the C library and the loader.
const BEGINNINGS: &str = include_str!("names/noise_beginnings.txt");

/// Frames that are the same below every allocation, or belong to the interpreter or the loader.
pub(super) fn is_noise(name: &str) -> bool {
    let bare = without_namespace(bare_name(name));
    let unknown = bare.is_empty() || bare == "??" || bare.starts_with('<');
    unknown
        || INSIDE.lines().any(|noise| name.contains(noise))
        || !bare.contains("::") && BEGINNINGS.lines().any(|noise| bare.starts_with(noise))
}

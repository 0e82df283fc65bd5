//! Why figures cannot be read.

use ptmem_base::text::{cut, printable};
use ptmem_base::units::Size;

/// Maximum number of bytes of a table or a log.
pub const MOST_TABLE: usize = 64 << 20;

/// Why figures cannot be read.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum NumbersError {
    /// Something that is not a number of bytes.
    #[error("{place}: expected a number of bytes, found {found}")]
    NotBytes {
        /// The key, or the line and the column.
        place: String,
        /// The value.
        found: String,
    },
    /// Two entries of one name and device.
    #[error("'{0}' occurs twice")]
    Twice(String),
    /// Two entries of one figure.
    #[error("{place} is {found} B, but the same figure is stated as {other} B as well")]
    Differ {
        /// The later one.
        place: String,
        /// Its bytes.
        found: u64,
        /// Those of the earlier one.
        other: u64,
    },
    /// A counter that ends above its peak.
    #[error("{place}the {measure} bytes end at {end} B, above their peak of {peak} B")]
    AbovePeak {
        /// The case and the device, as the beginning of a sentence.
        place: String,
        /// The counter.
        measure: &'static str,
        /// Its last value.
        end: u64,
        /// Its highest.
        peak: u64,
    },
    /// Figures that are not those of a case or a device.
    #[error(
        "{0}: a figure that belongs neither to a case nor to a device; expected either figures, or devices, or cases of these"
    )]
    Misplaced(String),
    /// Figures at several levels.
    #[error("{0}it has {1} beside {2}; expected one kind")]
    Mixed(String, &'static str, &'static str),
    /// More cases or devices than a file can have.
    #[error("it has more than {most} {kind}; divide it into several files")]
    TooMany {
        /// The bound.
        most: usize,
        /// What is counted.
        kind: &'static str,
    },
    /// Several entries, none of them requested.
    #[error("it holds several cases ({0}); name one, as in FILE#CASE")]
    Several(String),
    /// An entry that is not there.
    #[error("there is no case '{asked}' in it; it has {known}")]
    NoCase {
        /// The requested name.
        asked: String,
        /// Those that are there.
        known: String,
    },
    /// A table or a log of more than [`MOST_TABLE`] bytes, of which the rest could state other figures.
    #[error("a text that is not JSON is read as a table or log, of at most {}: give the part with the figures", Size(MOST_TABLE as u64))]
    TooLong,
    /// JSON with a value that cannot be read, such as a number of more than 300 digits.
    #[error("this looks like JSON, but cannot be read: {0}; expected whole numbers of bytes")]
    Json(String),
    /// A table that is not one.
    #[error("the table cannot be read: {0}")]
    Table(String),
}

impl NumbersError {
    /// The error of a case that is not there.
    pub(in crate::profile) fn no_case(asked: &str, known: impl Into<String>) -> Self {
        Self::NoCase { asked: printable(cut(asked, 64)), known: known.into() }
    }
}

//! Documents of JSON by their schema.

use std::fmt;

use ptmem_base::text::{cut, printable};
use serde::Deserialize;

/// The schema of saved profiles.
pub const PROFILE_SCHEMA: &str = "ptmem.profile/3";

/// The schema of saved profiles of earlier releases.
const EARLIER_SCHEMA: &str = "ptmem.profile/2";

/// The schema of reports on a snapshot.
pub(super) const REPORT_SCHEMA: &str = "ptmem.profile/1";

/// The content of a JSON text.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum JsonDocument {
    /// A saved profile.
    SavedProfile,
    /// A saved profile of an earlier release, of another form.
    EarlierProfile,
    /// A report on a snapshot.
    SnapshotReport,
    /// Something of another schema, such as another report.
    Other(String),
    /// Something that does not state a schema.
    Unnamed,
}

/// The key that distinguishes documents.
#[derive(Deserialize)]
struct Keys {
    schema: Option<String>,
}

impl JsonDocument {
    /// The content of a text.
    ///
    /// # Errors
    /// If the text is not a JSON object.
    pub fn of(text: &str) -> serde_json::Result<Self> {
        let keys: Keys = serde_json::from_str(text)?;
        Ok(match keys.schema.as_deref() {
            Some(PROFILE_SCHEMA) => Self::SavedProfile,
            Some(EARLIER_SCHEMA) => Self::EarlierProfile,
            Some(REPORT_SCHEMA) => Self::SnapshotReport,
            Some(other) => Self::Other(printable(cut(other, 64))),
            None => Self::Unnamed,
        })
    }
}

impl fmt::Display for JsonDocument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SavedProfile => f.write_str("it is a saved profile"),
            Self::EarlierProfile => f.write_str("it was saved by an older release, in another form"),
            Self::SnapshotReport => f.write_str("it is a report on a snapshot"),
            Self::Other(schema) => write!(f, "its schema is '{schema}', not '{PROFILE_SCHEMA}'"),
            Self::Unnamed => f.write_str("it has no \"schema\" and no figure such as \"allocated_bytes.all.peak\""),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> JsonDocument {
        JsonDocument::of(text).unwrap()
    }

    #[test]
    fn documents_are_told_apart_by_their_keys() {
        assert_eq!(of(r#"{"schema": "ptmem.profile/3", "frames": {}}"#), JsonDocument::SavedProfile);
        assert_eq!(of(r#"{"schema": "ptmem.profile/2", "frames": {}}"#), JsonDocument::EarlierProfile);
        assert_eq!(of(r#"{"schema": "ptmem.profile/1"}"#), JsonDocument::SnapshotReport);
        assert_eq!(of(r#"{"schema": "ptmem.diff/2"}"#), JsonDocument::Other("ptmem.diff/2".to_owned()));
        assert_eq!(of("{}"), JsonDocument::Unnamed);
        assert!(JsonDocument::of("{").is_err());
        assert!(JsonDocument::of("[]").is_err());
    }
}

//! What a reader of a report must know about its input.

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Serialize};

/// How much a diagnostic weighs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Worth knowing; no figure suffers.
    Note,
    /// A figure or a comparison may not mean what it seems to.
    Warning,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Note => "note",
            Self::Warning => "warning",
        })
    }
}

/// Something about an input that its reader must know. The code is stable and kebab-case; the message
/// says what was found and, where there is something to do, what to do next.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Diagnostic {
    /// Stable identifier such as `history-truncated`.
    pub code: Cow<'static, str>,
    /// Weight.
    pub severity: Severity,
    /// Device ordinal, or none where it concerns the file.
    pub device: Option<u32>,
    /// One or two sentences.
    pub message: String,
}

impl Diagnostic {
    /// A diagnostic that weakens no figure.
    pub fn note(code: &'static str, device: impl Into<Option<u32>>, message: impl Into<String>) -> Self {
        Self { code: Cow::Borrowed(code), severity: Severity::Note, device: device.into(), message: message.into() }
    }

    /// A diagnostic about a figure or a comparison that may mislead.
    pub fn warning(code: &'static str, device: impl Into<Option<u32>>, message: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, ..Self::note(code, device, message) }
    }
}

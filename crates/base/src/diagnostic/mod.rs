//! Facts about an input or a comparison that whoever reads the report must know.

mod codes;

use crate::device::DeviceId;

use serde::{Deserialize, Deserializer, Serialize};

pub use codes::Code;
use codes::CodeWeight;

/// Weight of a diagnostic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, strum::Display, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum Severity {
    /// Worth knowing; no figure suffers.
    Note,
    /// A figure or a comparison may not mean what it seems to.
    Warning,
}

crate::named!(Code);

impl Code {
    /// Weight of every diagnostic with this code.
    pub const fn severity(self) -> Severity {
        self.description().weight.severity()
    }

    /// Whether `--strict` makes a verdict inconclusive because of it.
    pub const fn is_distrusted(self) -> bool {
        matches!(self.description().weight, CodeWeight::Distrusted)
    }

    /// Whether a pull request gets a comment because of it although the verdict is a pass.
    pub const fn is_announced(self) -> bool {
        matches!(self.description().weight, CodeWeight::Announced)
    }

    /// The meaning, in one line.
    pub const fn meaning(self) -> &'static str {
        self.description().meaning
    }

    /// Advice on what to do, in one line.
    pub const fn help(self) -> &'static str {
        self.description().help
    }
}

/// A name that this version does not know becomes [`Code::UnknownDiagnostic`]: a saved profile may come from a newer
/// one.
impl<'de> Deserialize<'de> for Code {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        Ok(name.parse().unwrap_or(Self::UnknownDiagnostic))
    }
}

/// A fact about an input that whoever reads the report must know.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Diagnostic {
    /// Kind, with severity, meaning and help.
    pub code: Code,
    /// Device ordinal; `None` if the diagnostic concerns the whole file.
    pub device: Option<DeviceId>,
    /// One or two sentences on what was found here and, where there is something to do, on what to do next.
    pub message: String,
    /// Advice in addition to the message, if a setting would help. A saved profile does not keep it.
    #[serde(skip)]
    pub advice: Option<Advice>,
}

/// Something that the caller can do about a message: which setting to change, as data. How a setting is given (an
/// option, an argument of a function) is for the caller to say, who adds it to the message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Advice {
    /// Compare recordings although one lacks a part of the other: `allow_partial`.
    AllowPartial,
    /// Name the steps by their annotations: `steps`.
    NameSteps,
    /// State which calls of optimizers are steps: `steps`.
    CountCalls,
    /// Compare the highest occurrences of phases instead of those of the same number: `PhaseOptions`.
    CompareHighestPhases,
    /// State the allocator settings of the run: `allocator_settings`.
    StateAllocatorSettings,
}

impl Diagnostic {
    /// A diagnostic about a device, or about the file.
    pub fn new(code: Code, device: impl Into<Option<DeviceId>>, message: impl Into<String>) -> Self {
        Self { code, device: device.into(), message: message.into(), advice: None }
    }

    /// The same with advice.
    #[must_use]
    pub fn with_advice(self, advice: Advice) -> Self {
        Self { advice: Some(advice), ..self }
    }

    /// Weight, which is that of its code.
    pub const fn severity(&self) -> Severity {
        self.code.severity()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_distinct_kebab_case_and_lead_back_to_their_code() {
        for &code in Code::ALL {
            assert_eq!(code.name().parse(), Ok(code));
            assert!(code.name().bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-'), "{code}");
        }
    }

    #[test]
    fn every_code_has_one_line_of_meaning_and_one_of_help() {
        for &code in Code::ALL {
            for line in [code.meaning(), code.help()] {
                assert!(line.ends_with('.') && !line.contains('\n'), "{code}: {line}");
            }
        }
    }

    #[test]
    fn the_page_describes_every_code_in_the_same_words() {
        let page = include_str!("../../../../docs/diagnostics.md").replace("\r\n", "\n");
        let mut rest = &*page;
        for &code in Code::ALL {
            let weight = match code.severity() {
                Severity::Note => "Note",
                Severity::Warning if code.is_distrusted() => "Distrusted",
                Severity::Warning => "Warning",
            };
            let meaning = code.meaning();
            let help = code.help();
            let section = format!("### {code}\n\n*{weight}.* {meaning}\n\n→ {help}\n");
            let start = rest.find(&section);
            let start =
                start.unwrap_or_else(|| panic!("docs/diagnostics.md lacks, in the order of the codes:\n{section}"));
            rest = &rest[start + section.len()..];
        }
        assert_eq!(
            page.matches("\n### ").count(),
            Code::ALL.len(),
            "docs/diagnostics.md describes codes that are gone"
        );
    }
}

//! The codes of diagnostics. `codes.txt` has everything that is said of each: its name and weight, its meaning, and a line
//! of help.
//!
//! A line of help is advice to a user of the command line: it is read on `docs/diagnostics.md` and in HTML reports,
//! beside diagnostics that the command line has made. It may name an option. To say the same without options here and
//! with options there would take a second table, and whoever adds a code would have to keep both.

use serde::Serialize;
use strum::VariantArray;

use super::Severity;

/// The weight of a code. Only a warning can be distrusted.
#[derive(Clone, Copy)]
pub(super) enum CodeWeight {
    Note,
    Warning,
    /// A warning by which `--strict` makes a verdict inconclusive.
    Distrusted,
    /// A warning that reviewers get even where the verdict is a pass.
    Announced,
}

impl CodeWeight {
    pub(super) const fn severity(self) -> Severity {
        match self {
            Self::Note => Severity::Note,
            Self::Warning | Self::Distrusted | Self::Announced => Severity::Warning,
        }
    }
}

/// Everything that is said of a code.
pub(super) struct CodeDescription {
    pub(super) weight: CodeWeight,
    pub(super) meaning: &'static str,
    pub(super) help: &'static str,
}

/// Defines the codes, each by its variant, weight, one line of meaning and one of help.
macro_rules! codes {
    ($($variant:ident $weight:ident $meaning:literal $help:literal;)*) => {
        /// Every kind of diagnostic. Names are stable; `docs/diagnostics.md` lists them.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
        #[derive(strum::Display, strum::EnumString, strum::IntoStaticStr, strum::VariantArray)]
        #[serde(rename_all = "kebab-case")]
        #[strum(serialize_all = "kebab-case")]
        #[non_exhaustive]
        pub enum Code {
            $(#[doc = $meaning] $variant,)*
        }

        impl Code {
            /// All codes, in the order of the documentation.
            pub const ALL: &[Self] = Self::VARIANTS;

            pub(super) const fn description(self) -> CodeDescription {
                match self {
                    $(Self::$variant => {
                        CodeDescription { weight: CodeWeight::$weight, meaning: $meaning, help: $help }
                    })*
                }
            }
        }
    };
}

include!(concat!(env!("OUT_DIR"), "/codes.rs"));

//! What followed in a run from values that are not known.

use super::Fact;

/// Something that a program does by values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Followed {
    /// A tensor has the size that they say.
    Sizes,
    /// A branch is taken.
    Conditions,
    /// A whole number is read, which may be a size, an index or a count.
    Numbers,
}

impl Followed {
    /// All of them, in the order of their numbers in the hook for Python.
    pub const ALL: [Self; 3] = [Self::Sizes, Self::Conditions, Self::Numbers];

    /// The counter of it.
    #[must_use]
    pub fn fact(self) -> Fact {
        match self {
            Self::Sizes => Fact::Sizes,
            Self::Conditions => Fact::Conditions,
            Self::Numbers => Fact::Numbers,
        }
    }

    /// One of them, or several, in words.
    #[must_use]
    pub fn words(self, several: bool) -> &'static str {
        match (self, several) {
            (Self::Sizes, false) => "size",
            (Self::Sizes, true) => "sizes",
            (Self::Conditions, false) => "condition",
            (Self::Conditions, true) => "conditions",
            (Self::Numbers, false) => "whole number",
            (Self::Numbers, true) => "whole numbers",
        }
    }
}

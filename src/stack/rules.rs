//! What the user says about the code: where it lies, whose it is, and what it is for.

use crate::pattern::Pattern;

/// Rules about frames, beside those that are built in.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Rules {
    /// Folders of the user's code. What lies below one is shown relative to it, and is the user's unless it lies in a
    /// `site-packages` below it.
    pub strip_prefix: Vec<String>,
    /// Paths whose Python code is the user's, wherever it is installed.
    pub own: Vec<Pattern>,
    /// Paths whose Python code is not the user's, so that its callers are to blame.
    pub foreign: Vec<Pattern>,
    /// What memory is for; the first that matches a frame of the stack decides, before the built-in categories.
    pub categories: Vec<CategoryRule>,
}

impl Rules {
    /// What of the rules decides which stacks are one group, as text.
    #[must_use]
    pub fn of_groups(&self) -> [Vec<String>; 3] {
        let texts = |patterns: &[Pattern]| patterns.iter().map(|pattern| pattern.as_str().to_owned()).collect();
        [self.strip_prefix.clone(), texts(&self.own), texts(&self.foreign)]
    }
}

/// A category of the user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CategoryRule {
    /// Its name.
    pub name: String,
    /// Of Python frames the function, the path or `function (path)`, of C++ frames the operator, such as `aten::mm`: one
    /// of them has to match.
    pub patterns: Vec<Pattern>,
}

impl CategoryRule {
    pub(super) fn matches(&self, texts: &[&str]) -> bool {
        self.patterns.iter().any(|pattern| texts.iter().any(|text| pattern.matches(text)))
    }
}

//! Rules of the user about the code: where it lies, who owns it, and its purpose.

use ptmem_base::pattern::Pattern;

use super::checkout::Checkout;

/// Rules about frames, beside those that are built in.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Rules {
    /// Folders of user code. Files below one are shown relative to it and are user code, except in a `site-packages`
    /// below it.
    pub strip_prefix: Vec<String>,
    /// Paths whose Python code is the user's, wherever it is installed.
    pub own: Vec<Pattern>,
    /// Paths whose Python code is not the user's, so that its callers are to blame.
    pub foreign: Vec<Pattern>,
    /// Purposes of memory; the first that matches a frame of the stack decides, before the built-in categories.
    pub categories: Vec<CategoryRule>,
    /// Functions, as `file.py:function`, whose decisions memory does not depend on: guessing them on simulated GPUs causes no warning.
    pub known_guesses: Vec<String>,
    /// The checkout that reports speak of.
    pub checkout: Checkout,
}

/// A category of the user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CategoryRule {
    /// Its name.
    pub name: String,
    /// One of them has to match the function, the path or `function (path)` of a Python frame, or the operator of a C++
    /// frame, such as `aten::mm`.
    pub patterns: Vec<Pattern>,
}

impl CategoryRule {
    pub(super) fn matches(&self, texts: &[String]) -> bool {
        self.patterns.iter().any(|pattern| texts.iter().any(|text| pattern.matches(text)))
    }
}

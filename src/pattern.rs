//! Patterns over names: globs, and texts to look for.

use globset::{GlobBuilder, GlobMatcher};

/// A pattern over labels, functions and paths.
#[derive(Debug, Clone)]
pub struct Pattern {
    /// As the user wrote it.
    text: String,
    matcher: GlobMatcher,
}

/// Why a text is no pattern.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{pattern}' is no pattern: {why}")]
pub struct ParsePatternError {
    /// What was written.
    pub pattern: String,
    /// What is wrong with it.
    pub why: String,
}

impl Pattern {
    /// A glob that stands for the whole text.
    ///
    /// # Errors
    /// Where the text is empty, or no glob.
    pub fn glob(text: &str) -> Result<Self, ParsePatternError> {
        Self::new(text, text)
    }

    /// A glob, or a text that may stand anywhere where it has no wildcards.
    ///
    /// # Errors
    /// Where the text is empty, or no glob.
    pub fn search(text: &str) -> Result<Self, ParsePatternError> {
        if text.contains(['*', '?', '[', '{']) {
            return Self::glob(text);
        }
        Self::new(text, &format!("*{text}*"))
    }

    fn new(text: &str, glob: &str) -> Result<Self, ParsePatternError> {
        let bad = |why: String| ParsePatternError { pattern: text.to_owned(), why };
        if text.is_empty() {
            return Err(bad("it is empty".to_owned()));
        }
        let built = GlobBuilder::new(glob).literal_separator(false).build();
        let matcher = built.map_err(|error| bad(error.kind().to_string()))?.compile_matcher();
        Ok(Self { text: text.to_owned(), matcher })
    }

    /// Whether a text matches.
    #[must_use]
    pub fn matches(&self, text: &str) -> bool {
        self.matcher.is_match(text)
    }

    /// As the user wrote it.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text && self.matcher.glob() == other.matcher.glob()
    }
}

impl Eq for Pattern {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs_stand_for_the_whole_and_texts_for_a_part() {
        let glob = Pattern::glob("*attention*").unwrap();
        assert!(glob.matches("self_attention (nn/model.py:7)") && !glob.matches("mlp (a.py:1)"));
        assert!(!Pattern::glob("attention").unwrap().matches("self_attention"));
        let search = Pattern::search("attention").unwrap();
        assert!(search.matches("self_attention (model.py)") && search.as_str() == "attention");
        assert!(!Pattern::search("attn*").unwrap().matches("self_attn"));
        for bad in ["", "[", "{a"] {
            assert!(Pattern::search(bad).is_err(), "{bad}");
        }
    }
}

//! Patterns over names: globs, and plain text to search for.

use globset::{GlobBuilder, GlobMatcher};

use crate::stack::without_more;

/// A pattern over labels, functions and paths.
#[derive(Debug, Clone)]
pub struct Pattern {
    /// As the user wrote it.
    text: String,
    /// The label that it may be, without the number of further lines behind it.
    label: String,
    matcher: GlobMatcher,
}

/// The error of reading a pattern.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid pattern '{pattern}': {why}")]
pub struct ParsePatternError {
    /// The text that was given.
    pub pattern: String,
    /// The reason.
    pub why: String,
}

impl Pattern {
    /// A glob that must match the whole text.
    ///
    /// # Errors
    /// If the text is empty or not a glob.
    pub fn glob(text: &str) -> Result<Self, ParsePatternError> {
        Self::new(text, without_more(text))
    }

    /// A glob that must match the whole text; without wildcards, a text that matches anywhere.
    ///
    /// # Errors
    /// If the text is empty or not a glob.
    pub fn search(text: &str) -> Result<Self, ParsePatternError> {
        if text.contains(['*', '?', '[', '{']) {
            return Self::glob(text);
        }
        Self::new(text, &format!("*{}*", without_more(text)))
    }

    fn new(text: &str, glob: &str) -> Result<Self, ParsePatternError> {
        let bad = |why: String| ParsePatternError { pattern: text.to_owned(), why };
        if text.is_empty() {
            return Err(bad("it is empty".to_owned()));
        }
        let built = GlobBuilder::new(glob).literal_separator(false).build();
        let matcher = built.map_err(|error| bad(error.kind().to_string()))?.compile_matcher();
        Ok(Self { text: text.to_owned(), label: without_more(text).to_owned(), matcher })
    }

    /// Whether a text matches. The text itself does, whatever wildcards it holds: labels are pasted into patterns.
    #[must_use]
    pub fn matches(&self, text: &str) -> bool {
        self.is(text) || self.matcher.is_match(text)
    }

    /// Whether it is a label, character by character, with or without the number of further lines behind it.
    pub(crate) fn is(&self, text: &str) -> bool {
        self.label == text || self.text == text
    }

    /// The pattern that names one text: the text itself, unless it is no glob, or one that matches many other texts.
    #[must_use]
    pub fn literal(text: &str) -> String {
        let matches_others = text.contains(['*', '?', '{']);
        if matches_others || Self::glob(text).is_err() { globset::escape(text) } else { text.to_owned() }
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
    fn globs_match_the_whole_text_and_plain_texts_match_a_part() {
        let glob = Pattern::glob("*attention*").unwrap();
        assert!(glob.matches("self_attention (nn/model.py:7)") && !glob.matches("mlp (a.py:1)"));
        assert!(!Pattern::glob("attention").unwrap().matches("self_attention"));
        let search = Pattern::search("attention").unwrap();
        assert!(search.matches("self_attention (model.py)") && search.as_str() == "attention");
        assert!(!Pattern::search("attn*").unwrap().matches("self_attn"));
        let pasted = Pattern::glob("<module> (train.ipynb cell [12]:3) aten::mm").unwrap();
        assert!(pasted.matches("<module> (train.ipynb cell [12]:3) aten::mm"));
        let pasted = Pattern::glob("forward (model.py:7) aten::mm (+3 more lines)").unwrap();
        assert!(pasted.matches("forward (model.py:7) aten::mm") && !pasted.matches("forward (model.py:8) aten::mm"));
        let search = Pattern::search("forward (model.py:7) (+1 more operator)").unwrap();
        assert!(search.matches("forward (model.py:7)"));
        for bad in ["", "[", "{a"] {
            assert!(Pattern::search(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn the_pattern_of_a_text_matches_it_and_is_plain_where_it_can_be() {
        for (text, pattern) in [
            ("attention (model.py:40)", "attention (model.py:40)"),
            ("step (a.py:1) [3]", "step (a.py:1) [3]"),
            ("at::Tensor::operator[]", "at::Tensor::operator[[][]]"),
            ("layers.*.mlp", "layers.[*].mlp"),
        ] {
            assert_eq!(Pattern::literal(text), pattern);
            assert!(Pattern::glob(pattern).unwrap().matches(text), "{pattern}");
        }
        assert!(!Pattern::glob(&Pattern::literal("layers.*.mlp")).unwrap().matches("layers.0.mlp"));
    }
}

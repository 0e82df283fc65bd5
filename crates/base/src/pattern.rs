//! Patterns over names: globs, and plain text to search for.

use std::sync::OnceLock;

use globset::{Glob, GlobBuilder, GlobMatcher};

use crate::label::without_more;
use crate::text::nearest;

/// A pattern over labels, functions and paths.
#[derive(Debug, Clone)]
pub struct Pattern {
    /// As the user wrote it.
    text: String,
    /// The label that it may be, without the number of further lines behind it.
    label: String,
    /// The texts that it matches, or the reason why it is not a valid glob: a label may contain an unclosed bracket.
    matched: Result<MatchedTexts, String>,
}

/// The texts that a pattern matches. Most patterns are labels, and need no glob.
#[derive(Debug, Clone)]
enum MatchedTexts {
    /// This one.
    Whole(String),
    /// All that contain it.
    Containing(String),
    /// Those of a glob, which is compiled when it is first asked: that takes far longer than to read it.
    Glob(Box<(Glob, OnceLock<GlobMatcher>)>),
}

impl MatchedTexts {
    fn is_match(&self, text: &str) -> bool {
        match self {
            Self::Whole(whole) => whole == text,
            Self::Containing(part) => text.contains(part),
            Self::Glob(of) => of.1.get_or_init(|| of.0.compile_matcher()).is_match(text),
        }
    }
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

/// The way in which a pattern names something, the weakest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Naming {
    /// As a glob.
    Glob,
    /// Character by character, by another name than its label: of a line that it sums, or of the before.
    OtherName,
    /// Character by character, by its label.
    Label,
}

/// A pattern among the names of one device. The closest match counts: a label that is pasted means the row with that
/// label alone, even where other rows sum a line of this name.
#[derive(Debug, Clone, Copy)]
pub struct Selector<'p> {
    /// The pattern.
    pub pattern: &'p Pattern,
    closest: Option<Naming>,
}

impl<'p> Selector<'p> {
    /// Chooses among the readings of a pattern the most literal one that selects something.
    pub fn new(pattern: &'p Pattern, namings: impl Iterator<Item = Option<Naming>>) -> Self {
        Self { pattern, closest: namings.flatten().max() }
    }

    /// True for what the pattern names in the closest way.
    pub fn selects(&self, naming: Option<Naming>) -> bool {
        naming.is_some() && naming == self.closest
    }

    /// True if something has the pattern for its name, character by character.
    pub fn is_literal(&self) -> bool {
        self.closest > Some(Naming::Glob)
    }
}

/// Braces within braces of a glob that is read: each takes a level of the regular expression that it becomes.
const DEEPEST: usize = 8;

/// The longest glob that is read, in bytes.
const LONGEST: usize = 4096;

/// Reads a glob; `is_path` keeps its wildcards to one part of a path.
///
/// # Errors
/// In words, where it is none, or one that nobody would write.
pub fn glob(text: &str, is_path: bool) -> Result<Glob, String> {
    let mut depth = 0_usize;
    for letter in text.chars() {
        match letter {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > DEEPEST {
            return Err(format!("more than {DEEPEST} braces within each other"));
        }
    }
    if text.len() > LONGEST {
        return Err(format!("longer than {LONGEST} bytes"));
    }
    GlobBuilder::new(text).literal_separator(is_path).build().map_err(|error| error.kind().to_string())
}

impl Pattern {
    /// A glob that must match the whole text.
    ///
    /// # Errors
    /// If the text is empty.
    pub fn glob(text: &str) -> Result<Self, ParsePatternError> {
        let label = without_more(text);
        let is_plain = !label.contains(['*', '?', '[', ']', '{', '}', '\\']);
        if is_plain {
            return Self::new(text, Ok(MatchedTexts::Whole(label.to_owned())));
        }
        Self::new(text, glob(label, false).map(|glob| MatchedTexts::Glob(Box::new((glob, OnceLock::new())))))
    }

    /// A glob that must match the whole text; without wildcards, a text that matches anywhere.
    ///
    /// # Errors
    /// If the text is empty.
    pub fn search(text: &str) -> Result<Self, ParsePatternError> {
        if text.contains(['*', '?', '[', '{']) {
            return Self::glob(text);
        }
        Self::new(text, Ok(MatchedTexts::Containing(without_more(text).to_owned())))
    }

    fn new(text: &str, matched: Result<MatchedTexts, String>) -> Result<Self, ParsePatternError> {
        if text.is_empty() {
            return Err(ParsePatternError { pattern: String::new(), why: "it is empty".to_owned() });
        }
        Ok(Self { text: text.to_owned(), label: without_more(text).to_owned(), matched })
    }

    /// The same for frames, paths and phases, which are not labels: a text with wildcards must be a valid glob.
    ///
    /// # Errors
    /// If the text is empty, or no glob.
    pub fn search_code(text: &str) -> Result<Self, ParsePatternError> {
        let pattern = Self::search(text)?;
        match pattern.matched {
            Ok(_) => Ok(pattern),
            Err(why) => Err(ParsePatternError { pattern: pattern.text, why }),
        }
    }

    /// True for a text that matches. The text itself does, whatever wildcards it holds: labels are pasted into
    /// patterns.
    pub fn matches(&self, text: &str) -> bool {
        self.is(text) || self.matched.as_ref().is_ok_and(|matched| matched.is_match(text))
    }

    /// The way in which it names something that has a label and other names.
    pub fn naming<N: AsRef<str>>(&self, label: &str, other_names: impl IntoIterator<Item = N>) -> Option<Naming> {
        if self.is(label) {
            return Some(Naming::Label);
        }
        let mut matches = self.matches(label);
        for name in other_names {
            if self.is(name.as_ref()) {
                return Some(Naming::OtherName);
            }
            matches |= self.matches(name.as_ref());
        }
        matches.then_some(Naming::Glob)
    }

    fn is_search(&self) -> bool {
        matches!(self.matched, Ok(MatchedTexts::Containing(_)))
    }

    /// True for a label that it is, character by character, with or without the number of further lines behind it.
    fn is(&self, text: &str) -> bool {
        self.label == text || self.text == text
    }

    /// The pattern that names one text: the text itself, unless it would match many others where there is no such
    /// label.
    pub fn literal(text: &str) -> String {
        if text.contains(['*', '?', '{']) { globset::escape(text) } else { text.to_owned() }
    }

    /// For people, where it matches nothing: the names that are nearest, and what is wrong with it as a glob.
    pub fn unmatched<'n>(&self, noun: &str, names: impl Iterator<Item = &'n str>) -> String {
        let names: Vec<&str> = names.collect();
        if let Ok(MatchedTexts::Whole(part)) = &self.matched
            && let Some(name) = names.iter().find(|name| name.contains(part))
        {
            return format!("; '*{part}*' would match '{name}'");
        }
        let flaw = self.matched.as_ref().err().map(|why| format!("; the pattern is not a valid glob ({why})"));
        format!("{}{}", flaw.unwrap_or_default(), nearest(&self.text, noun, names.into_iter()))
    }

    /// As the user wrote it.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text && self.is_search() == other.is_search()
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
        assert!(Pattern::search("").is_err());
    }

    #[test]
    fn a_glob_that_nobody_would_write_is_none() {
        let deep = format!("{}a{}", "{".repeat(500), "}".repeat(500));
        for text in [deep, "*?".repeat(100_000), format!("*{}", "[!a]".repeat(4000))] {
            let pattern = Pattern::glob(&text).unwrap();
            assert!(pattern.matches(&text) && !pattern.matches("a"));
            assert!(Pattern::search_code(&text).is_err());
        }
        assert!(Pattern::glob("{{a,b},{c,{d,e}}}*").unwrap().matches("d1"));
        let longest = Pattern::search_code(&"[!a]".repeat(1024)).unwrap();
        assert!(longest.matches(&"b".repeat(1024)));
    }

    #[test]
    fn a_label_with_an_open_bracket_stands_for_itself() {
        for label in ["at::Tensor::operator[", "backward: {fused (model.py:7)", "run (a[.py:7) aten::mm"] {
            let pasted = Pattern::glob(label).unwrap();
            assert!(pasted.matches(label) && !pasted.matches("run (a.py:7) aten::mm"), "{label}");
            assert!(Pattern::search(&format!("{label} (+1 more line)")).unwrap().matches(label), "{label}");
            assert!(pasted.unmatched("stack", std::iter::empty()).contains("not a valid glob (un"), "{label}");
            assert!(Pattern::search_code(label).is_err(), "{label}");
        }
        assert!(Pattern::search_code("run*").is_ok());
    }

    #[test]
    fn a_part_of_a_name_without_wildcards_is_told() {
        let names = ["forward (a.py:1)", "attention (model.py:40)", "self_attention (model.py:9)"];
        let unmatched = |text: &str| Pattern::glob(text).unwrap().unmatched("stack", names.into_iter());
        assert_eq!(unmatched("attention"), "; '*attention*' would match 'attention (model.py:40)'");
        assert!(unmatched("backward").starts_with("; the nearest stacks are 'forward (a.py:1)'"));
        assert!(unmatched("*x*attention").starts_with("; the nearest stacks are "));
    }

    #[test]
    fn the_closest_name_counts() {
        let pattern = Pattern::search("run (a.py:7)").unwrap();
        let namings = [
            pattern.naming("run (a.py:7)", ["run (a.py:8)"]),
            pattern.naming("run (a.py:9)", ["run (a.py:7)"]),
            pattern.naming("run (a.py:7) aten::mm", std::iter::empty::<&str>()),
            pattern.naming("other (a.py:7)", std::iter::empty::<&str>()),
        ];
        assert_eq!(namings, [Some(Naming::Label), Some(Naming::OtherName), Some(Naming::Glob), None]);
        for (from, is_literal) in [(0, true), (1, true), (2, false), (3, false)] {
            let selector = Selector::new(&pattern, namings.into_iter().skip(from));
            assert_eq!(selector.is_literal(), is_literal);
            let selected = namings.map(|naming| selector.selects(naming));
            assert_eq!(selected.iter().position(|selected| *selected), (from < 3).then_some(from));
        }
    }

    #[test]
    fn the_pattern_of_a_text_matches_it_and_is_plain_where_it_can_be() {
        for (text, pattern) in [
            ("attention (model.py:40)", "attention (model.py:40)"),
            ("step (a.py:1) [3]", "step (a.py:1) [3]"),
            ("at::Tensor::operator[]", "at::Tensor::operator[]"),
            ("layers.*.mlp", "layers.[*].mlp"),
        ] {
            assert_eq!(Pattern::literal(text), pattern);
            assert!(Pattern::glob(pattern).unwrap().matches(text), "{pattern}");
        }
        assert!(!Pattern::glob(&Pattern::literal("layers.*.mlp")).unwrap().matches("layers.0.mlp"));
    }
}

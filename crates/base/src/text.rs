//! Small helpers for text that must fit.

use std::collections::HashSet;

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// True for a character that may be printed as it is. Control characters move the cursor or start escape sequences,
/// direction marks and invisible characters make one name look like another, and noncharacters break XML.
pub fn is_printable(c: char) -> bool {
    // Numbers that end in FFFE and FFFF are those of no character.
    !c.is_control() && !is_invisible(c) && u32::from(c) & 0xfffe != 0xfffe
}

/// Characters that format others, or are of no width, or fill a place without a sign; and those that are none.
fn is_invisible(c: char) -> bool {
    matches!(
        c,
        '\u{ad}' | '\u{34f}' | '\u{600}'..='\u{605}' | '\u{61c}' | '\u{6dd}' | '\u{70f}' | '\u{890}' | '\u{891}' | '\u{8e2}'
            | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{2800}' | '\u{3164}' | '\u{fdd0}'..='\u{fdef}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}'
            | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{110bd}' | '\u{110cd}' | '\u{13430}'..='\u{1343f}'
            | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}'
    )
}

/// The most parts of a path that [`ends_of_path`] looks at: a checkout has no deeper folders, but a recorded path has any.
const MOST_PARTS: usize = 32;

/// The ends of a path with `/` between its parts that begin with one of the last parts, the longest first.
pub fn ends_of_path(path: &str) -> impl Iterator<Item = &str> {
    let starts = path.rmatch_indices('/').map(|(at, _)| at + 1).chain([0]).take(MOST_PARTS);
    let starts: Vec<usize> = starts.collect();
    starts.into_iter().rev().map(|at| &path[at..])
}

/// A text as it may be printed: without control characters, which a file name can hold and which would
/// move the cursor or start escape sequences.
pub fn printable(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if !is_printable(c) {
            out.extend(c.escape_default());
        } else if c == '[' && out.ends_with("##") {
            // Anywhere in a line, the log of a GitHub job takes `##[` for the begin of a command.
            out.extend(c.escape_unicode());
        } else {
            out.push(c);
        }
    }
    out
}

/// A printable text in at most `width` columns: shortened in the middle, where names and paths say least.
pub fn shorten(text: &str, width: usize) -> String {
    let text = printable(text);
    if text.width() <= width {
        return text;
    }
    if width == 0 {
        return String::new();
    }
    let room = width - 1;
    // A label ends in file and line: give the end the larger part.
    let head = take_columns(text.chars(), room / 2);
    let tail: Vec<char> = take_columns(text.chars().rev(), room - width_of(&head));
    head.into_iter().chain(['…']).chain(tail.into_iter().rev()).collect()
}

fn take_columns(chars: impl Iterator<Item = char>, columns: usize) -> Vec<char> {
    let mut used = 0;
    chars
        .take_while(|c| {
            used += c.width().unwrap_or(0);
            used <= columns
        })
        .collect()
}

fn width_of(chars: &[char]) -> usize {
    chars.iter().map(|c| c.width().unwrap_or(0)).sum()
}

/// At most `most` bytes of a text, at a border between characters.
pub fn cut(text: &str, most: usize) -> &str {
    let mut end = most.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// `1234567` as `1,234,567`.
pub fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() * 4 / 3);
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(c);
    }
    out
}

/// Letters of an unknown name that are compared with the known ones.
const MOST_LETTERS: usize = 64;

/// `; did you mean 'peak'?` where one of the names is close to what was found.
pub fn did_you_mean<'n>(found: &str, names: impl Iterator<Item = &'n str>) -> String {
    let found: String = found.chars().take(MOST_LETTERS).collect();
    match names.map(|name| (strsim::levenshtein(&found, name), name)).min() {
        Some((1..=2, name)) => format!("; did you mean '{name}'?"),
        _ => String::new(),
    }
}

/// Names that are compared with a pattern that matches none.
const MOST_NAMES: usize = 1_000;

/// `; the nearest stacks are 'a', 'b' and 'c'`: the three names most similar to a pattern, the first of equally similar
/// ones; empty without names.
pub fn nearest<'n>(pattern: &str, noun: &str, names: impl Iterator<Item = &'n str>) -> String {
    let literal: String = pattern.chars().filter(|c| !"*?[]{}".contains(*c)).collect();
    let mut seen = HashSet::new();
    let names = names.filter(|name| !name.is_empty() && seen.insert(*name)).take(MOST_NAMES);
    let mut near: Vec<(usize, &str)> = names.map(|name| (distance_within(&literal, name), name)).collect();
    near.sort_by_key(|(distance, _)| *distance);
    let quoted: Vec<String> = near.iter().take(3).map(|(_, name)| format!("'{name}'")).collect();
    match &quoted[..] {
        [] => String::new(),
        [only] => format!("; the nearest {noun} is {only}"),
        [first @ .., last] => format!("; the nearest {noun}s are {} and {last}", first.join(", ")),
    }
}

/// Levenshtein distance to the part of a text that is nearest.
fn distance_within(part: &str, text: &str) -> usize {
    let text: Vec<char> = text.chars().take(512).collect();
    let mut row = vec![0; text.len() + 1];
    for (i, x) in part.chars().take(MOST_LETTERS).enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, &y) in text.iter().enumerate() {
            let substitute = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = substitute.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row.into_iter().min().unwrap_or(0)
}

/// `1 block`, `2 blocks`.
pub fn count(number: u64, one: &str, many: &str) -> String {
    format!("{} {}", thousands(number), if number == 1 { one } else { many })
}

/// Numbers as `0-3, 7`; of many of them the first.
pub fn numbers(mut all: Vec<u64>) -> String {
    const MOST: usize = 8;
    all.sort_unstable();
    all.dedup();
    let mut ranges: Vec<(u64, u64)> = Vec::new();
    for number in all {
        match ranges.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(number) => *last = number,
            _ => ranges.push((number, number)),
        }
    }
    let left: u64 = ranges.iter().skip(MOST).map(|(first, last)| last - first + 1).sum();
    let shown = ranges.into_iter().take(MOST).map(range).collect::<Vec<_>>().join(", ");
    if left == 0 { shown } else { format!("{shown} and {} more", thousands(left)) }
}

fn range((first, last): (u64, u64)) -> String {
    match last - first {
        0 => first.to_string(),
        1 => format!("{first}, {last}"),
        _ => format!("{first}-{last}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_labels_lose_their_middle() {
        assert_eq!(shorten("forward (model.py:54)", 40), "forward (model.py:54)");
        let short = shorten("some_very_long_function_name (package/module/model.py:54)", 24);
        assert_eq!(short, "some_very_l…model.py:54)");
        assert_eq!(short.width(), 24);
        assert!(shorten("漢字漢字漢字漢字", 7).width() <= 7);
        assert_eq!(shorten("abc", 0), "");
        assert_eq!(shorten("abc", 1), "…");
    }

    #[test]
    fn the_last_ends_of_a_path_are_looked_at() {
        assert_eq!(ends_of_path("/a/b.py").collect::<Vec<_>>(), ["/a/b.py", "a/b.py", "b.py"]);
        let long = "a/".repeat(1000) + "b.py";
        let ends: Vec<&str> = ends_of_path(&long).collect();
        assert_eq!((ends.len(), ends[0].len(), ends[31]), (32, 66, "b.py"));
    }

    #[test]
    fn texts_are_cut_between_characters() {
        assert_eq!(cut("aé", 2), "a");
        assert_eq!(cut("aé", 3), "aé");
        assert_eq!(cut("", 3), "");
    }

    #[test]
    fn the_three_nearest_names_are_told() {
        let names = ["mlp (model.py:9)", "attention (model.py:7)", "attend (net.py:1)", "x", "mlp (model.py:9)"];
        assert_eq!(
            nearest("*atention*", "stack", names.into_iter()),
            "; the nearest stacks are 'attention (model.py:7)', 'attend (net.py:1)' and 'mlp (model.py:9)'"
        );
        assert_eq!(nearest("y", "phase", ["", "x"].into_iter()), "; the nearest phase is 'x'");
        assert_eq!(nearest("y", "phase", std::iter::empty()), "");
    }

    #[test]
    fn nothing_that_moves_the_cursor_is_printed() {
        assert_eq!(printable("a\x1b[31m\nb\u{202e}"), "a\\u{1b}[31m\\nb\\u{202e}");
        assert_eq!(printable("a[0] ##[error]b"), "a[0] ##\\u{5b}error]b");
    }

    #[test]
    fn numbers_are_grouped() {
        assert_eq!(thousands(0), "0");
        assert_eq!(thousands(1_234_567), "1,234,567");
        assert_eq!(count(1, "block", "blocks"), "1 block");
        assert_eq!(numbers(vec![7, 0, 1, 2, 3, 3]), "0-3, 7");
        assert_eq!(numbers(vec![4, 5]), "4, 5");
        assert_eq!(numbers((0..20).map(|n| n * 2).collect()), "0, 2, 4, 6, 8, 10, 12, 14 and 12 more");
    }
}

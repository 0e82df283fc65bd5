//! Lines of a limited width.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Wraps a text that begins at a column; lines after the first are indented. A word longer than a line is a path and
/// continues on the next line. Text in backticks stays on one line if it fits.
pub fn wrap(text: &str, start: usize, indent: usize, width: usize) -> String {
    let room = width.saturating_sub(indent);
    let mut out = String::new();
    let mut column = start;
    for word in words(text, room) {
        let is_first = out.is_empty();
        if !is_first && column + 1 + word.width() > width {
            begin_line(&mut out, indent);
            column = indent;
        } else if !is_first {
            out.push(' ');
            column += 1;
        }
        for (at, part) in parts(word, width.saturating_sub(column), room).into_iter().enumerate() {
            if at > 0 {
                begin_line(&mut out, indent);
                column = indent;
            }
            out.push_str(part);
            column += part.width();
        }
    }
    out
}

/// As much of a text as a line has room for, in whole words, and an ellipsis where that is not all.
pub fn first_line(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let broken = wrap(text, 0, 0, width.saturating_sub(ELLIPSIS.width()));
    format!("{}{ELLIPSIS}", broken.lines().next().unwrap_or_default())
}

/// The lines of a text that may have ANSI styles. In a log of GitHub, `::` at the beginning of a line would start a command:
/// such a line then begins with a quotation mark.
pub fn without_commands(text: &str) -> String {
    let mut lines = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let rest = behind_styles(line);
        lines.push_str(&line[..line.len() - rest.len()]);
        lines.push_str(if rest.starts_with("::") { "'" } else { "" });
        lines.push_str(rest);
    }
    lines
}

/// A line from its first character that is shown.
fn behind_styles(line: &str) -> &str {
    let mut rest = line.trim_start();
    while let Some((_, behind)) = rest.strip_prefix('\u{1b}').and_then(|style| style.split_once('m')) {
        rest = behind.trim_start();
    }
    rest
}

/// Ends a line that is not the whole text.
const ELLIPSIS: &str = " …";

/// The words of a text. Those within backticks are one word, unless no line has room for it, and so is a number with its unit.
fn words(text: &str, room: usize) -> Vec<&str> {
    let mut words = Vec::new();
    let mut rest = text;
    while let Some(end) = quoted_end(rest).or_else(|| rest.find(' ')).map(|end| with_unit(rest, end)) {
        let word = &rest[..end];
        if word.width() <= room {
            words.push(word);
        } else {
            words.extend(word.split(' '));
        }
        let Some(left) = rest.get(end + 1..) else { return words };
        rest = left;
    }
    words.push(rest);
    words
}

/// Units that stay on the line of their number.
const UNITS: [&str; 6] = ["%", "B", "KiB", "MiB", "GiB", "TiB"];

/// The end of a number including its unit; otherwise the given position.
fn with_unit(text: &str, end: usize) -> usize {
    let number = text[..end].ends_with(|c: char| c.is_ascii_digit());
    let next = text.get(end + 1..).and_then(|rest| rest.split(' ').next()).filter(|_| number);
    let unit = next.filter(|next| UNITS.contains(&next.trim_end_matches([',', ';', ')', '.'])));
    unit.map_or(end, |unit| end + 1 + unit.len())
}

/// The end of the words that begin a text, where the first has a backtick that is not closed in it.
fn quoted_end(text: &str) -> Option<usize> {
    let mut is_quoted = false;
    for (at, c) in text.char_indices() {
        match c {
            '`' => is_quoted = !is_quoted,
            ' ' if !is_quoted => return Some(at),
            _ => {}
        }
    }
    (!is_quoted).then_some(text.len())
}

fn begin_line(out: &mut String, indent: usize) {
    out.push('\n');
    out.extend(std::iter::repeat_n(' ', indent));
}

/// A word in parts, where its line has no room for it: each ends behind a slash, or else where the line does. A word without
/// one that the next line has room for begins there.
fn parts(word: &str, first_room: usize, room: usize) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut rest = word;
    let mut here = first_room;
    while room > 0 && rest.width() > here {
        let fits = end_within(rest, here);
        let end = match rest[..fits].rfind('/') {
            Some(slash) => slash + 1,
            None if parts.is_empty() && rest.width() <= room => 0,
            None => fits,
        };
        parts.push(&rest[..end]);
        rest = &rest[end..];
        here = room;
    }
    parts.push(rest);
    parts
}

/// The end of the text that fits into a number of columns, one character at least.
fn end_within(text: &str, columns: usize) -> usize {
    let mut used = 0;
    for (at, c) in text.char_indices() {
        used += c.width().unwrap_or(0);
        if used > columns && at > 0 {
            return at;
        }
    }
    text.len()
}

/// Items in lines of at most `width` columns.
pub fn fill(items: impl Iterator<Item = String>, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for item in items {
        match lines.last_mut() {
            Some(line) if line.width() + 2 + item.width() <= width => {
                line.push_str(", ");
                line.push_str(&item);
            }
            _ => lines.push(item),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_line_begins_a_command_of_a_log() {
        let wrapped = wrap("forward ::error::x", 0, 2, 12);
        assert_eq!(without_commands(&wrapped), "forward\n  '::error::x");
        assert_eq!(without_commands("\u{1b}[1m ::a\u{1b}[0m\na ::b\n"), "\u{1b}[1m '::a\u{1b}[0m\na ::b\n");
    }

    #[test]
    fn texts_break_at_spaces_only() {
        assert_eq!(wrap("one two three", 0, 2, 7), "one two\n  three");
        assert_eq!(wrap("one two three", 4, 4, 11), "one two\n    three");
        assert_eq!(wrap("one `two three` four", 0, 2, 13), "one\n  `two three`\n  four");
        assert_eq!(wrap("one `two three four` five", 0, 2, 12), "one `two\n  three\n  four` five");
        assert_eq!(wrap("one `two three", 0, 2, 7), "one\n  `two\n  three");
        assert_eq!(wrap("allowed 5 %, or 1.00 MiB (+3 %)", 0, 2, 11), "allowed\n  5 %, or\n  1.00 MiB\n  (+3 %)");
        assert_eq!(wrap("", 0, 2, 7), "");
        assert_eq!(wrap("f (some/long/path.py:7)", 0, 2, 12), "f\n  (some/\n  long/\n  path.py:7)");
        assert_eq!(wrap("f abcdefghij k", 0, 2, 7), "f\n  abcde\n  fghij\n  k");
        assert_eq!(wrap("a text of any length", 0, 2, usize::MAX), "a text of any length");
        assert_eq!(wrap("some/path.py:7", 20, 2, 30), "some/\n  path.py:7");
        assert_eq!(wrap("some.path.py:7", 20, 2, 30), "\n  some.path.py:7");
        let items = ["aa", "bb", "cc"].map(str::to_owned);
        assert_eq!(fill(items.into_iter(), 6), ["aa, bb", "cc"]);
    }

    #[test]
    fn a_line_ends_in_an_ellipsis_where_it_is_not_all() {
        assert_eq!(first_line("one two", 7), "one two");
        assert_eq!(first_line("one two three", 10), "one two …");
        assert_eq!(first_line("abcdefghij", 6), "abcd …");
    }
}

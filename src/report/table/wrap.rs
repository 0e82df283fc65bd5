//! Lines of a limited width.

use unicode_width::UnicodeWidthStr;

/// Breaks a text that begins at a column at spaces, but not within backticks; lines after the first are indented.
pub(super) fn wrap(text: &str, start: usize, indent: usize, width: usize) -> String {
    let mut out = String::new();
    let mut column = start;
    let mut is_quoted = false;
    for word in text.split(' ') {
        if !out.is_empty() && column + 1 + word.width() > width && !is_quoted {
            out.push('\n');
            out.extend(std::iter::repeat_n(' ', indent));
            column = indent;
        } else if !out.is_empty() {
            out.push(' ');
            column += 1;
        }
        out.push_str(word);
        column += word.width();
        is_quoted ^= word.matches('`').count() % 2 == 1;
    }
    out
}

/// Items in lines of at most `width` columns.
pub(super) fn fill(items: impl Iterator<Item = String>, width: usize) -> Vec<String> {
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
    fn texts_break_at_spaces_only() {
        assert_eq!(wrap("one two three", 0, 2, 7), "one two\n  three");
        assert_eq!(wrap("one two three", 4, 4, 11), "one two\n    three");
        assert_eq!(wrap("one `two three` four", 0, 4, 7), "one\n    `two three`\n    four");
        assert_eq!(wrap("", 0, 2, 7), "");
        let items = ["aa", "bb", "cc"].map(str::to_owned);
        assert_eq!(fill(items.into_iter(), 6), ["aa, bb", "cc"]);
    }
}

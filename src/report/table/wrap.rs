//! Lines of a limited width.

use unicode_width::UnicodeWidthStr;

/// Breaks a text at spaces, but not within backticks; lines after the first are indented.
pub(super) fn wrap(text: &str, width: usize, indent: usize) -> String {
    let mut out = String::new();
    let mut column = 0;
    let mut is_quoted = false;
    for word in text.split(' ') {
        if column > 0 && column + 1 + word.width() > width && !is_quoted {
            out.push('\n');
            out.extend(std::iter::repeat_n(' ', indent));
            column = 2;
        } else if column > 0 {
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
        assert_eq!(wrap("one two three", 7, 2), "one two\n  three");
        assert_eq!(wrap("one `two three` four", 7, 4), "one\n    `two three`\n    four");
        assert_eq!(wrap("", 7, 2), "");
        let items = ["aa", "bb", "cc"].map(str::to_owned);
        assert_eq!(fill(items.into_iter(), 6), ["aa, bb", "cc"]);
    }
}

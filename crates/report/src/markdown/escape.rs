//! Names from the input, so that nothing in them is Markdown, HTML, a mention or a link.

use ptmem_base::text::printable;

use crate::view::capitalized;

/// A name as code.
pub(super) fn code(text: &str) -> String {
    let text = printable(text);
    if !text.contains(['`', '|', '\\']) && !text.trim().is_empty() {
        return format!("`{text}`");
    }
    // As entities, these characters end neither a cell of a table nor the code. Text between tags is Markdown
    // like any other: without colons, dots and plain at signs no part of it becomes a link.
    format!("<code>{}</code>", text.chars().map(entity).collect::<String>())
}

fn entity(c: char) -> String {
    match c {
        '@' => "&#64;\u{200b}".to_owned(),
        c if c.is_ascii_punctuation() && !matches!(c, '/' | ',' | '-' | '(' | ')' | '=' | '+') => {
            format!("&#{};", u32::from(c))
        }
        c => c.to_string(),
    }
}

/// Prose that may contain names.
pub(super) fn prose(text: &str) -> String {
    let mut out = String::new();
    for c in printable(text).chars() {
        match c {
            '`' | '*' | '_' | '[' | ']' | '<' | '>' | '|' | '\\' | '~' | '&' | '!' | '$' | '{' | '}' => {
                out.push_str(&format!("&#{};", u32::from(c)));
            }
            // A space without width keeps names of people and numbers of issues from becoming links.
            '@' | '#' => {
                out.push(c);
                out.push('\u{200b}');
            }
            '0'..='9' if ends_with_gh(&out) => {
                out.push('\u{200b}');
                out.push(c);
            }
            c => out.push(c),
        }
    }
    out.replace("://", ":&#47;/").replace("www.", "www&#46;")
}

/// GitHub takes `GH-1` for issue 1.
fn ends_with_gh(text: &str) -> bool {
    text.len().checked_sub(3).and_then(|start| text.get(start..)).is_some_and(|end| end.eq_ignore_ascii_case("gh-"))
}

/// Prose that begins a sentence.
pub(super) fn sentence(text: &str) -> String {
    prose(&capitalized(text))
}

/// A figure that stays on one line with its unit, however narrow the table.
pub(super) fn unbroken(text: &str) -> String {
    text.replace(' ', "\u{a0}")
}

/// Lines as they are, in a block that none of them closes.
pub(super) fn block(language: &str, lines: &[String]) -> String {
    let fence = fence(lines);
    format!("{fence}{language}\n{}\n{fence}\n", lines.join("\n"))
}

fn fence(lines: &[String]) -> String {
    let runs = lines.iter().flat_map(|line| line.split(|c| c != '`').map(str::len));
    "`".repeat(runs.max().unwrap_or(0).max(2) + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_names() {
        assert_eq!(code("forward (a_b.py:7) aten::mm"), "`forward (a_b.py:7) aten::mm`");
        assert_eq!(code("a|b`c\\"), "<code>a&#124;b&#96;c&#92;</code>");
        assert_eq!(code("a\nb"), "<code>a&#92;nb</code>");
        assert_eq!(code("|http://x www.y z@y.z"), "<code>&#124;http&#58;//x www&#46;y z&#64;\u{200b}y&#46;z</code>");
        assert_eq!(
            prose("a *b* <i> @all #1 http://x www.y"),
            "a &#42;b&#42; &#60;i&#62; @\u{200b}all #\u{200b}1 http:&#47;/x www&#46;y"
        );
        assert_eq!(prose("GH-1 of gh-23, GH-x"), "GH-\u{200b}1 of gh-\u{200b}23, GH-x");
        assert_eq!(sentence("no *stack*"), "No &#42;stack&#42;");
        assert_eq!(sentence(""), "");
        assert_eq!(fence(&["a ```` b".to_owned()]), "`````");
        assert_eq!(fence(&[]), "```");
    }
}

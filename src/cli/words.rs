//! Words for a shell, and numbers of things.

/// A path or a name as it is typed in a shell.
pub(crate) fn word(text: &str) -> String {
    if !text.is_empty() && text.chars().all(|c| c.is_alphanumeric() || "/._-+,:=@%".contains(c)) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', "'\\''"))
    }
}

/// A number of things, in words.
pub(crate) fn many(number: usize, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_quoted_where_a_shell_would_split_them() {
        assert_eq!(word("a/b-1.pkl"), "a/b-1.pkl");
        assert_eq!(word("a b's.pkl"), "'a b'\\''s.pkl'");
    }
}

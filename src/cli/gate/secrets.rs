//! Keeps secrets out of reports: recorded code gets the environment of the job, and reports quote the end of its output.

use std::env;

/// Parts of the names of variables that hold secrets.
const NAMES: [&str; 6] = ["TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL", "KEY"];

/// Shorter values would hide words.
const SHORTEST: usize = 8;

/// What takes the place of a secret.
const MASK: &str = "***";

/// The secrets of this process.
#[derive(Clone)]
pub(super) struct Secrets(Vec<String>);

impl Secrets {
    /// The lines of the variables whose names say that they hold one.
    pub(super) fn of_environment() -> Self {
        let named = env::vars_os().filter(|(name, _)| {
            let name = name.to_string_lossy().to_ascii_uppercase();
            NAMES.iter().any(|part| name.contains(part))
        });
        Self::of(named.map(|(_, value)| value.to_string_lossy().into_owned()))
    }

    fn of(values: impl Iterator<Item = String>) -> Self {
        let mut secrets: Vec<String> =
            values.flat_map(|value| value.lines().map(str::to_owned).collect::<Vec<_>>()).collect();
        // A number is a setting, and masking it would break the figures of JSON.
        secrets.retain(|secret| secret.len() >= SHORTEST && !secret.bytes().all(|byte| byte.is_ascii_digit()));
        // The longest first: one may be part of another.
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        secrets.dedup();
        Self(secrets)
    }

    /// A text with a mask in place of each secret, as it is or as a format writes it.
    pub(super) fn mask(&self, text: &str) -> String {
        if self.0.is_empty() {
            return text.to_owned();
        }
        let mut masked = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            if let Some(end) = self.0.iter().find_map(|secret| length_of(secret, rest)) {
                masked.push_str(MASK);
                rest = &rest[end..];
            } else {
                masked.push(first);
                rest = &rest[first.len_utf8()..];
            }
        }
        masked
    }
}

/// The bytes at the beginning of a text that stand for a secret.
fn length_of(secret: &str, text: &str) -> Option<usize> {
    let mut rest = text;
    for c in secret.chars() {
        // Every other form begins with one of these.
        if !rest.starts_with(c) && !rest.starts_with(['&', '%', '\\']) {
            return None;
        }
        let length = forms(c).iter().find_map(|form| rest.starts_with(&**form).then_some(form.len()));
        rest = &rest[length.or_else(|| rest.starts_with(c).then_some(c.len_utf8()))?..];
        // Markdown puts it behind characters that would mean something.
        rest = rest.strip_prefix('\u{200b}').unwrap_or(rest);
    }
    Some(text.len() - rest.len())
}

/// The ways in which Markdown, HTML, JSON and workflow commands write a character that could mean something to them.
fn forms(c: char) -> Vec<String> {
    if c.is_alphanumeric() || !c.is_ascii() {
        return Vec::new();
    }
    let code = u32::from(c);
    let numbers = [format!("&#{code};"), format!("&#x{code:x};"), format!("&#X{code:X};"), format!("%{code:02X}")];
    let escaped = [format!("%{code:02x}"), format!("\\u{code:04x}"), format!("\\u{code:04X}"), format!("\\{c}")];
    let named = match c {
        '&' => Some("&amp;"),
        '<' => Some("&lt;"),
        '>' => Some("&gt;"),
        '"' => Some("&quot;"),
        _ => None,
    };
    numbers.into_iter().chain(escaped).chain(named.map(str::to_owned)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_masked_in_every_form() {
        let values = ["short", "s3cr<t&/+`x`\nsecond line", "350167552"];
        let secrets = Secrets::of(values.map(str::to_owned).into_iter());
        for text in [
            "s3cr<t&/+`x`",
            "s3cr&lt;t&amp;/+&#96;x&#96;",
            "s3cr&#60;\u{200b}t&#x26;/+`x`",
            "s3cr\\u003ct\\u0026/+`x`",
            "s3cr%3Ct%26%2F+`x`",
            "second line",
        ] {
            assert_eq!(secrets.mask(&format!("a {text} b, short")), "a *** b, short", "{text}");
        }
        assert_eq!(secrets.mask("s3cr<t"), "s3cr<t");
        assert_eq!(secrets.mask("{\"peak\": 350167552}"), "{\"peak\": 350167552}");
    }
}

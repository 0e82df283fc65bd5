//! The layout of the file: what is compared line by line has a line per item, the rest is compact.

/// The lists with a line per item.
const LISTS: [&str; 6] = ["devices", "raises", "diagnostics", "stacks", "phases", "moves"];

/// The objects with a line per key; the outermost has no name.
const OBJECTS: [&str; 4] = ["", "devices", "trace", "frames"];

/// A list or an object.
struct Part<'j> {
    /// The key that it stands under, or that its list does.
    key: &'j str,
    /// True if what it holds stands on lines of its own.
    is_open: bool,
}

/// Compact JSON in this layout.
pub(super) fn laid_out(json: &str) -> String {
    let mut out = String::with_capacity(json.len() * 2);
    let mut around: Vec<Part<'_>> = Vec::new();
    let mut key = None;
    let mut last = "";
    let mut rest = json;
    while let Some(token) = token(rest) {
        rest = &rest[token.len()..];
        let is_open = around.last().is_none_or(|part| part.is_open);
        match token {
            "{" | "[" => {
                let known = if token == "[" { &LISTS[..] } else { &OBJECTS };
                let key = key.take().or(around.last().map(|list| list.key)).unwrap_or_default();
                let is_open = is_open && known.contains(&key) && !rest.starts_with(['}', ']']);
                around.push(Part { key, is_open });
                out += token;
                break_line(&mut out, is_open, around.len());
            }
            "}" | "]" => {
                around.pop();
                break_line(&mut out, is_open, around.len());
                key = None;
                out += token;
            }
            "," => {
                key = None;
                out += token;
                break_line(&mut out, is_open, around.len());
            }
            ":" => {
                key = last.strip_prefix('"').and_then(|last| last.strip_suffix('"'));
                out += if is_open { ": " } else { ":" };
            }
            _ => out += token,
        }
        last = token;
    }
    out
}

/// Begins a line in a part that has lines.
fn break_line(out: &mut String, is_open: bool, depth: usize) {
    if is_open {
        *out += "\n";
        *out += &"  ".repeat(depth);
    }
}

/// The sign, the string or the other value that text begins with.
fn token(text: &str) -> Option<&str> {
    let end = match text.as_bytes().first()? {
        b'"' => {
            let mut is_escaped = false;
            let end = text[1..].find(|letter| {
                let is_end = letter == '"' && !is_escaped;
                is_escaped = letter == '\\' && !is_escaped;
                is_end
            });
            end? + 2
        }
        b'{' | b'[' | b'}' | b']' | b',' | b':' => 1,
        _ => text.find([',', '}', ']']).unwrap_or(text.len()),
    };
    Some(&text[..end])
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::laid_out;

    #[test]
    fn items_have_lines_of_their_own() {
        let device =
            json!({ "device": 0, "ooms": [{ "event": 1 }, {}], "phases": [], "stacks": [{ "a": [1, 2] }, {}] });
        let profile = json!({ "at": "peak", "devices": [device], "frames": { "x": ["f", 1], "y": [[]] } });
        let expected = r#"{
  "at": "peak",
  "devices": [
    {
      "device": 0,
      "ooms": [{"event":1},{}],
      "phases": [],
      "stacks": [
        {"a":[1,2]},
        {}
      ]
    }
  ],
  "frames": {
    "x": ["f",1],
    "y": [[]]
  }
}"#;
        assert_eq!(laid_out(&profile.to_string()), expected);
        let empty = json!({ "devices": [], "a": "{\\\"[,:" });
        assert_eq!(laid_out(&empty.to_string()), "{\n  \"a\": \"{\\\\\\\"[,:\",\n  \"devices\": []\n}");
    }
}

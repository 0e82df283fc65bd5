//! The layout of the file: items that are compared line by line have a line each, the rest is compact.

use indexmap::IndexMap;
use serde_json::value::RawValue;

/// The lists with a line per item.
const LISTS: [&str; 8] = ["devices", "raises", "diagnostics", "stacks", "classes", "phases", "frames", "texts"];

/// The objects with a line per key; the outermost has no name.
const OBJECTS: [&str; 3] = ["", "device", "trace"];

/// Compact JSON in this layout.
pub(super) fn laid_out(json: &str) -> String {
    let mut out = String::with_capacity(json.len() * 2);
    lay_out(&mut out, json, "", 1);
    out
}

/// Adds the value of a key, or the items of its list.
fn lay_out(out: &mut String, json: &str, key: &str, depth: usize) {
    let object = OBJECTS.contains(&key).then(|| serde_json::from_str::<IndexMap<String, &RawValue>>(json));
    let list = LISTS.contains(&key).then(|| serde_json::from_str::<Vec<&RawValue>>(json));
    match (object, list) {
        (Some(Ok(object)), _) if !object.is_empty() => {
            let parts = object.iter().map(|(name, part)| (&**name, format!("\"{name}\": "), part.get()));
            add_lines(out, ["{", "}"], parts, depth);
        }
        (_, Some(Ok(list))) if !list.is_empty() => {
            let item = if key == "devices" { "device" } else { "item" };
            let parts = list.iter().map(|part| (item, String::new(), part.get()));
            add_lines(out, ["[", "]"], parts, depth);
        }
        _ => *out += json,
    }
}

/// Adds parts with a line each: the key that each stands under, the text before it, and its JSON.
fn add_lines<'p>(
    out: &mut String,
    [open, close]: [&str; 2],
    parts: impl Iterator<Item = (&'p str, String, &'p str)>,
    depth: usize,
) {
    let mut before = open;
    for (key, name, part) in parts {
        *out += &format!("{before}\n{}{name}", "  ".repeat(depth));
        lay_out(out, part, key, depth + 1);
        before = ",";
    }
    *out += &format!("\n{}{close}", "  ".repeat(depth - 1));
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::laid_out;

    #[test]
    fn items_have_lines_of_their_own() {
        let device =
            json!({ "device": 0, "ooms": [{ "event": 1 }, {}], "phases": [], "stacks": [{ "a": [1, 2] }, {}] });
        let profile = json!({ "at": "peak", "devices": [device], "frames": [["f", 1], [[]]] });
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
  "frames": [
    ["f",1],
    [[]]
  ]
}"#;
        assert_eq!(laid_out(&profile.to_string()), expected);
        let empty = json!({ "devices": [], "a": "{\\\"[,:" });
        assert_eq!(laid_out(&empty.to_string()), "{\n  \"a\": \"{\\\\\\\"[,:\",\n  \"devices\": []\n}");
    }
}

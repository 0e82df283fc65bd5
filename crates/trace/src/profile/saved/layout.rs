//! The layout of the file: what is compared line by line has a line per item, the rest is compact.

use std::io::{self, Write};

use serde_json::ser::Formatter;

/// The lists with a line per item.
const LISTS: [&str; 6] = ["devices", "raises", "diagnostics", "stacks", "phases", "moves"];

/// The objects with a line per key; the outermost has no name.
const OBJECTS: [&str; 4] = ["", "devices", "trace", "frames"];

/// A list or an object.
#[derive(Debug)]
struct Part {
    /// The key that it stands under, or that its list does.
    key: String,
    /// True if what it holds stands on lines of its own.
    is_open: bool,
}

/// Writes JSON in this layout.
#[derive(Debug, Default)]
pub(super) struct Layout {
    /// The parts around the current place, outermost first.
    parts: Vec<Part>,
    /// The key whose value is written, or the key that is being written.
    key: Option<String>,
    is_in_key: bool,
    /// True if the part that just ended, or the current one, holds a value.
    has_value: bool,
}

impl Layout {
    fn is_compact(&self) -> bool {
        self.parts.last().is_some_and(|part| !part.is_open)
    }

    fn begin<W: ?Sized + Write>(&mut self, out: &mut W, bracket: &[u8], open: &[&str]) -> io::Result<()> {
        let of_list = self.parts.last().map(|list| list.key.clone());
        let key = self.key.take().or(of_list).unwrap_or_default();
        self.parts.push(Part { is_open: !self.is_compact() && open.contains(&&*key), key });
        self.has_value = false;
        out.write_all(bracket)
    }

    fn end<W: ?Sized + Write>(&mut self, out: &mut W, bracket: &[u8]) -> io::Result<()> {
        if self.parts.pop().is_some_and(|part| part.is_open) && self.has_value {
            self.break_line(out)?;
        }
        self.has_value = true;
        out.write_all(bracket)
    }

    /// Writes the separator in front of an item of a list or the key of an object.
    fn separate<W: ?Sized + Write>(&mut self, out: &mut W, is_first: bool) -> io::Result<()> {
        self.has_value = true;
        if !is_first {
            out.write_all(b",")?;
        }
        if self.is_compact() { Ok(()) } else { self.break_line(out) }
    }

    fn break_line<W: ?Sized + Write>(&self, out: &mut W) -> io::Result<()> {
        out.write_all(b"\n")?;
        self.parts.iter().try_for_each(|_| out.write_all(b"  "))
    }
}

impl Formatter for Layout {
    fn begin_array<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.begin(out, b"[", &LISTS)
    }

    fn end_array<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.end(out, b"]")
    }

    fn begin_array_value<W: ?Sized + Write>(&mut self, out: &mut W, is_first: bool) -> io::Result<()> {
        self.separate(out, is_first)
    }

    fn begin_object<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.begin(out, b"{", &OBJECTS)
    }

    fn end_object<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.end(out, b"}")
    }

    fn begin_object_key<W: ?Sized + Write>(&mut self, out: &mut W, is_first: bool) -> io::Result<()> {
        self.is_in_key = true;
        self.key = Some(String::new());
        self.separate(out, is_first)
    }

    fn end_object_key<W: ?Sized + Write>(&mut self, _: &mut W) -> io::Result<()> {
        self.is_in_key = false;
        Ok(())
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        out.write_all(if self.is_compact() { b":" } else { b": " })
    }

    fn end_object_value<W: ?Sized + Write>(&mut self, _: &mut W) -> io::Result<()> {
        self.key = None;
        Ok(())
    }

    fn write_string_fragment<W: ?Sized + Write>(&mut self, out: &mut W, fragment: &str) -> io::Result<()> {
        if let Some(key) = self.key.as_mut().filter(|_| self.is_in_key) {
            key.push_str(fragment);
        }
        out.write_all(fragment.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use serde::Serialize;
    use serde_json::{Serializer, Value, json};

    use super::Layout;

    fn laid_out(value: &Value) -> String {
        let mut out = Vec::new();
        value.serialize(&mut Serializer::with_formatter(&mut out, Layout::default())).unwrap();
        String::from_utf8(out).unwrap()
    }

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
        assert_eq!(laid_out(&profile), expected);
        assert_eq!(laid_out(&json!({ "devices": [], "raises": [] })), "{\n  \"devices\": [],\n  \"raises\": []\n}");
    }
}

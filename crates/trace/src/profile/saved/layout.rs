//! The layout of the file: what is compared line by line has a line per item, the rest is compact.

use std::io::{self, Write};

use serde_json::ser::Formatter;

/// The role of an array or object in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    /// The whole.
    Profile,
    Devices,
    Device,
    /// The frames by name.
    Frames,
    /// All that happened.
    Trace,
    /// Any other list with an item per line.
    Items,
    /// All of it on one line.
    Compact,
}

impl Part {
    /// The part that stands in this one, in an object under `key`.
    fn child(self, key: &str) -> Self {
        match (self, key) {
            (Self::Profile, "devices") => Self::Devices,
            (Self::Profile, "frames") => Self::Frames,
            (Self::Profile, "raises" | "diagnostics") => Self::Items,
            (Self::Devices, _) => Self::Device,
            (Self::Device, "trace") => Self::Trace,
            (Self::Trace, "moves") => Self::Items,
            (Self::Device, "stacks" | "phases") => Self::Items,
            _ => Self::Compact,
        }
    }

    /// True if its end has a line of its own although it holds nothing.
    fn is_open_when_empty(self) -> bool {
        matches!(self, Self::Devices | Self::Frames)
    }
}

/// Writes JSON in this layout.
#[derive(Debug, Default)]
pub(super) struct Layout {
    /// The parts around the current place, outermost first.
    parts: Vec<Part>,
    /// The key whose value is written, or the key that is being written.
    key: String,
    is_in_key: bool,
    /// True if the part that just ended, or the current one, holds a value.
    has_value: bool,
}

impl Layout {
    fn is_compact(&self) -> bool {
        self.parts.last() == Some(&Part::Compact)
    }

    fn begin<W: ?Sized + Write>(&mut self, out: &mut W, bracket: &[u8]) -> io::Result<()> {
        let part = self.parts.last().map_or(Part::Profile, |parent| parent.child(&self.key));
        self.parts.push(part);
        self.has_value = false;
        out.write_all(bracket)
    }

    fn end<W: ?Sized + Write>(&mut self, out: &mut W, bracket: &[u8]) -> io::Result<()> {
        let part = self.parts.pop().unwrap_or(Part::Compact);
        if part != Part::Compact && (self.has_value || part.is_open_when_empty()) {
            self.break_line(out)?;
        }
        self.has_value = true;
        out.write_all(bracket)
    }

    /// Writes the separator in front of an item of a list or the key of an object.
    fn separate<W: ?Sized + Write>(&self, out: &mut W, is_first: bool) -> io::Result<()> {
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
        self.begin(out, b"[")
    }

    fn end_array<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.end(out, b"]")
    }

    fn begin_array_value<W: ?Sized + Write>(&mut self, out: &mut W, is_first: bool) -> io::Result<()> {
        self.separate(out, is_first)
    }

    fn end_array_value<W: ?Sized + Write>(&mut self, _: &mut W) -> io::Result<()> {
        self.has_value = true;
        Ok(())
    }

    fn begin_object<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.begin(out, b"{")
    }

    fn end_object<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.end(out, b"}")
    }

    fn begin_object_key<W: ?Sized + Write>(&mut self, out: &mut W, is_first: bool) -> io::Result<()> {
        self.is_in_key = true;
        self.key.clear();
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
        self.has_value = true;
        Ok(())
    }

    fn write_string_fragment<W: ?Sized + Write>(&mut self, out: &mut W, fragment: &str) -> io::Result<()> {
        if self.is_in_key {
            self.key.push_str(fragment);
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
        let profile = json!({ "at": "peak", "devices": [device], "frames": { "x": ["f", 1], "devices": [[]] } });
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
    "devices": [[]],
    "x": ["f",1]
  }
}"#;
        assert_eq!(laid_out(&profile), expected);
        assert_eq!(laid_out(&json!({ "devices": [], "raises": [] })), "{\n  \"devices\": [\n  ],\n  \"raises\": []\n}");
    }
}

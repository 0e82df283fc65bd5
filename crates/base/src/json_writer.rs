//! JSON that is written piece by piece: a report may be many times as large as the file that it is about.

use std::collections::BTreeMap;
use std::io::{self, BufWriter, Write};

use serde::ser::{Serialize, SerializeMap, Serializer};

use crate::text::is_printable;

/// Writes a value in lines, with its nesting indented.
pub fn write(value: &impl Serialize, out: &mut dyn Write) -> io::Result<()> {
    let mut out = BufWriter::new(out);
    serde_json::to_writer_pretty(Printable(&mut out), value)?;
    out.write_all(b"\n")?;
    out.flush()
}

/// A value in one line, without a line break at its end.
pub fn line(value: &impl Serialize) -> io::Result<String> {
    let mut bytes = Vec::new();
    serde_json::to_writer(Printable(&mut bytes), value)?;
    String::from_utf8(bytes).map_err(io::Error::other)
}

/// Escapes the characters of strings that are not printable. Each piece that is written to it is whole characters, as those of
/// serde_json are.
struct Printable<W>(W);

impl<W: Write> Write for Printable<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let text = std::str::from_utf8(bytes).map_err(io::Error::other)?;
        let mut written = 0;
        for (at, c) in text.char_indices().filter(|(_, c)| !is_printable(*c) && *c != '\n') {
            self.0.write_all(&bytes[written..at])?;
            c.encode_utf16(&mut [0; 2]).iter().try_for_each(|unit| write!(self.0, "\\u{unit:04x}"))?;
            written = at + c.len_utf8();
        }
        self.0.write_all(&bytes[written..])?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// A type that is written as an object, field by field.
pub trait Object {
    /// Writes the fields.
    fn fields<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error>;
}

/// A list whose items are made as they are written.
#[derive(Clone)]
pub struct List<I>(I);

/// The list of what an iterator gives.
pub fn list<I: IntoIterator>(items: I) -> List<I::IntoIter> {
    List(items.into_iter())
}

impl<I: Iterator<Item: Serialize> + Clone> Serialize for List<I> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.clone())
    }
}

/// An object of one field.
pub fn one<T>(name: &'static str, value: T) -> BTreeMap<&'static str, T> {
    BTreeMap::from([(name, value)])
}

/// Defines a JSON object: its name, its source, and its fields in order, whose values are computed as they are written.
/// A field `name?` is omitted if its value is `None`; `..object` inserts the fields of another object.
#[macro_export]
#[doc(hidden)]
macro_rules! object {
    ($(#[$about:meta])* $vis:vis $name:ident $(<$life:lifetime>)? ($($part:ident: $kind:ty),* $(,)?) { $($fields:tt)* }) => {
        $(#[$about])*
        #[derive(Clone, Copy)]
        $vis struct $name $(<$life>)? ($($vis $kind),*);

        impl $(<$life>)? $crate::json_writer::Object for $name $(<$life>)? {
            fn fields<M: serde::ser::SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
                let Self($($part),*) = *self;
                $crate::json_writer::object!(@ map, $($fields)*);
                Ok(())
            }
        }

        impl $(<$life>)? serde::Serialize for $name $(<$life>)? {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let mut map = serializer.serialize_map(None)?;
                $crate::json_writer::Object::fields(self, &mut map)?;
                serde::ser::SerializeMap::end(map)
            }
        }
    };
    (@ $map:ident,) => {};
    (@ $map:ident, ..$object:expr, $($rest:tt)*) => {
        $crate::json_writer::Object::fields(&$object, $map)?;
        $crate::json_writer::object!(@ $map, $($rest)*);
    };
    (@ $map:ident, $key:ident?: $value:expr, $($rest:tt)*) => {
        if let Some(value) = &$value {
            $map.serialize_entry(stringify!($key), value)?;
        }
        $crate::json_writer::object!(@ $map, $($rest)*);
    };
    (@ $map:ident, $key:literal: $value:expr, $($rest:tt)*) => {
        $map.serialize_entry($key, &$value)?;
        $crate::json_writer::object!(@ $map, $($rest)*);
    };
    (@ $map:ident, $key:ident, $($rest:tt)*) => { $crate::json_writer::object!(@ $map, $key: $key, $($rest)*); };
    (@ $map:ident, $key:ident: $value:expr, $($rest:tt)*) => {
        $map.serialize_entry(stringify!($key), &$value)?;
        $crate::json_writer::object!(@ $map, $($rest)*);
    };
}
pub use object;

//! Writes pickles of plain data, in protocol 4.
//!
//! The caller says what follows what; a value that occurs again is written once and referred to, as Python does.

use super::opcode;

/// A value that was written and can be referred to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reference(u32);

/// The protocol of Python 3.4 to 3.13, which every reader of snapshots knows.
const PROTOCOL: u8 = 4;

/// Items that Python puts into a container at once. PyTorch's viewer passes them as arguments of one call.
const BATCH: u32 = 1000;

/// Writes one pickle.
#[derive(Debug)]
pub struct Writer {
    bytes: Vec<u8>,
    references: u32,
    /// The containers under construction, the innermost last.
    open: Vec<Container>,
}

/// A container under construction.
#[derive(Debug, Clone, Copy)]
struct Container {
    /// The opcode that adds a batch of items.
    adds: u8,
    items: u32,
}

impl Default for Writer {
    fn default() -> Self {
        Self { bytes: vec![opcode::PROTO, PROTOCOL], references: 0, open: Vec::new() }
    }
}

impl Writer {
    /// Ends the pickle, whose value is the last one written, and returns its bytes.
    #[must_use]
    pub fn finish(mut self) -> Vec<u8> {
        self.bytes.push(opcode::STOP);
        self.bytes
    }

    /// The bytes that take the place of the last one, `STOP`, of a pickle whose value is a dictionary, and add an
    /// entry to it.
    #[must_use]
    pub fn another_entry(key: &str, number: u64) -> Vec<u8> {
        let open = vec![Container { adds: opcode::SETITEMS, items: 0 }];
        let mut writer = Self { bytes: Vec::new(), references: 0, open };
        writer.next();
        writer.str(key);
        writer.int(number);
        writer.end();
        writer.finish()
    }

    /// Begins a list; its items follow, each after [`Writer::next`].
    pub fn begin_list(&mut self) {
        self.begin(opcode::EMPTY_LIST, opcode::APPENDS);
    }

    /// Begins a dictionary; its keys, each after [`Writer::next`] and before its value, follow.
    pub fn begin_dict(&mut self) {
        self.begin(opcode::EMPTY_DICT, opcode::SETITEMS);
    }

    fn begin(&mut self, empty: u8, adds: u8) {
        self.bytes.push(empty);
        self.open.push(Container { adds, items: 0 });
    }

    /// Announces another item of the innermost container.
    pub fn next(&mut self) {
        let Some(container) = self.open.last_mut() else { return };
        if container.items == BATCH {
            self.bytes.push(container.adds);
            container.items = 0;
        }
        if container.items == 0 {
            self.bytes.push(opcode::MARK);
        }
        container.items += 1;
    }

    /// Ends the innermost container.
    pub fn end(&mut self) {
        if let Some(container) = self.open.pop().filter(|container| container.items > 0) {
            self.bytes.push(container.adds);
        }
    }

    /// Makes the value that was written last one that can be referred to. For a container, after its end.
    pub fn remember(&mut self) -> Reference {
        self.bytes.push(opcode::MEMOIZE);
        let reference = Reference(self.references);
        self.references += 1;
        reference
    }

    /// Writes a value that was written before.
    pub fn refer(&mut self, to: Reference) {
        match u8::try_from(to.0) {
            Ok(short) => self.bytes.extend([opcode::BINGET, short]),
            Err(_) => {
                self.bytes.push(opcode::LONG_BINGET);
                self.bytes.extend(to.0.to_le_bytes());
            }
        }
    }

    /// Writes `None`.
    pub fn none(&mut self) {
        self.bytes.push(opcode::NONE);
    }

    /// Writes `True` or `False`.
    pub fn bool(&mut self, value: bool) {
        self.bytes.push(if value { opcode::NEWTRUE } else { opcode::NEWFALSE });
    }

    /// Writes an integer.
    pub fn int(&mut self, value: impl Into<i128>) {
        let value = value.into();
        if let Ok(byte) = u8::try_from(value) {
            self.bytes.extend([opcode::BININT1, byte]);
        } else if let Ok(short) = u16::try_from(value) {
            self.bytes.push(opcode::BININT2);
            self.bytes.extend(short.to_le_bytes());
        } else if let Ok(int) = i32::try_from(value) {
            self.bytes.push(opcode::BININT);
            self.bytes.extend(int.to_le_bytes());
        } else {
            let length = length_of(value);
            self.bytes.extend([opcode::LONG1, length]);
            self.bytes.extend(&value.to_le_bytes()[..usize::from(length)]);
        }
    }

    /// Writes a float.
    pub fn float(&mut self, value: f64) {
        self.bytes.push(opcode::BINFLOAT);
        self.bytes.extend(value.to_be_bytes());
    }

    /// Writes a string.
    pub fn str(&mut self, text: &str) {
        if let Ok(short) = u8::try_from(text.len()) {
            self.bytes.extend([opcode::SHORT_BINUNICODE, short]);
        } else if let Ok(length) = u32::try_from(text.len()) {
            self.bytes.push(opcode::BINUNICODE);
            self.bytes.extend(length.to_le_bytes());
        } else {
            self.bytes.push(opcode::BINUNICODE8);
            self.bytes.extend((text.len() as u64).to_le_bytes());
        }
        self.bytes.extend(text.as_bytes());
    }

    /// Makes the last two values a tuple.
    pub fn pair(&mut self) {
        self.bytes.push(opcode::TUPLE2);
    }
}

/// The fewest bytes that hold an integer with its sign.
fn length_of(value: i128) -> u8 {
    // The bits that are not the sign, and one for the sign.
    let bits = 129 - (value ^ value >> 127).leading_zeros();
    u8::try_from(bits.div_ceil(8)).unwrap_or(16)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_pickle::{DeOptions, HashableValue, Value, value_from_slice};

    use super::*;

    fn key(text: &str) -> HashableValue {
        HashableValue::String(text.to_owned())
    }

    fn read(writer: Writer) -> Value {
        value_from_slice(&writer.finish(), DeOptions::new()).unwrap()
    }

    #[test]
    fn integers_keep_their_value() {
        let all = [0, 255, 256, 65_535, 65_536, 1 << 31, i64::MAX, -1, -128, -129, i64::from(i32::MIN) - 1, i64::MIN];
        for value in all {
            let mut writer = Writer::default();
            writer.int(value);
            assert_eq!(read(writer), Value::I64(value), "{value}");
        }
        let mut writer = Writer::default();
        writer.int(u64::MAX);
        assert_eq!(read(writer), Value::Int(u64::MAX.into()));
    }

    #[test]
    fn containers_hold_what_was_put_in_whatever_its_number() {
        for count in [0, 1, 999, 1000, 1001, 2500] {
            let mut writer = Writer::default();
            writer.begin_dict();
            writer.next();
            writer.str("list");
            writer.begin_list();
            for item in 0..count {
                writer.next();
                writer.int(item);
            }
            writer.end();
            writer.next();
            writer.str("pair");
            writer.float(0.5);
            writer.bool(true);
            writer.pair();
            writer.end();
            let list = Value::List((0..count).map(|item| Value::I64(i64::from(item))).collect());
            let pair = Value::Tuple(vec![Value::F64(0.5), Value::Bool(true)]);
            assert_eq!(read(writer), Value::Dict(BTreeMap::from([(key("list"), list), (key("pair"), pair)])));
        }
    }

    #[test]
    fn an_entry_is_added_at_the_end_of_a_dictionary() {
        let mut writer = Writer::default();
        writer.begin_dict();
        writer.next();
        writer.str("a");
        writer.int(1);
        writer.end();
        let mut bytes = writer.finish();
        bytes.pop();
        bytes.extend(Writer::another_entry("b", 300));
        let all = BTreeMap::from([(key("a"), Value::I64(1)), (key("b"), Value::I64(300))]);
        assert_eq!(value_from_slice(&bytes, DeOptions::new()).unwrap(), Value::Dict(all));
    }

    #[test]
    fn what_is_referred_to_is_the_same_value() {
        let mut writer = Writer::default();
        let texts: Vec<String> = (0..300).map(|number| "é".repeat(number)).collect();
        writer.begin_list();
        let references: Vec<Reference> = texts
            .iter()
            .map(|text| {
                writer.next();
                writer.str(text);
                writer.remember()
            })
            .collect();
        for reference in references {
            writer.next();
            writer.refer(reference);
        }
        writer.end();
        let twice = texts.iter().chain(&texts).map(|text| Value::String(text.clone()));
        assert_eq!(read(writer), Value::List(twice.collect()));
    }
}

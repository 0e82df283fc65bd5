//! Adds an entry to a pickle that was written by others.

use super::opcode;

/// The bytes that take the place of the last one, `STOP`, of a pickle whose value is a dictionary, and add an entry to it. Keys
/// have up to 255 bytes.
#[must_use]
pub fn another_entry(key: &str, number: u8) -> Vec<u8> {
    let length = u8::try_from(key.len()).unwrap_or(u8::MAX);
    let key = &key.as_bytes()[..length.into()];
    [&[opcode::SHORT_BINUNICODE, length], key, &[opcode::BININT1, number, opcode::SETITEM, opcode::STOP]].concat()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_pickle::{DeOptions, HashableValue, SerOptions, Value, value_from_slice, value_to_vec};

    use super::*;

    #[test]
    fn an_entry_is_added_at_the_end_of_a_dictionary() {
        let key = |text: &str| HashableValue::String(text.to_owned());
        for number in [0, 255] {
            let mut entries = BTreeMap::from([(key("a"), Value::I64(1))]);
            let mut bytes = value_to_vec(&Value::Dict(entries.clone()), SerOptions::new()).unwrap();
            bytes.pop();
            bytes.extend(another_entry("b", number));
            entries.insert(key("b"), Value::I64(number.into()));
            assert_eq!(value_from_slice(&bytes, DeOptions::new()).unwrap(), Value::Dict(entries));
        }
    }
}

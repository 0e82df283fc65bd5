//! The keys by which two configurations differ.

use std::collections::{BTreeMap, BTreeSet};

use toml::{Table, Value};

/// The keys whose values differ, each with both values; a text that is not TOML has no keys.
#[must_use]
pub fn changes(before: &str, after: &str) -> Vec<String> {
    let before = values(before);
    let after = values(after);
    let keys: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    let differing = keys.into_iter().filter(|key| before.get(*key) != after.get(*key));
    differing.map(|key| in_words(key, before.get(key), after.get(key))).collect()
}

fn in_words(key: &str, before: Option<&String>, after: Option<&String>) -> String {
    match (before, after) {
        (Some(before), Some(after)) => format!("{key} is {after}, was {before}"),
        (None, Some(after)) => format!("{key} is {after}, was not set"),
        (Some(before), None) => format!("{key} is not set, was {before}"),
        (None, None) => format!("{key} is not set"),
    }
}

/// Every value of a text by its key, as it is written.
fn values(text: &str) -> BTreeMap<String, String> {
    let mut values = BTreeMap::new();
    for (key, value) in text.parse::<Table>().unwrap_or_default() {
        collect(key, &value, &mut values);
    }
    values
}

fn collect(key: String, value: &Value, values: &mut BTreeMap<String, String>) {
    match value {
        Value::Table(table) => table.iter().for_each(|(name, value)| collect(format!("{key}.{name}"), value, values)),
        Value::Array(items) if items.iter().any(Value::is_table) => {
            for (at, item) in items.iter().enumerate() {
                let name = item.get("name").and_then(Value::as_str).map_or_else(|| (at + 1).to_string(), str::to_owned);
                collect(format!("{key}.{name}"), item, values);
            }
        }
        _ => {
            values.insert(key, value.to_string());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_that_differs_is_named_with_both_values() {
        let before = "strict = true\n[max-growth]\npeak = \"5%\"\nend = \"5%\"\n[[suite.a.compare]]\nname = \"x\"\nafter = \"b\"\n";
        let after = "group-by = \"frames\"\nstrict = true\n[max-growth]\npeak = \"9%\"\n[[suite.a.compare]]\nname = \"x\"\nafter = \"c\"\n";
        let expected = [
            "group-by is \"frames\", was not set",
            "max-growth.end is not set, was \"5%\"",
            "max-growth.peak is \"9%\", was \"5%\"",
            "suite.a.compare.x.after is \"c\", was \"b\"",
        ];
        assert_eq!(changes(before, after), expected);
        assert_eq!(changes(before, before), [""; 0]);
    }
}

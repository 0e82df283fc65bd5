//! Patterns of mangled names.

use super::number::Type;

/// The type in a name that begins as a pattern says: `?` stands for the letter of a type, the same each time, and `*`
/// for any text.
pub(super) fn type_in(pattern: &str, name: &str) -> Option<Type> {
    let mut found = None;
    let mut rest = name;
    let mut pattern = pattern;
    loop {
        let literal = pattern.find(['?', '*']).unwrap_or(pattern.len());
        rest = rest.strip_prefix(&pattern[..literal])?;
        let Some(wildcard) = pattern[literal..].chars().next() else { return found };
        pattern = &pattern[literal + 1..];
        if wildcard == '?' {
            let (named, after) = Type::named(rest)?;
            if found.is_some_and(|found| found != named) {
                return None;
            }
            found = Some(named);
            rest = after;
        } else {
            let next = pattern.find(['?', '*']).unwrap_or(pattern.len());
            rest = &rest[rest.find(&pattern[..next])?..];
        }
    }
}

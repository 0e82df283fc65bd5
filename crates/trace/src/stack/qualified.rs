//! Names of functions within their classes, which distinguish one `forward` of a file from another. Snapshots have only
//! the last part of a name; recorders add the others to the facts of the run.

use std::collections::BTreeMap;

/// The functions of a file, by the last part of their names, in the order of their first lines: the first line, the last
/// line, and the whole name.
pub(super) struct FunctionsByName<'r> {
    spans: BTreeMap<&'r str, Vec<&'r (u64, u64, String)>>,
}

/// Functions of one name nest no deeper, and those of classes follow each other: a bound on the time that hostile facts
/// take.
const DEEPEST: usize = 64;

impl<'r> FunctionsByName<'r> {
    pub(super) fn new(all: &'r [(u64, u64, String)]) -> Self {
        let mut spans: BTreeMap<&str, Vec<&(u64, u64, String)>> = BTreeMap::new();
        for span in all {
            spans.entry(last_part(&span.2)).or_default().push(span);
        }
        spans.values_mut().for_each(|spans| spans.sort_by_key(|(first, _, _)| *first));
        Self { spans }
    }

    /// The qualified name of a function, by its own name and one of its lines: the innermost of that name there.
    pub(super) fn name(&self, function: &str, line: i128) -> Option<&'r str> {
        let line = u64::try_from(line).ok()?;
        let spans = self.spans.get(function)?;
        let begun = spans.partition_point(|(first, _, _)| *first <= line);
        let mut around = spans[..begun].iter().rev().take(DEEPEST).filter(|(_, last, _)| *last >= line);
        around.next().map(|(_, _, name)| name.as_str())
    }
}

fn last_part(name: &str) -> &str {
    name.rsplit('.').next().unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_innermost_function_of_that_name_around_the_line_is_meant() {
        let span = |first, last, name: &str| (first, last, name.to_owned());
        let spans = [span(1, 9, "A.forward"), span(3, 5, "A.forward.<locals>.forward"), span(12, 20, "B.forward")];
        let functions = FunctionsByName::new(&spans);
        assert_eq!(functions.name("forward", 4), Some("A.forward.<locals>.forward"));
        assert_eq!(functions.name("forward", 7), Some("A.forward"));
        assert_eq!(functions.name("forward", 12), Some("B.forward"));
        for (function, line) in [("forward", 10), ("backward", 4), ("forward", -1), ("", 4)] {
            assert_eq!(functions.name(function, line), None, "{function}:{line}");
        }
    }
}

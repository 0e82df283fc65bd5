//! The unified diff of two texts, as far as a reviewer reads it.

use ptmem::sides::Sides;
use ptmem_base::text::{cut, printable};
use similar::{Algorithm, DiffOp, capture_diff_slices, group_diff_ops};

/// Lines that are shown of one file.
const MOST_LINES: usize = 40;

/// Bytes that are shown of one line.
const LONGEST: usize = 300;

/// Lines around an edit.
const AROUND: usize = 3;

/// Pairs of lines that are compared: with more, what differs is shown as removed and added as a whole.
const MOST_PAIRS: usize = 1 << 22;

/// A diff.
pub(super) struct DiffLines {
    pub(super) lines: Vec<String>,
    /// Lines that are left out.
    pub(super) more: usize,
}

impl DiffLines {
    /// The diff of two texts; a side may lack the file.
    pub(super) fn between(texts: &Sides<Option<Vec<u8>>>) -> Self {
        let texts = texts.map(|text| String::from_utf8_lossy(text.as_deref().unwrap_or_default()).into_owned());
        let sides = texts.map(|text| lines(text));
        let mut all = Self { lines: Vec::new(), more: 0 };
        for group in group_diff_ops(difference(&sides), AROUND) {
            all.add_group(&group, &sides);
        }
        all
    }

    fn add_group(&mut self, group: &[DiffOp], sides: &Sides<Vec<&str>>) {
        let (Some(first), Some(last)) = (group.first(), group.last()) else { return };
        let old = first.old_range().start..last.old_range().end;
        let new = first.new_range().start..last.new_range().end;
        self.push('@', &format!("@ -{},{} +{},{} @@", old.start + 1, old.len(), new.start + 1, new.len()));
        for op in group {
            match op {
                DiffOp::Equal { .. } => self.extend(' ', &sides.after[op.new_range()]),
                DiffOp::Delete { .. } | DiffOp::Insert { .. } | DiffOp::Replace { .. } => {
                    self.extend('-', &sides.before[op.old_range()]);
                    self.extend('+', &sides.after[op.new_range()]);
                }
            }
        }
    }

    fn extend(&mut self, sign: char, lines: &[&str]) {
        lines.iter().for_each(|line| self.push(sign, line));
    }

    fn push(&mut self, sign: char, line: &str) {
        if self.lines.len() == MOST_LINES {
            self.more += 1;
            return;
        }
        let line = line.strip_suffix('\n').unwrap_or(line);
        let shown = cut(line, LONGEST);
        let rest = if shown.len() < line.len() { "…" } else { "" };
        self.lines.push(format!("{sign}{}{rest}", printable(shown)));
    }
}

/// The lines of a text with their ends, so that a missing one differs.
fn lines(text: &str) -> Vec<&str> {
    text.split_inclusive('\n').collect()
}

/// The operations that make the one of the other.
fn difference(sides: &Sides<Vec<&str>>) -> Vec<DiffOp> {
    let Sides { before, after } = sides;
    let start = before.iter().zip(after).take_while(|(a, b)| a == b).count();
    let end = before[start..].iter().rev().zip(after[start..].iter().rev()).take_while(|(a, b)| a == b).count();
    let old_len = before.len() - start - end;
    let new_len = after.len() - start - end;
    if old_len.saturating_mul(new_len) <= MOST_PAIRS {
        return capture_diff_slices(Algorithm::Myers, before, after);
    }
    let [old_end, new_end] = [before.len() - end, after.len() - end];
    vec![
        DiffOp::Equal { old_index: 0, new_index: 0, len: start },
        DiffOp::Replace { old_index: start, old_len, new_index: start, new_len },
        DiffOp::Equal { old_index: old_end, new_index: new_end, len: end },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn between(before: &str, after: &str) -> DiffLines {
        DiffLines::between(&Sides { before: Some(before.into()), after: Some(after.into()) })
    }

    #[test]
    fn edits_are_shown_with_three_lines_around_and_at_most_forty_in_all() {
        let before: String = (0..20).map(|n| format!("{n}\n")).collect();
        let after = before.replace("9\n10\n", "9\nten\n");
        assert_eq!(
            between(&before, &after).lines,
            ["@@ -8,7 +8,7 @@", " 7", " 8", " 9", "-10", "+ten", " 11", " 12", " 13"]
        );
        let long: String = (0..100).map(|n| format!("line {n}\n")).collect();
        let removed = DiffLines::between(&Sides { before: Some(long.into()), after: None });
        assert_eq!((removed.lines.len(), removed.more), (MOST_LINES, 61));
        // Texts with nothing in common, of which each has more lines than are paired.
        let [old, new] = ["a", "b"].map(|sign| (0..3_000).map(|n| format!("{sign}{n}\n")).collect::<String>());
        assert_eq!(between(&old, &new).more, 6_001 - MOST_LINES);
    }

    #[test]
    fn a_line_can_do_nothing_to_a_terminal_and_is_cut() {
        let shown = between("a", &format!("\u{1b}[2J\u{202e}{}\r\n", "x".repeat(1_000))).lines;
        assert_eq!(shown[1], "-a");
        assert!(
            shown[2].starts_with("+\\u{1b}[2J\\u{202e}xxx") && shown[2].ends_with('…') && shown[2].len() < 400,
            "{shown:?}"
        );
    }
}

//! Reads the output of `git diff --unified=0`.
//!
//! A hunk's head says how many lines follow. They are skipped by that count, because a line of a file may look like a part
//! of the format.

use std::io::{self, BufRead};

use super::{Patch, Span};
use crate::sides::{Side, Sides};

/// The longest line that is looked at. Longer ones are text of a file, and skipped all the same.
const LONGEST_LINE: usize = 1 << 16;

/// The reason why the output of `git diff` cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ParseError {
    /// It cannot be read at all.
    #[error("{0}")]
    Read(#[from] io::Error),
    /// A line is not what `git diff --unified=0` writes.
    #[error("line {line} of the output of git diff: expected {expected}")]
    Line {
        /// Its number.
        line: u64,
        /// The expected text.
        expected: &'static str,
    },
}

impl Patch {
    /// Reads the output of `git diff --unified=0 --src-prefix=a/ --dst-prefix=b/`. All paths get `prefix` in front.
    ///
    /// # Errors
    /// If the output is cut off, or is none of this command.
    pub fn parse(diff: impl BufRead, prefix: &str) -> Result<Self, ParseError> {
        let mut parser = Parser { lines: DiffLines { diff, number: 0 }, prefix, patch: Self::default() };
        parser.read()?;
        Ok(parser.patch)
    }
}

struct Parser<'p, R> {
    lines: DiffLines<R>,
    prefix: &'p str,
    patch: Patch,
}

impl<R: BufRead> Parser<'_, R> {
    fn read(&mut self) -> Result<(), ParseError> {
        let mut paths: Sides<Option<String>> = Sides::default();
        while let Some(line) = self.lines.next()? {
            if line.starts_with(b"diff --git ") {
                paths = Sides::default();
            } else if let Some(path) = line.strip_prefix(b"--- ") {
                paths.before = self.path(path, b"a/")?;
            } else if let Some(path) = line.strip_prefix(b"+++ ") {
                paths.after = self.path(path, b"b/")?;
            } else if let Some(numbers) = line.strip_prefix(b"@@ ") {
                self.hunk(numbers, &paths)?;
            }
        }
        Ok(())
    }

    /// The path of a side; none where the file is not there.
    fn path(&self, text: &[u8], side: &[u8]) -> Result<Option<String>, ParseError> {
        // A tab ends a name with a space in it.
        let text = text.strip_suffix(b"\t").unwrap_or(text);
        if text == b"/dev/null" {
            return Ok(None);
        }
        let name = match text.strip_prefix(b"\"") {
            Some(quoted) => unquoted(quoted).ok_or_else(|| self.lines.expected("a name in quotes"))?,
            None => text.to_owned(),
        };
        let name = name.strip_prefix(side).ok_or_else(|| self.lines.expected("a name behind a/ or b/"))?;
        Ok(Some(format!("{}{}", self.prefix, String::from_utf8_lossy(name))))
    }

    /// A hunk: `-first[,count] +first[,count] @@`, and as many lines as it counts.
    fn hunk(&mut self, numbers: &[u8], paths: &Sides<Option<String>>) -> Result<(), ParseError> {
        let spans = spans(numbers).ok_or_else(|| self.lines.expected("the lines of a hunk"))?;
        for (side, path) in paths.each() {
            if let Some(path) = path {
                self.patch.touch(side, path, *spans.of(side));
            }
        }
        for (side, sign) in [(Side::Before, b'-'), (Side::After, b'+')] {
            for _ in 0..spans.of(side).count {
                let line = self.lines.next_of_file()?;
                if line.is_none_or(|line| line.first() != Some(&sign)) {
                    return Err(self.lines.expected("a line of the hunk"));
                }
            }
        }
        Ok(())
    }
}

/// The spans of both sides in the head of a hunk.
fn spans(numbers: &[u8]) -> Option<Sides<Span>> {
    let text = std::str::from_utf8(numbers.get(..numbers.len().min(64))?);
    // The text behind the second @@ may be cut within a character.
    let text = text.or_else(|error| std::str::from_utf8(&numbers[..error.valid_up_to()])).ok()?;
    let mut words = text.split(' ');
    let before = span(words.next()?.strip_prefix('-')?)?;
    let after = span(words.next()?.strip_prefix('+')?)?;
    words.next()?.starts_with("@@").then_some(Sides { before, after })
}

fn span(text: &str) -> Option<Span> {
    let mut numbers = text.splitn(2, ',');
    let first = numbers.next()?.parse().ok()?;
    Some(Span { first, count: numbers.next().unwrap_or("1").parse().ok()? })
}

/// A name as C writes it, up to the closing quote: Git quotes those with unusual bytes.
fn unquoted(text: &[u8]) -> Option<Vec<u8>> {
    let mut name = Vec::new();
    let mut bytes = text.iter().copied();
    loop {
        match bytes.next()? {
            b'"' => return bytes.next().is_none().then_some(name),
            b'\\' => name.push(match bytes.next()? {
                b'a' => 7,
                b'b' => 8,
                b't' => b'\t',
                b'n' => b'\n',
                b'v' => 11,
                b'f' => 12,
                b'r' => b'\r',
                digit @ b'0'..=b'3' => octal(digit, bytes.next()?, bytes.next()?)?,
                other => other,
            }),
            byte => name.push(byte),
        }
    }
}

fn octal(first: u8, second: u8, third: u8) -> Option<u8> {
    let digits = [first, second, third];
    let is_octal = digits.iter().all(|digit| (b'0'..=b'7').contains(digit));
    is_octal.then(|| digits.iter().fold(0u8, |value, digit| (value << 3) | (digit - b'0')))
}

/// The lines of the output, without their ends.
struct DiffLines<R> {
    diff: R,
    number: u64,
}

impl<R: BufRead> DiffLines<R> {
    /// The next line, as much of it as is looked at.
    fn next(&mut self) -> Result<Option<Vec<u8>>, ParseError> {
        let mut line = Vec::new();
        let mut is_there = false;
        loop {
            let part = self.diff.fill_buf()?;
            if part.is_empty() {
                break;
            }
            is_there = true;
            let end = part.iter().position(|&byte| byte == b'\n');
            let text = &part[..end.unwrap_or(part.len())];
            line.extend_from_slice(&text[..text.len().min(LONGEST_LINE - line.len())]);
            let taken = end.map_or(part.len(), |end| end + 1);
            self.diff.consume(taken);
            if end.is_some() {
                break;
            }
        }
        self.number += u64::from(is_there);
        Ok(is_there.then_some(line))
    }

    /// The next line of a file; a remark on a missing line break at its end is none.
    fn next_of_file(&mut self) -> Result<Option<Vec<u8>>, ParseError> {
        loop {
            match self.next()? {
                Some(line) if line.starts_with(b"\\") => {}
                line => return Ok(line),
            }
        }
    }

    fn expected(&self, expected: &'static str) -> ParseError {
        ParseError::Line { line: self.number, expected }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RENAMED: &str = "\
diff --git a/old name.py b/net/model.py
similarity index 90%
rename from old name.py
rename to net/model.py
index 1..2 100644
--- a/old name.py\t
+++ b/net/model.py
@@ -3,2 +3 @@ def forward(self):
-+++ b/other.py
-@@ -1 +1 @@
+    return 1
@@ -9,0 +9,2 @@ \u{e9}
+a
+b
\\ No newline at end of file
diff --git \"a/\\303\\251.py\" \"b/\\303\\251.py\"
deleted file mode 100644
--- \"a/\\303\\251.py\"
+++ /dev/null
@@ -1 +0,0 @@
-x
\\ No newline at end of file
diff --git a/image.png b/image.png
Binary files a/image.png and b/image.png differ
";

    fn touched(patch: &Patch, side: Side, path: &str) -> Vec<u32> {
        (1..=12).filter(|&line| patch.touches(side, path, line)).collect()
    }

    #[test]
    fn hunks_tell_the_lines_of_both_sides() {
        let patch = Patch::parse(RENAMED.as_bytes(), "").unwrap();
        assert_eq!(touched(&patch, Side::After, "net/model.py"), [3, 9, 10]);
        assert_eq!(touched(&patch, Side::Before, "old name.py"), [3, 4]);
        assert_eq!(touched(&patch, Side::Before, "\u{e9}.py"), [1]);
        assert_eq!(patch.files(Side::After).collect::<Vec<_>>(), ["net/model.py"]);
        assert_eq!(patch.find(Side::Before, "/elsewhere/repo/old name.py"), Some("old name.py"));
        let below = Patch::parse(RENAMED.as_bytes(), "sub/").unwrap();
        assert_eq!(below.files(Side::After).collect::<Vec<_>>(), ["sub/net/model.py"]);
    }

    #[test]
    fn output_that_is_cut_off_or_something_else_is_an_error() {
        for at in [RENAMED.find("-@@ -1").unwrap(), RENAMED.find("+b\n").unwrap(), RENAMED.find(",2 +3 @@").unwrap()] {
            assert!(Patch::parse(&RENAMED.as_bytes()[..at], "").is_err(), "{}", &RENAMED[..at]);
        }
        for wrong in ["--- model.py\n", "--- \"a/x\n", "@@ -x +1 @@\n", "@@ -1 +99999999999 @@\n", "@@ -1 +1 @@\n x\n"]
        {
            assert!(Patch::parse(wrong.as_bytes(), "").is_err(), "{wrong}");
        }
        assert_eq!(Patch::parse(&b""[..], "").unwrap(), Patch::default());
    }

    #[test]
    fn a_line_without_end_takes_no_memory() {
        let mut text = b"+++ b/x.py\n@@ -0,0 +1 @@\n+".to_vec();
        text.resize(1 << 20, b'x');
        assert!(Patch::parse(&*text, "").unwrap().touches(Side::After, "x.py", 1));
    }
}

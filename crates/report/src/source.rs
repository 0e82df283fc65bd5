//! Lines of the source around the place of a stack.

use ptmem_base::python::{Functions, TAB, indent, is_code};
use ptmem_base::text::{cut, printable};
use ptmem_snapshot::snapshot::StackId;
use ptmem_trace::stack::SnapshotCode;

use super::RenderOptions;
use super::place::{self, Place};

/// Lines before and after the one that is marked.
const CONTEXT: usize = 2;

/// The longest line, in bytes.
const LONGEST_LINE: usize = 200;

/// A line of the user that a row is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Site {
    /// The file and the line.
    pub(crate) place: Place,
    /// The source there, where it is known.
    pub(crate) excerpt: Option<Excerpt>,
}

impl Site {
    /// The innermost line of the user on a stack, where the checkout has its file, or the recording if the source is asked for.
    pub(super) fn new(code: &SnapshotCode<'_>, stack: StackId, options: &RenderOptions) -> Option<Self> {
        let frame = code.user_site(stack)?;
        let recorded = code.source(frame).filter(|_| options.source);
        if recorded.is_none() && !options.checkout.contains_key(code.file(frame)) {
            return None;
        }
        let place = place::place(code, frame, options)?;
        let excerpt = Excerpt::new(&place, code.function(frame), options).or_else(|| {
            let lines: Vec<String> = recorded?.lines().map(str::to_owned).collect();
            Excerpt::of_lines(&lines, place.line, code.function(frame))
        });
        Some(Self { place, excerpt })
    }
}

/// Lines of a file, one of them marked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Excerpt {
    /// The lines, in order.
    pub(crate) lines: Vec<ExcerptLine>,
}

/// A line of an excerpt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ExcerptLine {
    /// Its number, counted from 1.
    pub(crate) number: usize,
    /// Its text, printable, without the indentation that all lines share.
    pub(crate) text: String,
    /// True for the line that the excerpt is about.
    pub(crate) is_marked: bool,
}

impl Excerpt {
    /// The lines around a line of a function; `None` if the checkout does not have the file, or if the line shows that
    /// it is not the file that was recorded.
    pub(crate) fn new(place: &Place, function: &str, options: &RenderOptions) -> Option<Self> {
        Self::of_lines(options.sources.get(&place.path)?, place.line, function)
    }

    /// The same of a file with these lines.
    fn of_lines(all: &[String], line: u32, function: &str) -> Option<Self> {
        let at = usize::try_from(line).ok()?.checked_sub(1)?;
        all.get(at).filter(|line| is_code(line))?;
        // What follows the line decides nothing.
        Functions::new(&all[..=at].join("\n")).name(function, line)?;
        let shown = at.saturating_sub(CONTEXT)..all.len().min(at + CONTEXT + 1);
        let texts: Vec<String> =
            all[shown.clone()].iter().map(|line| line.trim_end().replace('\t', &" ".repeat(TAB))).collect();
        let shared = texts.iter().filter(|text| !text.is_empty()).map(|text| indent(text)).min().unwrap_or(0);
        let lines = shown.zip(&texts).map(|(number, text)| ExcerptLine {
            number: number + 1,
            text: printable(cut(text.get(shared..).unwrap_or_default(), LONGEST_LINE)),
            is_marked: number == at,
        });
        Some(Self { lines: lines.collect() })
    }

    /// Each line with its number, the marked one behind a sign.
    pub(crate) fn texts(&self) -> Vec<String> {
        let widest = self.lines.last().map_or(0, |line| line.number.to_string().len());
        self.lines.iter().map(|line| line.numbered(widest)).collect()
    }
}

impl ExcerptLine {
    /// The line behind its number, which is padded to a number of digits.
    fn numbered(&self, digits: usize) -> String {
        let sign = if self.is_marked { '>' } else { ' ' };
        format!("{sign} {:>digits$}  {}", self.number, self.text).trim_end().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CODE: &str = "\
import torch
SIZE = torch.zeros(4)

class Model(Base):
    table = torch.ones(3)

    async def forward(
        self,
        x,
    ):
        # A comment.
        if x:
\t\treturn torch.cat([x,\u{1b}[31m
                    x])
        return [y for y in x]
";

    fn excerpt(line: u32, function: &str) -> Option<Vec<String>> {
        let sources = [("m.py".to_owned(), CODE.lines().map(str::to_owned).collect())];
        let options = RenderOptions { sources: sources.into(), ..RenderOptions::default() };
        let place = Place { path: "m.py".to_owned(), line };
        Excerpt::new(&place, function, &options).map(|excerpt| excerpt.texts())
    }

    #[test]
    fn two_lines_stand_before_and_after_the_marked_one() {
        let expected = ["  11  # A comment.", "  12  if x:", "> 13          return torch.cat([x,\\u{1b}[31m"];
        assert_eq!(excerpt(13, "forward").unwrap()[..3], expected);
        assert_eq!(
            excerpt(2, "<module>").unwrap(),
            ["  1  import torch", "> 2  SIZE = torch.zeros(4)", "  3", "  4  class Model(Base):"]
        );
        assert_eq!(excerpt(15, "forward").unwrap().len(), 3);
    }

    #[test]
    fn a_file_in_another_form_than_the_recorded_one_has_none() {
        for (line, function) in
            [(13, "forward"), (14, "forward"), (15, "<listcomp>"), (5, "Model"), (15, "Model.forward")]
        {
            assert!(excerpt(line, function).is_some(), "{line} {function}");
        }
        for (line, function) in [
            (13, "backward"),
            (13, "<module>"),
            (2, "forward"),
            (3, "<module>"),
            (11, "forward"),
            (16, "forward"),
            (0, "f"),
        ] {
            assert!(excerpt(line, function).is_none(), "{line} {function}");
        }
    }
}

//! The call tree as lines of text.

use std::fmt::{self, Write};

use anstyle::{AnsiColor, Color, Style};
use unicode_width::UnicodeWidthStr;

use crate::diff::Sides;
use crate::profile::{Held, others};
use crate::text::{printable, shorten, thousands};
use crate::tree::{Layout, Line, Node, Options, Tree};
use crate::units::{Delta, Size, format_share};

const DIM: Style = Style::new().dimmed();
const BOLD: Style = Style::new().bold();

/// Of a share of less than this part of the total, nobody asks.
const LEAST_PART: u64 = 200;

/// A chain of frames is no narrower than this.
const NARROWEST: usize = 24;

/// The rows of a tree, of which only as much is shown as people read.
pub(super) struct Shown<'t> {
    tree: &'t Tree,
    options: &'t Options,
    changes: bool,
    lines: Vec<Line<'t>>,
}

impl<'t> Shown<'t> {
    /// What one snapshot holds: at most `top` callees of every frame, and none that hold next to nothing.
    pub(super) fn held(tree: &'t Tree, options: &'t Options, top: usize) -> Self {
        let least = if top == 0 { 0 } else { tree.held().after.bytes / LEAST_PART };
        let lines = tree.lines(Layout { top, least, changes: false, fold: true });
        Self { tree, options, changes: false, lines }
    }

    /// What changed between two.
    pub(super) fn changes(tree: &'t Tree, options: &'t Options, top: usize, min_delta: u64) -> Self {
        // What did not change at all is not worth a line.
        let lines = tree.lines(Layout { top, least: min_delta.max(1), changes: true, fold: true });
        Self { tree, options, changes: true, lines }
    }

    pub(super) fn write(&self, out: &mut String, moment: &str, width: usize) -> fmt::Result {
        let (total, held) = (self.tree.total, self.tree.held());
        let size = |held: Sides<Held>| {
            if self.changes { Delta(held.delta()).to_string() } else { Size(held.after.bytes).to_string() }
        };
        write!(out, "\n  {BOLD}call tree {moment}{BOLD:#} {DIM}({}", size(total))?;
        for (word, pattern) in [("below", &self.options.focus), ("through", &self.options.grep)] {
            if let Some(pattern) = pattern {
                write!(out, ", {} of it {word} '{}'", size(held), printable(pattern.as_str()))?;
            }
        }
        writeln!(out, "){DIM:#}")?;
        let filtered = self.options.focus.is_some() || self.options.grep.is_some();
        let unchanged = self.changes && self.lines.iter().all(|line| line.chain.is_empty() && line.held.delta() == 0);
        if self.lines.is_empty() || unchanged {
            let why = if filtered && held.before.blocks + held.after.blocks == 0 {
                "no frame matches; a pattern is part of a function or path as shown, or a glob such as 'forward*'"
            } else {
                "nothing changed"
            };
            return writeln!(out, "  {why}");
        }
        let cells: Vec<Vec<String>> = self.lines.iter().map(|line| self.cells(line)).collect();
        let heads: &[&str] = if self.changes { &["change", "before", "after"] } else { &["bytes", "share", "blocks"] };
        let widest = |column: usize| cells.iter().map(|cells| cells[column].width()).max().unwrap_or(0);
        let widths: Vec<usize> = heads.iter().enumerate().map(|(i, head)| widest(i).max(head.width())).collect();
        write!(out, "  {DIM}")?;
        for (head, width) in heads.iter().zip(&widths) {
            write!(out, "{head:>width$}  ")?;
        }
        writeln!(out, "frame{DIM:#}")?;
        let left = 2 + widths.iter().map(|width| width + 2).sum::<usize>();
        for (line, cells) in self.lines.iter().zip(cells) {
            let style = self.style(line);
            write!(out, "  {style}")?;
            for (cell, &width) in cells.iter().zip(&widths) {
                write!(out, "{:pad$}{cell}  ", "", pad = width - cell.width())?;
            }
            // Deep levels keep to the left half: the frame is what one reads.
            let indent = (line.depth * 2).min(width.saturating_sub(left) / 2);
            let room = width.saturating_sub(left + indent).max(NARROWEST);
            writeln!(out, "{:indent$}{}{style:#}", "", text(line, room, style))?;
        }
        Ok(())
    }

    fn cells(&self, line: &Line<'_>) -> Vec<String> {
        let held = line.held;
        if self.changes {
            return vec![
                Delta(held.delta()).to_string(),
                Size(held.before.bytes).to_string(),
                Size(held.after.bytes).to_string(),
            ];
        }
        let share = format_share(held.after.bytes, self.tree.total.after.bytes).unwrap_or_default();
        vec![Size(held.after.bytes).to_string(), share, thousands(held.after.blocks)]
    }

    /// From blue to red by the share of the total; a change by its direction.
    fn style(&self, line: &Line<'_>) -> Style {
        if line.chain.is_empty() {
            return DIM;
        }
        let colour = |colour: AnsiColor| Style::new().fg_color(Some(Color::Ansi(colour)));
        if self.changes {
            return match line.held.delta() {
                0 => DIM,
                1.. => colour(AnsiColor::Red),
                _ => colour(AnsiColor::Green),
            };
        }
        let (part, total) = (u128::from(line.held.after.bytes), u128::from(self.tree.total.after.bytes));
        match part * 100 {
            percent if percent >= total * 50 => colour(AnsiColor::Red),
            percent if percent >= total * 25 => colour(AnsiColor::Yellow),
            percent if percent >= total * 10 => colour(AnsiColor::Green),
            percent if percent >= total * 5 => colour(AnsiColor::Cyan),
            _ => colour(AnsiColor::Blue),
        }
    }
}

/// The frames of a line in at most `room` columns, the last one in full where that is possible.
fn text(line: &Line<'_>, room: usize, style: Style) -> String {
    let Some((last, callers)) = line.chain.split_last() else {
        return if line.others == 0 { "[itself]".to_owned() } else { others(line.others) };
    };
    // What people look for first: what is called, from which line of theirs, and where that begins.
    let users = callers.iter().rposition(|node| node.frame.is_user);
    let order = users.into_iter().chain((!callers.is_empty()).then_some(0)).chain((0..callers.len()).rev());
    let mut written: Vec<Option<Text>> = vec![None; callers.len()];
    written.push(Some(Text::Full));
    let fits = |written: &[Option<Text>]| chain(&line.chain, written, mark).width() <= room;
    if !fits(&written) {
        written[callers.len()] = Some(Text::Short);
    }
    if !fits(&written) {
        return shorten(&mark(last, Text::Short), room);
    }
    for at in order {
        // A frame is worth more than the folder of its file.
        for text in [Text::Full, Text::Short] {
            if written[at].is_none() {
                written[at] = Some(text);
                if !fits(&written) {
                    written[at] = None;
                }
            }
        }
    }
    chain(&line.chain, &written, |node, text| emphasize(node, text, style))
}

/// How a frame is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Text {
    /// With the path of its file.
    Full,
    /// With the name of its file.
    Short,
}

/// Frames as far as they are written.
fn chain(nodes: &[&Node], written: &[Option<Text>], write: impl Fn(&Node, Text) -> String) -> String {
    let mut parts: Vec<String> = Vec::new();
    let mut gap = false;
    for (node, text) in nodes.iter().zip(written) {
        match text {
            Some(text) => parts.push(write(node, *text)),
            None if !gap => parts.push("…".to_owned()),
            None => {}
        }
        gap = text.is_none();
    }
    parts.join(" > ")
}

/// A frame, with a star where the pattern matches it.
fn mark(node: &Node, text: Text) -> String {
    let text = match (text, &node.frame.path) {
        (Text::Short, Some(path)) => {
            let name = path.rsplit('/').next().unwrap_or(path).to_owned();
            crate::tree::Frame { path: Some(name), ..node.frame.clone() }.text()
        }
        _ => node.frame.text(),
    };
    format!("{}{}", if node.marked { "*" } else { "" }, printable(&text))
}

/// The same in bold letters on a terminal.
fn emphasize(node: &Node, text: Text, style: Style) -> String {
    let text = mark(node, text);
    if node.marked { format!("{style:#}{}{text}{:#}{style}", style.bold().underline(), style) } else { text }
}

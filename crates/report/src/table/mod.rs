//! The view as text for people: readable at 80 columns, coloured where the terminal wants colour.
//!
//! Text has ANSI styles; the caller strips them where they are not wanted. On a terminal no line is longer than it is wide,
//! but for those that are there to be copied. Elsewhere sentences and labels stay on one line, where tools look for them.

mod frames;
mod grid;
mod remarks;
mod style;

use std::fmt::{self, Write};

use ptmem_base::lines::{fill, without_commands, wrap};
use ptmem_base::text::{count, cut, printable};
use unicode_width::UnicodeWidthStr;

use super::RenderOptions;
use super::sparkline::sparkline;
use super::view::{Aside, Content, Fact, Group, RowOfCells, SourceFile, Table, View, WayToAccept};
use style::{BOLD, DIM};

/// The narrowest that a name may get; terminals narrower than the numbers scroll.
const NARROWEST_NAME: usize = 12;

/// The narrowest that a sentence may get.
const NARROWEST_TEXT: usize = 40;

/// The widest name of a fact.
const FACT_NAME: usize = 14;

/// Rows that have their remarks below them: those that changed most.
const MOST_NOTED: usize = 1;

/// The longest text of a frame, in bytes.
const LONGEST_FRAME: usize = 4096;

/// Columns of a curve.
const WIDEST_CURVE: usize = 120;

/// Columns of tables and curves where lines have no limit, as in the log of a CI job.
const WIDTH_OF_LOGS: usize = 100;

/// Room for a text.
#[derive(Debug, Clone, Copy)]
struct TextRoom {
    /// Columns of tables and curves.
    columns: usize,
    /// Columns at which sentences and labels go on in the next line.
    line: usize,
}

impl TextRoom {
    fn new(width: Option<usize>) -> Self {
        Self { columns: width.unwrap_or(WIDTH_OF_LOGS), line: width.unwrap_or(usize::MAX) }
    }
}

/// Writes a report for people.
pub(super) fn render(view: &View, options: &RenderOptions) -> String {
    let room = TextRoom::new(options.table.width);
    let mut page = TextPage {
        text: String::new(),
        room,
        more: options.table.more,
        is_fresh: true,
        left_out: LeftOutCounts::default(),
    };
    // Writing to a String cannot fail.
    let _ = page.view(view);
    without_commands(&page.text)
}

/// A text that grows by paragraphs.
struct TextPage {
    text: String,
    room: TextRoom,
    /// How the reader can show omitted parts; without it nothing is omitted.
    more: Option<&'static str>,
    /// Whether the next paragraph follows the line above without a gap: at the start, and below a heading.
    is_fresh: bool,
    left_out: LeftOutCounts,
}

/// Numbers of things that are left out of a group.
#[derive(Debug, Default)]
struct LeftOutCounts {
    metrics: u64,
    /// Remarks on rows, each on the way in which a stack changed.
    manners: u64,
    notes: u64,
    /// Warnings of which the end is missing.
    cut: u64,
}

impl LeftOutCounts {
    /// All of it in words; nothing where nothing is left out.
    fn words(&self) -> String {
        let Self { metrics, manners, notes, cut } = *self;
        let metrics = (metrics > 0).then(|| count(metrics, "metric", "metrics"));
        let manners = (manners > 0).then(|| format!("how {} changed", count(manners, "stack", "stacks")));
        let notes = (notes > 0).then(|| count(notes, "note", "notes"));
        let cut = (cut > 0).then(|| format!("the rest of {}", count(cut, "warning", "warnings")));
        metrics.into_iter().chain(manners).chain(notes).chain(cut).collect::<Vec<_>>().join(", ")
    }
}

impl TextPage {
    fn view(&mut self, view: &View) -> fmt::Result {
        if let Some(overview) = view.overview.as_ref().filter(|_| view.groups.iter().any(|group| group.is_folded)) {
            self.table(overview)?;
        }
        let is_only = view.groups.len() == 1;
        for group in view.groups.iter().filter(|group| !group.is_folded) {
            self.group(group)?;
            if !is_only {
                group.headline.iter().try_for_each(|headline| self.headline(headline))?;
                self.remarks(group, group.headline.is_some())?;
            }
        }
        self.acceptance(&view.acceptance)?;
        if let Some(approval) = &view.approval {
            self.gap();
            writeln!(self.text, "{}", self.whole(&approval.to_string(), 0))?;
        }
        // The verdict comes last, where a log ends, with the warnings that weaken it.
        let only = view.groups.iter().find(|_| is_only);
        let headline = only.and_then(|group| group.headline.as_ref()).or(view.headline.as_ref());
        headline.map_or(Ok(()), |headline| self.headline(headline))?;
        only.map_or(Ok(()), |group| self.remarks(group, headline.is_some()))?;
        self.remarks_of_folded(&view.groups)
    }

    /// The ways to accept the growth.
    fn acceptance(&mut self, ways: &[WayToAccept]) -> fmt::Result {
        for (at, WayToAccept { sentence, lines, .. }) in ways.iter().enumerate() {
            let beginning = if at == 0 { "to accept it " } else { "or " };
            let end = if lines.is_empty() { "" } else { ":" };
            if at == 0 {
                self.gap();
            }
            writeln!(self.text, "{DIM}{beginning}{}{end}{DIM:#}", printable(sentence))?;
            lines.iter().try_for_each(|line| writeln!(self.text, "  {}", printable(line)))?;
        }
        Ok(())
    }

    /// An empty line between paragraphs.
    fn gap(&mut self) {
        if !self.is_fresh {
            self.text.push('\n');
        }
        self.is_fresh = false;
    }

    /// The columns that are left for a name, next to others.
    fn room(&self, taken: usize) -> usize {
        self.room.line.saturating_sub(taken).max(NARROWEST_NAME)
    }

    fn group(&mut self, group: &Group) -> fmt::Result {
        if let Some(name) = &group.name {
            self.gap();
            writeln!(self.text, "{BOLD}{}{BOLD:#}", self.whole(&format!("== {name} =="), 0))?;
            self.is_fresh = true;
        }
        if !group.sources.is_empty() {
            self.gap();
        }
        group.sources.iter().try_for_each(|source| self.source(source))?;
        if let Some(ranks) = &group.ranks {
            self.table(ranks)?;
        }
        self.facts(&group.facts)?;
        for section in &group.sections {
            self.gap();
            writeln!(self.text, "{BOLD}{}{BOLD:#}", printable(&section.name))?;
            self.is_fresh = true;
            section.blocks.iter().try_for_each(|content| self.content(content))?;
        }
        if let Some(idle) = &group.idle {
            self.gap();
            writeln!(self.text, "{DIM}{}{DIM:#}", self.whole(idle, 0))?;
        }
        self.checks(group)
    }

    fn source(&mut self, source: &SourceFile) -> fmt::Result {
        let side = source.side.map(|side| format!("{side:<8}")).unwrap_or_default();
        let amount = &source.amount;
        let path = printable(&source.path);
        let room = self.room(side.width() + amount.width() + 2);
        let path = wrap(&path, side.width(), side.width(), side.width().saturating_add(room));
        writeln!(self.text, "{side}{BOLD}{path}{BOLD:#}  {DIM}{amount}{DIM:#}")
    }

    fn content(&mut self, content: &Content) -> fmt::Result {
        match content {
            Content::Facts(facts) => self.facts(facts),
            Content::Table(table) => self.table(table),
            Content::Timeline(curves) => match &curves[..] {
                [curve] => self.curve(&curve.points, &curve.caption(self.curve_width())),
                _ => Ok(()),
            },
            Content::Steps(steps) if steps.bytes().len() > 1 => {
                self.curve(&steps.bytes(), &self.whole(&steps.caption(), 2))
            }
            Content::Steps(_) => Ok(()),
            Content::Sentence(sentence) => {
                self.gap();
                let sentence = self.whole(sentence, 2);
                writeln!(self.text, "  {sentence}")
            }
        }
    }

    /// A curve in a line of text, and its caption below.
    fn curve(&mut self, points: &[u64], caption: &str) -> fmt::Result {
        self.gap();
        let top = points.iter().copied().max().unwrap_or(0);
        writeln!(self.text, "  {}", sparkline(points, top, self.curve_width()))?;
        writeln!(self.text, "  {DIM}{caption}{DIM:#}")
    }

    fn curve_width(&self) -> usize {
        self.room.columns.saturating_sub(4).clamp(NARROWEST_NAME, WIDEST_CURVE)
    }

    fn facts(&mut self, facts: &[Fact]) -> fmt::Result {
        if facts.is_empty() {
            return Ok(());
        }
        self.gap();
        let room = self.room(FACT_NAME + 5);
        for fact in facts {
            let items = fact.lines.iter().map(|line| line.iter().map(|item| printable(item)));
            let lines = items.flat_map(|items| fill(items, room));
            for (at, line) in lines.enumerate() {
                let line = self.whole(&line, FACT_NAME + 4);
                let name = if at == 0 { fact.name } else { "" };
                let style = style::of_tone(fact.tone);
                writeln!(self.text, "  {style}{name:<FACT_NAME$}{style:#}  {line}")?;
            }
        }
        Ok(())
    }

    fn table(&mut self, table: &Table) -> fmt::Result {
        self.gap();
        if let Some(title) = &table.title {
            self.title(title, &table.total)?;
        }
        let shows_all = self.more.is_none();
        let rows: Vec<&RowOfCells> = table.rows.iter().filter(|row| shows_all || row.aside != Aside::LeftOut).collect();
        self.left_out.metrics += (table.rows.len() - rows.len()) as u64;
        let noted = rows.iter().filter(|row| row.note.is_some()).count();
        let most_noted = if self.more.is_some() { MOST_NOTED } else { usize::MAX };
        self.left_out.manners += noted.saturating_sub(most_noted) as u64;
        grid::write(&mut self.text, table, &rows, self.room, most_noted)?;
        if let Some(below) = &table.below {
            writeln!(self.text, "  {DIM}{}{DIM:#}", self.whole(below, 2))?;
        }
        if !table.explains {
            return Ok(());
        }
        rows.iter().filter(|row| !row.frames.is_empty()).try_for_each(|row| self.frames(row))?;
        match table.without_frames as u64 {
            0 => Ok(()),
            more => {
                writeln!(self.text, "\n  {DIM}and the frames of {}{DIM:#}", count(more, "more stack", "more stacks"))
            }
        }
    }

    fn title(&mut self, title: &str, total: &str) -> fmt::Result {
        let title = printable(title);
        let total = if total.is_empty() { String::new() } else { format!(" ({})", printable(total)) };
        let text = self.whole(&format!("{title}{total}"), 2);
        let end = if text.starts_with(&title) { title.len() } else { text.len() };
        let (title, total) = text.split_at(end);
        writeln!(self.text, "  {BOLD}{title}{BOLD:#}{DIM}{total}{DIM:#}")
    }

    /// The lines that a row sums, and its frames.
    fn frames(&mut self, row: &RowOfCells) -> fmt::Result {
        self.gap();
        let [amount, label] = row.amount_and_name().map(ToString::to_string);
        let label = self.whole(&label, amount.width() + 4);
        writeln!(self.text, "  {BOLD}{amount}  {label}{BOLD:#}")?;
        let width = row.summed.iter().map(|[amount, _]| amount.to_string().len()).max().unwrap_or(0);
        for [amount, label] in &row.summed {
            let label = self.whole(&label.to_string(), width + 6);
            writeln!(self.text, "    {:>width$}  {label}", amount.to_string())?;
        }
        for line in &row.frames {
            let style = style::of_line(line);
            let text = self.whole(cut(&line.text, LONGEST_FRAME), 5);
            writeln!(self.text, "    {style}{}{text}{style:#}", line.sign())?;
        }
        Ok(())
    }

    /// A text that begins at a column, its rest below: labels are never cut, because people paste them into limits.
    fn whole(&self, text: &str, start: usize) -> String {
        wrap(&printable(text), start, start, self.room.line.max(start + NARROWEST_TEXT))
    }
}

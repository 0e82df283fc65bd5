//! What a table says below its rows: warnings, checks, and the verdict.

use std::fmt::{self, Write};

use ptmem_base::diagnostic::{Code, Severity};
use ptmem_base::lines::{first_line, wrap};
use ptmem_base::text::{count, printable};
use ptmem_judge::verdict::Headline;
use unicode_width::UnicodeWidthStr;

use super::super::view::{CheckLine, Group, Remark, capitalized};
use crate::grouped;

use super::style::{self, DIM, YELLOW};
use super::{NARROWEST_TEXT, TextPage};

/// Checks that are listed.
const MOST_CHECKS: usize = 10;

impl TextPage {
    /// The warnings, each cut to a line, and the number of things that are left out of a group. A single warning, the answer of
    /// a search, and all where nothing is left out are in full.
    pub(super) fn remarks(&mut self, group: &Group, has_verdict: bool) -> fmt::Result {
        let mut shown = group.open_remarks();
        let notes = group.folded_remarks();
        let mut left_out = std::mem::take(&mut self.left_out);
        match self.more {
            Some(_) => {
                // The checks say so already.
                shown.retain(|remark| remark.code != Code::AcceptedGrowth);
                left_out.notes = notes.len() as u64;
            }
            None => shown.extend(notes),
        }
        let is_anything = !shown.is_empty() || left_out.metrics + left_out.manners + left_out.notes > 0;
        if !has_verdict && is_anything {
            self.gap();
        }
        let warnings = shown.iter().filter(|remark| remark.code.severity() == Severity::Warning).count();
        for remark in shown {
            left_out.cut += u64::from(self.remark(remark, warnings > 1)?);
        }
        match (self.more, left_out.words()) {
            (Some(more), words) if !words.is_empty() => {
                let text = self.whole(&format!("left out: {words} ({more} shows them)"), 0);
                writeln!(self.text, "{DIM}{text}{DIM:#}")
            }
            _ => Ok(()),
        }
    }

    /// The warnings about groups that are left out, those of one kind as one.
    pub(super) fn remarks_of_folded(&mut self, groups: &[Group]) -> fmt::Result {
        let folded = groups.iter().filter(|group| group.is_folded);
        let all = folded.flat_map(|group| group.open_remarks().into_iter().map(move |remark| (&group.name, remark)));
        for like in grouped(all, |(_, remark)| remark.code) {
            let (name, remark) = like[0];
            let scope = name.iter().map(|name| format!("{name}: ")).collect::<String>() + &remark.scope;
            let more = match like.len() {
                1 => String::new(),
                all => format!(" (and {} more like it)", all - 1),
            };
            let message = remark.message.clone() + &more;
            self.remark(&Remark { scope, message, ..remark.clone() }, false)?;
        }
        Ok(())
    }

    /// A remark, a warning in one line if there are several. Returns whether its end is cut off.
    fn remark(&mut self, remark: &Remark, several: bool) -> Result<bool, fmt::Error> {
        let severity = remark.code.severity();
        let style = match severity {
            Severity::Warning => YELLOW,
            Severity::Note => DIM,
        };
        // The notes that are shown belong to the verdict, and some end in a command.
        let is_answer = remark.code == Code::Bisected;
        let is_cut = self.more.is_some() && several && severity == Severity::Warning && !is_answer;
        let head = format!("{severity}[{}]", remark.code);
        let text = format!("{head} {}{}", remark.scope, printable(&remark.message));
        let width = self.room.line.max(NARROWEST_TEXT);
        let shown = if is_cut { first_line(&text, width) } else { wrap(&text, 0, 2, width) };
        let (shown_head, rest) = shown.split_at(head.len().min(shown.len()));
        writeln!(self.text, "{style}{shown_head}{style:#}{rest}")?;
        Ok(is_cut && shown != text)
    }

    /// The checks, where there is more to say than the line of the verdict does.
    pub(super) fn checks(&mut self, group: &Group) -> fmt::Result {
        let checks: Vec<&CheckLine> = group.checks_of_job.iter().chain(&group.checks).collect();
        if checks.iter().map(|check| 1 + check.others.len()).sum::<usize>() < 2 {
            return Ok(());
        }
        self.gap();
        let shown = &checks[..checks.len().min(MOST_CHECKS)];
        let rest = &checks[shown.len()..];
        let widest = shown.iter().map(|check| check.mark.word().width()).max().unwrap_or(0).max(4);
        for check in shown {
            let style = style::of_mark(check.mark);
            let sentence = self.whole(&check.sentence, widest + 2);
            writeln!(self.text, "{style}{:<widest$}{style:#}  {sentence}", check.mark.word())?;
            for other in &check.others {
                writeln!(self.text, "{:widest$}    {}", "", self.whole(other, widest + 4))?;
            }
        }
        if !rest.is_empty() {
            writeln!(self.text, "{:widest$}  and {}", "", count(rest.len() as u64, "more check", "more checks"))?;
        }
        Ok(())
    }

    pub(super) fn headline(&mut self, headline: &Headline) -> fmt::Result {
        self.gap();
        for detail in &headline.details {
            writeln!(self.text, "{}", self.whole(&capitalized(detail), 0))?;
        }
        let style = style::of_verdict(headline.verdict);
        let word = headline.verdict.word();
        let sentence = wrap(&printable(&headline.sentence), word.width() + 1, 2, self.room.line);
        writeln!(self.text, "{style}{word}{style:#} {sentence}")
    }
}

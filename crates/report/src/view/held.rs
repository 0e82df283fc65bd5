//! Stacks that hold most at a moment.

use super::device::{moment_name, moment_of};
use super::snapshot::Shown;
use super::stacks::tensors;
use super::{
    Block, CallStack, CallStacks, Column, Content, Noun, Row, Site, StackLine, SummedLine, Table, Tone, Value, details,
};
use crate::Options;
use crate::picture::Picture;
use crate::profile::{Bucket, Held, HeldLine, HeldLines, Member, Moment, Profile, StackTotal};
use crate::ranks::{self, Others};
use crate::sides::Sides;
use crate::snapshot::StackId;
use crate::stack::Code;
use crate::tree;

/// Stacks when memory ran out that are listed beside those at the peak.
const MOST_AT_OOM: usize = 5;

/// A moment at which stacks are listed.
struct Listing<'a> {
    profile: &'a Profile,
    stacks: Vec<StackTotal>,
    held: fn(&StackTotal) -> Held,
    held_by_member: fn(&Member) -> Held,
    moment: String,
    picture: Option<&'a Picture>,
    others: Option<&'a Others<'a>>,
    options: &'a Options,
}

/// The stacks of a device at the moment that was asked for.
pub(super) fn at_moment(shown: Shown<'_>) -> Vec<Block> {
    let Shown { profile, device, picture, others, options } = shown;
    let moment = moment_of(profile, device);
    if device.at.is_none() {
        let sentence = format!("no {} {moment}: this device has no such moment", profile.options.group_by.plural());
        return vec![Block::open(Content::Sentence(sentence))];
    }
    let stacks = device.listed(options.top, 1);
    Listing {
        profile,
        stacks,
        held: |stack| stack.at,
        held_by_member: |member| member.at,
        moment,
        picture,
        others,
        options,
    }
    .blocks()
}

/// The stacks when memory first ran out, where those at the peak do not say it all and no other moment was asked for.
pub(super) fn at_oom(shown: Shown<'_>) -> Vec<Block> {
    let Shown { profile, device, options, .. } = shown;
    let is_known = device.figures.ooms.first().is_some_and(|oom| oom.allocated.is_some_and(|bytes| bytes > 0));
    if !is_known || profile.options.at != Moment::Peak || device.at_is_oom() {
        return Vec::new();
    }
    let top = if options.top == 0 { 0 } else { options.top.min(MOST_AT_OOM) };
    let stacks = device.listed_at_oom(top, 1);
    Listing {
        profile,
        stacks,
        held: |stack| stack.oom,
        held_by_member: |member| member.oom,
        moment: moment_name(&Moment::Oom),
        picture: None,
        others: None,
        options,
    }
    .blocks()
}

impl Listing<'_> {
    fn blocks(&self) -> Vec<Block> {
        let code = self.profile.code();
        let mut blocks = vec![Block::open(Content::Table(self.table(&code)))];
        let stacks: Vec<_> = self.stacks.iter().filter_map(|stack| Some((stack, stack.stack()?))).collect();
        // The rows of a page have their frames.
        if !stacks.is_empty() && !self.options.pictures {
            let made = stacks.iter().map(|(stack, id)| self.call_stack(stack, *id, &code));
            blocks.push(Block::folded(Content::CallStacks(CallStacks::new("Call stacks", made, stacks.len()))));
        }
        blocks
    }

    fn table(&self, code: &Code<'_>) -> Table {
        let total = self.stacks.iter().fold(0, |sum: u64, stack| sum.saturating_add((self.held)(stack).bytes));
        let mut columns = vec![Column::figure("bytes")];
        if self.others.is_some() {
            columns.extend([Column::figure("median"), Column::figure("ranks")]);
        }
        columns.extend([Column::figure("share"), Column::figure("blocks")]);
        if self.picture.is_some() {
            columns.extend(details::columns());
        }
        let by = self.profile.options.group_by;
        columns.push(Column::words(by.noun()));
        let medians = self.others.map(|others| ranks::medians_of_stacks(others, &self.stacks)).unwrap_or_default();
        let rows = self.stacks.iter().enumerate();
        let rows = rows.map(|(at, stack)| {
            let frames = if at < details::MOST_FRAMES { self.frames(stack, code) } else { Vec::new() };
            let summed = if frames.is_empty() { Vec::new() } else { self.summed(stack, code) };
            let site = stack.stack().and_then(|stack| Site::new(code, stack, self.options));
            let shows_source = self.options.source;
            Row {
                summed,
                frames,
                site,
                shows_source,
                ..self.row(stack, code, total, medians.get(at).copied().flatten())
            }
        });
        let rows = rows.collect();
        Table {
            title: Some(format!("largest {} {}", by.plural(), self.moment)),
            total: vec![Value::Size(total).into()],
            columns,
            rows,
            noun: Noun::of(by),
            below: self.others.and_then(median_note),
            ..Table::default()
        }
    }

    /// The lines that a row sums.
    fn lines(&self, stack: &StackTotal, code: &Code<'_>) -> HeldLines {
        stack.lines_by(self.profile.options.group_by, code, self.held_by_member)
    }

    /// The lines that a row sums, and the tensors that it consists of.
    fn summed(&self, stack: &StackTotal, code: &Code<'_>) -> Vec<SummedLine> {
        let tensors = stack.shapes.iter().map(|line| SummedLine {
            amount: Value::Size(line.held.bytes),
            label: tensors(&line.label, line.held.blocks),
        });
        self.lines(stack, code).all.into_iter().map(SummedLine::from).chain(tensors).collect()
    }

    fn row(&self, stack: &StackTotal, code: &Code<'_>, total: u64, median: Option<i128>) -> Row {
        let held = (self.held)(stack);
        let mut cells = vec![Value::Size(held.bytes)];
        if let Some(others) = self.others {
            cells.push(median.and_then(|bytes| u64::try_from(bytes).ok()).map_or(Value::Nothing, Value::Size));
            let same = others.same(&stack.key.0, i128::from(held.bytes));
            cells.push(Value::Ranks { same, of: others.ranks });
        }
        cells.extend([Value::Share { part: held.bytes, whole: total }, Value::Count(held.blocks)]);
        if let Some(picture) = self.picture {
            let mean = Sides { before: held.mean(), after: held.mean() };
            let highest = Sides { before: None, after: stack.highest.map(|highest| highest.bytes) };
            cells.extend(details::cells(mean, highest, picture.span(&stack.key.0)));
        }
        cells.push(match stack.bucket {
            Some(Bucket::Others) => Value::words(&*stack.label),
            _ => Value::stack(&*stack.label, self.lines(stack, code).more),
        });
        let tone = if stack.bucket.is_some() { Tone::Faint } else { Tone::Plain };
        let in_picture = self.picture.and_then(|picture| picture.row(&stack.key.0));
        Row { in_picture, ..Row::new(tone, cells) }
    }

    /// The frames of a row, for a page.
    fn frames(&self, stack: &StackTotal, code: &Code<'_>) -> Vec<StackLine> {
        let Some(id) = stack.stack().filter(|_| self.picture.is_some()) else { return Vec::new() };
        tree::frames(code, id).iter().map(|frame| StackLine::Context(frame.text())).collect()
    }

    fn call_stack(&self, stack: &StackTotal, id: StackId, code: &Code<'_>) -> CallStack {
        CallStack {
            amount: Value::Size((self.held)(stack).bytes),
            label: stack.label.clone(),
            also: Vec::new(),
            lines: self.summed(stack, code),
            frames: tree::frames(code, id),
            site: Site::new(code, id, self.options),
        }
    }
}

impl From<HeldLine> for SummedLine {
    fn from(line: HeldLine) -> Self {
        Self { amount: Value::Size(line.held.bytes), label: line.label }
    }
}

/// The meaning of the columns about other ranks.
pub(super) fn median_note(others: &Others<'_>) -> Option<String> {
    let median = others.median?;
    Some(format!("median: {median}, in the middle; ranks: on how many it is the same"))
}

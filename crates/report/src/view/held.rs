//! Stacks that hold most at a moment.

use super::device::{moment_name, moment_of};
use super::snapshot::Shown;
use super::stacks::{MOST_WITH_FRAMES, cells_of_details, details, tensors};
use super::{
    Block, CallStack, CallStacks, Content, Row, StackLine, SummedLine, Table, Tone, Value, explain, figure, words,
};
use crate::profile::{Bucket, Held, HeldLines, Member, Moment, StackTotal};
use crate::ranks::Others;
use crate::sides::Sides;
use crate::snapshot::StackId;
use crate::source::Site;
use crate::stack::Code;
use crate::units::Size;

/// Stacks when memory ran out that are listed beside those at the peak.
const MOST_AT_OOM: usize = 5;

/// A moment at which stacks are listed.
struct Listing<'a> {
    shown: Shown<'a>,
    stacks: Vec<StackTotal>,
    held: fn(&StackTotal) -> Held,
    held_by_member: fn(&Member) -> Held,
    moment: String,
}

/// The stacks of a device at the moment that was asked for.
pub(super) fn at_moment(shown: Shown<'_>) -> Vec<Block> {
    let moment = moment_of(shown.profile, shown.device);
    if shown.device.at.is_none() {
        let by = shown.profile.options.group_by.plural();
        return vec![Block::open(Content::Sentence(format!("no {by} {moment}: this device has no such moment")))];
    }
    let stacks = shown.device.listed(shown.options.top, 1);
    Listing { shown, stacks, held: |stack| stack.at, held_by_member: |member| member.at, moment }.blocks()
}

/// The stacks when memory first ran out, where those at the peak do not say it all and no other moment was asked for.
pub(super) fn at_oom(shown: Shown<'_>) -> Vec<Block> {
    let Shown { profile, device, options, .. } = shown;
    let is_known = device.figures.ooms.first().is_some_and(|oom| oom.allocated.is_some_and(|bytes| bytes > 0));
    if !is_known || profile.options.at != Moment::Peak || device.at_is_oom() {
        return Vec::new();
    }
    let stacks = device.listed_at_oom(if options.top == 0 { 0 } else { options.top.min(MOST_AT_OOM) }, 1);
    let shown = Shown { picture: None, others: None, ..shown };
    let moment = moment_name(&Moment::Oom);
    Listing { shown, stacks, held: |stack| stack.oom, held_by_member: |member| member.oom, moment }.blocks()
}

impl Listing<'_> {
    fn blocks(&self) -> Vec<Block> {
        let code = self.shown.profile.code();
        let mut blocks = vec![Block::open(Content::Table(self.table(&code)))];
        let stacks: Vec<_> = self.stacks.iter().filter_map(|stack| Some((stack, stack.stack()?))).collect();
        // The rows of a page have their frames.
        if !stacks.is_empty() && !self.shown.options.pictures {
            let made = stacks.iter().map(|(stack, id)| self.call_stack(stack, *id, &code));
            blocks.push(Block::folded(Content::CallStacks(CallStacks::new("Call stacks", made, stacks.len()))));
        }
        blocks
    }

    fn table(&self, code: &Code<'_>) -> Table {
        let Shown { profile, picture, others, options, .. } = self.shown;
        let total = self.stacks.iter().fold(0, |sum: u64, stack| sum.saturating_add((self.held)(stack).bytes));
        let mut columns = vec![figure("bytes")];
        if others.is_some() {
            columns.extend([figure("median"), figure("ranks")]);
        }
        columns.extend([figure("share"), figure("blocks")]);
        if picture.is_some() {
            columns.extend(details());
        }
        let by = profile.options.group_by;
        columns.push(words(by.noun()));
        let rows = self.stacks.iter().enumerate().map(|(at, stack)| {
            let frames = if at < MOST_WITH_FRAMES { self.frames(stack, code) } else { Vec::new() };
            Row {
                summed: if frames.is_empty() { Vec::new() } else { self.summed(stack, code) },
                frames,
                site: stack.stack().and_then(|stack| Site::new(code, stack, options)),
                shows_source: options.source,
                ..self.row(stack, code, total)
            }
        });
        Table {
            total: Size(total).to_string(),
            below: others.and_then(median_note),
            ..Table::new(columns, rows).titled(format!("largest {} {}", by.plural(), self.moment))
        }
    }

    /// The lines that a row sums.
    fn lines(&self, stack: &StackTotal, code: &Code<'_>) -> HeldLines {
        stack.lines_by(self.shown.profile.options.group_by, code, self.held_by_member)
    }

    /// The lines that a row sums, and the tensors that it consists of.
    fn summed(&self, stack: &StackTotal, code: &Code<'_>) -> Vec<SummedLine> {
        let lines = self.lines(stack, code).all.into_iter().map(|line| (line.label, line.held));
        let shapes = stack.shapes.iter().map(|line| (tensors(&line.label, line.held.blocks), line.held));
        lines.chain(shapes).map(|(label, held)| SummedLine { amount: Value::Size(held.bytes), label }).collect()
    }

    fn row(&self, stack: &StackTotal, code: &Code<'_>, total: u64) -> Row {
        let Shown { picture, others, .. } = self.shown;
        let held = (self.held)(stack);
        let mut cells = vec![Value::Size(held.bytes)];
        if let Some(others) = others {
            let median = others.of_median(&stack.key.0).filter(|_| stack.bucket != Some(Bucket::Others));
            cells.push(median.and_then(|bytes| u64::try_from(bytes).ok()).map_or(Value::Nothing, Value::Size));
            cells.push(Value::ranks(others.same(&stack.key.0, i128::from(held.bytes)), others.ranks));
        }
        cells.extend([Value::share(held.bytes, total), Value::count(held.blocks)]);
        if picture.is_some() {
            let highest = Sides { before: None, after: stack.highest.map(|highest| highest.bytes) };
            cells.extend(cells_of_details(Sides { before: held.mean(), after: held.mean() }, highest));
        }
        cells.push(match stack.bucket {
            Some(Bucket::Others) => Value::words(&*stack.label),
            _ => Value::stack(&*stack.label, self.lines(stack, code).more),
        });
        let tone = if stack.bucket.is_some() { Tone::Faint } else { Tone::Plain };
        Row { in_picture: picture.and_then(|picture| picture.row(&stack.key.0)), ..Row::new(tone, cells) }
    }

    /// The frames of a row, for a page.
    fn frames(&self, stack: &StackTotal, code: &Code<'_>) -> Vec<StackLine> {
        let id = stack.stack().filter(|_| self.shown.picture.is_some());
        id.map(|id| explain::frames(code, id)).unwrap_or_default()
    }

    fn call_stack(&self, stack: &StackTotal, id: StackId, code: &Code<'_>) -> CallStack {
        CallStack {
            amount: Value::Size((self.held)(stack).bytes),
            label: stack.label.clone(),
            also: Vec::new(),
            summed: self.summed(stack, code),
            lines: explain::frames(code, id),
            site: Site::new(code, id, self.shown.options),
        }
    }
}

/// The meaning of the columns about other ranks.
pub(super) fn median_note(others: &Others<'_>) -> Option<String> {
    let median = others.median?;
    Some(format!("median: {median}, in the middle; ranks: on how many it is the same"))
}

//! Stacks that hold most at a moment.

use ptmem_base::sides::Sides;
use ptmem_base::units::Size;
use ptmem_judge::verdict::Judgement;
use ptmem_trace::profile::{Bucket, DeviceProfile, GroupMember, Held, HeldLines, Moment, Profile, StackTotal};
use ptmem_trace::stack::{GroupBy, SnapshotCode};
use ptmem_trace::tags::how_to_record;

use super::device::{moment_name, moment_of};
use super::stacks::{RowFrames, details, frames, tensors};
use super::{Content, RowOfCells, Table, Tone, Value, figure, words};
use crate::RenderOptions;
use crate::picture::Picture;
use crate::ranks::Others;

/// In place of stacks, where an input has none.
pub(super) const NO_STACKS: &str =
    "no stacks: only figures were given; a recording of the same run shows which lines make them up";

/// Stacks when memory ran out that are listed beside those at the peak.
const MOST_AT_OOM: usize = 5;

/// A device of a snapshot, with the other ranks where it is of a job.
#[derive(Clone, Copy)]
pub(super) struct ShownDevice<'a> {
    pub(super) profile: &'a Profile,
    pub(super) device: &'a DeviceProfile,
    pub(super) judgement: Option<&'a Judgement>,
    pub(super) picture: Option<&'a Picture>,
    pub(super) others: Option<&'a Others<'a>>,
    pub(super) options: &'a RenderOptions,
}

/// A moment at which stacks are listed.
struct Listing<'a> {
    shown: ShownDevice<'a>,
    stacks: Vec<StackTotal>,
    held: fn(&StackTotal) -> Held,
    held_by_member: fn(&GroupMember) -> Held,
    moment: String,
}

/// The stacks of a device at the requested moment.
pub(super) fn at_moment(shown: ShownDevice<'_>) -> Content {
    let moment = moment_of(shown.profile, shown.device);
    if shown.device.at.is_none() {
        if shown.profile.is_numbers() {
            return Content::Sentence(NO_STACKS.to_owned());
        }
        let by = shown.profile.options.group_by.plural();
        return Content::Sentence(format!("no {by} {moment}: this device has no such moment"));
    }
    let stacks = shown.device.listed(shown.options.top(), 1);
    Listing { shown, stacks, held: |stack| stack.at, held_by_member: |member| member.at, moment }.table()
}

/// The stacks when memory first ran out, where those at the peak do not say it all and no other moment was requested.
pub(super) fn at_oom(shown: ShownDevice<'_>) -> Option<Content> {
    let ShownDevice { profile, device, options, .. } = shown;
    let is_known = device.figures.ooms.first().is_some_and(|oom| oom.allocated.is_some_and(|bytes| bytes > 0));
    if !is_known || profile.options.at != Moment::Peak || device.at_is_oom() {
        return None;
    }
    let stacks =
        device.listed_by(|total| total.oom, if options.top() == 0 { 0 } else { options.limit(MOST_AT_OOM) }, 1);
    let shown = ShownDevice { picture: None, others: None, ..shown };
    let moment = moment_name(&Moment::Oom);
    let listing = Listing { shown, stacks, held: |stack| stack.oom, held_by_member: |member| member.oom, moment };
    Some(listing.table())
}

impl Listing<'_> {
    fn table(&self) -> Content {
        let ShownDevice { profile, others, options, .. } = self.shown;
        let code = profile.code();
        let total = self.stacks.iter().fold(0, |sum: u64, stack| sum.saturating_add((self.held)(stack).bytes));
        let mut columns = vec![figure("bytes")];
        if others.is_some() {
            columns.extend([figure("median"), figure("ranks")]);
        }
        let by = profile.options.group_by;
        columns.extend([figure("share"), figure("blocks"), words(by.noun())]);
        let mut with_frames = RowFrames::new(options);
        let mut rows = Vec::with_capacity(self.stacks.len());
        for stack in &self.stacks {
            let row = with_frames.placed(self.row(stack, &code, total), &code, stack.stack());
            rows.push(match stack.stack() {
                Some(id) => with_frames.row(row, || frames((&code, id)), || self.summed(stack, &code)),
                None => row,
            });
        }
        Content::Table(Table {
            total: Size(total).to_string(),
            below: others.and_then(median_note).or_else(|| lack_of_groups(by, self.shown.device)),
            without_frames: with_frames.more,
            ..Table::new(columns, rows).titled(format!("largest {} {}", by.plural(), self.moment))
        })
    }

    /// The lines that a row sums.
    fn lines(&self, stack: &StackTotal, code: &SnapshotCode<'_>) -> HeldLines {
        stack.lines_by(self.shown.profile.options.group_by, code, self.held_by_member)
    }

    /// The lines that a row sums, and the tensors that it consists of.
    fn summed(&self, stack: &StackTotal, code: &SnapshotCode<'_>) -> Vec<[Value; 2]> {
        let lines = self.lines(stack, code).all.into_iter().map(|line| (line.label, line.held));
        let shapes = stack.shapes.iter().map(|line| (tensors(&line.label, line.held.blocks), line.held));
        lines.chain(shapes).map(|(label, held)| [Value::Size(held.bytes), Value::code(label)]).collect()
    }

    fn row(&self, stack: &StackTotal, code: &SnapshotCode<'_>, total: u64) -> RowOfCells {
        let ShownDevice { picture, others, .. } = self.shown;
        let held = (self.held)(stack);
        let mut cells = vec![Value::Size(held.bytes)];
        if let Some(others) = others {
            let median = others.of_median(&stack.key.0).filter(|_| stack.bucket != Some(Bucket::Others));
            cells.push(median.and_then(|bytes| u64::try_from(bytes).ok()).map_or(Value::Nothing, Value::Size));
            cells.push(Value::ranks(others.same(&stack.key.0, i128::from(held.bytes)), others.ranks));
        }
        cells.extend([Value::share(held.bytes, total), Value::count(held.blocks)]);
        cells.push(match stack.bucket {
            Some(Bucket::Others) => Value::words(&*stack.label),
            _ => Value::stack(&*stack.label, self.lines(stack, code).more),
        });
        let tone = if stack.bucket.is_some() { Tone::Faint } else { Tone::Plain };
        let mut row = RowOfCells::new(tone, cells);
        if let Some(picture) = picture {
            let highest = Sides { before: None, after: stack.highest.map(|highest| highest.bytes) };
            row.details = details(Sides { before: held.mean(), after: held.mean() }, highest);
            row.in_picture = picture.row(&stack.key.0);
        }
        row
    }
}

/// How to record what a grouping goes by, where no memory of a device has it.
fn lack_of_groups(by: GroupBy, device: &DeviceProfile) -> Option<String> {
    let how = how_to_record(by)?;
    let classes = &device.trace.classes;
    let is_without = !classes.is_empty() && classes.iter().all(|class| class.tags.of(by).is_none());
    is_without.then(|| format!("the recording has no {}: {how}", by.plural()))
}

/// The meaning of the columns about other ranks.
pub(super) fn median_note(others: &Others<'_>) -> Option<String> {
    let median = others.median?;
    Some(format!("median: the figure of {median}, the middle one; ranks: how many have the same figure as this rank"))
}

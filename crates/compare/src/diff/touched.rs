//! Rows that change through lines which a change of the code touches.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use ptmem_base::sides::{Side, Sides};
use ptmem_snapshot::snapshot::{FrameId, StackId};
use ptmem_trace::profile::{Held, Member, Profile};
use ptmem_trace::stack::Code;

use super::{Diff, Row};
use crate::patch::{CodeLine, Patch};

/// Lines that are named of one row.
const MOST_LINES: usize = 10;

/// The part of a row that changes through lines which a change of the code touches.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize)]
pub struct Touched {
    /// Bytes gained through them.
    pub delta: i128,
    /// The innermost of them on each stack of both sides, that of the largest first.
    #[serde(flatten)]
    pub lines: Sides<Vec<CodeLine>>,
}

impl Touched {
    /// True if there are any.
    #[must_use]
    pub fn is_some(&self) -> bool {
        !self.lines.before.is_empty() || !self.lines.after.is_empty()
    }
}

impl Diff {
    /// Marks the rows whose stacks go through lines that `patch` touches, and moves them in front of rows of the same
    /// size. `checkout` has the paths of recorded files from the root that those of the patch begin at.
    pub fn mark_touched(&mut self, patch: &Patch, checkout: &BTreeMap<String, String>) {
        let Self { profiles, devices, .. } = self;
        let marks = Sides {
            before: Marks::new(&profiles.before, Side::Before, patch, checkout),
            after: Marks::new(&profiles.after, Side::After, patch, checkout),
        };
        for device in devices {
            for row in &mut device.rows {
                row.touched = touched(row, &marks);
            }
            device.touched = Some(device.rows.iter().map(|row| row.touched.delta).sum());
            device
                .rows
                .sort_by_key(|row| (Reverse(row.delta().unsigned_abs()), row.delta() < 0, !row.touched.is_some()));
        }
    }
}

/// The touched line of every frame of one side.
struct Marks<'p> {
    code: Code<'p>,
    lines: Vec<Option<CodeLine>>,
}

impl<'p> Marks<'p> {
    fn new(profile: &'p Profile, side: Side, patch: &Patch, checkout: &BTreeMap<String, String>) -> Self {
        let code = profile.code();
        let frames = (0..code.tables().frames().len()).map(FrameId::from_index);
        let lines = frames.map(|frame| touched_line(&code, frame, side, patch, checkout)).collect();
        Self { code, lines }
    }

    /// The innermost touched line of a stack.
    fn of(&self, stack: StackId) -> Option<&CodeLine> {
        self.code.python(stack).find_map(|frame| self.lines[frame.index()].as_ref())
    }
}

fn touched_line(
    code: &Code<'_>,
    frame: FrameId,
    side: Side,
    patch: &Patch,
    checkout: &BTreeMap<String, String>,
) -> Option<CodeLine> {
    let line = code.line(frame)?;
    let path = patch.path(side, code.file(frame), checkout)?;
    patch.touches(side, path, line).then(|| CodeLine { path: path.to_owned(), line })
}

/// The part of a row on one side that touched lines allocated, and these lines.
fn part(members: impl Iterator<Item = Option<Member>>, marks: &Marks<'_>) -> (Held, Vec<CodeLine>) {
    let mut held = Held::default();
    let mut lines: Vec<CodeLine> = Vec::new();
    for member in members.flatten() {
        let Some(line) = marks.of(member.stack) else { continue };
        held = held.plus(member.at);
        if lines.len() < MOST_LINES && !lines.contains(line) {
            lines.push(line.clone());
        }
    }
    (held, lines)
}

fn touched(row: &Row, marks: &Sides<Marks<'_>>) -> Touched {
    let (before, before_lines) = part(row.members.iter().map(|pair| pair.before), &marks.before);
    let (after, after_lines) = part(row.members.iter().map(|pair| pair.after), &marks.after);
    let is_all_of_after = after.bytes > 0 && after == row.held.after;
    let is_all_of_before = before.bytes > 0 && before == row.held.before;
    // If all of one side is touched, the whole change counts.
    let delta = if is_all_of_after || (row.held.after.bytes == 0 && is_all_of_before) {
        row.delta()
    } else {
        i128::from(after.bytes) - i128::from(before.bytes)
    };
    Touched { delta, lines: Sides { before: before_lines, after: after_lines } }
}

//! Curves in lines of text.

use std::fmt::{self, Write};

use unicode_width::UnicodeWidthStr;

use super::Room;
use super::style::{BOLD, DIM};
use crate::lines::wrap;
use crate::sparkline::{column_of, sparkline};
use crate::units::Size;
use crate::view::{Curve, Marks, Steps, Timeline};

/// Columns of a curve.
const NARROWEST: usize = 10;
const WIDEST: usize = 120;

/// Writes the curves, each in a line, with marks below where there are any.
pub(super) fn write(out: &mut String, timeline: &Timeline, room: Room) -> fmt::Result {
    let width = room.columns;
    for curve in &timeline.curves {
        match curve.side {
            Some(side) => {
                let peak = Size(curve.peak).to_string();
                let line = sparkline(&curve.points, timeline.top, columns(width, 9 + side.name().len() + peak.width()));
                writeln!(out, "  {DIM}{side:<6}{DIM:#}  {line}  {peak}")?;
            }
            None => writeln!(out, "  {}", sparkline(&curve.points, timeline.top, columns(width, 4)))?,
        }
        if let Some(marks) = &curve.marks {
            write_marks(out, curve, marks, columns(width, 4))?;
        }
    }
    Ok(())
}

/// Writes the bytes of steps as a curve, with its caption below.
pub(super) fn write_steps(out: &mut String, steps: &Steps, room: Room) -> fmt::Result {
    let points = steps.bytes();
    let top = points.iter().copied().max().unwrap_or(0);
    writeln!(out, "  {}", sparkline(&points, top, columns(room.columns, 4)))?;
    writeln!(out, "  {DIM}{}{DIM:#}", wrap(&steps.caption(), 2, 2, room.line))
}

fn columns(width: usize, taken: usize) -> usize {
    width.saturating_sub(taken).clamp(NARROWEST, WIDEST)
}

/// The baseline and the peak, whose mark is at its column where there is room to the left of it.
fn write_marks(out: &mut String, curve: &Curve, marks: &Marks, columns: usize) -> fmt::Result {
    let column = column_of(marks.peak_event, marks.events, curve.points.len(), columns);
    let start = format!("└ baseline {}", Size(marks.baseline));
    let peak = format!("peak {}", Size(curve.peak));
    match column.checked_sub(start.width() + peak.width() + 1).filter(|&gap| gap > 0) {
        Some(gap) => writeln!(out, "  {DIM}{start}{:gap$}{DIM:#}{BOLD}{peak} ┘{BOLD:#}", ""),
        None => writeln!(out, "  {DIM}{start}{DIM:#}, {BOLD}{peak}{BOLD:#}"),
    }
}

//! Colours of a terminal.

use anstyle::{AnsiColor, Color, Style};
use ptmem_judge::verdict::{Mark, Standing, Verdict};
use similar::ChangeTag;

use crate::view::{StackLine, Tone};

pub(super) const BOLD: Style = Style::new().bold();
pub(super) const DIM: Style = Style::new().dimmed();
pub(super) const RED: Style = coloured(AnsiColor::Red);
pub(super) const GREEN: Style = coloured(AnsiColor::Green);
pub(super) const YELLOW: Style = coloured(AnsiColor::Yellow);
pub(super) const CYAN: Style = coloured(AnsiColor::Cyan);
const BLUE: Style = coloured(AnsiColor::Blue);

const fn coloured(colour: AnsiColor) -> Style {
    Style::new().fg_color(Some(Color::Ansi(colour)))
}

/// The style of a verdict.
pub(super) fn of_verdict(verdict: Verdict) -> Style {
    match verdict {
        Verdict::Pass => GREEN.bold(),
        Verdict::Regression => RED.bold(),
        Verdict::Inconclusive => YELLOW.bold(),
    }
}

/// The style of the word for what the checks found.
pub(super) fn of_mark(mark: Mark) -> Style {
    match mark.standing {
        Standing::Ok if mark.accepted => YELLOW,
        Standing::Ok => GREEN,
        Standing::Warning | Standing::Inconclusive => YELLOW,
        Standing::Exceeded => RED.bold(),
    }
}

/// The style of a line of a call stack.
pub(super) fn of_line(line: &StackLine) -> Style {
    match line.tag {
        None => CYAN,
        Some(ChangeTag::Equal) => Style::new(),
        Some(ChangeTag::Delete) => RED,
        Some(ChangeTag::Insert) => GREEN,
    }
}

/// The style of a row.
pub(super) fn of_tone(tone: Tone) -> Style {
    match tone {
        Tone::Plain => Style::new(),
        Tone::Main => BOLD,
        Tone::Faint => DIM,
        Tone::Worse => RED,
        Tone::Better => GREEN,
        Tone::Mark(Mark { standing: Standing::Ok, accepted: false }) => Style::new(),
        Tone::Mark(mark) => of_mark(mark),
        Tone::Heat(50..) => RED,
        Tone::Heat(25..) => YELLOW,
        Tone::Heat(10..) => GREEN,
        Tone::Heat(5..) => CYAN,
        Tone::Heat(_) => BLUE,
    }
}

//! The steps or snapshots of a search for leaks, or the profiles of a history: bytes held in each as bars, stacks as
//! lines.

use maud::{Markup, html};

use super::axes::{Axes, labelled};
use super::chart::path;
use super::scale::{Milli, SPAN, share};
use super::{name, parts};
use crate::units::Size;
use crate::view::{StepLine, Steps};

/// Lines that are drawn: the leaks that grow fastest, or the largest stacks.
const MOST_LINES: usize = 8;

/// Bars that have their values above them.
const MOST_VALUES: usize = 12;

/// Heights of the plots in pixels.
const BARS: u64 = 130;
const LINES: u64 = 150;

/// The bars and the lines.
pub(super) fn figure(steps: &Steps) -> Markup {
    html! {
        (bars(steps))
        @if steps.lines.iter().any(|line| line.bytes.len() > 1) { (lines(steps)) }
    }
}

fn bars(steps: &Steps) -> Markup {
    let top = steps.points.iter().filter_map(|point| point.allocated).max().unwrap_or(0).max(1);
    let count = steps.points.len().max(1) as u64;
    let noun = steps.noun;
    let axes = Axes::new(BARS, top, steps.budget);
    let bars = html! {
        @for (at, point) in (0_u64..).zip(&steps.points) {
            @let bytes = point.allocated.unwrap_or(0);
            @let is_warm_up = usize::try_from(at).is_ok_and(|at| at < steps.skip);
            rect class=(if is_warm_up { "bar faint" } else { "bar" }) x=(share(at, count, SPAN)) y=(axes.y(bytes))
                width=(share(9, count * 10, SPAN)) height=(Milli(SPAN.cast_signed() * 1_000 - axes.y(bytes).0)) {
                title { (name(&point.name)) ": " (value(point.allocated)) @if is_warm_up { ", warm-up" } }
            }
        }
    };
    let values = html! {
        @if steps.points.len() <= MOST_VALUES {
            g.values {
                @for (at, point) in (0_u64..).zip(&steps.points) {
                    @let y = axes.down(point.allocated.unwrap_or(0));
                    text.value x=(format!("{}%", middle(at, count))) y=(Milli(y.0 - 3_000)) text-anchor="middle" {
                        (value(point.allocated))
                    }
                }
            }
        }
    };
    let description = format!("{count} bars, one for each {noun}, from {} to {}", end(steps, true), end(steps, false));
    html! {
        figure.bars {
            figcaption { (parts::sentence(&steps.caption())) @if steps.skip > 0 { "; grey is warm-up" } }
            (axes.plot(&description, &bars, &values, &labels(steps, middle)))
        }
    }
}

/// The middle of a bar, in percent.
fn middle(at: u64, count: u64) -> Milli {
    share(at * 20 + 9, count * 20, 100)
}

/// The place of a point of a line, in percent.
fn along(at: u64, count: u64) -> Milli {
    share(at, count.saturating_sub(1).max(1), 100)
}

/// The names of some of the steps, at their places.
fn labels(steps: &Steps, place: fn(u64, u64) -> Milli) -> Vec<(Milli, String)> {
    let count = steps.points.len() as u64;
    let labelled = labelled(steps.points.len()).into_iter();
    labelled.filter_map(|at| Some((place(at as u64, count), name(&steps.points.get(at)?.name)))).collect()
}

/// A size in words.
fn value(bytes: Option<u64>) -> String {
    bytes.map_or("unknown".to_owned(), |bytes| Size(bytes).to_string())
}

/// The size at the first or the last of the steps.
fn end(steps: &Steps, is_first: bool) -> String {
    let point = if is_first { steps.points.first() } else { steps.points.last() };
    value(point.and_then(|point| point.allocated))
}

fn lines(steps: &Steps) -> Markup {
    let shown = &steps.lines[..steps.lines.len().min(MOST_LINES)];
    let top = shown.iter().flat_map(|line| &line.bytes).copied().max().unwrap_or(0).max(1);
    let last = steps.points.len().saturating_sub(1) as u64;
    let axes = Axes::new(LINES, top, None);
    let lines = html! {
        @for (at, line) in shown.iter().enumerate() {
            @let points = (steps.skip as u64..).zip(&line.bytes);
            @let places = points.map(|(step, &bytes)| (share(step.min(last), last.max(1), SPAN), axes.y(bytes)));
            path class=(format!("line grows c{at}")) d=(path(places)) { title { (name(&line.label)) } }
        }
    };
    let description = format!("{} lines: {}, up to {}", shown.len(), steps.lines_title, Size(top));
    html! {
        figure.lines {
            figcaption { (steps.lines_title) ", up to " (Size(top)) }
            ul.legend {
                @for (at, line) in shown.iter().enumerate() {
                    li { span class=(format!("key grows c{at}")) {} code { (name(&line.label)) } " " (course(line)) (same(shown, at)) }
                }
            }
            (axes.plot(&description, &lines, &html! {}, &labels(steps, along)))
        }
    }
}

/// The first and the last value of a line.
fn course(line: &StepLine) -> String {
    format!("{} → {}", value(line.bytes.first().copied()), value(line.bytes.last().copied()))
}

/// Says of a line that lies over an earlier one which that is: dashes let both be seen.
fn same(lines: &[StepLine], at: usize) -> String {
    let earlier = lines[..at].iter().find(|earlier| earlier.bytes == lines[at].bytes);
    earlier.map_or(String::new(), |earlier| format!(", the same as {}", name(&earlier.label)))
}

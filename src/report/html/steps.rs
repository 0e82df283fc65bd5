//! The steps or snapshots of a search for leaks, or the profiles of a history: bytes held in each as bars, stacks as
//! lines.

use maud::{Markup, html};

use super::chart::path;
use super::name;
use super::scale::{SPAN, share};
use crate::report::view::Steps;
use crate::units::Size;

/// Lines that are drawn: the leaks that grow fastest, or the largest stacks.
const MOST_LINES: usize = 8;

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
    html! {
        figure.bars {
            figcaption { (steps.title) ", at most " (Size(top)) }
            svg width="100%" height="120" viewBox=(format!("0 0 {SPAN} {SPAN}")) preserveAspectRatio="none" role="img"
                aria-label=(format!("{count} bars, one for each {noun}, from {} to {}", end(steps, true), end(steps, false))) {
                @for (at, point) in (0_u64..).zip(&steps.points) {
                    @let bytes = point.allocated.unwrap_or(0);
                    @let is_warm_up = usize::try_from(at).is_ok_and(|at| at < steps.skip);
                    rect class=(if is_warm_up { "bar faint" } else { "bar" }) x=(share(at, count, SPAN))
                        y=(share(top - bytes, top, SPAN)) width=(share(9, count * 10, SPAN)) height=(share(bytes, top, SPAN)) {
                        title { (name(&point.name)) ": " (point.allocated.map_or("unknown".to_owned(), |bytes| Size(bytes).to_string())) }
                    }
                }
            }
        }
    }
}

/// The size at the first or the last of the steps.
fn end(steps: &Steps, is_first: bool) -> String {
    let point = if is_first { steps.points.first() } else { steps.points.last() };
    point.and_then(|point| point.allocated).map_or("unknown".to_owned(), |bytes| Size(bytes).to_string())
}

fn lines(steps: &Steps) -> Markup {
    let shown = &steps.lines[..steps.lines.len().min(MOST_LINES)];
    let top = shown.iter().flat_map(|line| &line.bytes).copied().max().unwrap_or(0).max(1);
    let last = steps.points.len().saturating_sub(1) as u64;
    html! {
        figure.lines {
            figcaption { (steps.lines_title) ", up to " (Size(top)) }
            ul.legend {
                @for (at, line) in shown.iter().enumerate() {
                    li { span class=(format!("key area c{at}")) {} code { (name(&line.label)) } }
                }
            }
            svg width="100%" height="140" viewBox=(format!("0 0 {SPAN} {SPAN}")) preserveAspectRatio="none" role="img"
                aria-label=(format!("{} lines: {}, up to {}", shown.len(), steps.lines_title, Size(top))) {
                @for (at, line) in shown.iter().enumerate() {
                    @let points = (steps.skip as u64..).zip(&line.bytes);
                    @let places = points.map(|(step, bytes)| (share(step.min(last), last.max(1), SPAN), share(top - bytes, top, SPAN)));
                    path class=(format!("line grows c{at}")) d=(path(places)) { title { (name(&line.label)) } }
                }
            }
        }
    }
}

//! Charts of several recordings, or of the steps of one: the ranks of a job as bars, each of which opens its rank; the steps or
//! snapshots of a search for leaks and the profiles of a history as bars, with stacks as lines.

use maud::{Markup, html};
use ptmem_base::units::Size;
use ptmem_compare::leak::SeriesPoint;

use super::axes::{Axes, Coordinate, SPAN, labelled, share, short};
use super::chart::path;
use super::parts;
use crate::name::name;
use crate::view::{Group, RowOfCells, Section, StepChart, StepLine, Tone, Value, known_size};

/// Heights of the plots of ranks, and of the bars and the lines of steps, in pixels.
const RANKS: u64 = 100;
const BARS: u64 = 130;
const LINES: u64 = 150;

/// Bars of one chart.
const MOST_BARS: usize = 512;

/// Bars that have their values above them.
const MOST_VALUES: usize = 12;

/// A bar.
struct Bar {
    /// `None` where that is not known: there is none then.
    bytes: Option<u64>,
    /// Its class in the style sheet, beside that of all bars.
    class: &'static str,
    /// The text above it.
    value: String,
    /// The name below it.
    label: String,
    title: String,
    /// The number of the section that it opens.
    section: Option<usize>,
}

/// The bars with their values and names.
fn plot(axes: &Axes, description: &str, bars: &[Bar]) -> Markup {
    let count = bars.len().max(1) as u64;
    let drawn = html! {
        @for (at, bar) in (0_u64..).zip(bars) {
            @if let Some(bytes) = bar.bytes {
                @let drawn = drawn(axes, bar, bytes, at, count);
                @match bar.section {
                    Some(section) => { a href=(format!("#s{section}")) aria-label=(bar.title) { (drawn) } }
                    None => { (drawn) }
                }
            }
        }
    };
    let values = html! {
        @if bars.len() <= MOST_VALUES {
            g.values {
                @for (at, bar) in (0_u64..).zip(bars) {
                    @let y = axes.down(bar.bytes.unwrap_or(0));
                    text.value x=(format!("{}%", middle(at, count))) y=(Coordinate(y.0 - 3.0)) text-anchor="middle" { (bar.value) }
                }
            }
        }
    };
    let labelled = labelled(bars.len()).into_iter();
    let labels = labelled.filter_map(|at| Some((middle(at as u64, count), short(&name(&bars.get(at)?.label)))));
    axes.plot(description, &drawn, &values, &labels.collect::<Vec<_>>())
}

/// The middle of a bar, in percent.
fn middle(at: u64, count: u64) -> Coordinate {
    share(at * 20 + 9, count * 20, 100)
}

fn drawn(axes: &Axes, bar: &Bar, bytes: u64, at: u64, count: u64) -> Markup {
    let whole = SPAN as f64;
    // A bar of nothing can be seen as well.
    let height = (whole - axes.y(bytes).0).max(20.0);
    html! {
        rect class=(format!("bar {}", bar.class).trim_end()) x=(share(at, count, SPAN)) y=(Coordinate(whole - height))
            width=(share(9, count * 10, SPAN)) height=(Coordinate(height)) { title { (bar.title) } }
    }
}

/// The ranks of a job; empty without a job.
pub(super) fn of_ranks(group: &Group, sections: &[(&Group, &Section)]) -> Markup {
    let Some(ranks) = &group.ranks else { return html! {} };
    let main = ranks.columns.iter().position(|column| column.is_main).unwrap_or(0);
    let bars = ranks.rows.iter().filter_map(|row| of_rank(group, row, main, sections)).take(MOST_BARS);
    let bars: Vec<Bar> = bars.collect();
    let top = bars.iter().filter_map(|bar| bar.bytes).max().unwrap_or(0).max(1);
    html! {
        figure.bars {
            figcaption { "Peak of each rank (" (ranks.columns[main].head) "); a bar opens its rank" }
            (plot(&Axes::new(RANKS, top, None), &format!("{} ranks", bars.len()), &bars))
        }
    }
}

/// The figure that the table is about as a bar.
fn of_rank(group: &Group, row: &RowOfCells, main: usize, sections: &[(&Group, &Section)]) -> Option<Bar> {
    let label = row.cells.first()?.to_string();
    let texts = row.cells.iter().map(ToString::to_string).filter(|text| !text.is_empty());
    Some(Bar {
        bytes: match row.cells.get(main)? {
            Value::Size(bytes) => Some(*bytes),
            Value::Change(delta) => Some(u64::try_from(*delta).unwrap_or(0)),
            _ => return None,
        },
        class: match row.tone {
            Tone::Mark(mark) => mark.standing.name(),
            Tone::Faint => "faint",
            Tone::Plain | Tone::Main | Tone::Worse | Tone::Better | Tone::Heat(_) => "",
        },
        value: row.cells[main].to_string(),
        title: name(&texts.collect::<Vec<_>>().join(", ")),
        section: sections.iter().position(|(of, section)| std::ptr::eq(*of, group) && section.name == label),
        label,
    })
}

/// The bars and the lines.
pub(super) fn of_steps(steps: &StepChart) -> Markup {
    html! {
        (bars_of_steps(steps))
        @if steps.lines.iter().any(|line| line.bytes.len() > 1) { (lines_of_steps(steps)) }
    }
}

fn bars_of_steps(steps: &StepChart) -> Markup {
    let top = steps.bytes().into_iter().max().unwrap_or(0).max(1);
    let bars = steps.points.iter().enumerate().map(|(at, point)| bar(point, at < steps.skip));
    let bars: Vec<Bar> = bars.collect();
    let [first, last] = [bars.first(), bars.last()].map(|bar| bar.map_or("unknown", |bar| &bar.value));
    let description = format!("{} bars, one for each {}, from {first} to {last}", bars.len(), steps.noun);
    html! {
        figure.bars {
            figcaption { (parts::sentence(&steps.caption())) @if steps.skip > 0 { "; grey is warm-up" } }
            (plot(&Axes::new(BARS, top, steps.budget), &description, &bars))
        }
    }
}

fn bar(point: &SeriesPoint, is_warm_up: bool) -> Bar {
    let value = known_size(point.allocated);
    let remark = if is_warm_up { ", warm-up" } else { "" };
    let label = point.name.to_string();
    Bar {
        bytes: point.allocated,
        class: if is_warm_up { "faint" } else { "" },
        title: format!("{}: {value}{remark}", name(&label)),
        value,
        label,
        section: None,
    }
}

fn lines_of_steps(steps: &StepChart) -> Markup {
    let shown = &steps.lines;
    let top = shown.iter().flat_map(|line| line.bytes.iter().flatten()).copied().max().unwrap_or(0).max(1);
    let last = steps.points.len().saturating_sub(1).max(1) as u64;
    let axes = Axes::new(LINES, top, None);
    let lines = html! {
        @for (at, line) in shown.iter().enumerate() {
            @let points = (steps.skip as u64..).zip(&line.bytes);
            @let places = points.map(|(step, bytes)| Some((share(step.min(last), last, SPAN), axes.y((*bytes)?))));
            path class=(format!("line grows c{at}")) d=(path_with_gaps(&places.collect::<Vec<_>>())) { title { (name(&line.name)) } }
        }
    };
    let labelled = labelled(steps.points.len()).into_iter();
    let labels = labelled
        .filter_map(|at| Some((share(at as u64, last, 100), short(&name(&steps.points.get(at)?.name.to_string())))));
    let labels: Vec<(Coordinate, String)> = labels.collect();
    let description = format!("{} lines: {}, up to {}", shown.len(), steps.lines_title, Size(top));
    html! {
        figure.lines {
            figcaption { (steps.lines_title) ", up to " (Size(top)) }
            ul.legend {
                @for (at, line) in shown.iter().enumerate() {
                    @let course = [line.bytes.first(), line.bytes.last()].map(|bytes| known_size(bytes.copied().flatten()));
                    li { span class=(format!("key grows c{at}")) {} code { (name(&line.name)) } " " (course.join(" → ")) (same(shown, at)) }
                }
            }
            (axes.plot(&description, &lines, &html! {}, &labels))
        }
    }
}

/// A line through places, with a gap where one is not known. One between two gaps is a dash.
fn path_with_gaps(places: &[Option<(Coordinate, Coordinate)>]) -> String {
    let runs = places.split(Option::is_none).filter(|run| !run.is_empty());
    runs.map(|run| path(run.iter().flatten().copied()) + if run.len() == 1 { "m-2 0h4" } else { "" }).collect()
}

/// Names the earlier line that a later one covers; both are visible because of dashes.
fn same(lines: &[StepLine], at: usize) -> String {
    let earlier = lines[..at].iter().find(|earlier| earlier.bytes == lines[at].bytes);
    earlier.map_or(String::new(), |earlier| format!(", the same as {}", name(&earlier.name)))
}

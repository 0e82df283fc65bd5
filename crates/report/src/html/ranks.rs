//! The ranks of a job as a row of small bars, each of which opens its rank.

use maud::{Markup, html};

use super::axes::{Axes, labelled};
use super::name;
use super::scale::{Milli, SPAN, share};
use crate::view::{Group, Row, Section, Table, Tone, Value};

/// Bars of one job.
const MOST_BARS: usize = 512;

/// Bars that have their values above them.
const MOST_VALUES: usize = 12;

/// Height of the plot in pixels.
const HEIGHT: u64 = 100;

/// The row of bars; nothing where there is no job.
pub(super) fn figure(group: &Group, sections: &[(&Group, &Section)]) -> Markup {
    let Some(ranks) = &group.ranks else { return html! {} };
    let bars: Vec<(&Row, u64)> =
        ranks.rows.iter().filter_map(|row| Some((row, height(ranks, row)?))).take(MOST_BARS).collect();
    let top = bars.iter().map(|(_, bytes)| *bytes).max().unwrap_or(0).max(1);
    let count = bars.len().max(1) as u64;
    let head = ranks.columns.iter().find(|column| column.is_main).map_or("bytes", |column| column.head.as_str());
    let axes = Axes::new(HEIGHT, top, None);
    let drawn = html! {
        @for (at, (row, bytes)) in (0_u64..).zip(&bars) {
            @let bar = bar(&axes, row, Place { at, count }, *bytes);
            @match section_of(group, row, sections) {
                Some(section) => { a href=(format!("#s{section}")) aria-label=(title(row)) { (bar) } }
                None => { (bar) }
            }
        }
    };
    let values = html! {
        @if bars.len() <= MOST_VALUES {
            @for (at, (row, bytes)) in (0_u64..).zip(&bars) {
                @let y = axes.down(*bytes);
                text.value x=(format!("{}%", Place { at, count }.middle())) y=(Milli(y.0 - 3_000)) text-anchor="middle" { (figure_of(ranks, row)) }
            }
        }
    };
    let labels: Vec<(Milli, String)> = labelled(bars.len())
        .into_iter()
        .filter_map(|at| {
            let label = bars.get(at)?.0.cells.first()?.to_string();
            Some((Place { at: at as u64, count }.middle(), name(&label)))
        })
        .collect();
    html! {
        figure.bars {
            figcaption { "Peak of each rank (" (head) "); a bar opens its rank" }
            (axes.plot(&format!("{} ranks", bars.len()), &drawn, &values, &labels))
        }
    }
}

/// The place of a bar among all.
#[derive(Clone, Copy)]
struct Place {
    at: u64,
    count: u64,
}

impl Place {
    /// Its middle in percent.
    fn middle(self) -> Milli {
        share(self.at * 20 + 8, self.count * 20, 100)
    }
}

fn bar(axes: &Axes, row: &Row, place: Place, bytes: u64) -> Markup {
    let y = axes.y(bytes);
    // A bar of nothing can be seen as well.
    let height = Milli((SPAN.cast_signed() * 1_000 - y.0).max(20_000));
    html! {
        rect class=(format!("bar {}", class(row))) x=(share(place.at, place.count, SPAN)) y=(Milli(SPAN.cast_signed() * 1_000 - height.0))
            width=(share(8, place.count * 10, SPAN)) height=(height) { title { (title(row)) } }
    }
}

/// The figure of a rank as its table has it.
fn figure_of(ranks: &Table, row: &Row) -> String {
    let main = ranks.columns.iter().position(|column| column.is_main);
    main.and_then(|main| row.cells.get(main)).map(ToString::to_string).unwrap_or_default()
}

fn class(row: &Row) -> &'static str {
    match row.tone {
        Tone::Mark(mark) => mark.standing.name(),
        Tone::Faint => "faint",
        Tone::Plain | Tone::Main | Tone::Worse | Tone::Better | Tone::Heat(_) => "",
    }
}

/// The figure that the table is about, as the height of a bar.
fn height(ranks: &Table, row: &Row) -> Option<u64> {
    let main = ranks.columns.iter().position(|column| column.is_main)?;
    match row.cells.get(main)? {
        Value::Size(bytes) => Some(*bytes),
        Value::Change(delta) => Some(u64::try_from(*delta).unwrap_or(0)),
        _ => None,
    }
}

fn title(row: &Row) -> String {
    let texts = row.cells.iter().map(ToString::to_string).filter(|text| !text.is_empty());
    name(&texts.collect::<Vec<_>>().join(", "))
}

/// The number of the section about the rank of a row.
fn section_of(group: &Group, row: &Row, sections: &[(&Group, &Section)]) -> Option<usize> {
    let label = row.cells.first()?.to_string();
    sections.iter().position(|(of, section)| std::ptr::eq(*of, group) && section.name == label)
}

//! The timeline of the first device as a picture of its own.

use maud::{Markup, html};

use super::chart::Chart;
use super::timeline::{self, Key};
use super::with_pictures;
use crate::view::View;
use crate::{RenderOptions, Subject};

const STYLE: &str = include_str!("assets/timeline.css");

/// Width of the picture in pixels.
const WIDTH: u64 = 1_000;

/// Entries of the legend beside each other, and the height of a line of them in pixels.
const COLUMNS: usize = 5;
const LINE: u64 = 20;

/// The longest name in the legend, in bytes.
const LONGEST_KEY: usize = 22;

/// Writes the timeline of the worst device as SVG.
pub(crate) fn render(subject: Subject<'_>, options: &RenderOptions) -> String {
    let view = View::new(subject, &with_pictures(options));
    let sections = view.sections();
    let mut charts = sections.iter().filter_map(|(_, section)| Chart::new(section.picture.as_ref()?));
    let picture = match charts.next() {
        Some(chart) => of_chart(&chart),
        None => html! {
            svg xmlns="http://www.w3.org/2000/svg" viewBox=(format!("0 0 {WIDTH} 40")) width=(WIDTH) {
                text x="10" y="25" font-family="sans-serif" { "no recorded history of allocations" }
            }
        },
    };
    picture.into_string() + "\n"
}

/// The timeline with its legend below.
fn of_chart(chart: &Chart<'_>) -> Markup {
    let keys = timeline::keys(chart.picture);
    let top = chart.axes.total_height();
    let height = top + keys.len().div_ceil(COLUMNS) as u64 * LINE + LINE / 2;
    html! {
        svg xmlns="http://www.w3.org/2000/svg" viewBox=(format!("0 0 {WIDTH} {height}")) width=(WIDTH) {
            style { (maud::PreEscaped(STYLE)) }
            rect.page width="100%" height="100%" {}
            (timeline::plot(chart, &timeline::description(chart.picture)))
            g.legend {
                @for (at, key) in keys.iter().enumerate() {
                    (entry(key, (at % COLUMNS) as u64 * (WIDTH / COLUMNS as u64), top + (at / COLUMNS) as u64 * LINE))
                }
            }
        }
    }
}

/// An entry of the legend: a sample, and its name as far as there is room.
fn entry(key: &Key, x: u64, y: u64) -> Markup {
    let name = ptmem_base::text::cut(&key.text, LONGEST_KEY);
    html! {
        @if key.is_line {
            path class=(format!("line {}", key.class)) d=(format!("M{} {}h28", x + 8, y + 10)) {}
        } @else {
            rect class=(key.class) x=(x + 8) y=(y + 4) width="28" height="12" {}
        }
        text x=(x + 44) y=(y + 14) { (name) @if name.len() < key.text.len() { "…" } }
    }
}

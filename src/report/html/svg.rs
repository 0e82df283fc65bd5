//! The timeline of the first device as a picture of its own.

use maud::html;

use super::chart::Chart;
use super::{timeline, with_pictures};
use crate::report::view::View;
use crate::report::{Options, Subject};

const STYLE: &str = include_str!("assets/timeline.css");

/// Width of the picture in pixels.
const WIDTH: u32 = 1_000;

/// Writes the timeline of the worst device as SVG.
pub(in crate::report) fn render(subject: Subject<'_>, options: &Options) -> String {
    let view = View::new(subject, &with_pictures(options));
    let sections = view.sections();
    let mut charts = sections.iter().filter_map(|(_, section)| Chart::new(section.picture.as_ref()?));
    let picture = match charts.next() {
        Some(chart) => html! {
            svg xmlns="http://www.w3.org/2000/svg" viewBox=(format!("0 0 {WIDTH} {}", timeline::height(&chart))) width=(WIDTH) {
                style { (maud::PreEscaped(STYLE)) }
                rect.page width="100%" height="100%" {}
                (timeline::plot(&chart, &timeline::description(chart.picture)))
            }
        },
        None => html! {
            svg xmlns="http://www.w3.org/2000/svg" viewBox=(format!("0 0 {WIDTH} 40")) width=(WIDTH) {
                text x="10" y="25" font-family="sans-serif" { "no recorded history of allocations" }
            }
        },
    };
    picture.into_string() + "\n"
}

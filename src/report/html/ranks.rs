//! The ranks of a job as a row of small bars, each of which opens its rank.

use maud::{Markup, html};

use super::name;
use super::scale::{SPAN, share};
use super::table::mark_class;
use crate::report::view::{Group, Row, Section, Table, Tone, Value};

/// Bars of one job.
const MOST_BARS: usize = 512;

/// The row of bars; nothing where there is no job.
pub(super) fn figure(group: &Group, sections: &[(&Group, &Section)]) -> Markup {
    let Some(ranks) = &group.ranks else { return html! {} };
    let bars: Vec<(&Row, u64)> =
        ranks.rows.iter().filter_map(|row| Some((row, height(ranks, row)?))).take(MOST_BARS).collect();
    let top = bars.iter().map(|(_, bytes)| *bytes).max().unwrap_or(0).max(1);
    let count = bars.len().max(1) as u64;
    let head = ranks.columns.iter().find(|column| column.is_main).map_or("bytes", |column| column.head.as_str());
    html! {
        figure.bars {
            figcaption { "Peak of each rank (" (head) "); a bar opens its rank" }
            svg width="100%" height="90" viewBox=(format!("0 0 {SPAN} {SPAN}")) preserveAspectRatio="none" role="group"
                aria-label=(format!("{} ranks", bars.len())) {
                @for (at, (row, bytes)) in (0_u64..).zip(&bars) {
                    @let bar = bar(row, (at, count), (*bytes, top));
                    @match section_of(group, row, sections) {
                        Some(section) => { a href=(format!("#s{section}")) aria-label=(title(row)) { (bar) } }
                        None => { (bar) }
                    }
                }
            }
        }
    }
}

fn bar(row: &Row, (at, count): (u64, u64), (bytes, top): (u64, u64)) -> Markup {
    // A bar of nothing can be seen as well.
    let shown = bytes.max(top / 50);
    html! {
        rect class=(format!("bar {}", class(row))) x=(share(at, count, SPAN)) y=(share(top.saturating_sub(shown), top, SPAN))
            width=(share(8, count * 10, SPAN)) height=(share(shown, top, SPAN)) { title { (title(row)) } }
    }
}

fn class(row: &Row) -> &'static str {
    match row.tone {
        Tone::Mark(mark) => mark_class(mark),
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

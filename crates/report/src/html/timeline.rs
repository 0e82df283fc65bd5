//! The curves of a device as a still picture, which the script redraws for other scales and for the pointer.

use maud::{Markup, html};
use ptmem_base::sides::Side;
use ptmem_base::text::thousands;
use ptmem_base::units::{Size, whole};
use ptmem_trace::stack::OTHER;

use super::axes::{ABOVE, Coordinate, Domain, SPAN};
use super::chart::{Axis, Chart, LANE, MOST_LANES, PLOT, Palette};
use crate::name::name;
use crate::picture::{Band, CurveEvent, EventKind, Picture, SideCurves};
use crate::view::seconds;

/// The figure of a device's curves with its legend, and places for the controls that the script makes.
pub(super) fn figure(picture: &Picture, id: &str) -> Markup {
    let Some(chart) = Chart::new(picture) else {
        return html! { p.missing { "No timeline: the input has no recorded history of allocations." } };
    };
    let is_coarse = picture.curves.iter().any(|curve| curve.is_coarse);
    html! {
        figure.timeline aria-labelledby=(format!("{id}-timeline")) {
            figcaption id=(format!("{id}-timeline")) { (title(picture)) }
            div.controls {}
            (legend(picture))
            (plot(&chart, &description(picture)))
            p.readout aria-live="polite" {}
            @if is_coarse {
                p.note { "The curve is coarse: in a report on the ranks of a job, it has only the highest value in each of \
                          many equal parts. Compare the files of one rank to see every moment." }
            }
            @if !picture.has_layout() {
                p.note { "No segment map: it needs the addresses of blocks, which saved profiles and ranks of a job \
                          do not have." }
            }
        }
    }
}

fn title(picture: &Picture) -> &'static str {
    match (picture.curves.len(), picture.is_aligned) {
        (0 | 1, _) => "Memory over the recording",
        (_, true) => "Memory over the recording, before and after at the same place of the program",
        (_, false) => "Memory over the recording, before and after",
    }
}

/// The picture in words.
fn description(picture: &Picture) -> String {
    let curves = picture.curves.iter().map(|curve| {
        let peak = curve.points.iter().map(|point| point.allocated).max().unwrap_or(0);
        let end = curve.points.last().map_or(0, |point| point.allocated);
        let side = curve.side.map(|side| format!("{side}: ")).unwrap_or_default();
        format!("{side}allocated memory with a peak of {} and {} at the end", Size(peak), Size(end))
    });
    curves.collect::<Vec<_>>().join("; ")
}

fn legend(picture: &Picture) -> Markup {
    html! {
        ul.legend {
            @for key in keys(picture) { li data-key=(key.class) title=[key.meaning] { span class=(format!("key {}", key.class)) {} (key.text) } }
        }
    }
}

/// An entry of the legend.
struct LegendEntry {
    /// The classes of its sample.
    class: String,
    text: String,
    /// Questions that a reader may have about it.
    meaning: Option<&'static str>,
}

/// The entries of the legend: the lines of both sides, then each category, the lowest of the stack first.
fn keys(picture: &Picture) -> Vec<LegendEntry> {
    let mut keys = Vec::new();
    for curve in &picture.curves {
        let counters = ["allocated", "reserved"].into_iter().filter(|of| *of == "allocated" || curve.has_reserved());
        keys.extend(counters.map(|counter| LegendEntry {
            class: format!("{counter} {}", class(curve.side)),
            text: label(curve.side, counter),
            meaning: None,
        }));
        keys.extend((!curve.pools.is_empty()).then(|| LegendEntry {
            class: format!("pool {}", class(curve.side)),
            text: label(curve.side, "private pools"),
            meaning: Some(MEANING_OF_POOLS),
        }));
    }
    let palette = Palette::new(picture);
    let (shared, named): (Vec<_>, Vec<_>) =
        picture.categories.iter().partition(|category| palette.colour(category) == Palette::SHARED);
    let areas = named.into_iter().map(|category| (palette.colour(category), name(category)));
    let others = (!shared.is_empty()).then(|| (Palette::SHARED, "other categories".to_owned()));
    keys.extend(areas.chain(others).map(|(colour, text)| LegendEntry {
        class: format!("area c{colour}"),
        meaning: (text == OTHER).then_some(MEANING_OF_OTHER),
        text,
    }));
    keys
}

/// Why memory does not have a better category.
const MEANING_OF_OTHER: &str = "These stacks do not show the purpose of the memory: no module, optimizer, data \
                                loader, communication or backward pass. A [[category]] in ptmem.toml can name it; a \
                                run that is recorded with modules and purposes names it by itself.";

/// What the lines of private pools show.
const MEANING_OF_POOLS: &str = "Bytes that each private pool reserves, as that of a CUDA graph: only its own allocations \
                                can use them. Point at a line for the name of its pool.";

fn label(side: Option<Side>, counter: &str) -> String {
    side.map_or_else(|| counter.to_owned(), |side| format!("{side} {counter}"))
}

/// The class of a side in the style sheet.
pub(super) fn class(side: Option<Side>) -> &'static str {
    side.unwrap_or(Side::After).name()
}

/// The chart itself. Texts keep their size whatever the width: only the plot is stretched.
fn plot(chart: &Chart<'_>, description: &str) -> Markup {
    let curves = &chart.picture.curves;
    let drawn = html! {
        @if let Some(curve) = curves.last() { (areas(chart, curve)) }
        @for curve in curves { (lines(chart, curve)) }
    };
    let marks = html! {
        @for curve in curves { @for event in &curve.events { (mark(chart, curve, event)) } }
        @if let Some(curve) = curves.last() {
            @for band in curve.bands.iter().filter(|band| u64::from(band.depth) < MOST_LANES) { (phase(chart, band)) }
        }
    };
    chart.axes.plot(description, &drawn, &marks, &labels(chart))
}

fn percent(place: Coordinate) -> String {
    format!("{place}%")
}

fn areas(chart: &Chart<'_>, curve: &SideCurves) -> Markup {
    let palette = Palette::new(chart.picture);
    html! {
        g class=(format!("areas {}", class(curve.side))) {
            @for (area, outline) in chart.areas(curve) {
                path class=(format!("area c{}", palette.colour(&area.name))) d=(outline) {}
            }
        }
    }
}

fn lines(chart: &Chart<'_>, curve: &SideCurves) -> Markup {
    let side = class(curve.side);
    html! {
        @if let Some(bytes) = curve.baseline {
            @let y = chart.axes.y(bytes);
            path class=(format!("line baseline {side}")) d=(format!("M0 {y}L{SPAN} {y}")) {}
        }
        @for pool in &curve.pools {
            path class=(format!("line pool {side}")) d=(chart.line(curve, |at| pool.reserved_at(curve.points[at].spot.at))) {
                title { (name(&pool.name)) }
            }
        }
        path class=(format!("line reserved {side}")) d=(chart.line(curve, |at| curve.points[at].reserved)) {}
        path class=(format!("line allocated {side}")) d=(chart.line(curve, |at| Some(curve.points[at].allocated))) {}
    }
}

fn mark(chart: &Chart<'_>, curve: &SideCurves, event: &CurveEvent) -> Markup {
    let x = chart.x(&event.spot, 100);
    let y = chart.axes.down(event.bytes);
    let side = class(curve.side);
    let anchor = if x.0 > 50.0 { "end" } else { "start" };
    let shift = if anchor == "end" { "-8" } else { "8" };
    // Peaks of both sides are often at one place: one label goes above, the other below.
    let lift = if curve.side == Some(Side::Before) { 16.0 } else { -6.0 };
    let text = &event.text;
    html! {
        @match event.kind {
            EventKind::OutOfMemory { .. } => {
                g.failure { title { (text) } line x1=(percent(x)) x2=(percent(x)) y1=(ABOVE) y2=(ABOVE + PLOT) {} }
            }
            EventKind::AllocatedPeak => {
                g class=(format!("peak {side}")) {
                    circle cx=(percent(x)) cy=(y) r="4" { title { (text) } }
                    text x=(percent(x)) dx=(shift) y=(Coordinate(y.0 + lift)) text-anchor=(anchor) { (text) }
                }
            }
            EventKind::ReservedPeak => {
                circle class=(format!("peak reserved {side}")) cx=(percent(x)) cy=(y) r="3" { title { (text) } }
            }
        }
    }
}

fn phase(chart: &Chart<'_>, band: &Band) -> Markup {
    let from = chart.x(&band.from, 100);
    let width = Coordinate((chart.x(&band.to, 100).0 - from.0).max(0.0));
    let y = ABOVE + PLOT + 2 + u64::from(band.depth) * LANE;
    html! {
        svg.phase x=(percent(from)) y=(y) width=(percent(width)) height=(LANE - 2) {
            title { (band.name) ": peak " (Size(band.peak)) }
            rect width="100%" height="100%" {}
            text x="3" y="12" { (band.name) }
        }
    }
}

/// The labels along the recording.
fn labels(chart: &Chart<'_>) -> Vec<(Coordinate, String)> {
    let Domain { from, to } = chart.domain;
    let parts = [0.0, 0.25, 0.5, 0.75, 1.0].into_iter();
    parts.map(|part| (Coordinate(part * 100.0), label_of(chart.axis, from + (to - from) * part, to - from))).collect()
}

fn label_of(axis: Axis, value: f64, span: f64) -> String {
    let sign = if value < 0.0 { "-" } else { "" };
    let size = whole(value.abs());
    match axis {
        Axis::Program => format!("{sign}{} allocations", thousands(size)),
        Axis::Time => format!("{sign}{}", time(size, span)),
        Axis::Event if value < 0.0 => "start".to_owned(),
        Axis::Event => format!("event {}", thousands(size)),
    }
}

/// A time in seconds, or in milliseconds where the whole recording takes little more than one.
fn time(us: u64, span: f64) -> String {
    if span < 2e6 {
        return format!("{}.{:03} ms", us / 1_000, us % 1_000);
    }
    seconds(us)
}

//! Memory over a number that was varied: the runs as dots, the fit with its band, the memory of the device.

use maud::{Markup, html};

use super::axes::Axes;
use super::chart::path;
use super::scale::{Milli, SPAN};
use crate::budget::DeviceBudget;
use crate::units::Size;
use crate::view::{Growth, bytes, rounded};

/// Height of the plot in pixels.
const HEIGHT: u64 = 220;

/// Labels below.
const LABELS: usize = 5;

/// The figure.
pub(super) fn figure(growth: &Growth) -> Markup {
    let Some((first, last)) = growth.fitted.first().zip(growth.fitted.last()) else { return html! {} };
    let domain = Domain { from: first.x, to: last.x };
    let of_fit = growth.fitted.iter().map(|at| bytes(at.peak.high.max(at.reserved.map_or(0.0, |range| range.best))));
    let highest = growth.measured.iter().filter_map(|(_, peak)| *peak).chain(of_fit).max().unwrap_or(0);
    let axes = Axes::new(HEIGHT, highest, growth.budget);
    let labels: Vec<(Milli, String)> = (0..LABELS).map(|at| domain.label(at)).collect();
    html! {
        figure.lines {
            figcaption { "Peak over x" @if let Some(x) = growth.full { ": the device is full at x = " (rounded(x)) } }
            ul.legend {
                li { span class="dot" {} "measured" }
                li { span class="key allocated after" {} "allocated peak as fitted, with its range" }
                @if first.reserved.is_some() { li { span class="key reserved after" {} "reserved peak as fitted" } }
            }
            (axes.plot("Peak over x: runs as dots, and the fit", &lines(growth, &domain, &axes), &marks(growth, &domain, &axes), &labels))
        }
    }
}

/// What is shown of the scale.
struct Domain {
    from: f64,
    to: f64,
}

impl Domain {
    /// The place of a number, of `span`.
    fn place(&self, x: f64, span: u32) -> Milli {
        let part = (x - self.from) / (self.to - self.from).max(f64::MIN_POSITIVE);
        #[allow(clippy::cast_possible_truncation, reason = "at most a thousand thousandths")]
        let place = (part.clamp(0.0, 1.0) * f64::from(span) * 1_000.0).round() as i64;
        Milli(place)
    }

    fn label(&self, at: usize) -> (Milli, String) {
        let part = f64::from(u32::try_from(at).unwrap_or(0)) / f64::from(u32::try_from(LABELS - 1).unwrap_or(1));
        let x = self.from + (self.to - self.from) * part;
        (self.place(x, 100), format!("x = {}", rounded(x)))
    }
}

/// A line through one value of the fit at every place.
fn through(places: impl Iterator<Item = (f64, f64)>, domain: &Domain, axes: &Axes) -> String {
    let span = u32::try_from(SPAN).unwrap_or(0);
    path(places.map(|(x, value)| (domain.place(x, span), axes.y(bytes(value)))))
}

fn lines(growth: &Growth, domain: &Domain, axes: &Axes) -> Markup {
    let fitted = growth.fitted.iter();
    let upper = fitted.clone().map(|at| (at.x, at.peak.high));
    let lower = fitted.clone().rev().map(|at| (at.x, at.peak.low));
    let best = fitted.clone().map(|at| (at.x, at.peak.best));
    let reserved = fitted.filter_map(|at| Some((at.x, at.reserved?.best)));
    html! {
        path.band d=(through(upper.chain(lower), domain, axes) + "Z") {}
        path class="line reserved after" d=(through(reserved, domain, axes)) {}
        path class="line allocated after" d=(through(best, domain, axes)) {}
    }
}

fn marks(growth: &Growth, domain: &Domain, axes: &Axes) -> Markup {
    html! {
        @for (x, peak) in growth.measured.iter().filter_map(|(x, peak)| Some((*x, (*peak)?))) {
            g class="peak after" {
                circle cx=(format!("{}%", domain.place(x, 100))) cy=(axes.down(peak)) r="4" {
                    title { "x = " (rounded(x)) ": " (Size(peak)) }
                }
            }
        }
        @if let Some(x) = growth.full {
            @let at = format!("{}%", domain.place(x, 100));
            g.failure {
                line x1=(at) x2=(at) y1=(axes.down(growth.budget.map_or(0, DeviceBudget::usable))) y2=(axes.down(0)) {}
                text x=(at) dx="-6" y=(Milli(axes.down(0).0 - 6_000)) text-anchor="end" { "full at " (rounded(x)) }
            }
        }
    }
}

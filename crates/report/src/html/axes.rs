//! What all small charts have in common: a scale of bytes, labels below, and the memory of the device.

use maud::{Markup, html};

use super::scale::{Place, SPAN, share, tick_label, ticks};
use crate::budget::DeviceBudget;
use crate::units::Size;

/// Room above and below the plot, in pixels.
const ABOVE: u64 = 16;
const BELOW: u64 = 20;

/// Labels below a chart: of more things some are left out.
const MOST_LABELS: usize = 6;

/// The longest label, in characters.
const LONGEST_LABEL: usize = 18;

/// A device with more memory than this many times the highest value is named, and not drawn: nothing else would be seen.
const MOST_ABOVE: u64 = 2;

/// The scale of bytes of a chart.
pub(super) struct Axes {
    /// Height of the plot in pixels.
    height: u64,
    top: u64,
    budget: Option<DeviceBudget>,
}

impl Axes {
    /// Axes for values up to `highest`.
    pub(super) fn new(height: u64, highest: u64, budget: Option<DeviceBudget>) -> Self {
        let drawn = budget.map(DeviceBudget::usable).filter(|&memory| memory <= highest.saturating_mul(MOST_ABOVE));
        let highest = highest.max(drawn.unwrap_or(0));
        Self { height, top: highest.saturating_add(highest / 12).max(1), budget }
    }

    /// The distance of a value from the top of the plot, in its own units.
    pub(super) fn y(&self, bytes: u64) -> Place {
        share(self.top.saturating_sub(bytes), self.top, SPAN)
    }

    /// The distance of a value from the top of the picture, in pixels.
    pub(super) fn down(&self, bytes: u64) -> Place {
        Place(share(self.top.saturating_sub(bytes), self.top, self.height).0 + ABOVE as f64)
    }

    /// The chart: `lines` is stretched to the plot, `marks` lie over it and keep their size. Labels have their places in
    /// percent.
    pub(super) fn plot(&self, description: &str, lines: &Markup, marks: &Markup, labels: &[(Place, String)]) -> Markup {
        let below = ABOVE + self.height + 14;
        html! {
            svg.chart width="100%" height=(ABOVE + self.height + BELOW) role="group" aria-label=(description) {
                svg.lines x="0" y=(ABOVE) width="100%" height=(self.height) viewBox=(format!("0 0 {SPAN} {SPAN}"))
                    preserveAspectRatio="none" { (lines) }
                (grid(self.top, |bytes| self.down(bytes)))
                (marks)
                g.scale aria-hidden="true" {
                    @for (at, text) in labels {
                        @let (x, side) = anchor(*at);
                        text x=(format!("{x}%")) y=(below) text-anchor=(side) { (short(text)) }
                    }
                }
                (self.device())
            }
        }
    }

    fn device(&self) -> Markup {
        let Some(budget) = self.budget else { return html! {} };
        let memory = budget.usable();
        let less = if budget.overhead.bytes() > 0 { " less overhead" } else { "" };
        let text = format!("device memory{less} {}", Size(memory));
        html! {
            @if memory <= self.top {
                @let y = self.down(memory);
                g.failure {
                    line x1="0" x2="100%" y1=(y) y2=(y) {}
                    text x="100%" dx="-4" y=(Place(y.0 - 4.0)) text-anchor="end" { (text) }
                }
            } @else {
                g.failure { text x="100%" dx="-4" y="12" text-anchor="end" { (text) ", far above" } }
            }
        }
    }
}

/// Lines at round sizes up to the top of a chart, each so far from the top of the picture as `down` says.
pub(super) fn grid(top: u64, down: impl Fn(u64) -> Place) -> Markup {
    html! {
        g.grid aria-hidden="true" {
            @for tick in ticks(top) {
                @let y = down(tick);
                line x1="0" x2="100%" y1=(y) y2=(y) {}
                text x="4" y=(Place(y.0 - 3.0)) { (tick_label(tick)) }
            }
        }
    }
}

/// The end of a long name: paths differ there.
fn short(text: &str) -> String {
    let length = text.chars().count();
    if length <= LONGEST_LABEL {
        return text.to_owned();
    }
    format!("…{}", text.chars().skip(length - LONGEST_LABEL + 1).collect::<String>())
}

/// Where labels are held: those near an edge begin or end there.
fn anchor(at: Place) -> (Place, &'static str) {
    match at.0 {
        ..5.0 => (Place(0.0), "start"),
        5.0..95.0 => (at, "middle"),
        _ => (Place(100.0), "end"),
    }
}

/// The numbers of the things that have a label below: a few, evenly spread, the first and the last among them.
pub(super) fn labelled(count: usize) -> Vec<usize> {
    let last = count.saturating_sub(1);
    let parts = last.clamp(1, MOST_LABELS - 1);
    let mut all: Vec<usize> = (0..=parts).map(|part| part * last / parts).collect();
    all.dedup();
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::DeviceMemory;

    fn budget(memory: u64) -> Option<DeviceBudget> {
        Some(DeviceMemory { bytes: memory, overhead: None }.budget(None, 0))
    }

    #[test]
    fn a_few_labels_are_spread_over_all() {
        assert_eq!(labelled(1), [0]);
        assert_eq!(labelled(4), [0, 1, 2, 3]);
        assert_eq!(labelled(101), [0, 20, 40, 60, 80, 100]);
    }

    #[test]
    fn the_memory_of_a_much_larger_device_does_not_flatten_the_chart() {
        assert_eq!(Axes::new(100, 600, budget(1_000)).down(1_000), Axes::new(100, 1_000, None).down(1_000));
        assert_eq!(Axes::new(100, 600, budget(9_000)).down(600), Axes::new(100, 600, None).down(600));
    }
}

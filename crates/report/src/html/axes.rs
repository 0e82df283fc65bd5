//! The frame that all charts share: places along their width and height, a scale of bytes with lines at round sizes,
//! labels below, and the memory of the device.

use maud::{Markup, html};
use ptmem_base::units::Size;
use ptmem_compare::budget::DeviceBudget;

/// The width and the height of every chart in its own units.
pub(super) const SPAN: u64 = 1_000;

/// A place or a length in a picture.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub(super) struct Coordinate(pub(super) f64);

/// To a hundredth, without trailing zeros.
impl std::fmt::Display for Coordinate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", (self.0 * 100.0).round() / 100.0 + 0.0)
    }
}

/// `part` of `whole` in units of a scale of `span`.
pub(super) fn share(part: u64, whole: u64, span: u64) -> Coordinate {
    if whole == 0 { Coordinate(0.0) } else { Coordinate(part as f64 / whole as f64 * span as f64) }
}

/// A range of a scale.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Domain {
    pub(super) from: f64,
    pub(super) to: f64,
}

impl Domain {
    /// A value in units of a scale of `span`.
    pub(super) fn place(&self, value: f64, span: u64) -> Coordinate {
        let part = (value - self.from) / (self.to - self.from).max(f64::MIN_POSITIVE);
        Coordinate(part.clamp(0.0, 1.0) * span as f64)
    }
}

/// Round sizes from 0 up to the top of a chart, about five of them.
pub(super) fn ticks(top: u64) -> Vec<u64> {
    let least = (top / 5).max(1);
    let unit = 1_u64 << (least.ilog2() / 10 * 10);
    let in_units = least.div_ceil(unit);
    let steps = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1_024, 2_048];
    let step = steps.into_iter().find(|&step| step >= in_units).unwrap_or(in_units).saturating_mul(unit);
    (0..).map(|number: u64| number.saturating_mul(step)).take_while(|&tick| tick <= top).take(12).collect()
}

/// A round size as an axis has it: `20 GiB`, not `20.00 GiB`.
pub(super) fn tick_label(bytes: u64) -> String {
    Size(bytes).to_string().replace(".00 ", " ")
}

/// Room above and below the plot, in pixels.
pub(super) const ABOVE: u64 = 14;
const BELOW: u64 = 22;

/// Labels below a chart: of more things some are left out.
const MOST_LABELS: usize = 6;

/// The longest label, in characters.
const LONGEST_LABEL: usize = 18;

/// A device with more memory than this many times the highest value is named, and not drawn: nothing else would be seen.
const MOST_ABOVE: u64 = 2;

/// The scale of bytes of a chart.
pub(super) struct Axes {
    /// Its class in the style sheet.
    pub(super) class: &'static str,
    /// Height of the plot, and of the space between it and the labels, in pixels.
    height: u64,
    pub(super) below: u64,
    top: u64,
    budget: Option<DeviceBudget>,
}

impl Axes {
    /// Axes for values up to `highest`.
    pub(super) fn new(height: u64, highest: u64, budget: Option<DeviceBudget>) -> Self {
        let drawn = budget.map(DeviceBudget::usable).filter(|&memory| memory <= highest.saturating_mul(MOST_ABOVE));
        let highest = highest.max(drawn.unwrap_or(0));
        Self { class: "chart", height, below: 0, top: highest.saturating_add(highest / 12).max(1), budget }
    }

    /// The distance of a value from the top of the plot, in its own units.
    pub(super) fn y(&self, bytes: u64) -> Coordinate {
        share(self.top.saturating_sub(bytes), self.top, SPAN)
    }

    /// The distance of a value from the top of the picture, in pixels.
    pub(super) fn down(&self, bytes: u64) -> Coordinate {
        Coordinate(share(self.top.saturating_sub(bytes), self.top, self.height).0 + ABOVE as f64)
    }

    /// The place of the labels, in pixels from the top of the picture.
    fn bottom(&self) -> u64 {
        ABOVE + self.height + self.below
    }

    /// The height of the picture in pixels.
    pub(super) fn total_height(&self) -> u64 {
        self.bottom() + BELOW
    }

    /// The chart: `lines` is stretched to the plot, `marks` lie over it and keep their size. Labels have their places in
    /// percent.
    pub(super) fn plot(
        &self,
        description: &str,
        lines: &Markup,
        marks: &Markup,
        labels: &[(Coordinate, String)],
    ) -> Markup {
        html! {
            svg xmlns="http://www.w3.org/2000/svg" class=(self.class) width="100%" height=(self.total_height()) role="group"
                aria-label=(description) {
                svg.lines x="0" y=(ABOVE) width="100%" height=(self.height) viewBox=(format!("0 0 {SPAN} {SPAN}"))
                    preserveAspectRatio="none" { (lines) }
                g.grid aria-hidden="true" {
                    @for tick in ticks(self.top) {
                        @let y = self.down(tick);
                        line x1="0" x2="100%" y1=(y) y2=(y) {}
                        text x="4" y=(Coordinate(y.0 - 3.0)) { (tick_label(tick)) }
                    }
                }
                (marks)
                g.scale aria-hidden="true" {
                    @for (at, text) in labels {
                        @let (x, side) = anchor(*at);
                        text x=(format!("{x}%")) y=(self.bottom() + 15) text-anchor=(side) { (text) }
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
                    text x="100%" dx="-4" y=(Coordinate(y.0 - 4.0)) text-anchor="end" { (text) }
                }
            } @else {
                g.failure { text x="100%" dx="-4" y="12" text-anchor="end" { (text) ", far above" } }
            }
        }
    }
}

/// The end of a long name: paths differ there.
pub(super) fn short(text: &str) -> String {
    let length = text.chars().count();
    if length <= LONGEST_LABEL {
        return text.to_owned();
    }
    format!("…{}", text.chars().skip(length - LONGEST_LABEL + 1).collect::<String>())
}

/// Where labels are held: those near an edge begin or end there.
fn anchor(at: Coordinate) -> (Coordinate, &'static str) {
    match at.0 {
        ..5.0 => (Coordinate(0.0), "start"),
        5.0..95.0 => (at, "middle"),
        _ => (Coordinate(100.0), "end"),
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
    use ptmem_compare::budget::DeviceMemory;

    fn budget(memory: u64) -> Option<DeviceBudget> {
        Some(DeviceMemory { bytes: memory, overhead: None }.budget(None, ptmem_base::device::DeviceId::FIRST))
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

    fn labels(top: u64) -> Vec<String> {
        ticks(top).into_iter().map(tick_label).collect()
    }

    #[test]
    fn ticks_are_round_sizes_within_the_chart() {
        assert_eq!(ticks(100), [0, 20, 40, 60, 80, 100]);
        assert_eq!(labels(350 << 20), ["0 B", "100 MiB", "200 MiB", "300 MiB"]);
        assert_eq!(labels(75 << 30), ["0 B", "20 GiB", "40 GiB", "60 GiB"]);
        assert_eq!(ticks(0), [0]);
        assert!(ticks(u64::MAX).len() > 2);
    }

    #[test]
    fn places_are_printed_shortly() {
        assert_eq!(share(1, 3, SPAN).to_string(), "333.33");
        assert_eq!(share(1, 2, 100).to_string(), "50");
        assert_eq!(share(1, 0, 100).to_string(), "0");
        assert_eq!(Domain { from: -5.0, to: 15.0 }.place(0.0, 100).to_string(), "25");
        assert_eq!(Coordinate(-1.5).to_string(), "-1.5");
        assert_eq!(Coordinate(-0.001).to_string(), "0");
    }
}

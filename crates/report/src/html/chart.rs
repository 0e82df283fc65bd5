//! The lines and areas of a timeline as paths, on the scale that all of its curves share, and the colours of areas: one for each
//! category, the same on both sides, and for the categories that are built in on every page.

use std::fmt::Write;

use ptmem_trace::profile::Bucket;
use ptmem_trace::stack::CATEGORIES;

use super::axes::{Axes, Coordinate, Domain, SPAN};
use crate::picture::{Amounts, Picture, SideCurves, Spot};

/// The scale along the recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Axis {
    /// By allocations of the program.
    Program,
    /// By time.
    Time,
    /// By event.
    Event,
}

impl Axis {
    /// The place of a moment on it.
    fn value(self, spot: &Spot) -> Option<i64> {
        match self {
            Self::Program => spot.program,
            Self::Time => i64::try_from(spot.time_us?).ok(),
            // As machine-readable output has it: the event that it is just after, -1 for the start.
            Self::Event => Some(spot.at.event_index()),
        }
    }

    /// The scales on which every point of every curve has a place, the best first.
    pub(super) fn of(picture: &Picture) -> Vec<Self> {
        let points = picture.curves.iter().flat_map(|curve| &curve.points);
        let axes = [Self::Program, Self::Time, Self::Event].into_iter();
        axes.filter(|axis| points.clone().all(|point| axis.value(&point.spot).is_some())).collect()
    }
}

/// A timeline as it is drawn.
pub(super) struct Chart<'p> {
    pub(super) picture: &'p Picture,
    pub(super) axis: Axis,
    /// The range along the recording.
    pub(super) domain: Domain,
    pub(super) axes: Axes,
}

/// Height of the plot in pixels.
pub(super) const PLOT: u64 = 240;

/// Height of a row of phases in pixels, and how many there are at most.
pub(super) const LANE: u64 = 18;
pub(super) const MOST_LANES: u64 = 4;

impl<'p> Chart<'p> {
    /// The chart of a picture; `None` where it has no curves.
    pub(super) fn new(picture: &'p Picture) -> Option<Self> {
        let axis = *Axis::of(picture).first()?;
        let points = picture.curves.iter().flat_map(|curve| &curve.points);
        let values = points.clone().filter_map(|point| axis.value(&point.spot));
        let domain = Domain { from: values.clone().min()? as f64, to: values.max()? as f64 };
        let highest = points.map(|point| point.allocated.max(point.reserved.unwrap_or(0))).max()?;
        // The phases of the last curve are drawn below the plot.
        let deepest = picture.curves.last().and_then(|curve| curve.bands.iter().map(|band| band.depth).max());
        let lanes = deepest.map_or(0, |depth| (u64::from(depth) + 1).min(MOST_LANES));
        let mut axes = Axes::new(PLOT, highest, None);
        axes.class = "plot";
        axes.below = lanes * LANE;
        Some(Self { picture, axis, domain, axes })
    }

    /// The place of a moment along the chart, of `span`.
    pub(super) fn x(&self, spot: &Spot, span: u64) -> Coordinate {
        self.domain.place(self.axis.value(spot).map_or(self.domain.from, |value| value as f64), span)
    }

    /// The place of a value at a point of a curve.
    fn place(&self, curve: &SideCurves, point: usize, bytes: u64) -> (Coordinate, Coordinate) {
        (self.x(&curve.points[point].spot, SPAN), self.axes.y(bytes))
    }

    /// The line of one counter.
    pub(super) fn line(&self, curve: &SideCurves, value: impl Fn(usize) -> Option<u64>) -> String {
        let places: Vec<(usize, u64)> = (0..curve.points.len()).filter_map(|at| Some((at, value(at)?))).collect();
        path(corners(&places).map(|(at, bytes)| self.place(curve, at, bytes)))
    }

    /// The areas of a curve, each from the bottom to the top of its part of the stack: the highest comes first, so that
    /// lower ones are painted over it.
    pub(super) fn areas<'c>(&self, curve: &'c SideCurves) -> Vec<(&'c Amounts, String)> {
        let mut top = vec![0_u64; curve.points.len()];
        let mut outlines = Vec::with_capacity(curve.areas.len());
        for area in &curve.areas {
            top.iter_mut().zip(&area.bytes).for_each(|(top, bytes)| *top = top.saturating_add(*bytes));
            let places: Vec<(usize, u64)> = top.iter().copied().enumerate().collect();
            let line = path(corners(&places).map(|(at, bytes)| self.place(curve, at, bytes)));
            outlines.push((area, format!("{line}V{SPAN}H0Z")));
        }
        outlines.reverse();
        outlines
    }
}

/// A line through places.
pub(super) fn path(places: impl Iterator<Item = (Coordinate, Coordinate)>) -> String {
    let mut path = String::new();
    for (x, y) in places {
        let sign = if path.is_empty() { 'M' } else { 'L' };
        let _ = write!(path, "{sign}{:.1} {:.1}", x.0, y.0);
    }
    path
}

/// The points of a line without those between two of the same value.
fn corners(points: &[(usize, u64)]) -> impl Iterator<Item = (usize, u64)> {
    let inner = 1..points.len().saturating_sub(1);
    let all = points.iter().enumerate();
    let corners = all
        .filter(move |(at, point)| !inner.contains(at) || points[at - 1].1 != point.1 || points[at + 1].1 != point.1);
    corners.map(|(_, point)| *point)
}

/// Memory of unknown category, with colours behind those of the categories.
const BUCKETS: [Bucket; 3] = [Bucket::BeforeRecording, Bucket::NotRecorded, Bucket::NoFrames];

/// Categories of a configuration that have colours of their own; further ones share the last colour.
const MOST_OWN: usize = 3;

/// The colours of the categories of a picture, as numbers of classes in the style sheet.
pub(super) struct Palette<'p> {
    /// The categories that are not built in, by name.
    own: Vec<&'p str>,
}

impl<'p> Palette<'p> {
    /// The number of the colour that further categories share.
    pub(super) const SHARED: usize = CATEGORIES.len() + BUCKETS.len() + MOST_OWN;

    pub(super) fn new(picture: &'p Picture) -> Self {
        Self::of(picture.categories.iter().map(String::as_str))
    }

    fn of(categories: impl Iterator<Item = &'p str>) -> Self {
        let mut own: Vec<&str> = categories.filter(|name| built_in(name).is_none()).collect();
        own.sort_unstable();
        Self { own }
    }

    /// The number of the colour of a category.
    pub(super) fn colour(&self, category: &str) -> usize {
        let own = self.own.iter().position(|name| *name == category).unwrap_or(MOST_OWN);
        built_in(category).unwrap_or(Self::SHARED - MOST_OWN + own.min(MOST_OWN))
    }
}

fn built_in(category: &str) -> Option<usize> {
    CATEGORIES.into_iter().chain(BUCKETS.map(Bucket::label)).position(|name| name == category)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_keep_every_point_that_can_be_seen() {
        let points = [(0, 5), (1, 5), (2, 5), (3, 9), (4, 5), (5, 5)];
        assert_eq!(corners(&points).collect::<Vec<_>>(), [(0, 5), (2, 5), (3, 9), (4, 5), (5, 5)]);
        assert_eq!(corners(&points[..1]).count(), 1);
    }

    #[test]
    fn colours_go_by_name_and_every_one_is_in_the_style_sheet() {
        let palette = Palette::of(["forward", "zeta", "<before recording>", "alpha", "cache", "omega"].into_iter());
        let colours =
            ["forward", "<before recording>", "alpha", "cache", "omega", "zeta"].map(|name| palette.colour(name));
        assert_eq!(colours, [2, 8, 11, 12, 13, 14]);
        assert_eq!(Palette::of(["forward"].into_iter()).colour("forward"), 2);
        for colour in 0..=Palette::SHARED {
            assert!(
                include_str!("assets/page.css")
                    .contains(&format!("path.c{colour}, .block.c{colour}, .key.c{colour} {{")),
                "{colour}"
            );
        }
    }
}

//! The lines and areas of a timeline as paths, on the scale that all of its curves share.

use std::fmt::Write;

use super::scale::{Domain, Milli, SPAN, share};
use crate::picture::{Area, Curve, Picture, Spot};

/// Points of one line of a still picture: the script draws all of them.
const MOST_POINTS: usize = 500;

/// The scale along the recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Axis {
    /// By allocations of the program.
    Program,
    /// By time.
    Time,
    /// By event.
    Event,
}

impl Axis {
    pub(super) const ALL: [Self; 3] = [Self::Program, Self::Time, Self::Event];

    /// Its name in the page's data.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Program => "program",
            Self::Time => "time",
            Self::Event => "event",
        }
    }

    /// Its name for people.
    pub(super) fn title(self) -> &'static str {
        match self {
            Self::Program => "program",
            Self::Time => "time",
            Self::Event => "events",
        }
    }

    /// The place of a moment on it.
    pub(super) fn value(self, spot: &Spot) -> Option<i64> {
        match self {
            Self::Program => spot.program,
            Self::Time => i64::try_from(spot.time_us?).ok(),
            Self::Event => i64::try_from(spot.event).ok(),
        }
    }

    /// The scales that all curves have, the best first.
    pub(super) fn of(picture: &Picture) -> Vec<Self> {
        Self::ALL.into_iter().filter(|axis| axis.has_all(picture)).collect()
    }

    /// Whether every point of every curve has a place on it.
    fn has_all(self, picture: &Picture) -> bool {
        let mut points = picture.curves.iter().flat_map(|curve| &curve.points);
        points.all(|point| self.value(&point.spot).is_some())
    }
}

/// A timeline as it is drawn.
pub(super) struct Chart<'p> {
    pub(super) picture: &'p Picture,
    pub(super) axis: Axis,
    pub(super) domain: Domain,
    /// The top of the scale of bytes.
    pub(super) top: u64,
}

impl<'p> Chart<'p> {
    /// The chart of a picture; `None` where it has no curves.
    pub(super) fn new(picture: &'p Picture) -> Option<Self> {
        let axis = *Axis::of(picture).first()?;
        let spots = picture.curves.iter().flat_map(|curve| &curve.points).map(|point| &point.spot);
        let domain = Domain::of(spots.filter_map(|spot| axis.value(spot)))?;
        let points = picture.curves.iter().flat_map(|curve| &curve.points);
        let highest = points.map(|point| point.allocated.max(point.reserved.unwrap_or(0))).max()?;
        // Room above the highest point.
        let top = highest.saturating_add(highest / 20).max(1);
        Some(Self { picture, axis, domain, top })
    }

    /// The place of a moment along the chart, of `span`.
    pub(super) fn x(&self, spot: &Spot, span: u64) -> Milli {
        self.domain.place(self.axis.value(spot).unwrap_or(self.domain.from), span)
    }

    /// The distance of a value from the top of the chart, of `span`.
    pub(super) fn y(&self, bytes: u64, span: u64) -> Milli {
        share(self.top.saturating_sub(bytes), self.top, span)
    }

    /// The place of a value at a point of a curve.
    fn place(&self, curve: &Curve, point: usize, bytes: u64) -> (Milli, Milli) {
        (self.x(&curve.points[point].spot, SPAN), self.y(bytes, SPAN))
    }

    /// The line of one counter, which keeps its value until the next point.
    pub(super) fn line(&self, curve: &Curve, value: impl Fn(usize) -> Option<u64>) -> String {
        let places: Vec<(usize, u64)> = (0..curve.points.len()).filter_map(|at| Some((at, value(at)?))).collect();
        path(thinned(&places).into_iter().map(|(at, bytes)| self.place(curve, at, bytes)))
    }

    /// The areas of a curve stacked upon each other, the first at the bottom: each with its outline.
    pub(super) fn areas<'c>(&self, curve: &'c Curve) -> Vec<(&'c Area, String)> {
        let mut below = vec![0_u64; curve.area_points.len()];
        let outlines = curve.areas.iter().map(|area| {
            let above: Vec<u64> =
                below.iter().zip(&area.bytes).map(|(below, bytes)| below.saturating_add(*bytes)).collect();
            let there = curve.area_points.iter().zip(&above);
            let back = curve.area_points.iter().zip(&below).rev();
            let outline = path(there.chain(back).map(|(at, bytes)| self.place(curve, *at, *bytes))) + "Z";
            below = above;
            (area, outline)
        });
        outlines.collect()
    }
}

/// A line through places.
pub(super) fn path(places: impl Iterator<Item = (Milli, Milli)>) -> String {
    let mut path = String::new();
    for (x, y) in places {
        let sign = if path.is_empty() { 'M' } else { 'L' };
        let _ = write!(path, "{sign}{} {}", tenths(x), tenths(y));
    }
    path
}

/// A place to a tenth of a unit: finer than any screen.
fn tenths(place: Milli) -> Milli {
    Milli((place.0 + 50).div_euclid(100) * 100)
}

/// The lowest and the highest point of each of several equal parts of a line, in order.
fn thinned(points: &[(usize, u64)]) -> Vec<(usize, u64)> {
    let parts = MOST_POINTS / 2;
    if points.len() <= MOST_POINTS {
        return points.to_vec();
    }
    let mut kept = vec![points[0], points[points.len() - 1]];
    for part in 0..parts {
        let range = &points[part * points.len() / parts..(part + 1) * points.len() / parts];
        kept.extend(range.iter().min_by_key(|(_, bytes)| *bytes));
        kept.extend(range.iter().rev().max_by_key(|(_, bytes)| *bytes));
    }
    kept.sort_unstable();
    kept.dedup();
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thinned_lines_keep_their_highest_point() {
        let mut points: Vec<(usize, u64)> = (0..5_000).map(|at| (at, 5)).collect();
        points[4_321].1 = 9;
        let kept = thinned(&points);
        assert!(kept.len() <= MOST_POINTS + 2 && kept.contains(&(4_321, 9)), "{}", kept.len());
    }
}

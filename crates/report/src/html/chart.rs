//! The lines and areas of a timeline as paths, on the scale that all of its curves share.

use std::fmt::Write;

use super::scale::{Domain, Milli, SPAN, share};
use crate::picture::{Area, Curve, Picture, Spot};

/// The scale along the recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
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
        self.into()
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
            // As machine-readable output has it: the event that it is just after, -1 for the start.
            Self::Event => i64::try_from(spot.event).ok().map(|events| events - 1),
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

    /// The line of one counter.
    pub(super) fn line(&self, curve: &Curve, value: impl Fn(usize) -> Option<u64>) -> String {
        let places: Vec<(usize, u64)> = (0..curve.points.len()).filter_map(|at| Some((at, value(at)?))).collect();
        path(corners(&places).map(|(at, bytes)| self.place(curve, at, bytes)))
    }

    /// The areas of a curve, each from the bottom to the top of its part of the stack: the highest comes first, so that
    /// lower ones are painted over it.
    pub(super) fn areas<'c>(&self, curve: &'c Curve) -> Vec<(&'c Area, String)> {
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

/// The points of a line without those between two of the same value.
fn corners(points: &[(usize, u64)]) -> impl Iterator<Item = (usize, u64)> {
    let inner = 1..points.len().saturating_sub(1);
    let all = points.iter().enumerate();
    let corners = all
        .filter(move |(at, point)| !inner.contains(at) || points[at - 1].1 != point.1 || points[at + 1].1 != point.1);
    corners.map(|(_, point)| *point)
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
}

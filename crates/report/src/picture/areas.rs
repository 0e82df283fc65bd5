//! The allocated memory by category, as areas below a curve.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use ptmem_trace::profile::Bucket;
use ptmem_trace::replay::Position;

use super::curve::{SideCurves, SpotValue};
use super::record::Past;

/// Categories whose memory stays through a step, the lowest first. Below them lies what is older than the recording.
const LASTING: [&str; 3] = ["parameters", "optimizer", "optimizer state"];

/// The memory of a category or a stack at several moments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Amounts {
    /// The name of the category or the stack.
    pub name: String,
    /// The bytes at each moment.
    pub bytes: Vec<u64>,
}

/// The allocated memory by category at points, which are in order.
pub(super) fn areas(past: &Past<'_>, names: &[String], points: &[SpotValue]) -> Vec<Amounts> {
    if past.categories.is_empty() {
        return Vec::new();
    }
    let places: Vec<Position> = points.iter().map(|point| point.spot.at).collect();
    let held = past.device.trace.held_at(&past.categories, names.len(), &places);
    let own =
        names.iter().enumerate().filter(|(at, _)| past.categories.iter().any(|&category| category as usize == *at));
    own.map(|(at, name)| Amounts { name: name.clone(), bytes: held.iter().map(|held| held[at]).collect() }).collect()
}

/// Stacks the areas of all curves in the same order: memory that stays at the bottom, then the largest. Returns that
/// order.
pub(super) fn stack(curves: &mut [SideCurves]) -> Vec<String> {
    let mut highest: BTreeMap<&str, u64> = BTreeMap::new();
    for area in curves.iter().flat_map(|curve| &curve.areas) {
        let most = highest.entry(&area.name).or_default();
        *most = area.bytes.iter().copied().fold(*most, u64::max);
    }
    let mut order: Vec<(&str, u64)> = highest.into_iter().collect();
    order.sort_by_key(|(name, most)| (layer(name), Reverse(*most)));
    let order: Vec<String> = order.into_iter().map(|(name, _)| name.to_owned()).collect();
    for curve in curves {
        curve.areas.sort_by_key(|area| order.iter().position(|name| *name == area.name));
    }
    order
}

/// The position of a category among those that stay; all others are above them.
fn layer(name: &str) -> usize {
    if name == Bucket::BeforeRecording.label() {
        return 0;
    }
    1 + LASTING.iter().position(|lasting| *lasting == name).unwrap_or(LASTING.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(areas: &[(&str, [u64; 2])]) -> SideCurves {
        let areas = areas.iter().map(|(name, bytes)| Amounts { name: (*name).to_owned(), bytes: bytes.to_vec() });
        SideCurves {
            side: None,
            points: Vec::new(),
            is_coarse: false,
            baseline: None,
            events: Vec::new(),
            bands: Vec::new(),
            areas: areas.collect(),
            pools: Vec::new(),
        }
    }

    #[test]
    fn what_stays_lies_at_the_bottom_and_both_sides_have_one_order() {
        let before = curve(&[("forward", [0, 90]), ("optimizer", [5, 5]), ("mine", [0, 7])]);
        let after = curve(&[
            ("backward", [0, 95]),
            ("parameters", [1, 1]),
            ("<before recording>", [2, 2]),
            ("forward", [0, 3]),
        ]);
        let mut curves = [before, after];
        let order = stack(&mut curves);
        assert_eq!(order, ["<before recording>", "parameters", "optimizer", "backward", "forward", "mine"]);
        let names = curves.map(|curve| curve.areas.into_iter().map(|area| area.name).collect::<Vec<_>>());
        assert_eq!(names[0], ["optimizer", "forward", "mine"]);
        assert_eq!(names[1], ["<before recording>", "parameters", "backward", "forward"]);
    }
}

//! The curves of a device as a chart in Mermaid's language, which GitHub and GitLab draw. An image would need a place
//! to store it: both take no inline SVG, and no image in an address.

use ptmem_base::sides::Side;
use ptmem_base::units::Unit;

use super::escape::block;
use crate::sparkline::columns;
use crate::view::{Content, Curve, Section};

/// Points of each line: a chart of two lines takes less than 2 KiB.
const POINTS: usize = 100;

/// The colours of both sides, as on the page: each has a contrast of more than 3 on a bright and on a dark page.
const BLUE: &str = "#2f6db3";
const ORANGE: &str = "#c2570c";

/// The curves of allocated bytes over the recording of a section; empty without a history.
pub(super) fn timeline_of(section: &Section) -> Option<&[Curve]> {
    section.blocks.iter().find_map(|content| match content {
        Content::Timeline(curves) => Some(&**curves),
        _ => None,
    })
}

/// The meaning of the colours, which charts of older versions of Mermaid do not show.
pub(super) fn legend(curves: &[Curve]) -> &'static str {
    if curves.iter().any(|curve| curve.side.is_some()) { ": before blue, after orange" } else { "" }
}

/// The highest value of all curves.
pub(super) fn top(curves: &[Curve]) -> u64 {
    curves.iter().map(|curve| curve.peak).max().unwrap_or(0)
}

/// The chart. No name of the input is in it.
pub(super) fn chart(curves: &[Curve]) -> String {
    let highest = top(curves);
    let unit = Unit::of(highest);
    let colours: Vec<&str> = curves.iter().map(|curve| colour(curve.side)).collect();
    let top = highest.saturating_add(highest / 20).max(1);
    let mut lines = vec![
        format!(
            "%%{{init: {{\"xyChart\": {{\"width\": 900, \"height\": 300}}, \"themeVariables\": {{\"xyChart\": \
             {{\"plotColorPalette\": \"{}\"}}}}}}}}%%",
            colours.join(", ")
        ),
        "xychart-beta".to_owned(),
        "x-axis \"part of the recording in %\" 0 --> 100".to_owned(),
        format!("y-axis \"allocated in {}\" 0 --> {}", unit.name, unit.number(top)),
    ];
    // Lines lie over each other only where they have the same number of points.
    let points = curves.iter().map(|curve| curve.points.len()).fold(POINTS, usize::min);
    lines.extend(curves.iter().map(|curve| {
        let points: Vec<String> = columns(&curve.points, points).map(|bytes| unit.number(bytes)).collect();
        format!("line \"{}\" [{}]", curve.side.map_or("allocated", Side::name), points.join(", "))
    }));
    block("mermaid", &lines)
}

fn colour(side: Option<Side>) -> &'static str {
    match side {
        Some(Side::Before) => BLUE,
        Some(Side::After) | None => ORANGE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(side: Side, points: Vec<u64>) -> Curve {
        let peak = points.iter().copied().max().unwrap();
        Curve { side: Some(side), points, peak, baseline: None }
    }

    #[test]
    fn sides_have_the_colours_of_the_page() {
        let page = include_str!("../html/assets/page.css");
        assert!(page.contains(&format!("--before: {BLUE}; --after: {ORANGE};")));
    }

    #[test]
    fn a_chart_has_both_lines_with_their_peaks_and_stays_small() {
        let mut before = vec![3 << 30; 480];
        before[317] = 40 << 30;
        let after = (0..90).map(|part| part << 29).collect();
        let text = chart(&[curve(Side::Before, before), curve(Side::After, after)]);
        assert!(text.len() < 2048, "{}", text.len());
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!((lines[0], lines[2], lines[7]), ("```mermaid", "xychart-beta", "```"));
        assert_eq!(lines[4], "y-axis \"allocated in GiB\" 0 --> 46.725");
        for (line, start, peak) in [(lines[5], "line \"before\" [", "40"), (lines[6], "line \"after\" [", "44.5")] {
            let points = line.strip_prefix(start).unwrap().strip_suffix(']').unwrap();
            let points: Vec<&str> = points.split(", ").collect();
            assert_eq!(points.len(), 90);
            assert!(points.contains(&peak), "{line}");
        }
    }
}
